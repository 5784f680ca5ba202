"""Removing the data of objects that are not there, or not any more."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects.info import ObjectInfo
from jetspark.client.jetstream.objects.meta import MetaMessages, deleted
from jetspark.client.jetstream.objects.writing import ChunkWriter
from jetspark.errors import Error, ObjectIncomplete

# Seconds before each purge of chunks that were sent and may not be stored yet.
PURGE_PAUSES: Final = (0.0, 0.02, 0.1, 0.4)

T = TypeVar("T")

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
        name: str,
        nuid: str,
        writer: ChunkWriter,
        replaced: ObjectInfo | None,
        timeout: float | None,
    ) -> None:
        """Remove the chunks of a put that failed, or of what it has replaced after all."""
        with suppress(TimeoutError, Error):
            async with asyncio.timeout(self._api.seconds(timeout)):
                with suppress(Error):
                    await writer.abandon()
                # The answer to the meta message may be lost, and not the message.
                if await self._find(name, nuid, timeout) is not None:
                    await self.remove_data(replaced, timeout)
                    return
                await self._remove_late(nuid, writer.sent, timeout)
                # Nor may it be late: a name must not lead to data that was removed.
                late = await self._find(name, nuid, timeout)
                if late is not None:
                    await self._meta.write(deleted(late), expected=late.seq, timeout=timeout)

    async def delete(self, name: str, timeout: float | None) -> None:
        """Mark an object as deleted, and remove its chunks; ObjectNotFound."""
        await self.remove_data(await self._meta.mark_deleted(name, timeout=timeout), timeout)

    async def remove_data(self, info: ObjectInfo | None, timeout: float | None) -> None:
        """Remove the chunks of what was replaced or deleted.

        That is done already, so what goes wrong here is told and not raised.
        """
        if info is None or info.deleted or info.link is not None or not info.nuid:
            return
        try:
            await self._meta.purge_chunks(info.nuid, timeout=timeout)
        except Error as error:
            error.add_note(
                f"object {info.name!r} was replaced or deleted, and its old chunks are still in "
                f"bucket {info.bucket!r}: ObjectStore.purge_orphans removes them"
            )
            self._api.core.report(error)

    async def check_data(self, info: ObjectInfo, timeout: float | None) -> None:
        """Take back an object whose chunks were removed before it was complete.

        ``purge_orphans`` does that to a put that paused for longer than it was told to allow.
        """
        chunks = await self._meta.count_chunks(info.nuid, timeout=timeout)
        if chunks < info.chunks:
            await self._meta.write(deleted(info), expected=info.seq, timeout=timeout)
            await self.remove_data(info, timeout)
            size = info.options.max_chunk_size if info.options is not None else 0
            error = ObjectIncomplete(info.bucket, info.name, chunks * size, info.size)
            error.add_note("its chunks were removed while it was put, by purge_orphans perhaps")
            raise error

    async def _find(self, name: str, nuid: str, timeout: float | None) -> ObjectInfo | None:
        found = await self._meta.find(name, to_replace=True, timeout=timeout)
        return found if found is not None and found.nuid == nuid else None

    async def _remove_late(self, nuid: str, sent: int, timeout: float | None) -> None:
        """Purge until as many chunks are gone as were sent, or none came for a while."""
        for pause in PURGE_PAUSES:
            await asyncio.sleep(pause)
            sent -= await self._meta.purge_chunks(nuid, timeout=timeout)
            if sent <= 0:
                return
