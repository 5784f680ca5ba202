"""Writing the chunks of an object: over fast ingest where the stream allows it, else pipelined."""

from collections import deque
from typing import Final

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects.chunks import ObjectData, chunks_of
from jetspark.client.jetstream.objects.info import Digest
from jetspark.client.jetstream.objects.reading import Progress
from jetspark.client.jetstream.publish import AckFuture, PublishWindow
from jetspark.client.jetstream.publish_fast import FastPublisher

CHUNKS_IN_FLIGHT: Final = 32
FLOW: Final = 8  # chunks per ack of fast ingest: a megabyte


class ChunkWriter:
    """Writes chunks to one subject and counts them."""

    def __init__(self, api: ApiClient, subject: str, *, fast: bool, timeout: float | None) -> None:
        self._api = api
        self._subject = subject
        self._timeout = api.seconds(timeout)
        self._fast = fast
        self._publisher: FastPublisher | None = None
        self._window: PublishWindow | None = None
        self.digest: Final = Digest()
        self.size = 0
        self.chunks = 0

    async def write(self, data: ObjectData, chunk_size: int, progress: Progress | None) -> None:
        """Write all of it and wait until it is stored."""
        if self._fast:
            await self._write_fast(data, chunk_size, progress)
        else:
            await self._write_window(data, chunk_size, progress)

    async def abandon(self) -> None:
        """Stop sending and wait until what is on its way is stored; the caller removes it.

        A purge may overtake messages that the stream has not stored yet.
        """
        publisher, window = self._publisher, self._window
        if publisher is not None and publisher.sent and not publisher.is_closed:
            await publisher.commit()
        if window is not None:
            await window.complete(self._timeout)

    def _count(self, chunk: bytes, progress: Progress | None) -> None:
        self.digest.update(chunk)
        self.size += len(chunk)
        self.chunks += 1
        if progress is not None:
            progress(self.size, -1)

    async def _write_fast(
        self, data: ObjectData, chunk_size: int, progress: Progress | None
    ) -> None:
        publisher = FastPublisher(
            self._api,
            flow=FLOW,
            flow_bytes=0,
            max_outstanding_acks=4,
            gap="fail",
            on_gap=None,
            on_refused=None,
            dialect="reply",
            ack_timeout=self._timeout,
        )
        self._publisher = publisher
        async for chunk in chunks_of(data, chunk_size):
            await publisher.publish(self._subject, chunk)
            self._count(chunk, progress)
        if self.chunks:
            await publisher.commit()

    async def _write_window(
        self, data: ObjectData, chunk_size: int, progress: Progress | None
    ) -> None:
        window = self._window = PublishWindow(self._api, CHUNKS_IN_FLIGHT, None)
        waiting: deque[AckFuture] = deque()
        async for chunk in chunks_of(data, chunk_size):
            waiting.append(await window.publish(self._subject, b"", chunk, self._timeout))
            self._count(chunk, progress)
            while waiting and waiting[0].done():
                waiting.popleft().result()  # raises what was refused
        for ack in waiting:
            await ack.wait()
