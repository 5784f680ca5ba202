"""Kill the server again and again while it acknowledges messages; nothing acknowledged may go.

With several streams the journal is used, and what only the journal has on disk for certain is
taken out of the segments after each kill, as a power failure may do.

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

from jetspark.store.files import OsFiles
from jetspark.store.format.segment import segment_name
from jetspark.store.journal.journal import Journal

CREATE = b'{"name":"%b","subjects":["%b.>"],"allow_direct":true}'
CREATE_ASYNC = CREATE[:-1] + b',"persist_mode":"async"}'
# The durability of a server, as users set it.
LEVELS = (
    "",
    "jetspark { durability: async }",
    'jetstream { sync_interval: "100ms" }',
    "jetstream { sync_interval: always }",
)
IN_FLIGHT = 100


class Kills:
    """One store, any number of lives."""

    def __init__(
        self, store: Path, seed: int, *, streams: int = 1, changes_levels: bool = False
    ) -> None:
        """``changes_levels``: each life has another durability, some streams their own."""
        self.acked: dict[tuple[bytes, int], bytes] = {}
        self.lives = 0
        # Groups that were taken out of segments.
        self.wiped = 0
        self._names = [b"S%d" % number for number in range(streams)]
        self._store = store
        self._random = random.Random(seed)
        self._changes_levels = changes_levels

    async def live(self) -> None:
        """Start, check everything acknowledged before, publish, kill in the middle."""
        served = Served(self._store, *self._arguments())
        try:
            client = await nats.connect(served.url, allow_reconnect=False)
            for number, name in enumerate(self._names):
                own = self._changes_levels and number % 3 == 1
                create = (CREATE_ASYNC if own else CREATE) % (name, name)
                await client.request(f"$JS.API.STREAM.CREATE.{name.decode()}", create, timeout=10)
            await self._check(client)
            await self._publish_and_kill(client, served)
        finally:
            served.end()
        self.lives += 1
        if len(self._names) > 1:
            self.wiped += wipe_journaled(self._store)

    def _arguments(self) -> list[str]:
        if not self._changes_levels:
            return []
        config = self._store.with_suffix(".conf")
        config.write_text(self._random.choice(LEVELS))
        return ["-p", "-1", "-c", str(config)]

    async def _check(self, client: Client) -> None:
        for (name, seq), payload in self.acked.items():
            subject = f"$JS.API.DIRECT.GET.{name.decode()}"
            reply = await client.request(subject, b'{"seq":%d}' % seq, timeout=10)
            assert reply.data == payload, f"{seq} of {name!r} was acknowledged and is not there"

    async def _publish_and_kill(self, client: Client, served: Served) -> None:
        """Keep publishes in flight; kill when some are acknowledged and others in flight."""
        js = client.jetstream(timeout=10)
        payloads: dict[asyncio.Task[PubAck], tuple[bytes, bytes]] = {}
        wanted = self._random.randrange(1, 2000)
        acked = sent = 0
        while acked < wanted:
            while len(payloads) < IN_FLIGHT:
                payload = b"life %d message %d" % (self.lives, sent)
                name = self._names[sent % len(self._names)]
                task = asyncio.create_task(js.publish(f"{name.decode()}.x", payload))
                payloads[task] = (name, payload)
                sent += 1
            done, _ = await asyncio.wait(payloads, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._note(task.result().seq, *payloads.pop(task))
            acked += len(done)
        served.stop(signal.SIGKILL)
        await client.close()
        for task, published in payloads.items():
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                self._note(task.result().seq, *published)

    def _note(self, seq: int, name: bytes, payload: bytes) -> None:
        assert (name, seq) not in self.acked, f"sequence {seq} was used twice"
        self.acked[name, seq] = payload


def wipe_journaled(store: Path) -> int:
    """Take what the journal has out of the newest segments; return how many groups."""
    journal = Journal(OsFiles(), store, lambda: None, lambda: 0)
    wiped = 0
    for stream_id, groups in journal.read().streams.items():
        for folder in store.glob(f"acct-*/stream-{stream_id:016x}"):
            newest = max(folder.glob("*.seg"))
            for entry in groups.entries:
                place = entry.place
                if newest.name == segment_name(place.first_seq, place.first_position):
                    with newest.open("r+b") as file:
                        file.seek(place.offset)
                        file.write(bytes(entry.length))
                    wiped += 1
    return wiped
