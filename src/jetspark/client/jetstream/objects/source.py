"""The location of one store's objects: its stream, its subjects, and their readers."""

from jetspark.api.stream import STREAM_INFO, StreamInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import WatchPlan
from jetspark.client.jetstream.kv.follow import BucketFollow, Follow
from jetspark.client.jetstream.objects.config import STREAM_PREFIX
from jetspark.client.jetstream.objects.info import ObjectInfo, check_name
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.client.jetstream.objects.reading import ObjectReader, Progress
from jetspark.client.timeouts import Timeout
from jetspark.errors import BucketNotFound, ObjectNotFound, StreamNotFound


class ObjectSource:
    """One store, for reading; links may lead from one to another."""

    def __init__(self, api: ApiClient, info: StreamInfo, high_water: HighWater) -> None:
        self._api = api
        self._high_water = high_water
        self.info: StreamInfo = info
        self.stream: str = info.config.name
        self.bucket: str = self.stream.removeprefix(STREAM_PREFIX)
        # A mirror has its origin's subjects, and writes go to the origin. Released servers map $KV
        # over a domain's prefix, but not $O: like their clients, we publish objects to their own
        # subjects everywhere.
        mirror = info.config.mirror
        self.home: str = (mirror.name if mirror else self.stream).removeprefix(STREAM_PREFIX)
        self.prefix: str = f"$O.{self.home}"
        self.reader: StreamReader = StreamReader(
            api, self.stream, allow_direct=info.config.allow_direct
        )
        self.meta: MetaMessages = MetaMessages(self.reader, info.config, self.prefix, high_water)
        high_water.opened(self.stream, info.created)

    def has_name(self, bucket: str) -> bool:
        """Whether these are the objects of ``bucket``: this store, or its origin."""
        return bucket in {self.bucket, self.home}

    async def refresh(self, timeout: Timeout | None) -> StreamInfo:
        """Request the state of the store's stream; BucketNotFound if it does not exist."""
        self.info = await stream_info(self._api, self.bucket, timeout)
        self.reader.follow(self.info.config)
        return self.info

    async def other(self, bucket: str, timeout: Timeout | None) -> "ObjectSource":
        """Another store of the same account; BucketNotFound if it does not exist."""
        info = await stream_info(self._api, bucket, timeout)
        return ObjectSource(self._api, info, self._high_water)

    async def find(self, name: str, min_last_seq: int, timeout: Timeout | None) -> ObjectInfo:
        """The metadata of an object; ObjectNotFound if it does not exist."""
        found = await self.meta.find(check_name(name), min_last_seq, timeout=timeout)
        if found is None or found.deleted:
            raise ObjectNotFound(self.bucket, name)
        return found

    def follow_info(self, plan: WatchPlan, min_last_seq: int) -> BucketFollow:
        """Follow the metadata of objects, without their data."""
        follow = Follow(self.reader, f"{self.prefix}.M.", plan, min_last_seq, self._high_water)
        return BucketFollow(self.bucket, follow)

    def open(
        self,
        info: ObjectInfo,
        start: int,
        end: int,
        min_last_seq: int,
        progress: Progress | None,
        timeout: Timeout | None,
    ) -> ObjectReader:
        """A reader of the bytes from ``start`` to ``end``."""
        config, prefix = self.info.config, f"{self.prefix}.C."
        if config.num_replicas > 1 or config.mirror is not None:
            # ADR-53: the meta message may be newer than the copy that serves the chunks.
            min_last_seq = max(min_last_seq, info.seq)

        def follow(first: int, sizes: bool) -> BucketFollow:
            plan = WatchPlan(filters=(info.nuid,), start="all", resume_from=first, meta_only=sizes)
            chunks = Follow(self.reader, prefix, plan, min_last_seq, self._high_water)
            return BucketFollow(self.bucket, chunks)

        return ObjectReader(
            info,
            follow,
            start=start,
            end=end,
            timeout=self._api.seconds(timeout),
            progress=progress,
            look_again=lambda: self.meta.find(info.name, to_replace=True, timeout=timeout),
        )


async def stream_info(api: ApiClient, bucket: str, timeout: Timeout | None) -> StreamInfo:
    """The info of a store's stream; BucketNotFound if it does not exist."""
    try:
        return await api.call(
            f"STREAM.INFO.{STREAM_PREFIX}{bucket}", None, STREAM_INFO, timeout=timeout
        )
    except StreamNotFound:
        raise BucketNotFound(bucket) from None
