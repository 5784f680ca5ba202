"""The peers of the Spark rows: nats-py as users write it, and a source without a server."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS = 2
FETCH = 1_000
WINDOW = 2_000
BATCH = 5_000
SCHEMA = "stream string, subject string, seq long, timestamp timestamp, data binary"


def read_with_nats_py(spark: "SparkSession", url: str, rows: int) -> "DataFrame":
    """Read stream FEW in two tasks through one durable pull consumer, fetch and ack."""
    durable = asyncio.run(_durable(url))
    share = rows // TASKS

    def read(_: Iterable[int]) -> Iterator[Any]:
        return iter(asyncio.run(fetch_all(url, durable, share)))

    tasks = spark.sparkContext.parallelize(range(TASKS), TASKS)
    return spark.createDataFrame(tasks.mapPartitions(read), SCHEMA, verifySchema=False)


async def _durable(url: str) -> str:
    """Create a separate consumer for each run."""
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig

    nc = await nats.connect(url)
    config = ConsumerConfig(
        durable_name=f"bench{uuid4().hex}",
        ack_policy=AckPolicy.EXPLICIT,
        max_ack_pending=100_000,
    )
    info = await nc.jetstream().add_consumer("FEW", config)
    await nc.close()
    return str(info.name)


async def fetch_all(url: str, durable: str, count: int) -> list[tuple[Any, ...]]:
    """Fetch this many messages and acknowledge each."""
    import nats

    nc = await nats.connect(url)
    subscription = await nc.jetstream().pull_subscribe_bind(durable, stream="FEW")
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        for message in await subscription.fetch(min(FETCH, count - len(found))):
            meta = message.metadata
            found.append(
                (meta.stream, message.subject, meta.sequence.stream, meta.timestamp, message.data)
            )
            await message.ack()
    await nc.flush()
    await nc.close()
    return found


def write_with_nats_py(frame: "DataFrame", url: str) -> None:
    """Publish every row from its task, with acks awaited in a window."""
    frame.foreachPartition(lambda rows: asyncio.run(publish_all(url, rows)))


async def publish_all(url: str, rows: Iterable[Any]) -> None:
    """Publish rows with a window of outstanding acks."""
    import nats

    nc = await nats.connect(url)
    js = nc.jetstream(publish_async_max_pending=WINDOW)
    for row in rows:
        await js.publish_async(row.subject, bytes(row.data), wait_stall=60.0)
    await js.publish_async_completed()
    await nc.close()


def ceiling_source() -> Any:
    """Return the format ``bench_ceiling``: generated rows, lists built for every batch.

    The columns and the sizes are those of the connector's read; with a new object per value, which
    a parser of messages cannot avoid.
    """
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    class CeilingReader(DataSourceReader):
        """Generates rows."""

        def __init__(self, rows: int, schema: StructType) -> None:
            self._rows = rows
            self._schema = schema

        def partitions(self) -> list[InputPartition]:
            """As many as the connector creates for two slots."""
            return [InputPartition(n) for n in range(2 * TASKS)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
            """Yield batches of lists."""
            schema = to_arrow_schema(self._schema, timezone="UTC")
            wire = bytes(130 * BATCH)
            left, seq = self._rows // (2 * TASKS), 1
            while left > 0:
                count = min(BATCH, left)
                columns: list[list[Any]] = [
                    ["READ"] * count,
                    [f"READ.{n % 10}" for n in range(count)],
                    list(range(seq, seq + count)),
                    [1_700_000_000_000_000 + n for n in range(seq, seq + count)],
                    [wire[at : at + 128] for at in range(0, 130 * count, 130)],
                ]
                arrays = [
                    pa.array(column, field.type)
                    for column, field in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                left, seq = left - count, seq + count

    class CeilingSource(DataSource):
        """The format."""

        @classmethod
        def name(cls) -> str:
            return "bench_ceiling"

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:
            return CeilingReader(int(self.options["rows"]), schema)

    return CeilingSource
