"""No row is missing although the copies that answer lag.

A replica of a real cluster that was stopped and continues after slow routes; a mirror, and a
filtered mirror, which answer direct gets of their origin. Batch, streaming and bucket snapshots,
as Spark calls them and without a JVM.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.support.chaos_proxy import ChaosProxy
from tests.support.cluster import Cluster
from tests.support.late_follower import LATE, late_cluster, led_elsewhere

from jetspark import JetStream, KeyValueConfig, StreamConfig, StreamSource, connect, sync
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.kv.plan import WholePartition
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.sync.bulk import count_from

# How long the late node gets nothing replicated while a read is in progress: less than what
# makes it call an election.
HELD_S = 1.0


class HoldingProxy(ChaosProxy):
    """Holds back what is replicated to the node that dials it; requests and answers continue."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._holding = False
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []

    def hold(self) -> None:
        self._holding = True

    def release(self) -> None:
        self._holding = False
        for writer, frame in self._held:
            writer.write(frame)
        self._held.clear()

    async def _pump(
        self, pair: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        towards = writer is pair.writers[0]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await reader.readuntil(b"\r\n")
                verb = frame.split(b" ", 1)[0]
                if verb in {b"RMSG", b"HMSG"}:
                    frame += await reader.readexactly(int(frame.split()[-1]) + 2)
                # The log of a replica travels on subjects of its own, in order of its terms.
                if towards and self._holding and b" $NRG." in frame[:200]:
                    self._held.append((writer, frame))
                else:
                    writer.write(frame)
                    await writer.drain()


class _Read:
    """A read that one machine plans and another one does, as drivers and executors are."""

    def __init__(self, planner: str, worker: str, stream: str, **options: str) -> None:
        self._planner = self._source(planner, stream, options)
        self._worker = self._source(worker, stream, options)

    def batch(self) -> list[int]:
        schema = self._planner.schema()
        parts = self._planner.reader(schema).partitions()
        return self._rows(self._worker.reader(schema), parts)

    def follow(self, start: dict[str, Any] | None) -> tuple[dict[str, Any], list[int]]:
        schema = self._planner.schema()
        reader: Any = self._planner.streamReader(schema)
        start = start or reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        worker = self._worker.streamReader(schema)
        return end, self._rows(worker, reader.partitions(start, end))

    def _rows(self, reader: Any, parts: Any) -> list[int]:
        batches = [batch for part in parts for batch in reader.read(part)]
        return [seq for batch in batches for seq in batch["seq"].to_pylist()]

    def _source(self, url: str, stream: str, options: dict[str, str]) -> JetStreamDataSource:
        return JetStreamDataSource(options={"servers": url, "stream": stream, **options})


def _snapshot(planner: str, worker: str, bucket: str) -> dict[str, int]:
    """The keys of a bucket with their revisions."""
    sources = [
        KvDataSource(options={"servers": url, "bucket": bucket, "minPartitions": "2"})
        for url in (planner, worker)
    ]
    parts = sources[0].reader(sources[0].schema()).partitions()
    kinds = {type(part) for part in parts}
    assert kinds == {WholePartition}, "nobody proves anything here"
    reader: Any = sources[1].reader(sources[1].schema())
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(rows) == len({row["key"] for row in rows})
    return {row["key"]: row["revision"] for row in rows}


class _Late:
    """Three nodes, of which the last one is stopped, continues, and lags."""

    def __init__(self, cluster: Cluster, proxies: Sequence[HoldingProxy], js: JetStream) -> None:
        self._cluster = cluster
        self._proxies = proxies
        self._js = js
        self.last = 0
        # How often its copy was seen to lack messages: which copy answers is the cluster's choice.
        self.danger = 0
        self.revisions: dict[str, int] = {}

    async def read(self, do: Callable[[], Any], copy: sync.Stream) -> Any:
        """Write while the late node is stopped, let it continue, and have it read."""
        for proxy in self._proxies:
            proxy.hold()
        self._cluster.pause(LATE)
        acks = [self._js.publish(f"s.{one % 2}", b"x") for one in range(40)]
        self.last = max(ack.seq for ack in await asyncio.gather(*acks))
        bucket = await self._js.key_value("B")
        for key in ("changing", f"new.{self.last}"):
            self.revisions[key] = await bucket.put(key, b"x")
        self._cluster.resume(LATE)
        reading = asyncio.create_task(asyncio.to_thread(do))
        seen = await asyncio.to_thread(count_from, copy, [1])
        await asyncio.sleep(HELD_S)
        for proxy in self._proxies:
            proxy.release()
        self.danger += seen[0].count < self.last
        return await reading


@pytest.mark.timeout(600)
def test_a_replica_that_was_stopped_and_lags_loses_no_row(tmp_path: Path) -> None:
    asyncio.run(_stopped_and_continued(tmp_path))


async def _stopped_and_continued(folder: Path) -> None:
    async with (
        late_cluster(folder, HoldingProxy) as (cluster, proxies),
        await connect(cluster.urls[0], ignore_discovered=True) as writer,
    ):
        js = writer.jetstream(timeout=20.0)
        config = StreamConfig(name="S", subjects=("s.>",), num_replicas=3, allow_direct=True)
        await led_elsewhere(writer, await js.create_stream(config))
        await js.create_key_value(KeyValueConfig(bucket="B", replicas=3))
        await led_elsewhere(writer, await js.stream("KV_B"))
        first, late = cluster.urls[0], cluster.urls[LATE]
        node = _Late(cluster, proxies, js)
        streaming = _Read(first, late, "S", startingOffsets="earliest")
        with sync.connect(late) as client:
            copy = await asyncio.to_thread(client.jetstream().stream, "S")

            place, rows = await node.read(lambda: streaming.follow(None), copy)
            assert rows == list(range(1, node.last + 1))
            before = node.last
            _, rows = await node.read(lambda: streaming.follow(place), copy)
            assert rows == list(range(before + 1, node.last + 1))
            snapshot = await node.read(lambda: _snapshot(first, late, "B"), copy)
            assert snapshot == node.revisions
            for _ in range(10):
                batch = await node.read(_Read(first, late, "S", minPartitions="2").batch, copy)
                assert batch == list(range(1, node.last + 1))
                if node.danger:
                    break
        assert node.danger, "the set-up must show the danger that the connector protects from"
        CONNECTIONS.close()


@pytest.fixture
def mirrored(jetstream: sync.JetStream) -> Callable[[str, str], sync.Stream]:
    """Makes a stream with a mirror that answers for it, filtered or not."""

    def make(name: str, filter_subject: str) -> sync.Stream:
        stream = jetstream.create_stream(
            StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True)
        )
        jetstream.create_stream(
            StreamConfig(
                name=f"{name}_M",
                mirror=StreamSource(name=name, filter_subject=filter_subject),
                allow_direct=True,
                mirror_direct=True,
            )
        )
        return stream

    return make


@pytest.mark.parametrize("only", ["", "0"], ids=["mirror", "filtered mirror"])
def test_a_mirror_that_answers_for_its_origin_loses_no_row(
    url: str,
    jetstream: sync.JetStream,
    mirrored: Callable[[str, str], sync.Stream],
    only: str,
) -> None:
    name = f"ORIGIN{only}"
    mirrored(name, f"{name}.{only}" if only else "")
    jetstream.publish(f"{name}.0", b"x")
    streaming = _Read(url, url, name, startingOffsets="earliest")
    place, rows = streaming.follow(None)
    last = len(rows)

    for _ in range(10):
        for number in range(50):
            last = jetstream.publish(f"{name}.{number % 3}", b"x").seq

        place, rows = streaming.follow(place)
        assert rows == list(range(last - 49, last + 1))
        assert _Read(url, url, name, minPartitions="2").batch() == list(range(1, last + 1))
        ones = _Read(url, url, name, subject=f"{name}.1", minPartitions="2")
        assert len(ones.batch()) == 17 * last // 50
