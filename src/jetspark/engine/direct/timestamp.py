"""Fast formatting of times: RFC 3339 with nanoseconds, trailing zeros trimmed.

Messages that are read together were mostly stored within the same second, so its text is cached
(hot-path.md, Rules).
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.headers.numbers import digits, write_number
from jetspark.units import format_rfc3339

SECOND: Final[i64] = 1_000_000_000


class TimeText:
    """Formats times of the same second with little work."""

    def __init__(self) -> None:
        self.second: i64 = -1
        self.second_text: bytes = b""

    def write(self, out: BytesWriter, time_ns: i64) -> None:
        """Append the text of a time."""
        second = time_ns // SECOND
        if second != self.second:
            self.second = second
            # "2026-11-15T07:01:04Z" without its Z
            self.second_text = format_rfc3339(int(second * SECOND)).encode()[:-1]
        out.write(self.second_text)
        part = time_ns - second * SECOND
        if part > 0:
            width: i64 = 9
            while part % 10 == 0:
                part //= 10
                width -= 1
            out.write(b"." + b"0" * int(width - digits(part)))
            write_number(out, part)
        out.write(b"Z")
