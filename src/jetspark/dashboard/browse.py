"""Reads the messages of a stream in pages, forwards and backwards, without a consumer.

Direct gets leave work queues as they are: looking at a message does not take it. There is no
request for "the messages before this one", so a page backwards is read from a range of sequences
that grows until it has enough of them. Every page has a budget of time and of bytes; if one is
used up, the page says where to continue.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.dashboard.deployment import TIMEOUT_S, Deployment
from jetspark.errors import MessageNotFound

ROWS_MAX: Final = 200
PAGE_BYTES: Final = 4 * 1024 * 1024
# Ranges of a search are read in pages of this many messages.
SEARCH_BATCH: Final = 250
# What a page reads of large messages; at least one of them.
BUDGET_BYTES: Final = 8 * 1024 * 1024
BUDGET_S: Final = 0.6


class Found(NamedTuple):
    """A page of messages; backwards, the newest are first.

    ``next`` is where the following page starts (0: there is none): its first sequence, or, for
    pages backwards, the sequence that it ends before. ``examined`` counts sequences, and
    ``is_complete`` is False if the time or the bytes were used up before the page was full.
    """

    messages: list[StreamMessage]
    next: int
    examined: int
    is_complete: bool


async def read_forwards(
    deployment: Deployment, stream: Stream, start: int, pattern: str, limit: int
) -> Found:
    """The messages from a sequence on."""
    async with deployment.pages:
        found, whole = await _read(deployment, stream, max(start, 1), 0, pattern, limit)
    more = len(found) == limit or not whole
    last = stream.cached_info.state.last_seq
    following = found[-1].seq + 1 if more and found[-1].seq < last else 0
    return Found(found, following, found[-1].seq - start + 1 if found else 0, is_complete=whole)


async def read_backwards(
    deployment: Deployment,
    stream: Stream,
    before: int,
    pattern: str,
    limit: int,
    wanted: Callable[[StreamMessage], bool] | None = None,
    after: int = 0,
) -> Found:
    """The last messages before a sequence that ``wanted`` accepts, the newest first.

    Those up to the sequence ``after`` are not looked at.
    """
    state = stream.cached_info.state
    first = max(state.first_seq, after + 1)
    end = min(before or state.last_seq + 1, state.last_seq + 1)
    top = end
    if pattern and not before:
        # The server knows where the last one is: a rare subject needs no search.
        try:
            last = await deployment.run(stream.get_msg(last_by_subject=pattern))
            end = min(end, last.seq + 1)
        except MessageNotFound:
            return Found([], 0, top - first, is_complete=True)
    width = SEARCH_BATCH if wanted is not None else limit
    most = max(limit * 8, SEARCH_BATCH)
    found: list[StreamMessage] = []
    async with deployment.pages:
        deadline, unused = time.monotonic() + BUDGET_S, BUDGET_BYTES
        while len(found) < limit and end > first:
            start = max(first, end - width)
            some, whole = await _read(deployment, stream, start, end, pattern, most)
            if (not whole or len(some) == most) and some[-1].seq < end - 1 and width > 1:
                # More than expected: the newest of them are needed, so the range must be shorter.
                width = max(width // 8, 1)
                continue
            unused -= sum(len(each.data) for each in some)
            if wanted is not None:
                some = [each for each in some if wanted(each)]
                width = min(width * 2, SEARCH_BATCH)
            elif len(some) * 4 < limit:
                width *= 4
            found += reversed(some)
            end = start
            if time.monotonic() > deadline or unused < 0:
                break
    cut = len(found) > limit
    found = found[:limit]
    following = found[-1].seq if cut or len(found) == limit else (end if end > first else 0)
    if following <= first:
        following = 0
    return Found(
        found, following, top - (following or first), len(found) == limit or not following
    )


async def _read(
    deployment: Deployment, stream: Stream, start: int, end: int, pattern: str, most: int
) -> tuple[list[StreamMessage], bool]:
    """The first messages of a range (``end`` 0: of all); False if they have too many bytes."""
    batch = max(1, min(end - start, most)) if end else most
    pages = stream.get_batch(
        seq=start,
        next_by_subject=pattern,
        limit=most,
        batch=batch,
        max_bytes=PAGE_BYTES,
        timeout=TIMEOUT_S,
    )
    found: list[StreamMessage] = []
    size = 0
    try:
        while len(found) < most:
            chunk = await deployment.run(pages.next_chunk(most - len(found)))
            inside = [each for each in chunk if not end or each.seq < end]
            found += inside
            if not chunk or len(inside) < len(chunk) or (end and found[-1].seq >= end - 1):
                break
            size += sum(len(each.data) for each in chunk)
            if size >= BUDGET_BYTES:
                return found, False
        return found, True
    finally:
        await pages.aclose()
