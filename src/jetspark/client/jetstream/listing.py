"""Streams of an account and consumers of a stream, page by page."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from jetspark.api.consumer import (
    CONSUMER_LIST,
    CONSUMER_NAMES,
    ConsumerInfo,
    ConsumersRequest,
)
from jetspark.api.stream import (
    STREAM_LIST,
    STREAM_NAMES,
    StreamConfig,
    StreamInfo,
    StreamListRequest,
    StreamNamesRequest,
)
from jetspark.client.arguments import text
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.models.base import Model, from_wire
from jetspark.client.timeouts import Timeout

T = TypeVar("T")
M = TypeVar("M", bound=Model[Any])

# Requests the page at an offset; also returns the total.
AskPage = Callable[[int], Awaitable[tuple[tuple[T, ...] | None, int]]]


async def pages(ask: AskPage[T]) -> AsyncGenerator[tuple[T, ...], None]:
    """Request page after page until the total is reached."""
    offset = 0
    while True:
        found, total = await ask(offset)
        offset += len(found or ())
        yield found or ()
        if not found or offset >= total:
            return


async def models(
    kind: type[M], structs: AsyncGenerator[tuple[Any, ...], None]
) -> AsyncGenerator[list[M], None]:
    """The same pages with public models."""
    async with aclosing(structs):
        async for page in structs:
            yield [from_wire(kind, struct) for struct in page]


def stream_pages(
    api: ApiClient, subject: str, timeout: Timeout | None
) -> AsyncGenerator[tuple[StreamInfo, ...], None]:
    """All streams, or those whose subjects overlap ``subject``."""
    text(subject, "subject")

    async def ask(offset: int) -> tuple[tuple[StreamInfo, ...] | None, int]:
        request = StreamListRequest(offset=offset, subject=subject)
        page = await api.call("STREAM.LIST", request, STREAM_LIST, timeout=timeout)
        return page.streams, page.total

    return pages(ask)


async def bucket_pages(
    api: ApiClient, is_bucket: Callable[[StreamConfig], bool], timeout: Timeout | None
) -> AsyncGenerator[list[StreamInfo], None]:
    """The streams that are buckets of one kind.

    Lists all streams: a list by subject would leave out mirrors, which have none.
    """
    async with aclosing(stream_pages(api, "", timeout)) as found:
        async for page in found:
            yield [info for info in page if is_bucket(info.config)]


def stream_name_pages(
    api: ApiClient, subject: str, timeout: Timeout | None
) -> AsyncGenerator[tuple[str, ...], None]:
    """The names of all streams, or of those that overlap ``subject``."""
    text(subject, "subject")

    async def ask(offset: int) -> tuple[tuple[str, ...] | None, int]:
        request = StreamNamesRequest(offset=offset, subject=subject)
        page = await api.call("STREAM.NAMES", request, STREAM_NAMES, timeout=timeout)
        return page.streams, page.total

    return pages(ask)


def consumer_pages(
    api: ApiClient, stream: str, timeout: Timeout | None
) -> AsyncGenerator[tuple[ConsumerInfo, ...], None]:
    """All consumers of a stream."""
    verb = f"CONSUMER.LIST.{stream}"

    async def ask(offset: int) -> tuple[tuple[ConsumerInfo, ...] | None, int]:
        page = await api.call(
            verb, ConsumersRequest(offset=offset), CONSUMER_LIST, timeout=timeout
        )
        return page.consumers, page.total

    return pages(ask)


def consumer_name_pages(
    api: ApiClient, stream: str, timeout: Timeout | None
) -> AsyncGenerator[tuple[str, ...], None]:
    """The names of all consumers of a stream."""
    verb = f"CONSUMER.NAMES.{stream}"

    async def ask(offset: int) -> tuple[tuple[str, ...] | None, int]:
        page = await api.call(
            verb, ConsumersRequest(offset=offset), CONSUMER_NAMES, timeout=timeout
        )
        return page.consumers, page.total

    return pages(ask)
