"""An object store: put, get, list, watch, links, seal (ADR-20, ADR-53)."""

import asyncio
import math
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from jetspark.api.stream import STREAM_UPDATE
from jetspark.api.stream import StreamInfo as WireStreamInfo
from jetspark.client.arguments import function, instance, text, whole
from jetspark.client.callbacks.chunk import check_callback
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.file_source import FileSource
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import WatchPlan
from jetspark.client.jetstream.kv.config import check_bucket
from jetspark.client.jetstream.kv.watch import Watcher
from jetspark.client.jetstream.objects.chunks import ObjectData
from jetspark.client.jetstream.objects.cleaning import Cleaner, surely
from jetspark.client.jetstream.objects.config import STREAM_PREFIX, from_stream_config
from jetspark.client.jetstream.objects.files import FILE_PIECE, FileTarget
from jetspark.client.jetstream.objects.folders import (
    FolderCopied,
    FolderGet,
    FolderProgress,
    FolderPut,
)
from jetspark.client.jetstream.objects.info import (
    CHUNK_SIZE,
    ObjectInfo,
    ObjectLink,
    ObjectOptions,
    ObjectStoreStatus,
    check_name,
    checked_headers,
    checked_metadata,
)
from jetspark.client.jetstream.objects.orphans import OLDER_THAN, OrphanPurge, OrphansPurged
from jetspark.client.jetstream.objects.putting import ObjectPut
from jetspark.client.jetstream.objects.reading import ObjectReader, Progress
from jetspark.client.jetstream.objects.source import ObjectSource
from jetspark.client.jetstream.objects.watching import (
    ObjectCallback,
    info_pages,
    watch_feed,
)
from jetspark.client.jetstream.objects.writing import ChunkWriter
from jetspark.client.models.base import from_wire, to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.client.opening import opens
from jetspark.client.pager import Pager
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import (
    NotSupported,
    ObjectExists,
    ObjectNotFound,
)

LINKS_MAX: Final = 8  # chained links that are followed
GET_TRIES: Final = 4  # attempts to read an object that keeps being replaced


class ObjectStore:
    """A handle to one object store, from ``JetStream.object_store``."""

    def __init__(self, api: ApiClient, info: WireStreamInfo, high_water: HighWater) -> None:
        self._api = api
        self._source = ObjectSource(api, info, high_water)
        self._meta = self._source.meta
        self._cleaner = Cleaner(api, self._meta)

    @property
    def bucket(self) -> str:
        """The name of the object store."""
        return self._source.bucket

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
        timeout: Timeout | None = None,
    ) -> ObjectInfo:
        """Store an object: bytes, a binary file, or an iterable (also async) of bytes.

        It replaces an object of the same name once it is complete; a put that fails or is
        cancelled leaves nothing. ``progress`` is called with the bytes sent and the total, -1 if
        unknown. ``info.seq`` is the sequence for a later read (ADR-53). ``timeout`` limits the
        wait for each answer.
        """
        check_name(name)
        size_max = self._api.core.max_payload
        whole(chunk_size, "chunk_size", least=1, most=size_max)
        text(description, "description")
        if progress is not None:
            function(progress, "progress", "the bytes sent and the total")
        info = ObjectInfo(
            name=name,
            description=description,
            headers=checked_headers(headers),
            metadata=checked_metadata(metadata),
            options=ObjectOptions(max_chunk_size=chunk_size),
            bucket=self._source.home,
            nuid=self._api.nuid.next(),
        )
        subject = f"{self._source.prefix}.C.{info.nuid}"
        fast = self._source.info.config.allow_batched
        writer = ChunkWriter(self._api, subject, fast=fast, timeout=timeout)
        put = ObjectPut(self._api, self._meta, self._cleaner, writer, info, timeout)
        return await put.run(data, chunk_size, progress)

    async def get(
        self,
        name: str,
        *,
        min_last_seq: int = 0,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
    ) -> bytes:
        """Get the whole object; raises ObjectNotFound, or DigestMismatch if it is damaged.

        An object that is replaced during the read is read again.
        """
        tries = GET_TRIES
        while True:
            tries -= 1
            opened = await self.open(
                name, min_last_seq=min_last_seq, progress=progress, timeout=timeout
            )
            async with opened:
                try:
                    return await opened.read()
                except ObjectNotFound:
                    if not tries:
                        raise

    async def put_file(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        description: str = "",
        headers: Mapping[str, list[str]] | None = None,
        metadata: Mapping[str, str] | None = None,
        chunk_size: int = CHUNK_SIZE,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
    ) -> ObjectInfo:
        """Store a file under ``name``, or under its file name.

        It is read in pieces, on another thread. Otherwise like ``put``.
        """
        async with FileSource(path) as file:
            report = None if progress is None else lambda sent, _: progress(sent, file.size)
            return await self.put(
                Path(path).name if name is None else name,
                file,
                description=description,
                headers=headers,
                metadata=metadata,
                chunk_size=chunk_size,
                progress=report,
                timeout=timeout,
            )

    async def get_file(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        min_last_seq: int = 0,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
    ) -> ObjectInfo:
        """Write an object to the file ``path``, which appears when it is complete.

        It is written to a temporary file, its digest is verified, and then it replaces ``path``;
        if this fails or is cancelled, an existing file is unchanged and nothing is left. Raises
        ObjectNotFound, DigestMismatch, and OSError if the file cannot be written.
        """
        if progress is not None:
            function(progress, "progress", "the bytes read and the total")
        check_name(name)
        target = FileTarget(path, self._api.nuid.next())
        tries = GET_TRIES
        try:
            await asyncio.to_thread(target.open)
            while True:
                tries -= 1
                opened = await self.open(
                    name, min_last_seq=min_last_seq, progress=progress, timeout=timeout
                )
                async with opened:
                    try:
                        while piece := await opened.read(FILE_PIECE):
                            await asyncio.to_thread(target.write, piece)
                    except ObjectNotFound:
                        if not tries:
                            raise
                        await asyncio.to_thread(target.restart)
                        continue
                await asyncio.to_thread(target.finish)
                return opened.info
        finally:
            await surely(asyncio.to_thread(target.discard))

    async def put_folder(
        self,
        folder: str | os.PathLike[str],
        prefix: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        progress: FolderProgress | None = None,
        timeout: Timeout | None = None,
    ) -> FolderCopied:
        """Store every file below a folder, named ``prefix`` and its relative path with ``/``.

        Files that the store has with the same size and digest are not stored again, so an
        interrupted call can be repeated; each object appears when it is complete. With ``delete``,
        objects with the prefix and without a file are deleted at the end. ``dry_run`` only returns
        what would happen. ``progress`` is called with the files done and their number. Raises
        FolderRefused, before anything is stored, for links to folders and special files.
        """
        text(prefix, "prefix")
        if progress is not None:
            function(progress, "progress", "the files done and their number")
        put = FolderPut(self, Path(folder), prefix)
        return await put.run(delete=delete, dry_run=dry_run, progress=progress, timeout=timeout)

    async def get_folder(
        self,
        folder: str | os.PathLike[str],
        prefix: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        progress: FolderProgress | None = None,
        timeout: Timeout | None = None,
    ) -> FolderCopied:
        """Write every object whose name starts with ``prefix`` to a file below a folder.

        Its path is the rest of the name. Files with the same size and digest are not written
        again; each file appears when it is complete and verified. With ``delete``, files without
        an object are deleted at the end. ``dry_run`` only returns what would happen. Raises
        FolderRefused, before anything is written, for names that lead out of the folder, through
        a link, or differ only in case.
        """
        text(prefix, "prefix")
        if progress is not None:
            function(progress, "progress", "the files done and their number")
        get = FolderGet(self, Path(folder), prefix)
        return await get.run(delete=delete, dry_run=dry_run, progress=progress, timeout=timeout)

    @opens
    async def open(
        self,
        name: str,
        *,
        start: int = 0,
        length: int | None = None,
        min_last_seq: int = 0,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
    ) -> ObjectReader:
        """Read an object in pieces, or ``length`` bytes of it from ``start``.

        Links are followed. With ``min_last_seq`` (a ``seq`` of ``put`` or ``watch``) only copies
        that have reached that sequence answer (ADR-53).
        """
        whole(start, "start")
        if length is not None:
            whole(length, "length")
        info = await self.info(name, min_last_seq=min_last_seq, timeout=timeout)
        source = self._source
        for _ in range(LINKS_MAX):
            link = info.link
            if link is None:
                break
            if not link.name:
                raise NotSupported(
                    f"object {name!r} links to the whole store {link.bucket!r}: open that store"
                )
            if not source.has_name(link.bucket):
                source = await self._source.other(link.bucket, timeout)
            # Sequences belong to one store: another one is not asked for ours.
            wanted = min_last_seq if source is self._source else 0
            try:
                info = await source.find(link.name, wanted, timeout)
            except ObjectNotFound as error:
                error.add_note(f"{name!r} in bucket {self.bucket!r} is a link to it")
                raise
        else:
            raise NotSupported(
                f"object {name!r} is a chain of more than {LINKS_MAX} links, perhaps a cycle"
            )
        end = info.size if length is None else min(start + length, info.size)
        wanted = min_last_seq if source is self._source else 0
        return source.open(info, min(start, end), end, wanted, progress, timeout)

    async def info(
        self, name: str, *, min_last_seq: int = 0, timeout: Timeout | None = None
    ) -> ObjectInfo:
        """Get the metadata of an object; ObjectNotFound if it does not exist."""
        return await self._source.find(name, min_last_seq, timeout)

    async def update_meta(
        self,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        headers: Mapping[str, list[str]] | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: Timeout | None = None,
    ) -> ObjectInfo:
        """Change name, description, headers or metadata; None leaves a value unchanged.

        ValueError if an object called ``new_name`` exists. Watchers see the old name deleted.
        """
        target = check_name(new_name) if new_name is not None else check_name(name)
        own_headers, own_metadata = checked_headers(headers), checked_metadata(metadata)

        def edit(info: ObjectInfo) -> ObjectInfo:
            return msgspec.structs.replace(
                info,
                name=target,
                description=info.description if description is None else description,
                headers=info.headers if headers is None else own_headers,
                metadata=info.metadata if metadata is None else own_metadata,
            )

        if target == name:
            return await self._meta.edit(name, edit, timeout=timeout)
        rename = self._meta.rename(check_name(name), target, edit, timeout=timeout)
        return await surely(rename)

    async def delete(self, name: str, *, timeout: Timeout | None = None) -> None:
        """Delete an object; a marker notifies watchers. ObjectNotFound if it does not exist."""
        await surely(self._cleaner.delete(check_name(name), timeout))

    async def link(
        self, name: str, target: ObjectInfo, *, timeout: Timeout | None = None
    ) -> ObjectInfo:
        """Make ``name`` a link to another object, of this or another store."""
        instance(target, ObjectInfo, "target")
        if target.deleted:
            raise ValueError(f"object {target.name!r} is deleted: link to an existing object")
        if target.link is not None:
            raise ValueError(f"object {target.name!r} is a link itself: link to its target")
        link = ObjectLink(bucket=target.bucket, name=target.name)
        return await self._write_link(name, link, timeout)

    async def link_bucket(
        self, name: str, bucket: str, *, timeout: Timeout | None = None
    ) -> ObjectInfo:
        """Make ``name`` a link to another whole store."""
        return await self._write_link(name, ObjectLink(bucket=check_bucket(bucket)), timeout)

    # The store as a whole.

    def list(self, *, min_last_seq: int = 0, timeout: Timeout | None = None) -> Pager[ObjectInfo]:
        """Iterate over all objects."""
        follow = self._source.follow_info(WatchPlan(), min_last_seq)
        return Pager(info_pages(follow, self._api.core.report, self._api.seconds(timeout)))

    @opens
    async def watch(
        self,
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        updates_only: bool = False,
        min_last_seq: int = 0,
        callback: ObjectCallback | None = None,
        timeout: Timeout | None = None,
    ) -> Watcher[ObjectInfo]:
        """Follow the objects: first the existing ones, then every change.

        A ``callback`` gets the items that ``async for`` would yield.
        """
        if updates_only and include_history:
            raise ValueError("updates_only excludes include_history")
        check_callback(callback)
        plan = WatchPlan(start="new" if updates_only else "all" if include_history else "last")
        follow = self._source.follow_info(plan, min_last_seq)
        await follow.start(timeout=timeout)
        report = self._api.core.report
        feed = watch_feed(follow, report, ignore_deletes=ignore_deletes)
        if callback is not None:
            feed.call(callback, report)
        place = f"store {self.bucket!r}"
        return Watcher(feed, place, self._api.seconds, feed.stop)

    async def status(self, *, timeout: Timeout | None = None) -> ObjectStoreStatus:
        """Size and configuration of the store."""
        return store_status(await self._source.refresh(timeout))

    async def purge_orphans(
        self,
        *,
        older_than: float | timedelta = OLDER_THAN,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
    ) -> OrphansPurged:
        """Remove chunks that belong to no object: leftovers of puts whose process was killed.

        Chunks of a put that stored something within the last ``older_than`` seconds are kept: it
        may still be running, here or in another process. ``progress`` is called with the number
        done and the total. Raises StreamSealed for a sealed store, and NotSupported for a mirror.
        """
        age = call_seconds(older_than, OLDER_THAN, "older_than")
        if not 0 <= age < math.inf:
            raise ValueError(f"older_than={older_than}: expected seconds, 0 or more")
        seconds = self._api.seconds(timeout)
        hunt = OrphanPurge(self._source.reader, self._meta, self._source.prefix, seconds)
        return await hunt.run(age, progress)

    async def seal(self, *, timeout: Timeout | None = None) -> None:
        """Make the store read-only, permanently."""
        status = await self.status(timeout=timeout)
        sealed = to_wire(status.stream_info.config.replace(sealed=True))
        await self._api.call(
            f"STREAM.UPDATE.{self._source.stream}", sealed, STREAM_UPDATE, timeout=timeout
        )

    # Private parts.

    async def _write_link(
        self, name: str, link: ObjectLink, timeout: Timeout | None
    ) -> ObjectInfo:
        check_name(name)

        def make(found: ObjectInfo | None) -> ObjectInfo:
            if found is not None and not found.deleted and found.link is None:
                raise ObjectExists(self._source.home, name)
            return ObjectInfo(
                name=name,
                bucket=self._source.home,
                nuid=self._api.nuid.next(),
                options=ObjectOptions(link=link),
            )

        stored, _ = await self._meta.change(name, make, timeout=timeout)
        return stored

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r})"


def store_status(info: WireStreamInfo) -> ObjectStoreStatus:
    """The status of a store, from its stream."""
    return ObjectStoreStatus(
        bucket=info.config.name.removeprefix(STREAM_PREFIX),
        size=info.state.bytes,
        sealed=info.config.sealed,
        config=from_stream_config(info.config),
        stream_info=from_wire(StreamInfo, info),
    )
