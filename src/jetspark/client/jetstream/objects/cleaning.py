"""Removal of chunks that no longer belong to an object."""

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
    """The meta message that a new one was to replace: None for none."""

    replaced: ObjectInfo | None

    @property
    def seq(self) -> int:
        """The sequence that it expects."""
        return 0 if self.replaced is None else self.replaced.seq

    def instead_of(self, info: ObjectInfo) -> ObjectInfo:
        """The meta message to write if ``info`` must not take effect after all."""
        before = self.replaced
        return before if before is not None and (before.nuid or before.link) else deleted(info)


_running: Final[set[asyncio.Task[Any]]] = set()


async def surely(work: Coroutine[Any, Any, T]) -> T:
    """Run work in several steps, which completes even if the caller is cancelled."""
    task = asyncio.get_running_loop().create_task(work, name="jetspark object store")
    _running.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved: a waiting caller got it, a cancelled one does not need it


class Cleaner:
    """Removes chunks of one store that belong to no object."""

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
        """Remove the chunks of a failed put, or of what it has replaced after all.

        ``offered`` is what its meta message was sent to replace, if its answer is unknown.
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
        """Remove the chunks of a replaced or deleted object.

        The change itself has succeeded, so an error here is reported, not raised.
        """
        if info is None or info.deleted or info.link is not None or not info.nuid:
            return
        try:
            await self._purge(info.nuid, timeout)
        except Error as error:
            error.add_note(
                f"object {info.name!r} was replaced or deleted, but its old chunks are still in "
                f"bucket {info.bucket!r}: ObjectStore.purge_orphans removes them"
            )
            self._api.core.report(error)

    async def check_data(self, info: ObjectInfo, offered: Offer, timeout: Timeout | None) -> None:
        """Withdraw an object whose chunks were removed before it was complete.

        ``purge_orphans`` does that to a put that paused for longer than its ``older_than``.
        """
        chunks = await self._meta.count_chunks(info.nuid, timeout=timeout)
        if chunks < info.chunks:
            before = offered.instead_of(info)
            await self._meta.write(before, expected=info.seq, timeout=timeout)
            await self.remove_data(info, timeout)
            size = info.options.max_chunk_size if info.options is not None else 0
            error = ObjectIncomplete(info.bucket, info.name, chunks * size, info.size)
            error.add_note("its chunks were removed during the put, perhaps by purge_orphans")
            raise error

    async def _is_stored(self, info: ObjectInfo, offered: Offer, timeout: Timeout | None) -> bool:
        """Whether the meta message of a put was stored; if not, it never will be.

        It may still be in flight, and must not make a name refer to removed data, nor replace a
        complete object. It is conditional on what it was to replace: writing that again, with a
        new sequence, makes the server refuse it.
        """
        try:
            await again(
                lambda part: self._meta.write(
                    offered.instead_of(info), expected=offered.seq, timeout=part
                ),
                self._api,
                timeout,
            )
        except WrongLastSequence:  # it was stored, or another change was faster
            found = await self._meta.look(info.name, timeout=timeout)
            return found is not None and found.nuid == info.nuid and not found.deleted
        return False

    async def _remove_late(self, nuid: str, sent: int, timeout: Timeout | None) -> None:
        """Purge until as many chunks were removed as were sent, or none arrived for a while."""
        for pause in PURGE_PAUSES:
            await asyncio.sleep(pause)
            sent -= await self._purge(nuid, timeout)
            if sent <= 0:
                return

    async def _purge(self, nuid: str, timeout: Timeout | None) -> int:
        return await again(
            lambda part: self._meta.purge_chunks(nuid, timeout=part), self._api, timeout
        )
