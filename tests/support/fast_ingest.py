"""Fast ingest that does not give up: what a batch did not store is sent in the next one."""

import asyncio

from jetspark import JetStream, Stream
from jetspark.errors import ApiError, BatchIncomplete, ConnectionClosed, NoResponders

CHUNK = 50


class Ingest:
    """Sends rows by fast batches and knows which of them must be stored.

    With ``gap`` "fail" every row is stored once, in order, without message ids: a batch that ends
    early says how much it stored. With "ok" there is one batch, which tells what it lost.
    """

    def __init__(self, js: JetStream, stream: Stream, subject: str, count: int) -> None:
        self._js = js
        self._stream = stream
        self._subject = subject
        self.rows = [b"%d" % n for n in range(count)]
        self.lost: set[int] = set()
        self.batches = 0
        self.looked_up = 0
        self.stored = 0
        # Set when a third of the rows was sent: time to break something.
        self.well_begun = asyncio.Event()

    async def run(self, gap: str) -> None:
        """Send all rows."""
        async with asyncio.timeout(60):
            if gap == "ok":
                await self._with_gaps()
                return
            while self.stored < len(self.rows):
                self.stored += await self._one_batch(self.rows[self.stored :])

    async def _one_batch(self, rows: list[bytes]) -> int:
        self.batches += 1
        try:
            async with self._js.fast_publisher(ack_timeout=5.0) as fast:
                for at in range(0, len(rows), CHUNK):
                    part = rows[at : at + CHUNK]
                    await fast.extend([self._subject] * len(part), part)
                    await self._noted(self.stored + at)
        except BatchIncomplete:
            if fast.is_exact:
                return fast.acked
            # The server's last answer was lost, too; no one else writes, so the stream shows it.
            self.looked_up += 1
            return (await self._stream.info(timeout=20)).state.last_seq - self.stored
        except (NoResponders, ConnectionClosed):
            assert fast.sent <= 1  # no one leads the stream yet: the batch did not begin
            await asyncio.sleep(0.05)
            return 0
        return fast.ack.count

    async def _with_gaps(self) -> None:
        self.batches += 1
        async with self._js.fast_publisher(
            gap="ok", on_gap=self._on_gap, on_refused=self._on_refused, ack_timeout=5.0
        ) as fast:
            for at in range(0, len(self.rows), CHUNK):
                part = self.rows[at : at + CHUNK]
                await fast.extend([self._subject] * len(part), part)
                await self._noted(at)
        self.stored = fast.ack.count - len(self.lost)

    async def _noted(self, at: int) -> None:
        if at * 3 > len(self.rows):
            self.well_begun.set()
        # Others have their turn, as between the chunks of a real source.
        await asyncio.sleep(0.001)

    def _on_gap(self, expected: int, got: int) -> None:
        self.lost.update(range(expected, got))

    def _on_refused(self, seq: int, error: ApiError) -> None:
        raise AssertionError(f"message {seq} was refused: {error}")

    async def check(self, *, exact: bool = True) -> None:
        """What must be stored is, in order, once, and nothing else.

        Not ``exact``: what the server said of a gap may be lost, then more is given up for lost.
        """
        last = (await self._stream.info(timeout=20)).state.last_seq
        pager = self._stream.get_batch(min_last_seq=last, timeout=20)
        found = [int(message.data) async for message in pager]

        assert found == sorted(set(found))
        missing = set(range(1, len(self.rows) + 1)) - {n + 1 for n in found}
        assert missing == self.lost if exact else missing <= self.lost
