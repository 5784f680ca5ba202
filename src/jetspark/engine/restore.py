"""STREAM.RESTORE: an archive becomes a stream (wire.md, Snapshot and restore).

The messages go into a hidden stream, under its final name and with a mark in its metadata; once
the archive is complete and everything is durable, the mark is removed and the stream becomes
visible. A restore that fails, or that a crash interrupts, leaves nothing: a stream with the mark
is removed when it is found. Chunks are answered when they are durable, which is the flow control.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from jetspark.api.advisory import ClientInfo, RestoreComplete
from jetspark.api.base import Timestamp, encode
from jetspark.api.levels import RESTORING
from jetspark.api.stream import STREAM_CREATE, StreamConfig
from jetspark.engine.archive import ENTRY_MAX, ArchiveBroken, ArchiveReader, ConsumerLine
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.stream import Stream
from jetspark.engine.wall import Wall
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import StoreReadOnly

PREFIX: Final = b"$JS.SNAPSHOT.RESTORE."
INACTIVE_NS: Final = 5_000_000_000
# A sender that does not wait for answers may be this far ahead of the disk.
AHEAD_MAX: Final = 64 * 1024 * 1024


CheckConsumer = Callable[[Stream, int, bytes, bytes, list[bytes], int], object]


class Restore:
    """A restore in progress. ``stream`` receives the messages and is hidden."""

    def __init__(
        self,
        subject: bytes,
        config: StreamConfig,
        stream: Stream,
        client: ClientInfo | None,
        now: int,
        wall: Wall,
    ) -> None:
        self.subject = subject
        self.config = config
        self.stream = stream
        self.deadline: int = now + INACTIVE_NS
        # Why it fails; empty while it does not.
        self.problem: bytes = b""
        # The reply subject of the end, once everything has arrived.
        self.finishing: bytes | None = None
        self.now: int = now
        self._client = client
        self._started = now
        self._wall = wall
        self._reader = ArchiveReader()
        self._bytes = 0
        # Chunks that are not answered because they were not processed completely, oldest first,
        # and the reply subject of the end, if it arrived meanwhile.
        self._unanswered: list[bytes] = []
        self.ending: bytes | None = None

    def chunk(self, data: bytes, reply: bytes, now: int, outbox: Outbox) -> bool:
        """Take a part of the archive; return whether something was staged."""
        self.now = now
        self.deadline = now + INACTIVE_NS
        self._bytes += len(data)
        if reply:
            self._unanswered.append(reply)
        return self.step(data, outbox)

    def step(self, data: bytes, outbox: Outbox) -> bool:
        """Process some of the input; return whether something was staged.

        Chunks are answered when all of them was processed.
        """
        if not self.problem:
            self._stage(data)
        if self.is_busy():
            return True
        answers = [(reply, reply, b"", b"", b"") for reply in self._unanswered]
        self._unanswered = []
        if self.problem:
            # Errors are reported at the end, as by nats-server; until then input is discarded.
            outbox.send_all(answers)
            return False
        for answer in answers:
            self.stream.replies.hold_newest(answer, outbox)
        return True

    def is_busy(self) -> bool:
        """Return whether there is input that was not processed yet."""
        if self.problem:
            return False
        try:
            return self._reader.has_more()
        except ArchiveBroken as problem:
            self.fail(str(problem))
            return False

    def _stage(self, data: bytes) -> None:
        log = self.stream.log
        try:
            for seq, time, subject, headers, body in self._reader.feed(data):
                log.staged.skip_to(seq - 1)
                stored = log.timeline.copied(time, self.now)
                log.staged.add_message(subject, len(headers), headers + body + b"\r\n", stored)
        except (ArchiveBroken, ValueError, StoreReadOnly) as problem:
            self.fail(str(problem))
        if log.staged.open_bytes + log.staged.in_flight_bytes > AHEAD_MAX:
            self.fail("chunks arrive faster than the disk stores them; wait for each answer")
        if self._reader.buffered > AHEAD_MAX + ENTRY_MAX:
            self.fail("chunks arrive faster than they can be processed; wait for each answer")

    def has_ended(self) -> bool:
        """Return whether the end has arrived: nothing more is accepted."""
        return self.finishing is not None or self.ending is not None

    def end(self, reply: bytes) -> None:
        """Note the end; it is answered once everything was processed."""
        self.ending = reply

    def refuse(self, error: bytes) -> None:
        """Fail with an error body: it does not fit any more."""
        self.problem = error

    def fail(self, reason: str) -> None:
        """Fail with a reason."""
        if not self.problem:
            self.problem = error_body(ErrCode.RESTORE_FAILED, err=reason)

    def finish(self, reply: bytes, now: int, check: CheckConsumer) -> bool:
        """Finish once everything has arrived; return whether it is complete, and stage the rest.

        ``check`` raises for records that are not a consumer: detected later they would prevent the
        stream from being opened.
        """
        self.now = now
        self.finishing = reply
        self.deadline = 0
        if self.problem:
            return False
        log = self.stream.log
        try:
            self._reader.check_whole()
            assert self._reader.end is not None
            log.staged.skip_to(self._reader.end.last_seq)
            for consumer in self._reader.consumers:
                check_consumer(self.stream, consumer, check, now)
                log.staged.set_consumer(consumer.number, consumer.document)
                log.staged.set_consumer_state(consumer.number, True, consumer.state)
                for change in consumer.changes:
                    log.staged.set_consumer_state(consumer.number, False, change)
            log.staged.configure(encode(self.config))
        except (ArchiveBroken, ValueError, StoreReadOnly) as problem:
            self.fail(str(problem))
            return False
        return True

    def refused(self) -> bytes:
        """Return the answer of a failed restore."""
        return STREAM_CREATE.error(self.problem)

    def completed(self, now: int) -> RestoreComplete:
        """Return the advisory at its end, successful or not."""
        return RestoreComplete(
            stream=self.config.name,
            start=Timestamp(self._wall.at(self._started)),
            end=Timestamp(self._wall.at(now)),
            bytes=self._bytes,
            client=self._client,
        )


def check_consumer(stream: Stream, consumer: ConsumerLine, check: CheckConsumer, now: int) -> None:
    """Raise ArchiveBroken for an invalid consumer."""
    try:
        check(stream, consumer.number, consumer.document, consumer.state, consumer.changes, now)
    except Exception as problem:
        # Whatever error an invalid state causes: the archive is at fault.
        text = f"consumer {consumer.number} of the backup cannot be read: {problem!r}"
        raise ArchiveBroken(text) from problem


def marked(config: StreamConfig) -> StreamConfig:
    """Return the configuration of a stream that is not complete yet."""
    metadata = {**config.metadata, RESTORING: "1"}
    return msgspec.structs.replace(config, metadata=metadata)


def is_marked(document: bytes) -> bool:
    """Return whether a stored configuration belongs to an incomplete stream."""
    return RESTORING in _metadata.decode(document).metadata


class _Metadata(msgspec.Struct):
    metadata: dict[str, str] = {}


_metadata = msgspec.json.Decoder(_Metadata)
