"""The interface between an account's router and its engine."""

from typing import Final, Protocol

from jetspark.engine.advisories import Requester
from jetspark.engine.engine import API_PREFIX, DIRECT_PREFIX, NEXT_PREFIX
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import not_enabled
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import REQUEST, Target


class AccountEngine(Protocol):
    """Handles what clients send to streams, consumers and ``$JS.API``."""

    def resolve(self, subject: bytes, /) -> Target | None:
        """Return the target of a subject; None if there is none."""
        ...

    def request(
        self, target: Target, reply: bytes, headers: bytes, body: bytes, requester: Requester, /
    ) -> None:
        """Handle a request of a client."""
        ...

    def pull(self, key: bytes, headers: bytes, body: bytes, reply: bytes, /) -> bool:
        """Handle a pull request for ``<stream>.<consumer>``; False if it does not exist."""
        ...

    def mark_dirty(self, stream: Stream, /) -> None:
        """Note that a stream has staged records for the disk."""
        ...

    def resumed(self) -> None:
        """Note that a client whose output was full has room again."""
        ...

    def interest_changed(self, subject: bytes, /) -> None:
        """Handle added or removed subscriptions to a deliver subject."""
        ...

    def confirmed(self, key: bytes, subject: bytes, /) -> None:
        """Handle the answer of a consumer's receiver to flow control."""
        ...


class ServerWithoutJetStream:
    """A server without JetStream: no subject has a target, so nothing else is called."""

    def resolve(self, _subject: bytes, /) -> Target | None:
        """Return None."""
        return None

    def request(
        self,
        _target: Target,
        _reply: bytes,
        _headers: bytes,
        _body: bytes,
        _requester: Requester,
        /,
    ) -> None:
        """Never called: there is no target."""

    def pull(self, _key: bytes, _headers: bytes, _body: bytes, _reply: bytes, /) -> bool:
        """Return False: there is no consumer."""
        return False

    def mark_dirty(self, _stream: Stream, /) -> None:
        """Do nothing: there is no stream."""

    def resumed(self) -> None:
        """Do nothing: nothing waits for a client."""

    def interest_changed(self, _subject: bytes, /) -> None:
        """Do nothing: there is no consumer."""

    def confirmed(self, _key: bytes, _subject: bytes, /) -> None:
        """Do nothing: there is no consumer."""


class AccountWithoutJetStream(ServerWithoutJetStream):
    """An account without JetStream on a server that has it: requests are answered with that."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def resolve(self, subject: bytes, /) -> Target | None:
        """Return a target for API requests, to refuse them."""
        # Without a stream these have no subscriber: no responders, as in nats-server.
        if subject.startswith((DIRECT_PREFIX, NEXT_PREFIX)) or not subject.startswith(API_PREFIX):
            return None
        return Target(REQUEST, None, subject[len(API_PREFIX) :])

    def request(
        self, target: Target, reply: bytes, _headers: bytes, _body: bytes, _requester: Requester, /
    ) -> None:
        """Answer that the account has no JetStream."""
        answer = not_enabled(target.subject)
        if answer is not None:
            self._outbox.reply(reply, answer)


WITHOUT_JETSTREAM: Final = ServerWithoutJetStream()
