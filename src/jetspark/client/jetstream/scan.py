"""Bulk reading: a range of a stream as columns, page by page, each page verified.

A copy that lags (a follower, a mirror) ends a batch with an ordinary 204, and a filtered mirror
answers 404 for messages that exist. A range is complete when a row at or after its end arrived,
when the reply proves that the copy has reached the end (``Nats-Min-Last-Sequence``, our server),
or when the leader reports that nothing is left of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import Enum
from typing import Final, Literal

from jetspark.api.base import Timestamp
from jetspark.api.message import MsgGetRequest
from jetspark.client.arguments import texts, whole
from jetspark.client.frames import encode_subject
from jetspark.client.jetstream.direct_get import NO_END, StreamReader, lagging, too_old
from jetspark.client.jetstream.message_columns import COLUMNS, MessageColumns
from jetspark.client.jetstream.pages import Page
from jetspark.client.pauses import Pauses
from jetspark.errors import (
    BadSubject,
    MessageNotFound,
    ProtocolViolation,
    RequestTimeout,
    status_error,
)
from jetspark.headers.status import END_OF_BATCH, NO_RESPONDERS, NOT_FOUND, PRECONDITION_FAILED
from jetspark.subjects.match import overlaps
from jetspark.subjects.tokens import is_valid_subject

BATCH_SIZE: Final = 5000  # messages of one page
BATCH_BYTES: Final = 8 * 1024 * 1024  # of one page
RETRY_PAUSE_FIRST: Final = 0.02  # seconds before a copy that lags is asked again, doubling
RETRY_PAUSE_MAX: Final = 0.5
LEADER_CHUNK: Final = 256  # rows per chunk when reading one by one from the leader

Copies = Literal["stream", "any"]


class Verdict(Enum):
    """What a finished page means for its range."""

    COMPLETE = "the range has been read"
    MORE = "take the rows and ask for the next page"
    ASK_LEADER = "take the rows; the leader knows whether any are left"
    NOT_OURS = "rows of another stream: discard them and ask again"
    HELD_BACK = "the copy has not reached the range's end: ask again"
    NO_DIRECT = "direct gets of this stream have no responders"
    REFUSED = "the status has the reason"


def judge(page: Page, *, last: int, proof: int, copies: Copies) -> Verdict:
    """Decide about a page of a range that ends at ``last`` and must reach ``proof``."""
    if page.status == NO_RESPONDERS:
        return Verdict.NO_DIRECT
    if page.status == PRECONDITION_FAILED and page.status_text == b"Min Last Sequence":
        return Verdict.HELD_BACK
    if page.status not in {END_OF_BATCH, NOT_FOUND}:
        return Verdict.REFUSED
    proven = page.proof >= proof
    if page.foreign and copies != "any" and not (proven and page.proof):
        return Verdict.NOT_OURS
    if page.past or page.last_seq >= last:
        return Verdict.COMPLETE
    if page.status == END_OF_BATCH and page.pending > 0 and page.last_seq:
        return Verdict.MORE
    return Verdict.COMPLETE if proven or page.last_seq >= proof else Verdict.ASK_LEADER


class RangeReader:
    """Reads one range with one filter; one per ``scan`` and ``get_batch``."""

    def __init__(
        self,
        reader: StreamReader,
        *,
        subject: str,
        last: int,
        proof: int,
        columns: Sequence[str],
        batch: int,
        max_bytes: int,
        copies: Copies,
        timeout: float,
        limit: int = 0,
    ) -> None:
        self._reader = reader
        self._core = reader.api.core
        self._loop = self._core.loop
        self._subject = subject
        self._last = last
        self._proof = proof
        self._columns = columns
        self._batch = batch
        self._max_bytes = max_bytes
        self._copies: Copies = copies
        self._timeout = timeout
        # Rows that may still be returned; no more are requested.
        self._left = limit or NO_END
        self._pauses = Pauses(RETRY_PAUSE_FIRST, RETRY_PAUSE_MAX)
        self._stuck_at = 0
        self._stuck_until = 0.0
        self._pages: list[tuple[Page, asyncio.Future[None]]] = []

    async def chunks(
        self, first: int, start_time: Timestamp | None = None
    ) -> AsyncGenerator[MessageColumns, None]:
        """Yield the rows from ``first`` or ``start_time``; the next page is prefetched."""
        if self._reader.direct_refused:
            async with aclosing(self._walk_leader(first, start_time)) as walk:
                async for chunk in walk:
                    yield chunk
            return
        try:
            page = self._ask(first, start_time)
            while True:
                await self._finished(page)
                verdict = self._judge(page)
                at = max(first, page.last_seq + 1)
                if verdict is Verdict.NO_DIRECT:
                    self._reader.refuse_direct()
                    async with aclosing(self._walk_leader(first, start_time)) as walk:
                        async for chunk in walk:
                            yield chunk
                    return
                if verdict in {Verdict.NOT_OURS, Verdict.HELD_BACK}:
                    await self._back_off(first)
                    page = self._ask(first, start_time)
                    continue
                chunk = take(page)
                self._left -= len(chunk)
                if self._left <= 0:
                    verdict = Verdict.COMPLETE
                if verdict is Verdict.ASK_LEADER:
                    left = await self._left_at_leader(at)
                    if left is not None:
                        await self._back_off(left)
                        at, verdict = left, Verdict.MORE
                if verdict is Verdict.MORE:
                    first, start_time = at, None
                    page = self._ask(first, None)
                if chunk.sequences:
                    yield chunk
                if verdict is not Verdict.MORE:
                    return
        finally:
            for unfinished, _ in self._pages:
                self._core.drop_request(unfinished)

    def _judge(self, page: Page) -> Verdict:
        verdict = judge(page, last=self._last, proof=self._proof, copies=self._copies)
        if verdict is Verdict.REFUSED:
            raise status_error(page.status, page.status_text.decode("utf-8", "replace"))
        return verdict

    def _ask(self, first: int, start_time: Timestamp | None) -> Page:
        """Request one page; replies arrive while the caller does something else."""
        request = MsgGetRequest(
            seq=0 if start_time is not None else first,
            start_time=start_time,
            next_by_subj=self._subject,
            batch=min(self._batch, self._last - first + 1, self._left),
            max_bytes=self._max_bytes,
            min_last_seq=self._proof,
        )
        page, done = self._reader.request_page(request, self._timeout, self._columns, self._last)
        self._pages.append((page, done))
        return page

    async def _finished(self, page: Page) -> None:
        waiting, done = self._pages[-1]
        assert waiting is page
        with self._reader.probe(self._proof, self._timeout) as probe:
            await done
        self._pages.pop()
        self._core.drop_request(page)
        if probe.found_lagging and isinstance(page.error, TimeoutError):
            raise lagging(self._reader.stream, self._proof)
        raise_failure(
            page, f"stream {self._reader.stream!r}: no reply to a batch get", self._timeout
        )
        if page.unbatched:
            raise too_old(self._reader.api, "batched direct gets")

    async def _left_at_leader(self, at: int) -> int | None:
        """The first sequence of the range that the leader has from ``at``, or None."""
        deadline = self._loop.time() + self._timeout
        await self._reader.wait_for_leader(self._proof, deadline)
        try:
            found = await self._reader.get_from_leader(
                MsgGetRequest(seq=at, next_by_subj=self._subject or ">"), self._timeout
            )
        except MessageNotFound:
            return None
        # Up to ``proof`` the caller was promised everything; later messages may be missing.
        return found.seq if found.seq <= min(self._last, self._proof) else None

    async def _back_off(self, at: int) -> None:
        """Give a copy that lags time to catch up, up to the timeout per position."""
        now = self._loop.time()
        if at != self._stuck_at:
            self._stuck_at, self._stuck_until = at, now + self._timeout
            self._pauses.reset()
        if now >= self._stuck_until:
            raise lagging(self._reader.stream, self._proof)
        # The first time at once: another copy may answer.
        await asyncio.sleep(self._pauses.take())

    async def _walk_leader(
        self, first: int, start_time: Timestamp | None
    ) -> AsyncGenerator[MessageColumns, None]:
        """Read message by message from the leader: for streams without ``allow_direct``."""
        deadline = self._loop.time() + self._timeout
        if self._proof:
            await self._reader.wait_for_leader(self._proof, deadline)
        request = MsgGetRequest(
            seq=0 if start_time is not None else first,
            start_time=start_time,
            next_by_subj=self._subject or ("" if start_time is not None else ">"),
        )
        chunk = MessageColumns.empty()
        while True:
            try:
                found = await self._reader.get_from_leader(request, self._timeout)
            except MessageNotFound:
                break
            if found.seq > self._last:
                break
            chunk.append_wanted(found, self._columns)
            self._left -= 1
            if len(chunk) == LEADER_CHUNK:
                yield chunk
                chunk = MessageColumns.empty()
            if found.seq == self._last or not self._left:
                break
            request = MsgGetRequest(seq=found.seq + 1, next_by_subj=self._subject or ">")
        if chunk.sequences:
            yield chunk


def raise_failure(page: Page, silence: str, seconds: float) -> None:
    """Raise the error of a failed page; ``silence`` describes a missing reply."""
    if isinstance(page.error, TimeoutError):
        raise RequestTimeout(f"{silence} within {seconds} s")
    if isinstance(page.error, ValueError):
        raise ProtocolViolation(str(page.error)) from page.error
    if page.error is not None:
        raise page.error


def take(page: Page) -> MessageColumns:
    """The rows of a page, which must not be used afterwards."""
    return MessageColumns(page.sequences, page.times, page.subjects, page.payloads, page.headers)


def check_filter(text: str) -> bytes:
    """Refuse an invalid subject filter: nothing would ever match it."""
    subject = encode_subject(text)
    if not is_valid_subject(subject):
        raise BadSubject(text, "expected a subject; * and > are wildcards for whole tokens")
    return subject


def check_copies(copies: str | None) -> None:
    """Refuse an unknown value."""
    if copies not in {None, "stream", "any"}:
        raise ValueError(f"copies={copies!r}: expected 'stream' or 'any'")


def check_filters(filters: Sequence[str], name: str = "filters") -> tuple[str, ...]:
    """Refuse invalid filters and overlapping ones, whose rows would be duplicated."""
    filters = texts(filters, name)
    encoded = [check_filter(text) for text in filters]
    for index, one in enumerate(encoded):
        for other in range(index + 1, len(encoded)):
            if overlaps(one, encoded[other]):
                raise ValueError(
                    f"filters {filters[index]!r} and {filters[other]!r} overlap: "
                    "their common messages would be duplicated"
                )
    return tuple(filters)


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Refuse unknown column names."""
    columns = texts(columns, "columns")
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ValueError(f"unknown columns {unknown}: expected some of {', '.join(COLUMNS)}")
    return tuple(columns)


def check_page(batch: int, max_bytes: int) -> None:
    """Refuse page sizes below 1."""
    whole(batch, "batch", least=1)
    whole(max_bytes, "max_bytes", least=1)


def check_start(seq: int, start_time: object, limit: int, min_last_seq: int) -> None:
    """Refuse two starting points, and invalid numbers."""
    if seq and start_time is not None:
        raise ValueError("seq and start_time are mutually exclusive: both set the start")
    whole(seq, "seq")
    whole(limit, "limit")
    whole(min_last_seq, "min_last_seq")
