"""Sourced counters: a stream adds up the counters of its origins.

Each message of the sum has the values of every origin in ``Nats-Counter-Sources``, by name and
subject. A message of an origin adds the difference to that, so that missed messages (a later
start, one message per subject) are included.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jetspark.engine.replicate.origin import Row
from jetspark.engine.stream.counters import Counters, Stored, Value, format_integer, parse_integer
from jetspark.headers.block import append_lines, find_value
from jetspark.headers.names import COUNTER_SOURCES, INCR

_shares = msgspec.json.Decoder(dict[str, dict[str, str]])


class Counted(NamedTuple):
    """A message of a sum: its value, and how it is stored."""

    value: Value
    block: bytes
    body: bytes


def counted(
    counters: Counters, origin: bytes, row: Row, block: bytes, subject: bytes
) -> Counted | None:
    """Return what a message of an origin becomes; None for one that counts nothing.

    ``block`` are the headers to store, ``subject`` is where. Raises CounterBroken if the last
    message there is not a counter.
    """
    _, _, origin_subject, headers, body, _ = row
    if find_value(headers, INCR) is None:
        return None
    try:
        stands_at = parse_integer(msgspec.json.decode(body, type=Stored).val.encode())
    except ValueError:
        return None
    before = counters.current(subject)
    shares = _shares.decode(before.sources) if before.sources else {}
    share = shares.setdefault(origin.decode(), {})
    source = origin_subject.decode(errors="surrogateescape")
    added = stands_at - parse_integer(share.get(source, "").encode())
    share[source] = format_integer(stands_at).decode()
    sources = msgspec.json.encode(shares, order="sorted")
    value = Value(0, before.number + added, sources)
    block = with_header(block, INCR, format_integer(added))
    block = with_header(block, COUNTER_SOURCES, sources)
    return Counted(value, block, b'{"val":"%b"}\r\n' % format_integer(value.number))


def with_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """Return headers with a value replaced, or added at the end."""
    start = block.find(b"\r\n%b:" % name)
    line = b"%b: %b\r\n" % (name, value)
    if start < 0:
        return append_lines(block, line)
    start += 2
    return block[:start] + line + block[block.index(b"\r\n", start) + 2 :]
