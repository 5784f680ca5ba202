"""Calls of every kind in flight while the connection is cut, and what became of them.

Each worker repeats one kind of call. A call may fail, but in time, and for a reason that says what
is known; what a call that did not fail has promised is checked when the storm is over.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jetspark import AckPolicy, Client, Consumer, ConsumerConfig, KeyValue, ObjectStore, Stream
from jetspark.errors import (
    BatchIncomplete,
    BufferFull,
    ConnectionClosed,
    Error,
    KeyNotFound,
    NoResponders,
    ObjectNotFound,
    RequestTimeout,
)

TIMEOUT = 0.5
EXPECTED = (RequestTimeout, ConnectionClosed, NoResponders, BufferFull, BatchIncomplete)
ATOMIC = 5  # messages per atomic batch
FAST = 60  # messages per fast batch
OBJECT = 20_000  # times seven bytes: more than one chunk

T = TypeVar("T")


class Campaign:
    """The workers of one client, and what they were promised."""

    def __init__(self, nc: Client, name: str) -> None:
        self.nc = nc
        self.js = nc.jetstream(timeout=TIMEOUT)
        self.name = name
        self.over = False
        self.calls: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        # What was acknowledged, by sequence.
        self.acked: dict[int, bytes] = {}
        # Of each fast batch: how many messages are known to be stored, and whether that is all.
        self.fast: dict[int, tuple[int, bool]] = {}
        self.put: dict[str, tuple[int, bytes]] = {}
        self.object = 0
        self.fetched: set[int] = set()

    async def timed(self, kind: str, call: Awaitable[T]) -> T | None:
        """Wait for a call; it may fail, but in time and for a reason."""
        started = time.monotonic()
        self.calls[kind] += 1
        try:
            result = await call
        except EXPECTED:
            return None
        finally:
            self.slowest[kind] = max(self.slowest.get(kind, 0.0), time.monotonic() - started)
        self.done[kind] += 1
        return result

    def workers(self) -> list[Awaitable[None]]:
        """One of each kind."""
        return [
            self.publish_one_by_one(1),
            self.publish_one_by_one(2),
            self.publish_in_a_window(),
            self.publish_atomically(),
            self.publish_fast(),
            self.use_keys(),
            self.use_objects(),
            self.fetch(),
            self.ask(),
        ]

    async def publish_one_by_one(self, worker: int) -> None:
        """Each message until it is acknowledged; by its id it is stored once."""
        n = 0
        while not self.over:
            text = b"%d-%d" % (worker, n)
            ack = await self.timed(
                "publish", self.js.publish(f"{self.name}.p", text, msg_id=text.decode())
            )
            if ack is not None:
                self.acked[ack.seq] = text
                n += 1
            await asyncio.sleep(0.002)

    async def publish_in_a_window(self) -> None:
        """Fire without waiting, then look at each ack."""
        n = 0
        while not self.over:
            texts = [b"w-%d" % (n + i) for i in range(20)]
            n += len(texts)
            subject = f"{self.name}.w"
            futures = [
                await self.timed("publish_async", self.js.publish_async(subject, text))
                for text in texts
            ]
            for text, future in zip(texts, futures, strict=True):
                ack = None
                if future is not None:
                    ack = await self.timed("publish_async", future.wait())
                if ack is not None:
                    self.acked[ack.seq] = text
            await asyncio.sleep(0.005)

    async def publish_atomically(self) -> None:
        """Batches that are stored completely or not at all."""
        n = 0
        while not self.over:
            n += 1
            batch = self.js.atomic_batch(timeout=TIMEOUT)
            for part in range(ATOMIC):
                batch.add(f"{self.name}.a", b"a-%d-%d" % (n, part))
            ack = await self.timed("atomic", batch.commit())
            if ack is not None:
                first = ack.seq - ATOMIC + 1
                self.acked |= {first + part: b"a-%d-%d" % (n, part) for part in range(ATOMIC)}
            await asyncio.sleep(0.005)

    async def publish_fast(self) -> None:
        """Batches of which a prefix is stored; ``f-<batch>-<number>``."""
        n = 0
        while not self.over:
            n += 1
            await self.timed("fast", self._fast_batch(n))
            await asyncio.sleep(0.005)

    async def _fast_batch(self, n: int) -> bool:
        rows = [b"f-%d-%d" % (n, part) for part in range(FAST)]
        fast = self.js.fast_publisher(flow=20, ack_timeout=TIMEOUT)
        try:
            await fast.extend([f"{self.name}.f"] * FAST, rows)
            ack = await fast.commit()
        finally:
            # Known to be stored, whatever became of the rest.
            self.fast[n] = (fast.acked, fast.is_exact)
        self.acked[ack.seq] = rows[-1]
        return True

    def check_object(self, found: bytes) -> None:
        """It is one of those that were put, whole, and none before the last acknowledged one."""
        assert found == found[:7] * OBJECT or (not found and not self.object)
        assert int(found[:7] or b"0") >= self.object

    def check(self, stored: dict[int, bytes]) -> None:
        """What was acknowledged is stored; what is stored once by design exists once."""
        assert self.acked.items() <= stored.items()
        assert self.fetched <= stored.keys()
        texts = [text for text in stored.values() if not text.startswith(b"w-")]
        assert len(texts) == len(set(texts))
        parts = Counter(text.rpartition(b"-")[0] for text in texts if text.startswith(b"a-"))
        assert set(parts.values()) <= {ATOMIC}
        found: dict[int, list[int]] = {}
        for text in texts:
            if text.startswith(b"f-"):
                _, batch, part = text.split(b"-")
                found.setdefault(int(batch), []).append(int(part))
        for n, (acked, exact) in self.fast.items():
            there = found.get(n, [])
            # A prefix, in order: nothing in a batch is skipped, nothing is stored twice.
            assert there == list(range(len(there)))
            assert len(there) == acked if exact else len(there) >= acked

    async def use_keys(self) -> None:
        """A key never goes back before what was acknowledged."""
        kv = await self._opened(lambda: self.js.key_value(self.name))
        n = 0
        while not self.over:
            n += 1
            key, value = f"k.{n % 5}", b"%d" % n
            revision = await self.timed("kv.put", kv.put(key, value, timeout=TIMEOUT))
            if revision is not None:
                self.put[key] = (revision, value)
            entry = await self.timed("kv.get", self._get(kv, key))
            if entry is not None and key in self.put:
                assert entry >= self.put[key][0], f"{key} went back to {entry}"
            await asyncio.sleep(0.005)

    async def _get(self, kv: KeyValue, key: str) -> int:
        try:
            return (await kv.get(key, timeout=TIMEOUT)).revision
        except KeyNotFound:
            return 0

    async def use_objects(self) -> None:
        """What was put can be got, byte by byte; a put that failed leaves the object before it."""
        store = await self._opened(lambda: self.js.object_store(self.name))
        n = 0
        while not self.over:
            n += 1
            put = store.put("o", b"%07d" % n * OBJECT, timeout=TIMEOUT)
            if await self.timed("object.put", put) is not None:
                self.object = n
            found = await self.timed("object.get", self._object(store))
            if found is not None:
                self.check_object(found)
            await asyncio.sleep(0.005)

    async def _object(self, store: ObjectStore) -> bytes:
        try:
            return await store.get("o", timeout=TIMEOUT)
        except ObjectNotFound:
            return b""

    async def fetch(self) -> None:
        """Everything is delivered at least once; what was acknowledged need not come again."""
        stream: Stream = await self._opened(lambda: self.js.stream(self.name))
        config = ConsumerConfig(
            durable="d",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=1,
            filter_subject=f"{self.name}.p",
        )
        consumer: Consumer = await self._opened(lambda: stream.create_consumer(config))
        while not self.over:
            messages = await self.timed("fetch", consumer.fetch(20, timeout=TIMEOUT))
            for message in messages or ():
                self.fetched.add(message.metadata.stream_seq)
                message.ack()
            await asyncio.sleep(0.005)

    async def ask(self) -> None:
        """Requests and flushes."""
        while not self.over:
            request = self.nc.request(f"{self.name}-echo", b"?", timeout=TIMEOUT)
            await self.timed("request", request)
            await self.timed("flush", self.nc.flush(timeout=TIMEOUT))
            await asyncio.sleep(0.005)

    async def _opened(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Error:
                await asyncio.sleep(0.01)
