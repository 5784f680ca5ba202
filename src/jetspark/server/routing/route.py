"""Routes: the receivers of one subject, resolved once."""

from typing import Final, cast

from mypy_extensions import i64

from jetspark.engine.target import Target
from jetspark.frame import Frame
from jetspark.server.routing.receiver import Subscription
from jetspark.subjects.sublist import Match

_BLANK: Final[i64] = 0x20
_CR: Final[i64] = 0x0D
_ZERO: Final[i64] = 0x30
_NINE: Final[i64] = 0x39


# A message for more receivers than this is counted as work (turn.py); for one with more than this
# many bytes every receiver is.
NARROW_MAX: Final[i64] = 16
LARGE: Final[i64] = 64 * 1024
LARGE_OUTPUT: Final[i64] = 16 * 1024
# With more subscribers than this no heads are prepared: they would cost more than they save when
# subscriptions change between messages.
HEADS_MAX: Final[i64] = 1024


class Route:
    """The receivers of one subject. ``heads`` are prepared for plain and for header messages."""

    def __init__(
        self,
        subject: bytes,
        match: Match,
        target: Target | None,
        generation: i64,
        cached: bool,
        shared: bool = False,
    ) -> None:
        self.subject: bytes = subject
        self.target: Target | None = target
        self.generation: i64 = generation
        # The lists of a result never change: they need not be copied.
        self.subscribers: list[Subscription] = cast("list[Subscription]", match.plain)
        self.groups: list[list[Subscription]] = cast("list[list[Subscription]]", match.groups)
        self.heads: list[bytes] = []
        self.header_heads: list[bytes] = []
        self.receivers: i64 = len(self.subscribers) + len(self.groups)
        self.wide: bool = self.receivers > NARROW_MAX
        # A route shared by many subjects, or used once, has no heads.
        self.cached: bool = cached and len(self.subscribers) <= HEADS_MAX
        if self.cached:
            for value in self.subscribers:
                self.heads.append(b"MSG %b %b " % (subject, value.sid))
                self.header_heads.append(b"HMSG %b %b " % (subject, value.sid))
        # Its result is that of all subjects of a stream without other receivers. The result has
        # the route and not the reverse: one that is replaced is freed without a collection.
        self.shared: bool = shared

    def is_empty(self) -> bool:
        """Return whether there is no subscriber."""
        return not self.subscribers and not self.groups

    def units(self, size: i64) -> i64:
        """Return the cost of delivering a message of this size to all (turn.py)."""
        return self.receivers * units_of(size)


def route_of(match: Match) -> Route:
    """Return the route that a result was given."""
    found = match.route
    assert isinstance(found, Route), "it was given one"
    return found


def units_of(size: i64) -> i64:
    """Return the cost of delivering a message of this size to one receiver.

    Large output passes through uncached memory several times until the socket has it, which is
    some thirty times as slow as copying what the caches hold.
    """
    return 1 + (size >> 10) if size < LARGE_OUTPUT else size >> 7


def is_compact(frame: Frame) -> bool:
    """Return whether the arguments of a publish are separated by single blanks, up to CRLF."""
    data = frame.data
    i = frame.se + 1
    if frame.re > frame.rs:
        if frame.rs != i or data[frame.re] != _BLANK:
            return False
        i = frame.re + 1
    end = frame.hs - 2
    blanks: i64 = 0
    while i < end:
        char: i64 = data[i]
        if char == _BLANK:
            blanks += 1
        elif char < _ZERO or char > _NINE:
            return False
        i += 1
    return data[end] == _CR and blanks == (1 if frame.ps > frame.hs else 0)
