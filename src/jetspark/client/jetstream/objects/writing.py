"""Writing the chunks of an object: with fast ingest if the stream allows it, else pipelined."""

from collections import deque
from contextlib import aclosing
from typing import Final

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects.chunks import ObjectData, chunks_of
from jetspark.client.jetstream.objects.info import Digest
from jetspark.client.jetstream.objects.reading import Progress
from jetspark.client.jetstream.publishing.fast import FastPublisher
from jetspark.client.jetstream.publishing.publisher import PendingAck, PublishWindow
from jetspark.client.timeouts import Timeout
from jetspark.errors import BatchNotEnabled

CHUNKS_IN_FLIGHT: Final = 32
FLOW: Final = 8  # chunks per ack of fast ingest: a megabyte


class ChunkWriter:
    """Writes chunks to one subject and counts them."""

    def __init__(
        self, api: ApiClient, subject: str, *, fast: bool, timeout: Timeout | None
    ) -> None:
        self._api = api
        self._subject = subject
        self._timeout = api.seconds(timeout)
        self._publisher = self._fast_publisher() if fast else None
        self._window = PublishWindow(api, CHUNKS_IN_FLIGHT, None)
        self._waiting: deque[PendingAck] = deque()
        self._windowed = 0
        self.digest: Final = Digest()
        self.size: int = 0
        self.chunks: int = 0

    @property
    def sent(self) -> int:
        """Chunks that may be stored, including one that was being sent when it was cancelled."""
        return self._publisher.sent if self._publisher is not None else self._windowed

    async def write(self, data: ObjectData, chunk_size: int, progress: Progress | None) -> None:
        """Write everything and wait until it is stored."""
        total = len(data) if isinstance(data, bytes | bytearray | memoryview) else -1
        async with aclosing(chunks_of(data, chunk_size)) as chunks:
            async for chunk in chunks:
                await self._send(chunk)
                self.digest.update(chunk)
                self.size += len(chunk)
                self.chunks += 1
                if progress is not None:
                    progress(self.size, total)
        if self._publisher is not None and self.chunks:
            await self._publisher.commit()
        for ack in self._waiting:
            await ack.wait()

    async def abandon(self) -> None:
        """Stop sending and wait until chunks in flight are stored; the caller removes them.

        A purge may overtake messages that the stream has not stored yet.
        """
        publisher = self._publisher
        if publisher is not None and publisher.sent and not publisher.is_closed:
            await publisher.commit()
        await self._window.complete(self._timeout)

    async def _send(self, chunk: bytes) -> None:
        if self._publisher is not None:
            try:
                await self._publisher.publish(self._subject, chunk)
            except BatchNotEnabled:
                # The setting was changed since this handle was created; nothing was stored.
                if self.chunks:
                    raise
                self._publisher = None
            else:
                return
        self._waiting.append(await self._window.publish(self._subject, b"", chunk, self._timeout))
        self._windowed += 1
        while self._waiting and self._waiting[0].is_done:
            self._waiting.popleft().result()  # raises a refusal

    def _fast_publisher(self) -> FastPublisher:
        return FastPublisher(
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
