"""What serves the streams of an account, as its router sees it."""

from typing import Final, Protocol

from jetspark.engine.advisories import Asker
from jetspark.engine.engine import API_PREFIX, DIRECT_PREFIX, NEXT_PREFIX
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import not_enabled
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import REQUEST, Target


class AccountEngine(Protocol):
    """Takes what clients send to streams, consumers and ``$JS.API``."""

    def resolve(self, subject: bytes, /) -> Target | None:
        """What happens to messages of a subject; None when nothing does."""
        ...

    def request(
        self, target: Target, reply: bytes, headers: bytes, body: bytes, asker: Asker, /
    ) -> None:
        """Take a request of a client."""
        ...

    def pull(self, key: bytes, headers: bytes, body: bytes, reply: bytes, /) -> bool:
        """Take a pull request for ``<stream>.<consumer>``; False when there is no such one."""
        ...

    def mark_dirty(self, stream: Stream, /) -> None:
        """A stream has staged something that should go to the disk."""
        ...

    def resumed(self) -> None:
        """A client whose output was too much has room again."""
        ...

    def interest_changed(self, subject: bytes, /) -> None:
        """Subscriptions to a deliver subject came or went."""
        ...

    def confirmed(self, key: bytes, subject: bytes, /) -> None:
        """The receiver of a consumer confirms what flow control asked it."""
        ...


class ServerWithoutJetStream:
    """A server without JetStream: no subject leads to a stream, so nothing else is asked."""

    def resolve(self, _subject: bytes, /) -> Target | None:
        """Nothing happens."""
        return None

    def request(
        self, _target: Target, _reply: bytes, _headers: bytes, _body: bytes, _asker: Asker, /
    ) -> None:
        """Nobody asks: there is no target."""

    def pull(self, _key: bytes, _headers: bytes, _body: bytes, _reply: bytes, /) -> bool:
        """There is no consumer."""
        return False

    def mark_dirty(self, _stream: Stream, /) -> None:
        """There is no stream."""

    def resumed(self) -> None:
        """Nothing waits for a client."""

    def interest_changed(self, _subject: bytes, /) -> None:
        """There is no consumer."""

    def confirmed(self, _key: bytes, _subject: bytes, /) -> None:
        """There is no consumer."""


class AccountWithoutJetStream(ServerWithoutJetStream):
    """An account without JetStream on a server that has it: requests hear that, not nothing."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def resolve(self, subject: bytes, /) -> Target | None:
        """Take API requests, to refuse them."""
        # Nobody subscribes to these before there is a stream: no responders, as in nats-server.
        if subject.startswith((DIRECT_PREFIX, NEXT_PREFIX)) or not subject.startswith(API_PREFIX):
            return None
        return Target(REQUEST, None, subject[len(API_PREFIX) :])

    def request(
        self, target: Target, reply: bytes, _headers: bytes, _body: bytes, _asker: Asker, /
    ) -> None:
        """Say that the account has no JetStream."""
        answer = not_enabled(target.subject)
        if answer is not None:
            self._outbox.reply(reply, answer)


WITHOUT_JETSTREAM: Final = ServerWithoutJetStream()
