"""Publishes chunks of messages from a task, with retries.

A chunk is done when the stream has acknowledged all of it. After transient errors it is sent again
with jitter, with the same message ids; then the task fails and Spark decides.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from jetspark import sync
from jetspark.api.base import Timestamp
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.publishing.fast import FLOW
from jetspark.errors import (
    BatchDuplicate,
    BatchIncomplete,
    ConnectionClosed,
    Error,
    MessageNotFound,
    MessageTooLarge,
    PayloadTooLarge,
    RequestTimeout,
    TooManyBatches,
    WrongLastSequence,
)
from jetspark.headers.block import find_value
from jetspark.spark.connections import CONNECTIONS, jetstream_of
from jetspark.spark.option_reader import shortened
from jetspark.spark.stream.sink.options import PublishMode, outage_of
from jetspark.spark.stream.sink.plan import SinkPlan, takes
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.sync.bulk import last_columns, publish_columns, publish_together
from jetspark.sync.retry import Retries

ATOMIC_ROWS_MAX: Final = 1_000  # more are refused (10199)
# Maximum size of the headers that an atomic batch adds to a message.
ATOMIC_HEADERS_BYTES: Final = 96

_ADVICE: Final[dict[type[Error], str]] = {
    TooManyBatches: "use fewer concurrent tasks: df.coalesce(n) before the write",
}
# The server's text before it closes a connection because a line was too long.
_LINE_TOO_LONG: Final = "maximum control line exceeded"
_EXPECTED: Final = b"Nats-Expected-Last-Subject-Sequence"
_ID: Final = b"Nats-Msg-Id"
_ABOUT_CONFLICT: Final = (
    "another writer was faster than this row, or has changed its subject or key since an earlier "
    "run wrote it"
)
_Result = TypeVar("_Result")
_Identity = tuple[str, bytes | None, bytes]


class Sender:
    """Publishes the chunks of one task.

    ``check`` is called before each attempt, and raises if this task must not write any more.
    """

    def __init__(
        self, plan: SinkPlan, check: Callable[[sync.JetStream], None] | None = None
    ) -> None:
        self._plan = plan
        self._check = check
        self._options = plan.options
        self._known_subjects: set[str] = set()

    def send(self, messages: MessageColumns) -> int:
        """Store all rows; return a sequence known of them (0: none)."""
        self.check_subjects(messages.subjects)
        try:
            if self._plan.mode is PublishMode.ATOMIC:
                return self._send_atomic(messages)
            if self._plan.mode is PublishMode.FAST:
                return self._send_fast(messages)
            return self.with_retries(lambda jetstream: self._publish(jetstream, messages))
        except (PayloadTooLarge, MessageTooLarge) as error:
            # A batch has its note from send_together.
            if self._plan.mode is not PublishMode.ATOMIC:
                error.add_note(_about_largest_row(messages))
            raise
        except WrongLastSequence as error:
            error.add_note(self._about_conflict(messages))
            raise

    def _publish(self, jetstream: sync.JetStream, messages: MessageColumns) -> int:
        if self._check is not None:
            self._check(jetstream)
        try:
            return publish_columns(
                jetstream,
                messages,
                max_in_flight=self._options.max_in_flight,
                timeout=self._options.ack_timeout_s,
            ).last_seq
        except ConnectionClosed as error:
            check_line(error, messages.subjects)
            raise

    def send_together(self, messages: MessageColumns) -> int:
        """Store rows as one atomic batch, once; return the sequence of the last."""
        with CONNECTIONS.borrow(self._options.connection) as client:
            jetstream = jetstream_of(client, self._options.connection)
            try:
                return publish_together(
                    jetstream,
                    messages,
                    max_messages=ATOMIC_ROWS_MAX,
                    timeout=self._options.ack_timeout_s,
                ).seq
            except ConnectionClosed as error:
                check_line(error, messages.subjects)
                raise
            except (PayloadTooLarge, MessageTooLarge) as error:
                error.add_note(_about_largest_row(messages))
                raise
            except BatchIncomplete:
                self._check_sizes(jetstream, messages)
                raise

    def _check_sizes(self, jetstream: sync.JetStream, messages: MessageColumns) -> None:
        """Raise ``RowRefused`` if the stream left a row out of a batch because of its size.

        Such a row gets no answer, and the batch only that it is incomplete.
        """
        try:
            limit = jetstream.stream(self._plan.stream).info().config.max_msg_size
        except Error:
            return  # The error of the batch stands.
        size, _ = _largest_row(messages)
        if 0 <= limit < size + ATOMIC_HEADERS_BYTES:
            raise RowRefused(
                f"stream {self._plan.stream!r} accepts messages of at most {limit} bytes with "
                f"their headers (max_msg_size), of which an atomic batch needs up to "
                f"{ATOMIC_HEADERS_BYTES} for its own: {_about_largest_row(messages)}"
            ) from None

    def _about_conflict(self, messages: MessageColumns) -> str:
        """Name the first row whose subject does not have the sequence that the row expects.

        The server's answer names none, and that to an atomic batch not even a sequence.
        """
        wanted = [_header(block, _EXPECTED) for block in messages.headers]
        subjects = list(
            dict.fromkeys(
                subject
                for subject, one in zip(messages.subjects, wanted, strict=True)
                if one is not None
            )
        )
        try:
            newest = self.with_retries(lambda js: self._newest(js, subjects))
        except Error:
            return _ABOUT_CONFLICT  # The error of the write stands.
        last_place = {one: at for at, one in enumerate(_identities(messages))}
        for at, (subject, one) in enumerate(zip(messages.subjects, wanted, strict=True)):
            seq, identity = newest.get(subject, (0, None))
            # These rows may have stored it themselves: this one, or a later one of its subject.
            stored = identity is not None and last_place.get(identity, -1) >= at
            if one is not None and int(one) != seq and not stored:
                return (
                    f"{_ABOUT_CONFLICT}: {shortened(subject)} has {seq} and the row expects "
                    f"{int(one)}"
                )
        return _ABOUT_CONFLICT

    def _newest(
        self, jetstream: sync.JetStream, subjects: Sequence[str]
    ) -> dict[str, tuple[int, _Identity]]:
        """Return sequence and identity of the last message of each subject that has one."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        chunk = last_columns(stream, subjects, up_to_seq=last, min_last_seq=last)
        rows = zip(chunk.subjects, chunk.sequences, _identities(chunk), strict=True)
        return {subject: (seq, identity) for subject, seq, identity in rows}

    def with_retries(self, attempt: Callable[[sync.JetStream], _Result]) -> _Result:
        """Return the result of ``attempt``, retried after transient errors."""

        def once() -> _Result:
            with CONNECTIONS.borrow(self._options.connection) as client:
                return attempt(jetstream_of(client, self._options.connection))

        return self.retries().call(once)

    def _send_fast(self, messages: MessageColumns) -> int:
        left, retries = messages, self.retries()
        flow = min(FLOW, self._options.max_in_flight)
        while True:
            publisher: sync.FastPublisher | None = None
            try:
                with CONNECTIONS.borrow(self._options.connection) as client:
                    jetstream = jetstream_of(client, self._options.connection)
                    if self._check is not None:
                        self._check(jetstream)
                    publisher = jetstream.fast_publisher(
                        flow=flow,
                        max_outstanding_acks=max(1, self._options.max_in_flight // flow),
                        ack_timeout=self._options.ack_timeout_s,
                    )
                    with publisher:
                        publisher.extend(left.subjects, left.data, left.headers)
                    return publisher.ack.seq
            except Error as error:
                check_line(error, left.subjects)
                stored = publisher.acked if publisher is not None else 0
                # The batch ended; rows without an acknowledgement are sent again.
                left = left.part(stored, len(left))
                if stored:
                    retries.restart()
                if error.transient and not len(left):
                    return 0
                retries.pause(error)

    def _send_atomic(self, messages: MessageColumns) -> int:
        last = 0
        for at in range(0, len(messages), ATOMIC_ROWS_MAX):
            batch = messages.part(at, at + ATOMIC_ROWS_MAX)
            retries = self.retries()
            while True:
                try:
                    last = self.send_together(batch)
                except BatchDuplicate as error:
                    self._check_all_known(batch.headers, error)
                except Error as error:
                    retries.pause(error)
                    continue
                break
        return last

    def _check_all_known(self, headers: Sequence[bytes], refusal: BatchDuplicate) -> None:
        """10201 is success if every id is already stored, else a failure that names one."""
        ids = {find_value(block, b"Nats-Msg-Id") or b"" for block in headers}
        since = time.time_ns() - self._plan.duplicate_window_ns
        stored = self.with_retries(lambda js: stored_ids(js.stream(self._plan.stream), since))
        missing = ids - stored
        if missing:
            refusal.add_note(
                f"message id {min(missing).decode()!r} is not stored but others of its batch "
                "are: the same ids were written in other batches before"
            )
            raise refusal

    def check_subjects(self, subjects: Sequence[str]) -> None:
        """Refuse subjects that the stream does not store: they would get no answer."""
        new = set(subjects) - self._known_subjects
        for subject in new:
            if not takes(self._plan.stream_subjects, subject):
                raise RowRefused(
                    f"subject {subject!r} does not belong to stream {self._plan.stream!r}, which "
                    f"stores {', '.join(self._plan.stream_subjects)}"
                )
        self._known_subjects |= new

    def retries(self, *, also: tuple[type[Error], ...] = ()) -> Retries:
        """A counter for the failures of one write."""
        options, stream = self._options, self._plan.stream
        again = options.retries
        silent = (
            f"stream {stream!r} did not acknowledge rows within ackTimeoutMs="
            f"{options.ack_timeout_s * 1000:.0f}, nor when they were sent again "
            f"(retries={again}): see whether it exists and its server is overloaded; then raise "
            "ackTimeoutMs, or lower maxInFlight"
        )
        advice = _ADVICE | {RequestTimeout: silent}
        return Retries(again, outage_s=outage_of(again), also=also, advice=advice)


def _header(block: bytes, name: bytes) -> bytes | None:
    return find_value(block, name) if block else None


def _identities(messages: MessageColumns) -> list[_Identity]:
    """Return what tells the messages of a subject apart: their ids, or else their content."""
    rows = zip(messages.subjects, messages.data, messages.headers, strict=True)
    found = [(subject, _header(block, _ID), data) for subject, data, block in rows]
    return [(subject, msg_id, b"" if msg_id else data) for subject, msg_id, data in found]


def check_line(error: Error, subjects: Sequence[str]) -> None:
    """Raise ``RowRefused`` if the server closed the connection because of a long subject.

    Its limit is not known in advance, and the same rows would close the next connection, too.
    """
    if _LINE_TOO_LONG not in str(error).lower():
        return
    longest = max(subjects, key=len)
    raise RowRefused(
        f"the subject {shortened(longest)} has {len(longest.encode())} bytes, and the server "
        f"closed the connection ({_LINE_TOO_LONG}): shorten it, or raise max_control_line of the "
        "server (default: 4096 bytes)"
    ) from None


def _largest_row(messages: MessageColumns) -> tuple[int, str]:
    """Return the size of the largest row, with its headers, and its subject."""
    rows = zip(messages.subjects, messages.data, messages.headers, strict=True)
    return max((len(payload) + len(block), subject) for subject, payload, block in rows)


def _about_largest_row(messages: MessageColumns) -> str:
    """Name the row that is too large, and what can be done about it."""
    size, subject = _largest_row(messages)
    return (
        f"the largest row, of subject {shortened(subject)}, has {size} bytes with its headers: "
        "leave it out, keep such content in an object store (format nats_object), or raise "
        "max_payload of the server or max_msg_size of the stream"
    )


def stored_ids(stream: sync.Stream, since_ns: int) -> set[bytes]:
    """Return the message ids of everything stored at or after a time."""
    last = stream.info().state.last_seq
    try:
        first = stream.get_msg(start_time=Timestamp(since_ns), min_last_seq=last).seq
    except MessageNotFound:
        return set()
    return ids_between(stream, first, last)


def ids_between(stream: sync.Stream, first: int, last: int, prefix: bytes = b"") -> set[bytes]:
    """Return the message ids in a range of sequences that start with ``prefix``."""
    if first > last:
        return set()
    found = set[bytes]()
    for chunk in stream.scan(first, last, columns=("headers",)):
        for block in chunk.headers:
            msg_id = id_of(block, prefix)
            if msg_id is not None:
                found.add(msg_id)
    return found


def id_of(block: bytes, prefix: bytes) -> bytes | None:
    """Return the message id in a header block if it starts with ``prefix``."""
    if not block or prefix not in block:
        return None
    msg_id = find_value(block, b"Nats-Msg-Id")
    return msg_id if msg_id is not None and msg_id.startswith(prefix) else None
