"""The headers of a publish, parsed in one pass (hot-path.md, Rules)."""

from mypy_extensions import i64

from jetspark.headers.block import nats_pairs
from jetspark.headers.names import (
    BATCH_COMMIT,
    BATCH_GAP,
    BATCH_ID,
    BATCH_SEQUENCE,
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    FAST_BATCH_ID,
    FLOW,
    INCR,
    MSG_ID,
    REQUIRED_API_LEVEL,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULE_ROLLUP,
    SCHEDULE_SOURCE,
    SCHEDULE_TARGET,
    SCHEDULE_TIME_ZONE,
    SCHEDULE_TTL,
    SCHEDULER,
    STREAM_SOURCE,
    TTL,
)


class PublishHeaders:
    """The headers of one message with a meaning to a stream; empty means absent.

    One object serves all messages of a stream: ``read`` resets it.
    """

    def __init__(self) -> None:
        self.msg_id: bytes = b""
        self.expected_stream: bytes = b""
        self.expected_last_seq: bytes = b""
        self.expected_subject_seq: bytes = b""
        self.expected_subject: bytes = b""
        self.expected_last_id: bytes = b""
        self.rollup: bytes = b""
        self.ttl: bytes = b""
        self.incr: bytes = b""
        self.stream_source: bytes = b""
        # Whether there is any header of ADR-50, and their values.
        self.batching: bool = False
        self.batch_id: bytes = b""
        self.fast_batch_id: bytes = b""
        self.batch_seq: bytes = b""
        self.batch_commit: bytes = b""
        self.has_commit: bool = False
        self.batch_gap: bytes = b""
        self.has_gap: bool = False
        self.flow: bytes = b""
        self.api_level: bytes = b""
        # Whether there is any header that starts with `Nats-Schedule`, and their values.
        self.scheduling: bool = False
        self.schedule: bytes = b""
        self.schedule_target: bytes = b""
        self.schedule_source: bytes = b""
        self.schedule_ttl: bytes = b""
        self.schedule_rollup: bytes = b""
        self.schedule_next: bytes = b""
        self.scheduler: bytes = b""
        self.time_zone: bytes = b""
        self.has_time_zone: bool = False

    def forget_id(self) -> None:
        """Ignore the id of the message."""
        self.msg_id = b""

    def forget_schedule(self) -> None:
        """Ignore the headers of schedules."""
        self.scheduling = False

    def forget_ttl(self) -> None:
        """Ignore the TTL."""
        self.ttl = b""

    def set_rollup(self, rollup: bytes) -> None:
        """Replace the rollup: ``sub``, ``all``, or none if empty."""
        self.rollup = rollup

    def read(self, block: bytes) -> bool:
        """Parse a block; False if no header in it concerns the server."""
        self.clear()
        pairs = nats_pairs(block)
        # The first of two headers counts, as in nats-server: so it is read last.
        i: i64 = len(pairs) - 2
        while i >= 0:
            self.note(pairs[i], pairs[i + 1])
            i -= 2
        return len(pairs) > 0

    def clear(self) -> None:
        """Reset everything."""
        self.msg_id = b""
        self.expected_stream = b""
        self.expected_last_seq = b""
        self.expected_subject_seq = b""
        self.expected_subject = b""
        self.expected_last_id = b""
        self.rollup = b""
        self.ttl = b""
        self.incr = b""
        self.stream_source = b""
        if self.batching:
            self.batching = False
            self.batch_id = b""
            self.fast_batch_id = b""
            self.batch_seq = b""
            self.batch_commit = b""
            self.has_commit = False
            self.batch_gap = b""
            self.has_gap = False
            self.flow = b""
            self.api_level = b""
        if self.scheduling or len(self.scheduler) > 0:
            self.scheduling = False
            self.schedule = b""
            self.schedule_target = b""
            self.schedule_source = b""
            self.schedule_ttl = b""
            self.schedule_rollup = b""
            self.schedule_next = b""
            self.scheduler = b""
            self.time_zone = b""
            self.has_time_zone = False

    def note(self, name: bytes, value: bytes) -> None:
        """Store one header. The length of a name narrows it down to one or two."""
        size: i64 = len(name)
        if size == 11:
            if name == MSG_ID:
                self.msg_id = value
            elif name == ROLLUP:
                self.rollup = value
        elif size == 35:
            if name == EXPECTED_LAST_SUBJECT_SEQUENCE:
                self.expected_subject_seq = value
        elif size == 27:
            if name == EXPECTED_LAST_SEQUENCE:
                self.expected_last_seq = value
        elif size == 8:
            if name == TTL:
                self.ttl = value
        elif size == 43:
            if name == EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT:
                self.expected_subject = value
        elif size == 25:
            if name == EXPECTED_LAST_MSG_ID:
                self.expected_last_id = value
        elif size == 13:
            if name == BATCH_ID:
                self.batching = True
                self.batch_id = value
            else:
                self.note_rare(name, value)
        elif size == 19:
            if name == BATCH_SEQUENCE:
                self.batching = True
                self.batch_seq = value
        elif size == 9:
            if name == INCR:
                self.incr = value
            elif name == FLOW:
                self.batching = True
                self.flow = value
        else:
            self.note_rare(name, value)

    def note_rare(self, name: bytes, value: bytes) -> None:
        """Store one of the headers that few messages have."""
        if name.startswith(SCHEDULE):
            self.note_schedule(name, value)
        elif name == EXPECTED_STREAM:
            self.expected_stream = value
        elif name == STREAM_SOURCE:
            self.stream_source = value
        elif name == BATCH_COMMIT:
            self.batching = True
            self.batch_commit = value
            self.has_commit = True
        elif name == FAST_BATCH_ID:
            self.batching = True
            self.fast_batch_id = value
        elif name == BATCH_GAP:
            self.batching = True
            self.batch_gap = value
            self.has_gap = True
        elif name == REQUIRED_API_LEVEL:
            self.batching = True
            self.api_level = value

    def note_schedule(self, name: bytes, value: bytes) -> None:
        """Store one of the headers of scheduled messages."""
        self.scheduling = True
        if name == SCHEDULE:
            self.schedule = value
        elif name == SCHEDULE_TARGET:
            self.schedule_target = value
        elif name == SCHEDULE_SOURCE:
            self.schedule_source = value
        elif name == SCHEDULE_TTL:
            self.schedule_ttl = value
        elif name == SCHEDULE_ROLLUP:
            self.schedule_rollup = value
        elif name == SCHEDULE_NEXT:
            self.schedule_next = value
        elif name == SCHEDULER:
            self.scheduler = value
        elif name == SCHEDULE_TIME_ZONE:
            self.time_zone = value
            self.has_time_zone = True

    def expects_anything(self) -> bool:
        """Return whether one of the ``Nats-Expected-`` headers was sent."""
        return (
            len(self.expected_stream) > 0
            or len(self.expected_last_seq) > 0
            or len(self.expected_subject_seq) > 0
            or len(self.expected_subject) > 0
            or len(self.expected_last_id) > 0
        )
