"""The streams of an account, page by page."""

from collections.abc import AsyncGenerator

from jetspark.api.stream import (
    STREAM_LIST,
    STREAM_NAMES,
    StreamInfo,
    StreamListRequest,
    StreamNamesRequest,
)
from jetspark.client.jetstream.api import ApiClient


async def stream_pages(
    api: ApiClient, subject: str, timeout: float | None
) -> AsyncGenerator[tuple[StreamInfo, ...], None]:
    """All streams, or those whose subjects collide with ``subject``."""
    offset = 0
    while True:
        request = StreamListRequest(offset=offset, subject=subject)
        page = await api.call("STREAM.LIST", request, STREAM_LIST, timeout=timeout)
        streams = page.streams or ()
        offset += len(streams)
        yield streams
        if not streams or offset >= page.total:
            return


async def stream_name_pages(
    api: ApiClient, subject: str, timeout: float | None
) -> AsyncGenerator[tuple[str, ...], None]:
    """The names of all streams, or of those that collide with ``subject``."""
    offset = 0
    while True:
        request = StreamNamesRequest(offset=offset, subject=subject)
        page = await api.call("STREAM.NAMES", request, STREAM_NAMES, timeout=timeout)
        names = page.streams or ()
        offset += len(names)
        yield names
        if not names or offset >= page.total:
            return
