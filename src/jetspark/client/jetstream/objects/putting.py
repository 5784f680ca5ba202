"""Putting an object: its chunks, then the meta message that makes it visible."""

from typing import Final

import msgspec

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects.chunks import ObjectData
from jetspark.client.jetstream.objects.cleaning import Cleaner, Offer, surely
from jetspark.client.jetstream.objects.info import ObjectInfo
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.client.jetstream.objects.reading import Progress
from jetspark.client.jetstream.objects.writing import ChunkWriter
from jetspark.client.timeouts import Timeout
from jetspark.errors import ApiError

UNAVAILABLE: Final = 500  # from this code on, the message may have been stored
LONG_PUT: Final = 600.0  # a put that took longer (seconds) counts its chunks at the end


class ObjectPut:
    """One put; ``info`` is the metadata before the data was read."""

    def __init__(
        self,
        api: ApiClient,
        meta: MetaMessages,
        cleaner: Cleaner,
        writer: ChunkWriter,
        info: ObjectInfo,
        timeout: Timeout | None,
    ) -> None:
        self._loop = api.core.loop
        self._meta = meta
        self._cleaner = cleaner
        self._writer = writer
        self._info = info
        self._timeout = timeout
        # What the meta message was sent to replace, if it was sent.
        self._offered: Offer | None = None

    async def run(
        self, data: ObjectData, chunk_size: int, progress: Progress | None
    ) -> ObjectInfo:
        """Store the object and remove what it replaced; or leave nothing."""
        name, writer, timeout = self._info.name, self._writer, self._timeout
        guess = await self._meta.find(name, to_replace=True, timeout=timeout)
        started = self._loop.time()
        try:
            await writer.write(data, chunk_size, progress)
            stored, replaced = await self._meta.change(
                name, self._complete, guess=guess, timeout=timeout
            )
            if self._loop.time() - started > LONG_PUT:
                await self._cleaner.check_data(stored, Offer(replaced), timeout)
        except BaseException as error:
            # Also when cancelled: chunks without a meta message are useless.
            refused = isinstance(error, ApiError) and error.code < UNAVAILABLE
            offered = None if refused else self._offered
            await surely(self._cleaner.give_up(self._info, writer, offered, timeout))
            raise
        await surely(self._cleaner.remove_data(replaced, timeout))
        return stored

    def _complete(self, found: ObjectInfo | None) -> ObjectInfo:
        self._offered = Offer(found)
        writer = self._writer
        return msgspec.structs.replace(
            self._info, size=writer.size, chunks=writer.chunks, digest=writer.digest.text()
        )
