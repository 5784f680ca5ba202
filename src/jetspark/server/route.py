"""Who gets messages of one subject, resolved once."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.target import Target
from jetspark.server.receiver import Subscription
from jetspark.subjects.sublist import Match

_BLANK: Final[i64] = 0x20
_CR: Final[i64] = 0x0D
_ZERO: Final[i64] = 0x30
_NINE: Final[i64] = 0x39


class Route:
    """Who gets messages of one subject. ``heads`` are ready for plain and for header messages."""

    def __init__(
        self, subject: bytes, match: Match, target: Target | None, generation: i64, cached: bool
    ) -> None:
        self.target: Target | None = target
        self.generation: i64 = generation
        self.subscribers: list[Subscription] = []
        self.groups: list[list[Subscription]] = []
        self.heads: list[bytes] = []
        self.header_heads: list[bytes] = []
        for value in match.plain:
            assert isinstance(value, Subscription)
            self.subscribers.append(value)
            if cached:  # a route shared by many subjects has no heads of its own
                self.heads.append(b"MSG %b %b " % (subject, value.sid))
                self.header_heads.append(b"HMSG %b %b " % (subject, value.sid))
        for members in match.groups:
            group: list[Subscription] = []
            for member in members:
                assert isinstance(member, Subscription)
                group.append(member)
            self.groups.append(group)
        self.cached: bool = cached
        # The result that all subjects of a stream have which nobody else wants.
        self.shared: Match | None = None

    def is_empty(self) -> bool:
        """Say whether no client listens."""
        return not self.subscribers and not self.groups


def is_compact(data: bytes, se: i64, rs: i64, re: i64, hs: i64, ps: i64) -> bool:
    """Say whether the arguments of a publish stand with single blanks between them, up to CRLF."""
    i = se + 1
    if re > rs:
        if rs != i or data[re] != _BLANK:
            return False
        i = re + 1
    end = hs - 2
    blanks: i64 = 0
    while i < end:
        char: i64 = data[i]
        if char == _BLANK:
            blanks += 1
        elif char < _ZERO or char > _NINE:
            return False
        i += 1
    return data[end] == _CR and blanks == (1 if ps > hs else 0)
