"""The calls of ``JetStream`` about object stores."""

# Every call has a timeout argument (design.md, "The client").

from jetspark.api.stream import STREAM_CREATE, STREAM_DELETE, STREAM_INFO
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.manage import api_level
from jetspark.client.jetstream.objects.config import (
    ObjectStoreConfig,
    object_stream_name,
    to_stream_config,
)
from jetspark.client.jetstream.objects.store import ObjectStore
from jetspark.errors import BucketExists, BucketNotFound, StreamExists, StreamNotFound


class ObjectCalls:
    """Part of ``JetStream``."""

    _api: ApiClient
    _high_water: HighWater

    async def create_object_store(
        self, config: ObjectStoreConfig | str, *, timeout: float | None = None
    ) -> ObjectStore:
        """Create an object store; BucketExists when the name is taken with other settings.

        A name alone is a store with the defaults of `ObjectStoreConfig`.
        """
        if isinstance(config, str):
            config = ObjectStoreConfig(bucket=config)
        stream = to_stream_config(config, await api_level(self._api, timeout))
        verb = f"STREAM.CREATE.{stream.name}"
        try:
            info = await self._api.call(verb, stream, STREAM_CREATE, timeout=timeout)
        except StreamExists:
            raise BucketExists(config.bucket) from None
        return ObjectStore(self._api, info, self._high_water)

    async def object_store(
        self, bucket: str, *, read_after_write: bool = False, timeout: float | None = None
    ) -> ObjectStore:
        """A handle to an existing object store; BucketNotFound when there is none.

        With ``read_after_write`` it sees at least what it wrote and saw before (ADR-53).
        """
        verb = f"STREAM.INFO.{object_stream_name(bucket)}"
        try:
            info = await self._api.call(verb, None, STREAM_INFO, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(bucket) from None
        shared = self._high_water
        high_water = shared if shared.enabled else HighWater(enabled=read_after_write)
        return ObjectStore(self._api, info, high_water)

    async def delete_object_store(self, bucket: str, *, timeout: float | None = None) -> None:
        """Delete an object store with everything in it; BucketNotFound when there is none."""
        verb = f"STREAM.DELETE.{object_stream_name(bucket)}"
        try:
            await self._api.call(verb, None, STREAM_DELETE, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(bucket) from None
        self._high_water.forget(object_stream_name(bucket))
