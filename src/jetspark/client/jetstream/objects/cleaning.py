"""Removing the data of objects that are not there, or not any more."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects.info import ObjectInfo
from jetspark.client.jetstream.objects.meta import MetaMessages, again, deleted
from jetspark.client.jetstream.objects.writing import ChunkWriter
from jetspark.client.timeouts import Timeout
from jetspark.errors import Error, ObjectIncomplete, WrongLastSequence

# Seconds before each purge of chunks that were sent and may not be stored yet.
PURGE_PAUSES: Final = (0.0, 0.02, 0.1, 0.4)

T = TypeVar("T")


class Offer(NamedTuple):
    """What a meta message was to be written over: None for nothing."""

    replaced: ObjectInfo | None

    @property
    def seq(self) -> int:
        """The sequence that it expects."""
        return 0 if self.replaced is None else self.replaced.seq

    def instead_of(self, info: ObjectInfo) -> ObjectInfo:
        """What to write when ``info`` is not to be there after all."""
        before = self.replaced
        return before if before is not None and (before.nuid or before.link) else deleted(info)


_running: Final[set[asyncio.Task[Any]]] = set()


async def surely(work: Coroutine[Any, Any, T]) -> T:
    """Wait for work in several steps, which is done even if the caller is cancelled meanwhile."""
    task = asyncio.get_running_loop().create_task(work, name="jetspark object store")
    _running.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # whoever waited was told; one who was cancelled does not care


class Cleaner:
    """Removes the chunks of one store that no object has."""

    def __init__(self, api: ApiClient, meta: MetaMessages) -> None:
        self._api = api
        self._meta = meta

    async def give_up(
        self,
        info: ObjectInfo,
        writer: ChunkWriter,
        offered: Offer | None,
        timeout: Timeout | None,
    ) -> None:
        """Remove the chunks of a put that failed, or of what it has replaced after all.

        ``offered`` is what its meta message was sent to replace, if its answer is not known.
        """
        seconds = self._api.seconds(timeout)
        with suppress(TimeoutError, Error):
            async with asyncio.timeout(2 * seconds):
                with suppress(TimeoutError, Error):
                    async with asyncio.timeout(seconds):
                        await writer.abandon()
                if offered is not None and await self._is_stored(info, offered, timeout):
                    await self.remove_data(offered.replaced, timeout)
                else:
                    await self._remove_late(info.nuid, writer.sent, timeout)

    async def delete(self, name: str, timeout: Timeout | None) -> None:
        """Mark an object as deleted, and remove its chunks; ObjectNotFound."""
        await self.remove_data(await self._meta.mark_deleted(name, timeout=timeout), timeout)

    async def remove_data(self, info: ObjectInfo | None, timeout: Timeout | None) -> None:
        """Remove the chunks of what was replaced or deleted.

        That is done already, so what goes wrong here is told and not raised.
        """
        if info is None or info.deleted or info.link is not None or not info.nuid:
            return
        try:
            await self._purge(info.nuid, timeout)
        except Error as error:
            error.add_note(
                f"object {info.name!r} was replaced or deleted, and its old chunks are still in "
                f"bucket {info.bucket!r}: ObjectStore.purge_orphans removes them"
            )
            self._api.core.report(error)

    async def check_data(self, info: ObjectInfo, offered: Offer, timeout: Timeout | None) -> None:
        """Take back an object whose chunks were removed before it was complete.

        ``purge_orphans`` does that to a put that paused for longer than it was told to allow.
        """
        chunks = await self._meta.count_chunks(info.nuid, timeout=timeout)
        if chunks < info.chunks:
            before = offered.instead_of(info)
            await self._meta.write(before, expected=info.seq, timeout=timeout)
            await self.remove_data(info, timeout)
            size = info.options.max_chunk_size if info.options is not None else 0
            error = ObjectIncomplete(info.bucket, info.name, chunks * size, info.size)
            error.add_note("its chunks were removed while it was put, by purge_orphans perhaps")
            raise error

    async def _is_stored(self, info: ObjectInfo, offered: Offer, timeout: Timeout | None) -> bool:
        """Whether the meta message of a put was stored; if not, it never will be.

        It may be on its way still, and must not make a name lead to data that was removed, nor
        replace an object that is whole. It is conditional on what it was to replace: with that
        written once more, under a new sequence, it is refused.
        """
        try:
            await again(
                lambda part: self._meta.write(
                    offered.instead_of(info), expected=offered.seq, timeout=part
                ),
                self._api,
                timeout,
            )
        except WrongLastSequence:  # it is there, or something that was faster
            found = await self._meta.look(info.name, timeout=timeout)
            return found is not None and found.nuid == info.nuid and not found.deleted
        return False

    async def _remove_late(self, nuid: str, sent: int, timeout: Timeout | None) -> None:
        """Purge until as many chunks are gone as were sent, or none came for a while."""
        for pause in PURGE_PAUSES:
            await asyncio.sleep(pause)
            sent -= await self._purge(nuid, timeout)
            if sent <= 0:
                return

    async def _purge(self, nuid: str, timeout: Timeout | None) -> int:
        return await again(
            lambda part: self._meta.purge_chunks(nuid, timeout=part), self._api, timeout
        )
