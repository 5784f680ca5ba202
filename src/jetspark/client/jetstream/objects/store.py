"""An object store: put, get, list, watch, links, seal (ADR-20, ADR-53)."""

# Every call has a timeout argument (design.md, "The client").

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from jetspark.api.stream import (
    STREAM_INFO,
    STREAM_UPDATE,
    StreamInfo,
)
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import WatchPlan
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.objects.chunks import ObjectData
from jetspark.client.jetstream.objects.config import STREAM_PREFIX, from_stream_config
from jetspark.client.jetstream.objects.info import (
    CHUNK_SIZE,
    ObjectInfo,
    ObjectLink,
    ObjectOptions,
    ObjectStoreStatus,
)
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.client.jetstream.objects.reading import ObjectReader, Progress
from jetspark.client.jetstream.objects.watching import ObjectCallback, ObjectWatcher, info_pages
from jetspark.client.jetstream.objects.writing import ChunkWriter
from jetspark.client.jetstream.streams import Stream
from jetspark.client.pager import Pager
from jetspark.errors import (
    BadName,
    BucketNotFound,
    Error,
    NotSupported,
    ObjectNotFound,
    StreamNotFound,
)

LINKS_MAX: Final = 8  # links that are followed, one to the next


class ObjectStore:
    """A handle to one object store. Made by ``JetStream.object_store``."""

    def __init__(self, api: ApiClient, info: StreamInfo, high_water: HighWater) -> None:
        self._api = api
        self._info = info
        self._bucket = info.config.name.removeprefix(STREAM_PREFIX)
        self._high_water = high_water
        self._stream = Stream(api, info, high_water)
        # A mirror holds its origin's subjects, and writes go to the origin. Released servers map
        # $KV over a domain's prefix, and not $O: as their clients do, objects are published to
        # their own subjects everywhere.
        mirror = info.config.mirror
        self._home = (mirror.name if mirror else info.config.name).removeprefix(STREAM_PREFIX)
        self._prefix = f"$O.{self._home}"
        self._meta = MetaMessages(self._stream, self._prefix, high_water)

    @property
    def bucket(self) -> str:
        """The name of the object store."""
        return self._bucket

    @property
    def buckets(self) -> frozenset[str]:
        """The names of the store whose objects these are: its own, and that of its origin."""
        return frozenset((self._bucket, self._home))

    # Objects.

    async def put(
        self,
        name: str,
        data: ObjectData,
        *,
        description: str = "",
        headers: Mapping[str, list[str]] | None = None,
        metadata: Mapping[str, str] | None = None,
        chunk_size: int = CHUNK_SIZE,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> ObjectInfo:
        """Store an object: bytes, a binary file, or an iterable (also async) of bytes.

        It replaces one of the same name once it is complete; a put that fails or is cancelled
        leaves nothing behind. ``progress`` hears the bytes stored so far. ``info.seq`` is what a
        later read can ask for (ADR-53). ``timeout`` bounds the wait for each answer.
        """
        check_name(name)
        if chunk_size < 1:
            raise ValueError(f"chunk_size={chunk_size}: expected at least 1 byte")
        replaced = await self._meta.find(name, timeout=timeout)
        nuid = self._api.nuid.next()
        writer = ChunkWriter(
            self._api,
            f"{self._prefix}.C.{nuid}",
            fast=self._info.config.allow_batched,
            timeout=timeout,
        )
        try:
            await writer.write(data, chunk_size, progress)
            stored, replaced = await self._meta.replace(
                ObjectInfo(
                    name=name,
                    description=description,
                    headers=dict(headers) if headers else None,
                    metadata=dict(metadata) if metadata else None,
                    options=ObjectOptions(max_chunk_size=chunk_size),
                    bucket=self._home,
                    nuid=nuid,
                    size=writer.size,
                    chunks=writer.chunks,
                    digest=writer.digest.text(),
                ),
                replaced,
                timeout=timeout,
            )
        except BaseException:
            # Also when it is cancelled: what was stored is of no use to anybody.
            await self._give_up(name, nuid, writer, timeout)
            raise
        if replaced is not None and replaced.nuid and not replaced.deleted:
            await self._meta.purge_chunks(replaced.nuid, timeout=timeout)
        return stored

    async def get(
        self,
        name: str,
        *,
        min_last_seq: int = 0,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """The whole object; ObjectNotFound, or DigestMismatch when it is damaged."""
        opened = await self.open(
            name, min_last_seq=min_last_seq, progress=progress, timeout=timeout
        )
        async with opened:
            return await opened.read()

    async def open(
        self,
        name: str,
        *,
        start: int = 0,
        length: int | None = None,
        min_last_seq: int = 0,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> ObjectReader:
        """Read an object in pieces, or ``length`` bytes of it from ``start`` on.

        Links are followed. With ``min_last_seq`` (a ``seq`` of ``put`` or ``watch``) the copies
        that answer have reached that sequence (ADR-53).
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError(f"start={start}, length={length}: expected bytes from 0 on")
        info = await self.info(name, min_last_seq=min_last_seq, timeout=timeout)
        store: ObjectStore = self
        for _ in range(LINKS_MAX):
            link = info.link
            if link is None:
                break
            if not link.name:
                raise NotSupported(
                    f"object {name!r} links to the store {link.bucket!r} as a whole: open that one"
                )
            if link.bucket not in store.buckets:
                store = await self._other(link.bucket, timeout)
            # Sequences are those of one store: another one is not asked for ours.
            wanted = min_last_seq if store is self else 0
            info = await store.info(link.name, min_last_seq=wanted, timeout=timeout)
        else:
            raise NotSupported(
                f"object {name!r} leads from link to link, more than {LINKS_MAX}: to a circle?"
            )
        end = info.size if length is None else min(start + length, info.size)
        return store.reader_of(
            info, min(start, end), end, min_last_seq if store is self else 0, progress, timeout
        )

    async def info(
        self, name: str, *, min_last_seq: int = 0, timeout: float | None = None
    ) -> ObjectInfo:
        """What is known about an object; ObjectNotFound when there is none."""
        found = await self._meta.find(check_name(name), min_last_seq, timeout=timeout)
        if found is None or found.deleted:
            raise ObjectNotFound(self._bucket, name)
        return found

    async def update_meta(
        self,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        headers: Mapping[str, list[str]] | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ObjectInfo:
        """Change name, description, headers or metadata; what is None stays."""
        info = await self.info(name, timeout=timeout)
        target = check_name(new_name) if new_name is not None else name
        if target != name:
            taken = await self._meta.find(target, timeout=timeout)
            if taken is not None and not taken.deleted:
                raise ValueError(f"an object called {target!r} exists: delete it first")
        changed = msgspec.structs.replace(
            info,
            name=target,
            description=info.description if description is None else description,
            headers=info.headers if headers is None else dict(headers),
            metadata=info.metadata if metadata is None else dict(metadata),
        )
        stored = await self._meta.write(changed, timeout=timeout)
        if target != name:
            await self._meta.purge_name(name, timeout=timeout)
        return stored

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete an object; a marker tells watchers. ObjectNotFound when there is none."""
        info = await self.info(name, timeout=timeout)
        marker = msgspec.structs.replace(info, deleted=True, size=0, chunks=0, digest="")
        await self._meta.write(marker, timeout=timeout)
        if info.nuid:
            await self._meta.purge_chunks(info.nuid, timeout=timeout)

    async def link(
        self, name: str, target: ObjectInfo, *, timeout: float | None = None
    ) -> ObjectInfo:
        """Make ``name`` lead to another object, of this or another store."""
        if target.deleted:
            raise ValueError(f"object {target.name!r} is deleted: nothing to link to")
        if target.link is not None:
            raise ValueError(f"object {target.name!r} is a link itself: link to what it leads to")
        link = ObjectLink(bucket=target.bucket, name=target.name)
        return await self._write_link(name, link, timeout)

    async def link_bucket(
        self, name: str, bucket: str, *, timeout: float | None = None
    ) -> ObjectInfo:
        """Make ``name`` lead to another store as a whole."""
        return await self._write_link(name, ObjectLink(bucket=bucket), timeout)

    # The store as a whole.

    def list(self, *, min_last_seq: int = 0, timeout: float | None = None) -> Pager[ObjectInfo]:
        """Iterate over all objects."""
        follow = self._follow_info(WatchPlan(), min_last_seq)
        return Pager(info_pages(follow, self._api.seconds(timeout)))

    async def watch(
        self,
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        updates_only: bool = False,
        min_last_seq: int = 0,
        callback: ObjectCallback | None = None,
        timeout: float | None = None,
    ) -> ObjectWatcher:
        """Follow the objects: first what is there, then None, then every change.

        A ``callback`` gets what ``async for`` would give.
        """
        if updates_only and include_history:
            raise ValueError("updates_only starts now: leave out include_history")
        start = "new" if updates_only else "all" if include_history else "last"
        follow = self._follow_info(msgspec.convert({"start": start}, WatchPlan), min_last_seq)
        await follow.start(timeout=timeout)
        watcher = ObjectWatcher(follow, ignore_deletes=ignore_deletes)
        if callback is not None:
            watcher.call(callback, self._api.core.report)
        return watcher

    async def status(self, *, timeout: float | None = None) -> ObjectStoreStatus:
        """Size and configuration of the store."""
        verb = f"STREAM.INFO.{self._stream.name}"
        try:
            self._info = await self._api.call(verb, None, STREAM_INFO, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None
        return ObjectStoreStatus(
            bucket=self._bucket,
            size=self._info.state.bytes,
            sealed=self._info.config.sealed,
            config=from_stream_config(self._info.config),
            stream_info=self._info,
        )

    async def seal(self, *, timeout: float | None = None) -> None:
        """Allow no further change, for ever."""
        status = await self.status(timeout=timeout)
        sealed = msgspec.structs.replace(status.stream_info.config, sealed=True)
        await self._api.call(
            f"STREAM.UPDATE.{self._stream.name}", sealed, STREAM_UPDATE, timeout=timeout
        )

    # Private parts.

    async def _give_up(
        self, name: str, nuid: str, writer: ChunkWriter, timeout: float | None
    ) -> None:
        """Remove the chunks of a put that failed, unless the object is there after all."""
        with suppress(Error):
            await writer.abandon()
        with suppress(Error):
            # The answer to the meta message may be lost, and not the message.
            found = await self._meta.find(name, timeout=timeout)
            if found is None or found.nuid != nuid:
                await self._meta.purge_chunks(nuid, timeout=timeout)

    async def _write_link(self, name: str, link: ObjectLink, timeout: float | None) -> ObjectInfo:
        found = await self._meta.find(check_name(name), timeout=timeout)
        if found is not None and not found.deleted and found.link is None:
            raise ValueError(f"an object called {name!r} exists: delete it before making a link")
        info = ObjectInfo(
            name=name,
            bucket=self._home,
            nuid=self._api.nuid.next(),
            options=ObjectOptions(link=link),
        )
        return await self._meta.write(info, timeout=timeout)

    def _follow_info(self, plan: WatchPlan, min_last_seq: int) -> Follow:
        prefix = f"{self._prefix}.M."
        return Follow(self._stream.reader, prefix, plan, min_last_seq, self._high_water)

    def reader_of(
        self,
        info: ObjectInfo,
        start: int,
        end: int,
        min_last_seq: int,
        progress: Progress | None,
        timeout: float | None,
    ) -> ObjectReader:
        """What reads the bytes from ``start`` to ``end``; for other parts of the client."""
        source: Follow | None = None
        if info.size:
            plan = WatchPlan(filters=(info.nuid,), start="all")
            config = self._info.config
            if config.num_replicas > 1 or config.mirror is not None:
                # ADR-53: the meta message may be newer than the copy that serves the chunks.
                min_last_seq = max(min_last_seq, info.seq)
            prefix = f"{self._prefix}.C."
            source = Follow(self._stream.reader, prefix, plan, min_last_seq, self._high_water)
        return ObjectReader(
            info,
            source,
            start=start,
            end=end,
            timeout=self._api.seconds(timeout),
            progress=progress,
        )

    async def _other(self, bucket: str, timeout: float | None) -> "ObjectStore":
        verb = f"STREAM.INFO.{STREAM_PREFIX}{bucket}"
        try:
            info = await self._api.call(verb, None, STREAM_INFO, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(bucket) from None
        return ObjectStore(self._api, info, self._high_water)


def check_name(name: str) -> str:
    """Refuse an empty name; any other text will do."""
    if not name:
        raise BadName("object", name, "it is empty")
    return name
