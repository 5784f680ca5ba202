"""Changing and listing object stores."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from jetspark.api.stream import STREAM_UPDATE, StreamInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.kv.config import check_bucket
from jetspark.client.jetstream.listing import bucket_pages
from jetspark.client.jetstream.objects.config import (
    STREAM_PREFIX,
    ObjectStoreConfig,
    ObjectStoreOptions,
    changed_stream,
    from_stream_config,
    is_object_store,
    store_config,
)
from jetspark.client.jetstream.objects.info import ObjectStoreStatus
from jetspark.client.jetstream.objects.source import stream_info
from jetspark.client.jetstream.objects.store import store_status
from jetspark.client.timeouts import Timeout


async def update_store(
    api: ApiClient,
    config: ObjectStoreConfig | str,
    options: ObjectStoreOptions,
    timeout: Timeout | None,
) -> StreamInfo:
    """Change the stream of a store: the given ``options``, or to a whole configuration."""
    bucket = config if isinstance(config, str) else store_config(config, options).bucket
    found = await stream_info(api, check_bucket(bucket), timeout)
    given = from_stream_config(found.config) if isinstance(config, str) else config
    stream = changed_stream(found.config, store_config(given, options))
    return await api.call(f"STREAM.UPDATE.{stream.name}", stream, STREAM_UPDATE, timeout=timeout)


async def store_pages(
    api: ApiClient, timeout: Timeout | None
) -> AsyncGenerator[list[ObjectStoreStatus], None]:
    """All object stores."""
    async with aclosing(bucket_pages(api, is_object_store, timeout)) as pages:
        async for page in pages:
            yield [store_status(info) for info in page]


async def store_name_pages(
    api: ApiClient, timeout: Timeout | None
) -> AsyncGenerator[list[str], None]:
    """The names of all object stores."""
    async with aclosing(bucket_pages(api, is_object_store, timeout)) as pages:
        async for page in pages:
            yield [info.config.name.removeprefix(STREAM_PREFIX) for info in page]
