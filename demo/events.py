"""The events of the demo: orders and clicks of a shop, some invalid, some duplicated.

Every event is a function of its number, so that the expected result is known without storing it.
"""

from typing import Final

import msgspec

REGIONS: Final = ("north", "east", "south", "west", "centre", "coast", "hills", "islands")
ALERT_CENTS: Final = 200_000
BROKEN_EVERY: Final = 97
COPY_EVERY: Final = 53
# A duplicate follows within this many events: a sender that got no answer and tried again.
COPY_WITHIN: Final = 500

_MIX: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event as published."""

    id: int
    kind: str
    region: str
    customer: int
    cents: int


def message(number: int) -> tuple[str, bytes]:
    """Return subject and payload of message ``number``, counted from 0."""
    if number % BROKEN_EVERY == BROKEN_EVERY - 1:
        subject, payload = _whole(number)
        return subject, payload[: len(payload) // 2]
    if number % COPY_EVERY == COPY_EVERY - 1 and number > COPY_WITHIN:
        return _whole(_copied(number))
    return _whole(number)


def messages(first: int, end: int) -> tuple[list[str], list[bytes]]:
    """Return a run of messages as columns."""
    pairs = [message(number) for number in range(first, end)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _copied(number: int) -> int:
    """Return an earlier number that is neither invalid nor a duplicate."""
    earlier = number - 1 - _random(number) % (COPY_WITHIN - 3)
    while earlier % BROKEN_EVERY == BROKEN_EVERY - 1 or earlier % COPY_EVERY == COPY_EVERY - 1:
        earlier -= 1
    return earlier


def _whole(number: int) -> tuple[str, bytes]:
    luck = _random(number)
    region = REGIONS[luck & 7]
    customer = (luck >> 8) % 50_000
    if (luck >> 3) % 5 == 0:
        # Few large orders: about one in a hundred is worth an alert.
        cents = 500 + (luck >> 24) % 20_000
        if (luck >> 40) % 100 == 0:
            cents = ALERT_CENTS + (luck >> 48) % 300_000
        kind = "order"
    else:
        kind, cents = "click", 0
    payload = b'{"id":%d,"kind":"%s","region":"%s","customer":%d,"cents":%d,"page":"/item/%d"}' % (
        number,
        kind.encode(),
        region.encode(),
        customer,
        cents,
        luck >> 52,
    )
    return f"shop.{kind}.{region}", payload


def _random(number: int) -> int:
    """Mix a number into 64 bits, deterministically."""
    mixed = (number + 1) * _MIX & _MASK
    mixed = (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9 & _MASK
    return mixed ^ mixed >> 29
