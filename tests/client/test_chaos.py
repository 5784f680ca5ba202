"""Fifty cuts: no acknowledged publish lost, every pending call ends in time (issue 7, Proof)."""

import asyncio
import random
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

import pytest
from tests.client.chaos_proxy import ChaosProxy

from jetspark.api.stream import StreamConfig
from jetspark.client import Client, connect
from jetspark.errors import BufferFull, ConnectionClosed, NoResponders, RequestTimeout

CUTS = 50
TIMEOUT = 0.5
# A call may take its timeout, and what a busy machine adds to it.
PATIENCE = 3.0
EXPECTED = (RequestTimeout, ConnectionClosed, NoResponders, BufferFull)

T = TypeVar("T")


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str
    address: str


class Campaign:
    """Calls in flight while the connection is cut, and what became of them."""

    def __init__(self, nc: Client, name: str) -> None:
        self.nc = nc
        self.js = nc.jetstream(timeout=TIMEOUT)
        self.name = name
        self.acked: dict[bytes, int] = {}
        self.calls = 0
        self.failures = 0
        self.slowest = 0.0
        self.over = False

    async def timed(self, call: Awaitable[T]) -> T | None:
        """Wait for a call; it may fail, but in time and for a reason."""
        started = time.monotonic()
        self.calls += 1
        try:
            return await call
        except EXPECTED:
            self.failures += 1
            return None
        finally:
            self.slowest = max(self.slowest, time.monotonic() - started)

    async def publish_one_by_one(self, worker: int) -> None:
        """Each message until it is acknowledged; by its id it is stored once."""
        n = 0
        while not self.over:
            text = b"%d-%d" % (worker, n)
            ack = await self.timed(
                self.js.publish(f"{self.name}.{worker}", text, msg_id=text.decode())
            )
            if ack is not None:
                self.acked[text] = ack.seq
                n += 1
            await asyncio.sleep(0.001)

    async def publish_in_a_window(self) -> None:
        """Fire without waiting, then look at each ack."""
        n = 0
        while not self.over:
            texts = [b"w-%d" % (n + i) for i in range(20)]
            n += len(texts)
            futures = [
                await self.timed(self.js.publish_async(f"{self.name}.w", text)) for text in texts
            ]
            for text, future in zip(texts, futures, strict=True):
                ack = await self.timed(future.wait()) if future is not None else None
                if ack is not None:
                    self.acked[text] = ack.seq
            await asyncio.sleep(0.005)

    async def ask(self) -> None:
        """Requests and flushes."""
        while not self.over:
            await self.timed(self.nc.request(f"{self.name}-echo", b"?", timeout=TIMEOUT))
            await self.timed(self.nc.flush(timeout=TIMEOUT))
            await asyncio.sleep(0.005)


async def torment(proxy: ChaosProxy, nc: Client, seed: int) -> None:
    """Fifty times: wait for a connection, let it work a little, break it as the seed decides."""
    rng = random.Random(seed)
    for cut in range(CUTS):
        proxy.calm()
        async with asyncio.timeout(10):
            while nc.stats.reconnects < cut:
                await asyncio.sleep(0.002)
        proxy.latency = rng.choice((0.0, 0.0, 0.01))
        proxy.write_size = rng.choice((0, 0, 1, 7))
        await asyncio.sleep(rng.uniform(0.02, 0.12))
        kind = rng.choice(("cut", "cut", "black hole", "refuse"))
        if kind == "black hole":
            proxy.black_hole()
        else:
            proxy.refusing = kind == "refuse"
            proxy.cut()
    proxy.calm()


@pytest.mark.parametrize("seed", [1])
async def test_fifty_cuts_lose_nothing_that_was_acknowledged(
    server: RunningServer, name: str, seed: int
) -> None:
    async with await connect(server.url) as plain:
        stream = await plain.jetstream().create_stream(
            StreamConfig(name=name, subjects=(f"{name}.*",), allow_direct=True)
        )
        await plain.subscribe(f"{name}-echo", callback=lambda m: m.respond(m.data))
        async with (
            ChaosProxy(server.address) as proxy,
            await connect(
                proxy.url,
                reconnect_wait=0.01,
                reconnect_wait_max=0.05,
                reconnect_jitter=0.01,
                max_reconnects=-1,
                connect_timeout=0.3,
                ping_interval=0.05,
                reconnect_buffer_bytes=10_000,
            ) as nc,
        ):
            campaign = Campaign(nc, name)
            workers = [
                asyncio.ensure_future(work)
                for work in (
                    campaign.publish_one_by_one(1),
                    campaign.publish_one_by_one(2),
                    campaign.publish_in_a_window(),
                    campaign.ask(),
                )
            ]
            await torment(proxy, nc, seed)
            campaign.over = True
            await asyncio.wait_for(asyncio.gather(*workers), 30)
            await nc.flush(timeout=10)

            assert nc.stats.reconnects >= CUTS
            assert nc.stats.requests_pending == 0
        stored = {message.seq: message.data async for message in stream.get_batch(seq=1)}

    assert len(campaign.acked) > 100
    assert {seq: text for text, seq in campaign.acked.items()}.items() <= stored.items()
    own = [text for text in stored.values() if not text.startswith(b"w-")]
    assert len(own) == len(set(own))
    assert campaign.slowest < PATIENCE, f"{campaign.failures} of {campaign.calls} calls failed"


async def test_one_byte_at_a_time_is_only_slow(server: RunningServer, name: str) -> None:
    async with ChaosProxy(server.address) as proxy:
        proxy.write_size = 1
        async with await connect(proxy.url) as nc:
            subscription = await nc.subscribe(name)
            for n in range(20):
                nc.publish(name, b"%d" % n, headers={"n": str(n)})
            received = [await subscription.next_msg() for _ in range(20)]

    assert [(m.data, m.headers["n"]) for m in received] == [(b"%d" % n, str(n)) for n in range(20)]


async def test_a_black_hole_is_noticed_by_pings(server: RunningServer, name: str) -> None:
    lost: list[Exception] = []
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(
            proxy.url,
            ping_interval=0.05,
            reconnect_wait=0.01,
            disconnected_callback=lost.append,
        ) as nc,
    ):
        subscription = await nc.subscribe(name)
        await nc.flush()
        proxy.black_hole()
        while not nc.stats.reconnects:
            await asyncio.sleep(0.01)
        nc.publish(name, b"again")

        assert (await subscription.next_msg()).data == b"again"
    assert "did not answer 2 PINGs" in str(lost[0])
