"""The last message of each of many subjects, at one point in time (ADR-31, ``multi_last``).

Further pages are requested with ``up_to_seq``, so that all of them show the stream at the same
sequence. A request whose answer would be too large (413) is split: several filters into halves,
one wildcard into the subjects that match it. ADR-53 on servers without it: decisions.md,
Read-after-write.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from jetspark.api.base import Timestamp
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import STREAM_INFO, StreamInfoRequest
from jetspark.client.arguments import texts, whole
from jetspark.client.jetstream.direct_get import StreamReader, lagging, too_old
from jetspark.client.jetstream.last_by_consumer import LastByConsumer
from jetspark.client.jetstream.message_columns import COLUMNS, MessageColumns
from jetspark.client.jetstream.pages import Page
from jetspark.client.jetstream.scan import (
    Copies,
    check_filter,
    raise_failure,
    take,
)
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.stored_pages import to_chunk, to_messages
from jetspark.errors import (
    MessageNotFound,
    NotSupported,
    TooManyResults,
    status_error,
)
from jetspark.headers.status import (
    END_OF_BATCH,
    NO_RESPONDERS,
    NOT_FOUND,
    PRECONDITION_FAILED,
    TIMEOUT,
    TOO_LARGE,
)
from jetspark.subjects.tokens import is_literal

SPLIT_SUBJECTS: Final = 1000  # subjects of one request when a wildcard is split; 1024 is allowed
SPLIT_BYTES: Final = 256 * 1024  # of their text
RETRY_PAUSE: Final = 0.05


class LastMany:
    """Reads the last messages of subjects; one per ``get_last_many``."""

    def __init__(
        self,
        reader: StreamReader,
        *,
        up_to_seq: int,
        up_to_time: Timestamp | None,
        batch: int,
        max_bytes: int,
        min_last_seq: int,
        copies: Copies,
        timeout: float,
    ) -> None:
        self._reader = reader
        self._core = reader.api.core
        self._loop = self._core.loop
        self._up_to_seq = up_to_seq
        self._up_to_time = up_to_time
        self._batch = batch
        self._max_bytes = max_bytes
        self._proof = min_last_seq
        self._copies: Copies = copies
        self._timeout = timeout
        self._deadline = self._loop.time() + timeout
        # The stream has a single copy, which has reached the required sequence.
        self._one_copy_is_current = False

    async def pages(self, filters: Sequence[str]) -> AsyncGenerator[list[StreamMessage], None]:
        """Yield the messages, in order of sequence within one request."""
        async with aclosing(self.chunks(filters)) as chunks:
            async for chunk in chunks:
                yield to_messages(self._reader.stream, chunk)

    async def chunks(self, filters: Sequence[str]) -> AsyncGenerator[MessageColumns, None]:
        """Yield the messages as columns, for bulk readers."""
        filters = tuple(dict.fromkeys(filters))
        literals = all(is_literal(each.encode("utf-8", "surrogateescape")) for each in filters)
        # One request returns a subject once; the parts of a split one may have it in common.
        seen: set[str] | None = None if literals or len(filters) == 1 else set()
        async with aclosing(self._parts(filters)) as parts:
            async for chunk in parts:
                fresh = chunk if seen is None else without(chunk, seen)
                if fresh.sequences:
                    yield fresh

    async def one_answer(self, filters: Sequence[str]) -> list[StreamMessage] | None:
        """Everything in one answer, which is a consistent snapshot even without history.

        None if it does not fit into one, or if no answering copy can prove it.
        """
        if len(filters) > SPLIT_SUBJECTS or self._reader.direct_refused:
            return None
        self._deadline = self._loop.time() + self._timeout
        try:
            page = await self._answer(tuple(dict.fromkeys(filters)), 0)
        except (_NoDirect, _Unproven):
            return None
        if page.status == TOO_LARGE or (page.status == END_OF_BATCH and page.pending > 0):
            return None
        if page.status not in {END_OF_BATCH, NOT_FOUND}:
            raise self._refusal(page)
        return to_messages(self._reader.stream, take(page)) if page.sequences else []

    async def _answer(self, filters: tuple[str, ...], cursor: int) -> Page:
        """A page from a copy that is recent enough."""
        while True:
            page = await self._ask(filters, cursor)
            if page.status == NO_RESPONDERS:
                self._reader.refuse_direct()
                raise _NoDirect
            if page.status == PRECONDITION_FAILED and page.status_text == b"Min Last Sequence":
                await self._again()
            elif self._is_proven(page, cursor):
                return page
            elif not await self._can_trust_one_copy(page):
                raise _Unproven(cursor)

    async def _parts(self, filters: tuple[str, ...]) -> AsyncGenerator[MessageColumns, None]:
        waiting = [filters]
        if len(filters) > SPLIT_SUBJECTS:
            await self._fix_point()
            waiting = parts_of(filters)[::-1]
        while waiting:
            some = waiting.pop()
            if self._reader.direct_refused:
                async for messages in self._from_leader(some):
                    yield to_chunk(messages)
                continue
            try:
                async for chunk in self._follow(some):
                    yield chunk
            except TooManyResults:
                await self._fix_point()
                waiting.extend(reversed(await self._split(some)))
            except _NoDirect:
                waiting.append(some)
            except _Unproven as unproven:
                for messages in await self._from_consumer(some, unproven.first):
                    yield to_chunk(messages)

    async def _follow(self, filters: tuple[str, ...]) -> AsyncGenerator[MessageColumns, None]:
        """The pages of one request; the first one sets the point in time of all."""
        cursor = 0
        self._deadline = self._loop.time() + self._timeout
        while True:
            page = await self._answer(filters, cursor)
            if page.status == NOT_FOUND:
                return
            if page.status == TOO_LARGE:
                raise TooManyResults(TOO_LARGE, 0, "Too Many Results")
            if page.status != END_OF_BATCH:
                raise self._refusal(page)
            if page.up_to and not self._up_to_seq:
                self._up_to_seq, self._up_to_time = page.up_to, None
            more, cursor = page.pending > 0, page.last_seq + 1
            if page.sequences:
                yield take(page)
            if not more:
                return

    def _is_proven(self, page: Page, cursor: int) -> bool:
        """Whether a page comes from a copy that is recent enough."""
        if page.status not in {END_OF_BATCH, NOT_FOUND}:
            return True
        if page.proof:
            return page.proof >= self._proof
        if page.foreign and self._copies != "any":
            return False
        if not self._proof:
            return True
        if not cursor and page.up_to >= self._proof and not self._fixed_by_caller:
            return True  # without our bound this is the copy's last sequence
        # Later pages and bounded reads. A page without rows does not say which copy sent it.
        return self._one_copy_is_current and not page.foreign and bool(page.sequences)

    async def _can_trust_one_copy(self, page: Page) -> bool:
        """Wait for the only copy of the stream, so that its next answer is valid; once."""
        if self._one_copy_is_current or page.foreign or not page.sequences:
            return False
        info = await self._reader.api.call(
            f"STREAM.INFO.{self._reader.stream}",
            StreamInfoRequest(),
            STREAM_INFO,
            timeout=self._timeout,
        )
        if info.config.num_replicas > 1:
            return False
        await self._reader.wait_for_leader(self._proof, self._deadline)
        self._one_copy_is_current = True
        return True

    @property
    def _fixed_by_caller(self) -> bool:
        return bool(self._up_to_seq) or self._up_to_time is not None

    async def _again(self) -> None:
        """The copy refused because it lags: ask again while there is time."""
        if self._loop.time() + RETRY_PAUSE >= self._deadline:
            raise lagging(self._reader.stream, self._proof)
        await asyncio.sleep(RETRY_PAUSE)

    async def _ask(self, filters: tuple[str, ...], cursor: int) -> Page:
        request = MsgGetRequest(
            multi_last=filters,
            seq=cursor,
            up_to_seq=self._up_to_seq,
            up_to_time=self._up_to_time,
            batch=self._batch,
            max_bytes=self._max_bytes,
            min_last_seq=self._proof,
        )
        page, done = self._reader.request_page(request, self._timeout, COLUMNS)
        try:
            with self._reader.probe(self._proof, self._timeout) as probe:
                await done
        finally:
            self._core.drop_request(page)
        if probe.found_lagging and isinstance(page.error, TimeoutError):
            raise lagging(self._reader.stream, self._proof)
        silence = f"stream {self._reader.stream!r}: no reply to a multi_last get"
        raise_failure(page, silence, self._timeout)
        return page

    def _refusal(self, page: Page) -> Exception:
        text = page.status_text.decode("utf-8", "replace")
        if page.status == TIMEOUT and text == "Empty Request":
            # A server that does not support the field sees an empty request.
            return too_old(self._reader.api, "multi_last direct gets")
        return status_error(page.status, text)

    async def _fix_point(self) -> None:
        """Set the sequence that all parts of a split request show."""
        if self._fixed_by_caller:
            return
        info = await self._reader.api.call(
            f"STREAM.INFO.{self._reader.stream}",
            StreamInfoRequest(),
            STREAM_INFO,
            timeout=self._timeout,
        )
        self._up_to_seq = max(info.state.last_seq, self._proof)

    async def _split(self, filters: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Smaller requests that together cover the same."""
        if len(filters) > 1:
            middle = len(filters) // 2
            return [filters[:middle], filters[middle:]]
        return parts_of(await self._subjects(filters[0]))

    async def _subjects(self, pattern: str) -> list[str]:
        """All subjects of the stream that match a filter."""
        found: dict[str, int] = {}
        while True:
            request = StreamInfoRequest(subjects_filter=pattern, offset=len(found))
            info = await self._reader.api.call(
                f"STREAM.INFO.{self._reader.stream}", request, STREAM_INFO, timeout=self._timeout
            )
            page = info.state.subjects or {}
            found.update(page)
            total = info.total if isinstance(info.total, int) else 0
            if not page or len(found) >= total:
                return sorted(found)

    async def _from_consumer(
        self, filters: tuple[str, ...], first: int
    ) -> Iterable[list[StreamMessage]]:
        """Read what pages cannot prove; they were accepted up to the sequence before ``first``."""
        state = await self._reader.wait_for_leader(self._proof, self._deadline)
        bounded = self._fixed_by_caller
        if not bounded:
            self._up_to_seq = state.last_seq
        reader = LastByConsumer(
            self._reader,
            up_to_seq=self._up_to_seq,
            up_to_time=self._up_to_time,
            min_last_seq=self._proof,
            timeout=self._timeout,
        )
        found = await (reader.bounded(filters, first) if bounded else reader.newest(filters))
        return [found] if found else []

    async def _from_leader(
        self, filters: tuple[str, ...]
    ) -> AsyncGenerator[list[StreamMessage], None]:
        """Ask the leader for each subject: for streams without ``allow_direct``."""
        if self._fixed_by_caller:
            raise NotSupported(
                f"stream {self._reader.stream!r} does not answer direct gets, which a read at a "
                "point in time requires: enable allow_direct"
            )
        if self._proof:
            await self._reader.wait_for_leader(self._proof, self._deadline)
        seen: set[str] = set()
        for pattern in filters:
            literal = is_literal(pattern.encode("utf-8", "surrogateescape"))
            for subject in [pattern] if literal else await self._subjects(pattern):
                if subject in seen:
                    continue
                seen.add(subject)
                try:
                    yield [
                        await self._reader.get_from_leader(
                            MsgGetRequest(last_by_subj=subject), self._timeout
                        )
                    ]
                except MessageNotFound:
                    continue


class _NoDirect(Exception):
    """Direct gets of this stream have no responders."""


class _Unproven(Exception):
    """A page may come from a copy that lags; ``first`` is where it started, 0 for the first."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first


def without(chunk: MessageColumns, seen: set[str]) -> MessageColumns:
    """The rows whose subjects are not in ``seen``; adds all of them to it."""
    rows = [row for row, subject in enumerate(chunk.subjects) if subject not in seen]
    seen.update(chunk.subjects)
    if len(rows) == len(chunk):
        return chunk
    return chunk.picked(rows)


def parts_of(subjects: Sequence[str]) -> list[tuple[str, ...]]:
    """The subjects in parts that fit into one request."""
    parts: list[tuple[str, ...]] = []
    part: list[str] = []
    size = 0
    for subject in subjects:
        if part and (len(part) == SPLIT_SUBJECTS or size + len(subject) > SPLIT_BYTES):
            parts.append(tuple(part))
            part, size = [], 0
        part.append(subject)
        size += len(subject)
    if part:
        parts.append(tuple(part))
    return parts


def check_last_many(
    filters: Sequence[str], up_to_seq: int, up_to_time: object, batch: int, max_bytes: int
) -> tuple[str, ...]:
    """Refuse arguments that the server would answer with 408."""
    filters = texts(filters, "subjects")
    if not filters:
        raise ValueError("no subjects: give at least one; > matches all")
    whole(up_to_seq, "up_to_seq")
    whole(batch, "batch")
    whole(max_bytes, "max_bytes")
    if up_to_seq and up_to_time is not None:
        raise ValueError("up_to_seq and up_to_time are mutually exclusive: give one of them")
    for text in filters:
        check_filter(text)
    return tuple(filters)
