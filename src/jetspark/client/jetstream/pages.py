"""One page of a direct-get batch, directly from the wire into columns. Native-friendly.

ADR-31: a batch is a run of ordinary messages that have, after the user's headers, the lines
``Nats-Stream Nats-Subject Nats-Sequence Nats-Time-Stamp Nats-Num-Pending Nats-Last-Sequence``, and
ends with a status: 204 EOB, or 404, 408, 412, 503 if there was nothing to send. No object is
created per message; the lists below grow together.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.client.inbox import ReplySink
from jetspark.frame import Frame
from jetspark.headers.block import find_value
from jetspark.headers.names import (
    MIN_LAST_SEQUENCE,
    NUM_PENDING,
    SEQUENCE,
    STREAM,
    SUBJECT,
    TIME_STAMP,
    UP_TO_SEQUENCE,
)
from jetspark.headers.status import parse_status
from jetspark.units import parse_rfc3339

_BLANK: Final = 0x20
_CR: Final = 0x0D
_DOT: Final = 0x2E
_ZERO: Final = 0x30
_NINE: Final = 0x39
_Z: Final = 0x5A

_VERSION_SIZE: Final = 8  # len("NATS/1.0")
_SECOND_SIZE: Final = 19  # len("2026-11-15T07:01:04")
# As many digits fit 64 bits, and no more than that is counted.
_DIGITS_SAFE: Final = 18
_COUNT_MAX: Final = 2**63 - 1
_TIME_MIN: Final = -(2**63)
_OWN_LINES: Final = b"\r\nNats-Stream: "


class Page(ReplySink):
    """Collects the replies to one batch request.

    Rows with a sequence above ``last`` are left out: a batch has no upper bound.
    """

    def __init__(
        self,
        stream: bytes,
        last: i64,
        times: bool,
        subjects: bool,
        payloads: bool,
        headers: bool,
        on_done: Callable[[], None],
    ) -> None:
        super().__init__()
        self.sequences: list[int] = []
        self.times: list[int] = []
        self.subjects: list[str] = []
        self.payloads: list[bytes] = []
        self.headers: list[bytes] = []
        # The last sequence taken, and whether one above ``last`` arrived.
        self.last_seq: i64 = 0
        self.past: bool = False
        # Of the message that ended the page; status 0 before it.
        self.status: i64 = 0
        self.status_text: bytes = b""
        self.pending: i64 = 0
        self.up_to: i64 = 0
        # ADR-53 proof: the last sequence of the copy that answered; 0 if it did not send it.
        self.proof: i64 = 0
        # A row came from another stream (a mirror), or from a server without batches.
        self.foreign: bool = False
        self.unbatched: bool = False
        self.error: Exception | None = None
        self._last: i64 = last
        self._want_times: bool = times
        self._want_subjects: bool = subjects
        self._want_payloads: bool = payloads
        self._want_headers: bool = headers
        self._on_done: Callable[[], None] = on_done
        self._seconds: float = 0.0
        self._seen: i64 = 0
        self._taken: i64 = 0
        self._stream: bytes = stream
        # The prefix of the server's own lines.
        self._own: bytes = b""
        self._own_size: i64 = 0
        self._second: bytes = b""
        self._second_ns: i64 = 0
        self._subject: bytes = b""
        self._subject_text: str = ""
        # Where the last parsed number or line ends.
        self._at: i64 = 0
        self._expect(stream)

    def renew(self, now: float) -> bool:
        """Whether replies arrived since the last check; then the deadline is extended."""
        if self._taken == self._seen:
            return False
        self._seen = self._taken
        self.deadline: float = now + self._seconds
        return True

    def allow(self, seconds: float) -> None:
        """Set how long the page may be without a message."""
        self._seconds = seconds

    def fail(self, error: Exception) -> None:
        """Connection lost or timeout."""
        self.error = error
        self._on_done()

    def on_reply(self, frame: Frame) -> bool:
        """Process a row, or the status that ends the page."""
        data = frame.data
        hs = frame.hs
        ps = frame.ps
        self._taken += 1
        if ps - hs > _VERSION_SIZE and data[hs + _VERSION_SIZE] == _BLANK:
            self._take_status(data[hs:ps])
            return True
        own = hs + _VERSION_SIZE
        if self._take_released(frame, own):
            return False
        own = data.rfind(_OWN_LINES, hs, ps)
        if own >= hs and self._take_released(frame, own):
            return False
        self._take_any(frame, own)
        if self.unbatched:
            self._on_done()
            return True
        return False

    def _take_released(self, frame: Frame, own: i64) -> bool:
        """Parse a row whose own lines start at ``own`` in the released order.

        False if it is anything else. The block must end with them: a user may have stored headers
        with the same names, and then only the last ones are the server's.
        """
        data = frame.data
        ps = frame.ps
        start = own + self._own_size
        if data[own:start] != self._own:
            return False
        subject_end = start
        while subject_end < ps and data[subject_end] != _CR:
            subject_end += 1
        at = subject_end + 2
        if data[at : at + 15] != b"Nats-Sequence: ":
            return False
        sequence = self._number(data, at + 15, ps)
        if self._at - at > _DIGITS_SAFE + 15:
            return False
        at = self._at + 2
        if data[at : at + 17] != b"Nats-Time-Stamp: ":
            return False
        time_ns = self._time(data, at + 17, ps)
        at = self._at + 2
        if data[at : at + 18] != b"Nats-Num-Pending: ":
            return False
        self._number(data, at + 18, ps)
        at = self._at + 2
        if data[at : at + 20] != b"Nats-Last-Sequence: ":
            return False
        self._number(data, at + 20, ps)
        at = self._at + 2
        if at + 2 != ps:
            if data[at : at + 24] != b"Nats-Min-Last-Sequence: ":
                return False
            self._number(data, at + 24, ps)
            if self._at + 4 != ps:
                return False
        subject = data[start:subject_end] if self._want_subjects else b""
        self._add(frame, sequence, time_ns, subject, own)
        return True

    def _add(self, frame: Frame, seq: i64, time: i64, subject: bytes, own: i64) -> None:
        """Append a row to the requested columns."""
        if seq > self._last:
            self.past = True
            return
        self.last_seq = seq
        self.sequences.append(int(seq))
        if self._want_times:
            self.times.append(int(time))
        if self._want_subjects:
            self._add_subject(subject)
        if self._want_payloads:
            self.payloads.append(frame.payload())
        if self._want_headers:
            # Without user headers the server's lines follow the version line directly.
            plain = own == frame.hs + _VERSION_SIZE
            self.headers.append(b"" if plain else frame.data[frame.hs : own + 2] + b"\r\n")

    def _take_any(self, frame: Frame, own: i64) -> None:
        """Parse a row in any form: its own lines start at the last ``Nats-Stream``."""
        lines = b"NATS/1.0" + frame.data[own : frame.ps] if own >= frame.hs else b""
        stream = find_value(lines, STREAM)
        subject = find_value(lines, SUBJECT)
        stamp = find_value(lines, TIME_STAMP)
        sequence: i64 = parse_count(find_value(lines, SEQUENCE))
        if sequence < 0 or stream is None or subject is None or stamp is None:
            self.fail(
                ValueError(f"direct-get reply lacks required headers: {frame.headers()[:200]!r}")
            )
            return
        if sequence == _COUNT_MAX:
            name = stream.decode("utf-8", "replace")
            self.fail(
                ValueError(
                    f"stream {name!r} has a message with a sequence above {_COUNT_MAX - 1}, which "
                    "this client cannot read"
                )
            )
            return
        if find_value(lines, NUM_PENDING) is None:
            # ADR-31: a server that does not support batches answers with one plain message.
            self.unbatched = True
        if stream != self._stream:
            self.foreign = True
            self._expect(stream)
        time = parse_time(stamp.decode("ascii", "replace"))
        self._add(frame, sequence, time, subject, own)

    def _expect(self, stream: bytes) -> None:
        """Set the prefix of the server's own lines."""
        self._own = b"\r\nNats-Stream: %b\r\nNats-Subject: " % stream
        self._own_size = len(self._own)

    def _take_status(self, block: bytes) -> None:
        code, text = parse_status(block)
        self.status = code
        self.status_text = text
        self.pending = max(parse_count(find_value(block, NUM_PENDING)), 0)
        self.up_to = max(parse_count(find_value(block, UP_TO_SEQUENCE)), 0)
        self.proof = max(parse_count(find_value(block, MIN_LAST_SEQUENCE)), 0)
        self._on_done()

    def _add_subject(self, subject: bytes) -> None:
        # Runs of one subject are common: the string is shared.
        if subject != self._subject:
            self._subject = subject
            self._subject_text = str(subject, "utf-8", "surrogateescape")
        self.subjects.append(self._subject_text)

    def _number(self, data: bytes, at: i64, end: i64) -> i64:
        """The digits at ``at``; sets ``_at`` after them."""
        value: i64 = 0
        while at < end:
            digit: i64 = data[at] - _ZERO
            if digit < 0 or digit > 9:
                break
            value = value * 10 + digit
            at += 1
        self._at = at
        return value

    def _time(self, data: bytes, at: i64, end: i64) -> i64:
        """The RFC 3339 time at ``at``; sets ``_at`` after it.

        The second is cached as text, so that a row costs only its fraction.
        """
        dot = at + _SECOND_SIZE
        second = data[at:dot]
        if second == self._second and data[dot] == _DOT:
            value: i64 = 0
            scale: i64 = 1_000_000_000
            place = dot + 1
            while place < end and _ZERO <= data[place] <= _NINE:
                value = value * 10 + data[place] - _ZERO
                scale //= 10
                place += 1
            if scale > 0 and data[place] == _Z:
                self._at = place + 1
                return self._second_ns + value * scale
        place = dot
        while place < end and data[place] != _CR:
            place += 1
        self._at = place
        text = str(data[at:place], "ascii", "replace")
        if len(second) == _SECOND_SIZE and data[place - 1] == _Z:
            second_ns = parse_time(text[:_SECOND_SIZE] + "Z")
            if second_ns < _COUNT_MAX:  # its fractions fit as well
                self._second = second
                self._second_ns = second_ns
        return parse_time(text)


def parse_count(value: bytes | None) -> int:
    """The number in a header, at most 2**63 - 1; -1 if it is absent or no number."""
    if value is None or not value.isdigit():
        return -1
    return min(int(value), _COUNT_MAX) if len(value) <= _DIGITS_SAFE + 2 else _COUNT_MAX


def parse_time(text: str) -> int:
    """The nanoseconds of an RFC 3339 time; the nearest one that 64 bits can hold."""
    return max(min(parse_rfc3339(text), _COUNT_MAX), _TIME_MIN)
