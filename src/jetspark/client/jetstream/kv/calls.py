"""The calls of ``JetStream`` about key-value buckets."""

# Every call has a timeout argument (design.md, "The client").

from jetspark.api.stream import StreamInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.codec import KeyCodec, ValueCodec
from jetspark.client.jetstream.kv.config import KeyValueConfig, stream_name
from jetspark.client.jetstream.kv.jetstream_backend import JetStreamBackend
from jetspark.client.jetstream.kv.manage import (
    ALL_BUCKETS,
    bucket_names,
    create_bucket,
    delete_bucket,
    open_bucket,
    update_bucket,
)
from jetspark.client.jetstream.stream_lists import stream_name_pages
from jetspark.client.pager import Pager
from jetspark.errors import BucketNotFound


class BucketCalls:
    """Part of ``JetStream``."""

    _api: ApiClient
    _high_water: HighWater

    async def create_key_value(
        self, config: KeyValueConfig | str, *, timeout: float | None = None
    ) -> KeyValue:
        """Create a bucket; BucketExists when the name is taken with another configuration.

        A name alone is a bucket with the defaults of `KeyValueConfig`.
        """
        if isinstance(config, str):
            config = KeyValueConfig(bucket=config)
        return self._bucket(await create_bucket(self._api, config, timeout))

    async def update_key_value(
        self, config: KeyValueConfig, *, timeout: float | None = None
    ) -> KeyValue:
        """Change the configuration of a bucket; BucketNotFound when there is none."""
        return self._bucket(await update_bucket(self._api, config, timeout))

    async def create_or_update_key_value(
        self, config: KeyValueConfig, *, timeout: float | None = None
    ) -> KeyValue:
        """Change a bucket, or create it when it does not exist."""
        try:
            return await self.update_key_value(config, timeout=timeout)
        except BucketNotFound:
            return await self.create_key_value(config, timeout=timeout)

    async def key_value(
        self,
        bucket: str,
        *,
        read_only: bool = False,
        read_after_write: bool = False,
        key_codec: KeyCodec | None = None,
        value_codec: ValueCodec | None = None,
        timeout: float | None = None,
    ) -> KeyValue:
        """A handle to an existing bucket; BucketNotFound when there is none.

        With ``read_after_write`` it sees at least what it wrote and saw before (ADR-53).
        """
        return self._bucket(
            await open_bucket(self._api, bucket, timeout),
            read_only=read_only,
            read_after_write=read_after_write,
            key_codec=key_codec,
            value_codec=value_codec,
        )

    async def delete_key_value(self, bucket: str, *, timeout: float | None = None) -> None:
        """Delete a bucket with everything in it; BucketNotFound when there is none."""
        await delete_bucket(self._api, bucket, timeout)
        self._high_water.forget(stream_name(bucket))

    def key_value_names(self, *, timeout: float | None = None) -> Pager[str]:
        """Iterate over the names of all buckets."""
        return Pager(bucket_names(Pager(stream_name_pages(self._api, ALL_BUCKETS, timeout))))

    def _bucket(
        self,
        info: StreamInfo,
        *,
        read_only: bool = False,
        read_after_write: bool = False,
        key_codec: KeyCodec | None = None,
        value_codec: ValueCodec | None = None,
    ) -> KeyValue:
        shared = self._high_water
        high_water = shared if shared.enabled else HighWater(enabled=read_after_write)
        return KeyValue(
            JetStreamBackend(self._api, info, high_water),
            key_codec=key_codec,
            value_codec=value_codec,
            read_only=read_only,
        )
