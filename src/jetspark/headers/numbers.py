"""Decimal integers without an object for each: frames, header lines, ack subjects."""

from librt.strings import BytesWriter
from mypy_extensions import i64, u8


def write_number(out: BytesWriter, number: i64) -> None:
    """Append a non-negative integer in decimal.

    Appending digit by digit costs a third of ``b"%d"``, which creates an object first.
    """
    if number >= 10000:
        write_number(out, number // 10000)
        number %= 10000
        out.append(u8(48 + number // 1000))
        out.append(u8(48 + number // 100 % 10))
        out.append(u8(48 + number // 10 % 10))
    else:
        if number >= 1000:
            out.append(u8(48 + number // 1000))
        if number >= 100:
            out.append(u8(48 + number // 100 % 10))
        if number >= 10:
            out.append(u8(48 + number // 10 % 10))
    out.append(u8(48 + number % 10))


def digits(number: i64) -> i64:
    """Return the number of decimal digits of a non-negative integer."""
    count: i64 = 1
    while number >= 10:
        number //= 10
        count += 1
    return count
