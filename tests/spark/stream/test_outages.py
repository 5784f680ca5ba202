"""A query that runs outlives a restart of its server; a new one fails at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from jetspark import StreamConfig, sync
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.stream import followed_stream
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import ServerUnreachable

if TYPE_CHECKING:
    from tests.spark.conftest import NatsServer

AWAY_S = 0.5
SCHEMA = StructType().add("subject", "string").add("data", "string")


@pytest.fixture
def server(start_nats: "Callable[..., NatsServer]") -> "Iterator[NatsServer]":
    running = start_nats()
    with sync.connect(running.url) as client:
        js = client.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=("S.>",), allow_direct=True))
        js.publish("S.1", b"1")
    yield running
    CONNECTIONS.close()


def _source(server: "NatsServer") -> JetStreamDataSource:
    options = {"servers": server.url, "stream": "S"}
    return JetStreamDataSource(options=options)


def _reader(server: "NatsServer") -> Any:
    source = JetStreamDataSource(
        options={"servers": server.url, "stream": "S", "startingOffsets": "earliest"}
    )
    return source.streamReader(source.schema())


def _restart_later(server: "NatsServer") -> threading.Timer:
    server.stop()
    later = threading.Timer(AWAY_S, server.start)
    later.start()
    return later


def test_a_running_read_waits_for_its_server(server: "NatsServer") -> None:
    reader = _reader(server)
    start = reader.initialOffset()

    later = _restart_later(server)
    end = reader.latestOffset(start, ReadAllAvailable())
    later.join()
    rows = [row for part in reader.partitions(start, end) for row in reader.read(part)]

    assert sum(batch.num_rows for batch in rows) == 1


@pytest.mark.usefixtures("task")
def test_an_epoch_is_planned_although_the_server_restarts(server: "NatsServer") -> None:
    later = _restart_later(server)
    writer: Any = _source(server).streamWriter(SCHEMA, False)
    later.join()
    writer.write(iter([pa.RecordBatch.from_pydict({"subject": ["S.2"], "data": ["2"]})]))

    with sync.connect(server.url) as client:
        stream = client.jetstream().stream("S")
        stored = Counter(one for chunk in stream.scan() for one in chunk.data)
    assert stored == Counter([b"1", b"2"])


def test_an_epoch_of_objects_is_planned_although_the_server_restarts(
    server: "NatsServer",
) -> None:
    with sync.connect(server.url) as client:
        client.jetstream().create_object_store("O")
    source = ObjectDataSource(options={"servers": server.url, "bucket": "O"})
    schema = StructType().add("path", "string").add("content", "string")

    later = _restart_later(server)
    writer: Any = source.streamWriter(schema, False)
    later.join()
    writer.write(iter([pa.RecordBatch.from_pydict({"path": ["a"], "content": ["1"]})]))

    with sync.connect(server.url) as client:
        assert client.jetstream().object_store("O").get("a") == b"1"


def test_a_new_read_is_reported_at_once_and_an_old_one_at_the_end(
    server: "NatsServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_stream, "OUTAGE_S", 0.3)
    reader = _reader(server)
    start = reader.initialOffset()
    server.stop()

    with pytest.raises(ServerUnreachable, match=r"cannot read stream 'S' on 127\.0\.0\.1"):
        reader.latestOffset(start, ReadAllAvailable())
    monkeypatch.setattr(followed_stream, "OUTAGE_S", 1e9)
    with pytest.raises(ServerUnreachable):
        _reader(server).initialOffset()
