"""Times as text, fast: RFC 3339 with nanoseconds, trailing zeros trimmed.

Messages that are read together were mostly stored within the same second, so its text is kept
(speed.md 4.9).
"""

from typing import Final

from mypy_extensions import i64

from jetspark.units import format_rfc3339

SECOND: Final[i64] = 1_000_000_000


class TimeText:
    """Formats ascending times."""

    def __init__(self) -> None:
        self.second: i64 = -1
        self.second_text: bytes = b""
        self.time_ns: i64 = -1
        self.text: bytes = b""

    def format(self, time_ns: i64) -> bytes:
        """Return the text of a time."""
        if time_ns == self.time_ns:
            return self.text
        second = time_ns // SECOND
        if second != self.second:
            self.second = second
            # "2026-11-15T07:01:04Z" without its Z
            self.second_text = format_rfc3339(int(second * SECOND)).encode()[:-1]
        part = time_ns - second * SECOND
        if part == 0:
            self.text = self.second_text + b"Z"
        else:
            # %09d is not specialised by mypyc; a leading one that is cut off is (speed.md 5).
            digits = b"%d" % int(SECOND + part)
            self.text = self.second_text + b"." + digits[1:].rstrip(b"0") + b"Z"
        self.time_ns = time_ns
        return self.text
