"""Byte-level parsing shared by both parsers: integers, words, blanks."""

from typing import Final

from mypy_extensions import i64

from jetspark.protocol.limits import SIZE_DIGITS_MAX

TAB: Final = 9
LF: Final = 10
CR: Final = 13
BLANK: Final = 32

# Results of match_word.
MATCHED: Final = 1
CUT: Final = 0
DIFFERENT: Final = -1


def parse_number(data: bytes, start: i64, end: i64, digits_max: i64) -> i64:
    """Return the decimal number ``data[start:end]``; -1 if invalid or longer than allowed."""
    if end <= start or end - start > digits_max:
        return -1
    value: i64 = 0
    i: i64 = start
    while i < end:
        digit: i64 = data[i] - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        i += 1
    return value


def parse_size(data: bytes, start: i64, end: i64) -> i64:
    """Return the size ``data[start:end]``, or -1 where nats-server refuses it."""
    return parse_number(data, start, end, SIZE_DIGITS_MAX)


def match_word(data: bytes, start: i64, end: i64, word: bytes) -> i64:
    """Compare ``data[start:end]`` with an upper-case word, ignoring case.

    MATCHED if it starts with the word, CUT if the data ends within the word, else DIFFERENT.
    """
    length: i64 = len(word)
    i: i64 = 0
    while i < length:
        if start + i >= end:
            return CUT
        char: i64 = data[start + i]
        want: i64 = word[i]
        # Only letters have a lower-case form 32 above them; '+' and '-' have none.
        if char != want and (want < 65 or char != want + 32):
            return DIFFERENT
        i += 1
    return MATCHED


def skip_blanks(data: bytes, start: i64, end: i64) -> i64:
    """Return the index of the first byte from ``start`` on that is not a blank or tab."""
    i: i64 = start
    while i < end:
        char: i64 = data[i]
        if char not in (BLANK, TAB):
            break
        i += 1
    return i


def split_arguments(data: bytes, start: i64, end: i64) -> list[bytes]:
    """Split ``data[start:end]`` at blanks, tabs and line-end bytes."""
    found: list[bytes] = []
    begin: i64 = -1
    i: i64 = start
    while i < end:
        char: i64 = data[i]
        if char in (BLANK, TAB, CR, LF):
            if begin >= 0:
                found.append(data[begin:i])
                begin = -1
        elif begin < 0:
            begin = i
        i += 1
    if begin >= 0:
        found.append(data[begin:end])
    return found
