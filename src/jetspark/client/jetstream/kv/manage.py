"""Creating and opening buckets."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from jetspark.api.account import ACCOUNT_INFO
from jetspark.api.stream import (
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_UPDATE,
    StreamConfig,
    StreamInfo,
)
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.conflicts import create_stream
from jetspark.client.jetstream.kv.config import (
    STREAM_PREFIX,
    KeyValueConfig,
    is_bucket,
    stream_name,
    to_stream_config,
)
from jetspark.client.jetstream.kv.entry import BucketStatus
from jetspark.client.jetstream.kv.jetstream_backend import bucket_status
from jetspark.client.jetstream.listing import bucket_pages
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    BucketExists,
    BucketNotFound,
    NotSupported,
    StreamExists,
    StreamNotFound,
)

# The settings of a bucket, by their names in the configuration of its stream.
BUCKET_WORDS: Final = {
    "max_msgs_per_subject": "history",
    "max_age": "ttl",
    "max_msg_size": "max_value_size",
    "num_replicas": "replicas",
    "subject_delete_marker_ttl": "limit_marker_ttl",
}


async def api_level(api: ApiClient, timeout: Timeout | None) -> int:
    """The API level of the server: from INFO since 2.12, from $JS.API.INFO before."""
    level = api.core.server_info.api_lvl
    if level:
        return level
    account = await api.call("INFO", None, ACCOUNT_INFO, timeout=timeout)
    return account.api.level


async def create_bucket(
    api: ApiClient, config: KeyValueConfig, timeout: Timeout | None
) -> StreamInfo:
    """Create the stream of a bucket."""
    stream = to_stream_config(config, await api_level(api, timeout))
    try:
        return await create_stream(api, stream, timeout)
    except StreamExists as error:
        detail = error.detail
        for of_stream, of_bucket in BUCKET_WORDS.items():
            detail = detail.replace(f"{of_stream} is ", f"{of_bucket} is ")
        raise BucketExists(config.bucket, detail) from None


async def update_bucket(
    api: ApiClient, config: KeyValueConfig, timeout: Timeout | None
) -> StreamInfo:
    """Change the stream of a bucket."""
    stream: StreamConfig = to_stream_config(config, await api_level(api, timeout))
    try:
        return await api.call(
            f"STREAM.UPDATE.{stream.name}", stream, STREAM_UPDATE, timeout=timeout
        )
    except StreamNotFound:
        raise BucketNotFound(config.bucket) from None


async def open_bucket(api: ApiClient, bucket: str, timeout: Timeout | None) -> StreamInfo:
    """Look up the stream of a bucket and check that it is one."""
    name = stream_name(bucket)
    try:
        info = await api.call(f"STREAM.INFO.{name}", None, STREAM_INFO, timeout=timeout)
    except StreamNotFound:
        raise BucketNotFound(bucket) from None
    if info.config.max_msgs_per_subject < 1:
        raise NotSupported(
            f"stream {name!r} is not a key-value bucket: it has no max_msgs_per_subject (the "
            "history of a bucket); create one with js.create_key_value"
        )
    return info


async def delete_bucket(api: ApiClient, bucket: str, timeout: Timeout | None) -> None:
    """Delete the stream of a bucket."""
    try:
        verb = f"STREAM.DELETE.{stream_name(bucket)}"
        await api.call(verb, None, STREAM_DELETE, timeout=timeout)
    except StreamNotFound:
        raise BucketNotFound(bucket) from None


async def bucket_status_pages(
    api: ApiClient, timeout: Timeout | None
) -> AsyncGenerator[list[BucketStatus], None]:
    """All buckets."""
    async with aclosing(bucket_pages(api, is_bucket, timeout)) as pages:
        async for page in pages:
            yield [bucket_status(info) for info in page]


async def bucket_name_pages(
    api: ApiClient, timeout: Timeout | None
) -> AsyncGenerator[list[str], None]:
    """The names of all buckets."""
    async with aclosing(bucket_pages(api, is_bucket, timeout)) as pages:
        async for page in pages:
            yield [info.config.name.removeprefix(STREAM_PREFIX) for info in page]
