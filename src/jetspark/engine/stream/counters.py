"""Counters: a message adds to the last value of its subject (``Nats-Incr``, wire.md, Publishing).

The value on disk is the body ``{"val":"n"}``. Values of staged messages are kept here, because
decisions use staged state.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import msgspec

from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.block import find_value
from jetspark.headers.names import COUNTER_SOURCES
from jetspark.store.format.record import body_end, headers_end, subject_end
from jetspark.store.log.stream_log import StreamLog

# Python converts at most 4,300 digits at once; counters have no limit.
CHUNK_DIGITS: Final = 4000
CHUNK: Final = 10**CHUNK_DIGITS


class CounterBroken(ValueError):
    """The last message of a subject is not a counter."""


class Stored(msgspec.Struct):
    """The body of a counter message."""

    val: str = ""


class Value:
    """The value of a counter; ``sources`` is the header with the values of other streams."""

    def __init__(self, seq: int, number: int, sources: bytes) -> None:
        self.seq: int = seq
        self.number: int = number
        self.sources: bytes = sources

    def stage(self, seq: int) -> None:
        """Note the sequence of the message that has it."""
        self.seq = seq


class Counters:
    """The counters of one stream."""

    def __init__(self, log: StreamLog) -> None:
        self.log: StreamLog = log
        # By subject, in order of their messages: the newest ones may be deleted, or not be staged
        # any more.
        self.staged: dict[bytes, list[Value]] = {}

    def current(self, subject: bytes) -> Value:
        """Return the value of a subject; raises CounterBroken."""
        self.log.staged.look_up()
        entry = self.log.index.subjects.get(subject)
        if entry is None or entry.staged_last == 0:
            return Value(0, 0, b"")
        values = self.staged.setdefault(subject, [])
        if values and values[-1].seq == entry.staged_last:
            return values[-1]
        place = bisect_left(values, int(entry.staged_last), key=_sequence)
        if place < len(values) and values[place].seq == entry.staged_last:
            return values[place]
        try:
            data, at = self.log.reader.locate(entry.staged_last)
        except (CorruptRecord, ReadFailed) as error:
            raise CounterBroken(str(error)) from error
        if len(data) == 0:
            return Value(0, 0, b"")
        head = headers_end(data, at)
        sources = find_value(data[subject_end(data, at) : head], COUNTER_SOURCES) or b""
        try:
            number = parse_integer(
                msgspec.json.decode(data[head : body_end(data, at)], type=Stored).val.encode()
            )
            shares = msgspec.json.decode(sources or b"{}", type=dict[str, dict[str, str]])
        except ValueError as error:
            raise CounterBroken(str(error)) from error
        kept = msgspec.json.encode(shares, order="sorted") if shares else b""
        value = Value(int(entry.staged_last), number, kept)
        # Until the next group: a batch asks twice, and both answers must be equal.
        values.insert(place, value)
        return value

    def stage(self, subject: bytes, value: Value, seq: int) -> None:
        """Set the value of a subject, whose message is staged with this sequence."""
        value.stage(seq)
        self.staged.setdefault(subject, []).append(value)

    def committed(self) -> None:
        """Forget values that are on disk now."""
        if self.staged:
            last = int(self.log.index.last_seq)
            self._keep(lambda value: value.seq > last)

    def rewind(self, last: int) -> None:
        """Forget messages after this one, which are not staged any more."""
        self._keep(lambda value: value.seq <= last)

    def failed(self) -> None:
        """Forget everything that was staged."""
        self.staged = {}

    def _keep(self, is_kept: Callable[[Value], bool]) -> None:
        kept = {subject: list(filter(is_kept, values)) for subject, values in self.staged.items()}
        self.staged = {subject: values for subject, values in kept.items() if values}


def _sequence(value: Value) -> int:
    return value.seq


def is_integer(text: bytes) -> bool:
    """Return whether a text is an integer, with or without a sign."""
    digits = text[1:] if text.startswith((b"+", b"-")) else text
    return digits.isdigit()


def parse_integer(text: bytes) -> int:
    """Return an integer of any length; an empty text is 0, as nats-server reads it."""
    if not text:
        return 0
    if not is_integer(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    digits = text.lstrip(b"+-")
    number = 0
    first = len(digits) % CHUNK_DIGITS
    if first:
        number = int(digits[:first])
    for at in range(first, len(digits), CHUNK_DIGITS):
        number = number * CHUNK + int(digits[at : at + CHUNK_DIGITS])
    return -number if text.startswith(b"-") else number


def format_integer(number: int) -> bytes:
    """Return the digits of an integer of any length."""
    if number < 0:
        return b"-" + format_integer(-number)
    pieces: list[bytes] = []
    while number >= CHUNK:
        number, low = divmod(number, CHUNK)
        pieces.append((b"%d" % low).rjust(CHUNK_DIGITS, b"0"))
    pieces.append(b"%d" % number)
    pieces.reverse()
    return b"".join(pieces)
