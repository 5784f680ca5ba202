"""Kill the server again and again while it acknowledges messages; nothing acknowledged may go.

The short form is `tests/integration/server/test_serve.py`, the long one `make torture`.
"""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.api import PubAck
from tests.support.served import Served

CREATE = b'{"name":"S","subjects":["s.>"],"allow_direct":true}'
IN_FLIGHT = 100


class Kills:
    """One store, any number of lives."""

    def __init__(self, store: Path, seed: int) -> None:
        self.acked: dict[int, bytes] = {}
        self.lives = 0
        self._store = store
        self._random = random.Random(seed)

    async def live(self) -> None:
        """Start, check everything acknowledged before, publish, kill in the middle."""
        served = Served(self._store)
        try:
            client = await nats.connect(served.url, allow_reconnect=False)
            await client.request("$JS.API.STREAM.CREATE.S", CREATE)
            await self._check(client)
            await self._publish_and_kill(client, served)
        finally:
            served.end()
        self.lives += 1

    async def _check(self, client: Client) -> None:
        for seq, payload in self.acked.items():
            reply = await client.request("$JS.API.DIRECT.GET.S", b'{"seq":%d}' % seq, timeout=10)
            assert reply.data == payload, f"sequence {seq} was acknowledged and is not there"

    async def _publish_and_kill(self, client: Client, served: Served) -> None:
        """Keep publishes in flight; kill when some are acknowledged and others in flight."""
        js = client.jetstream(timeout=10)
        payloads: dict[asyncio.Task[PubAck], bytes] = {}
        wanted = self._random.randrange(1, 2000)
        acked = sent = 0
        while acked < wanted:
            while len(payloads) < IN_FLIGHT:
                payload = b"life %d message %d" % (self.lives, sent)
                payloads[asyncio.create_task(js.publish("s.x", payload))] = payload
                sent += 1
            done, _ = await asyncio.wait(payloads, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._note(task.result().seq, payloads.pop(task))
            acked += len(done)
        served.stop(signal.SIGKILL)
        await client.close()
        for task, payload in payloads.items():
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                self._note(task.result().seq, payload)

    def _note(self, seq: int, payload: bytes) -> None:
        assert seq not in self.acked, f"sequence {seq} was used twice"
        self.acked[seq] = payload
