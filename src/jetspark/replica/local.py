"""The streams of a replica's own engine: its copies, managed by the replica."""

from collections.abc import Sequence
from typing import Final

import msgspec

from jetspark.api.base import ApiErrorBody, ApiStruct, decoder, encode, encode_request
from jetspark.api.stream import PurgeRequest, StreamConfig
from jetspark.clock import Clock
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream
from jetspark.replica.copied_stream import CopiedStream
from jetspark.server.jetstream.driver import EngineDriver

# Answers that wait for the disk go to a subject without subscribers.
_UNSUBSCRIBED: Final = b"_JETSPARK.REPLICA"


class _Answer(ApiStruct, frozen=True, kw_only=True):
    error: ApiErrorBody | None = None


_answer: Final = decoder(_Answer)


class LocalStreams:
    """The copies, as requests to the engine; each returns why it was refused, or nothing."""

    def __init__(self, driver: EngineDriver, clock: Clock) -> None:
        self._driver = driver
        self.clock: Final = clock
        # No advisories about copies: the leader sends those of its streams itself.
        driver.engine.advisories.silence()

    @property
    def engine(self) -> Engine:
        """The engine of the copies."""
        return self._driver.engine

    def find(self, name: str) -> Stream | None:
        """Return a copy by name."""
        return self.engine.streams.get(name)

    def names(self) -> list[str]:
        """Return the names of all copies."""
        return sorted(self.engine.streams)

    def create(self, config: StreamConfig) -> str:
        """Create a copy."""
        return self._ask("STREAM.CREATE", config.name, config)

    def update(self, config: StreamConfig) -> str:
        """Change the limits of a copy."""
        return self._ask("STREAM.UPDATE", config.name, config)

    def drop(self, name: str) -> str:
        """Remove a copy with all its messages."""
        return self._ask("STREAM.DELETE", name, None)

    def purge_before(self, name: str, seq: int) -> str:
        """Remove what the leader no longer has at the front."""
        return self._ask("STREAM.PURGE", name, PurgeRequest(seq=seq))

    def delete(self, name: str, sequences: Sequence[int]) -> int:
        """Remove messages that the leader no longer has; return how many of them existed."""
        stream = self.find(name)
        if stream is None or stream.log.access.read_only:
            return 0
        removed = sum(bool(stream.log.staged.delete(seq)) for seq in sequences)
        if removed:
            self.engine.mark_dirty(stream)
            self._driver.follow_streams()
        return removed

    def describe(self, copied: CopiedStream, body: bytes) -> bytes:
        """Answer STREAM.INFO of a copied stream, for a leader that cannot be reached.

        The state is the copy's, so every sequence in it can be read here; the configuration is the
        leader's, as far as known.
        """
        outbox = Outbox()
        subject = f"STREAM.INFO.{copied.name}".encode()
        handle(self.engine, subject, body, _UNSUBSCRIBED, self.clock.now_ns(), outbox)
        answer: bytes = outbox.now[-1][4]
        fields: dict[str, object] = msgspec.json.decode(answer)
        if "error" in fields:
            return answer
        config = msgspec.structs.replace(copied.config, mirror=None)
        fields["config"] = msgspec.Raw(encode(config))
        fields["created"] = str(copied.created)
        fields.pop("mirror", None)
        return encode(fields)

    def _ask(self, verb: str, name: str, request: ApiStruct | None) -> str:
        outbox = Outbox()
        body = b"" if request is None else encode_request(request)
        subject = f"{verb}.{name}".encode()
        handle(self.engine, subject, body, _UNSUBSCRIBED, self.clock.now_ns(), outbox)
        self._driver.follow_streams()
        for _, _, _, _, payload in outbox.now:
            try:
                error = _answer.decode(payload).error
            except msgspec.MsgspecError:
                continue
            if error is not None:
                return error.description
        return ""
