"""Counts the messages of a stream from given sequences: one probe each.

The ``Nats-Num-Pending`` of a batch get of one message is the number of matches after it (ADR-31),
which splits a filtered stream or one with gaps into parts of equal size.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from jetspark.api.message import MsgGetRequest
from jetspark.client.jetstream.direct_get import StreamReader, lagging
from jetspark.client.jetstream.pages import Page
from jetspark.errors import (
    MessageNotFound,
    NoResponders,
    ProtocolViolation,
    RequestTimeout,
    status_error,
)
from jetspark.headers.status import END_OF_BATCH, NO_RESPONDERS, NOT_FOUND, PRECONDITION_FAILED

IN_FLIGHT: Final = 16  # concurrent probes; each may cost the server time to count
RETRY_PAUSE: Final = 0.05


class Counted(msgspec.Struct, frozen=True):
    """One result of ``count_from``."""

    first: int
    """The sequence of the first match; 0 if no message matches."""
    count: int
    """The number of matches from the given sequence to the end of the stream."""
    proven: bool
    """Whether the answering copy proved that it has reached the required sequence (ADR-53)."""


async def count_from(
    reader: StreamReader,
    sequences: Sequence[int],
    *,
    subject: str,
    min_last_seq: int,
    timeout: float,
) -> list[Counted]:
    """Count the messages of ``subject`` (empty: all) from each of ``sequences``.

    Answers of mirrors are ignored. Without proof an answer may come from a copy that lags: good
    enough to split work, not to decide what is complete. With ``min_last_seq`` a count of zero is
    proven, or confirmed by the leader. Raises NoResponders if direct gets of the stream have no
    responders.
    """
    if not reader.allow_direct:
        raise NoResponders(reader.api.subject(f"DIRECT.GET.{reader.stream}").decode())
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(seq: int) -> Counted:
        async with limit:
            return await _probe(reader, seq, subject, min_last_seq, timeout)

    return await asyncio.gather(*(one(seq) for seq in sequences))


async def _probe(
    reader: StreamReader, seq: int, subject: str, min_last_seq: int, timeout: float
) -> Counted:
    deadline = reader.api.core.loop.time() + timeout
    while True:
        page = await _ask(reader, seq, subject, min_last_seq, timeout)
        proven = bool(page.proof) and page.proof >= min_last_seq
        again = page.status == PRECONDITION_FAILED and page.status_text == b"Min Last Sequence"
        again = again or (page.foreign and not page.proof)
        if page.status == NOT_FOUND and min_last_seq and not proven:
            again = await _exists_at_leader(reader, seq, subject, timeout)
        if again:
            if reader.api.core.loop.time() + RETRY_PAUSE >= deadline:
                raise lagging(reader.stream, min_last_seq)
            await asyncio.sleep(RETRY_PAUSE)
            continue
        if page.status == NOT_FOUND:
            return Counted(0, 0, proven)
        if page.status != END_OF_BATCH:
            raise status_error(page.status, page.status_text.decode("utf-8", "replace"))
        return Counted(page.last_seq, page.pending + len(page.sequences), proven)


async def _exists_at_leader(reader: StreamReader, seq: int, subject: str, timeout: float) -> bool:
    """Ask the leader whether a message from ``seq`` exists."""
    try:
        await reader.get_from_leader(MsgGetRequest(seq=seq, next_by_subj=subject or ">"), timeout)
    except MessageNotFound:
        return False
    return True


async def _ask(
    reader: StreamReader, seq: int, subject: str, min_last_seq: int, timeout: float
) -> Page:
    request = MsgGetRequest(seq=seq, next_by_subj=subject, batch=1, min_last_seq=min_last_seq)
    page, done = reader.request_page(request, timeout, ())
    try:
        await done
    finally:
        reader.api.core.drop_request(page)
    if isinstance(page.error, TimeoutError):
        raise RequestTimeout(f"stream {reader.stream!r}: no reply to a probe within {timeout} s")
    if isinstance(page.error, ValueError):
        raise ProtocolViolation(str(page.error)) from page.error
    if page.error is not None:
        raise page.error
    if page.status == NO_RESPONDERS:
        reader.refuse_direct()
    return page
