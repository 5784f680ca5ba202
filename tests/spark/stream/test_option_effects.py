"""What each option of a read and of a write does, against both servers.

Those that have a test of their own elsewhere are not here again.
"""

import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.errors import Error
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.sync import retry
from jetspark.units import format_rfc3339

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask

SCHEMA = StructType().add("subject", "string").add("data", "string")
LIMIT = ReadMaxRows(1)  # any limit: what counts are the options


def _stream(jetstream: sync.JetStream, name: str, **settings: Any) -> sync.Stream:
    return jetstream.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True, **settings)
    )


def _fill(jetstream: sync.JetStream, name: str, count: int) -> None:
    for number in range(count):
        jetstream.publish(f"{name}.{number}", b"x" * 100)


def _reader(url: str, stream: str, **options: str) -> Any:
    source = JetStreamDataSource(options={"servers": url, "stream": stream, **options})
    return source.streamReader(source.schema())


def _next(offset: dict[str, Any], stream: str) -> int:
    following: int = offset["streams"][stream]["next"]
    return following


def _writer(url: str, stream: str, *, schema: StructType = SCHEMA, **options: str) -> Any:
    source = JetStreamDataSource(options={"servers": url, "stream": stream, **options})
    return pickle.loads(pickle.dumps(source.streamWriter(schema, False)))


def _rows(stream: str, first: int, count: int, **more: object) -> Iterator[pa.RecordBatch]:
    numbers = [str(number) for number in range(first, first + count)]
    columns = {"subject": [f"{stream}.rows"] * count, "data": numbers, **more}
    return iter([pa.RecordBatch.from_pydict(columns)])


def _stored(stream: sync.Stream) -> Counter[int]:
    return Counter(
        int(one) for chunk in stream.scan(filters=(f"{stream.name}.rows",)) for one in chunk.data
    )


def test_a_query_begins_at_a_time(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "SINCE")
    _fill(jetstream, "SINCE", 10)
    moment = format_rfc3339(stream.get_msg(seq=7).time_ns)

    by_time = _reader(url, "SINCE", startingTimestamp=moment).initialOffset()
    by_json = _reader(url, "SINCE", startingOffsets='{"SINCE": 4}').initialOffset()
    latest = _reader(url, "SINCE").initialOffset()

    assert [_next(one, "SINCE") for one in (by_time, by_json, latest)] == [7, 4, 11]


def test_a_query_waits_for_a_sequence(url: str, jetstream: sync.JetStream) -> None:
    _stream(jetstream, "AWAITED")
    _fill(jetstream, "AWAITED", 3)

    reached = _reader(url, "AWAITED", startingOffsets="earliest", minLastSeq="3").initialOffset()

    assert _next(reached, "AWAITED") == 1


def test_a_micro_batch_is_bounded_by_bytes(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "BYTES")
    _fill(jetstream, "BYTES", 20)
    state = stream.info().state
    size = state.bytes // state.messages
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": str(5 * size + size // 2)}
    reader = _reader(url, "BYTES", **options)

    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    assert _next(end, "BYTES") == 6


def test_a_micro_batch_waits_for_enough_but_not_for_ever(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stream(jetstream, "ENOUGH")
    _fill(jetstream, "ENOUGH", 5)
    now = [1000.0]
    monkeypatch.setattr("jetspark.spark.stream.streaming_reader.time.monotonic", lambda: now[0])
    monkeypatch.setattr("jetspark.spark.stream.streaming_reader.time.sleep", lambda _seconds: None)
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s"}
    reader = _reader(url, "ENOUGH", startingOffsets="earliest", **options)
    start = reader.initialOffset()

    held = reader.latestOffset(start, LIMIT)
    now[0] += 31
    late = reader.latestOffset(start, LIMIT)
    _fill(jetstream, "ENOUGH", 10)
    now[0] += 1
    enough = reader.latestOffset(late, LIMIT)

    assert [_next(one, "ENOUGH") for one in (held, late, enough)] == [1, 6, 16]


def test_an_id_prefix_belongs_to_one_checkpoint(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """The epochs of another checkpoint begin at 0 again: they are not those that are stored."""
    stream = _stream(jetstream, "PREFIX")
    _writer(url, "PREFIX", idPrefix="nightly").write(_rows("PREFIX", 1, 10))
    task.query = "another checkpoint"

    with pytest.raises(WriteRefused, match="from another checkpoint"):
        _writer(url, "PREFIX", idPrefix="nightly").write(_rows("PREFIX", 1, 10))

    assert _stored(stream) == Counter(range(1, 11))
    assert stream.get_msg(seq=1).headers["Nats-Msg-Id"].startswith("nightly.0.0.")


@pytest.mark.usefixtures("task")
def test_the_last_line_of_a_refused_row_has_the_cause_and_its_subject(
    url: str, jetstream: sync.JetStream
) -> None:
    """Of a refusal that only the server knows; Spark shows this line."""
    _stream(jetstream, "REFUSED")
    schema = StructType([*SCHEMA.fields]).add("expected_last_subject_seq", "long")
    writer = _writer(url, "REFUSED", schema=schema, delivery="at-least-once")

    with pytest.raises(Error) as refused:
        writer.write(_rows("REFUSED", 1, 1, expected_last_subject_seq=[7]))

    last = refused.value.__notes__[-1]
    assert "'REFUSED.rows' has 0 and the row expects 7" in last


@pytest.mark.parametrize("source", ["column", "content"])
def test_rows_without_the_ids_that_are_expected_are_refused(
    url: str, jetstream: sync.JetStream, source: str
) -> None:
    _stream(jetstream, f"IDS_{source}")
    with_ids = StructType([*SCHEMA.fields]).add("msg_id", "string")
    right, wrong = (with_ids, SCHEMA) if source == "column" else (SCHEMA, with_ids)

    _writer(url, f"IDS_{source}", schema=right, idSource=source)
    with pytest.raises(WriteRefused, match=f"idSource is {source}, but"):
        _writer(url, f"IDS_{source}", schema=wrong, idSource=source)


@pytest.mark.usefixtures("task")
def test_an_atomic_partition_is_one_batch_or_refused(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "PARTS", allow_atomic=True)
    options = {
        "publishMode": "atomic",
        "ledgerSubject": "PARTS.ledger",
        "atomicScope": "partition",
    }
    writer = _writer(url, "PARTS", schema=SCHEMA, **options)

    with pytest.raises(RowRefused, match="a partition has 1000 rows, but an atomic batch at most"):
        writer.write(_rows("PARTS", 1, 1000))
    writer.write(_rows("PARTS", 1, 999))

    assert _stored(stream) == Counter(range(1, 1000))


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("mode", ["async", "fast"])
def test_one_message_in_flight_is_slow_and_right(
    url: str, jetstream: sync.JetStream, mode: str
) -> None:
    name = f"ONE_{mode}"
    stream = _stream(jetstream, name, allow_batched=True)

    _writer(url, name, publishMode=mode, maxInFlight="1").write(_rows(name, 1, 20))

    assert _stored(stream) == Counter(range(1, 21))


@pytest.mark.usefixtures("task")
def test_a_write_is_tried_as_often_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep, this_thread = time.sleep, threading.get_ident()

    def pause(seconds: float) -> None:
        # Threads of a session that another test has left running sleep, too.
        if threading.get_ident() == this_thread:
            pauses.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("jetspark.sync.retry.time.sleep", pause)
    monkeypatch.setattr(retry, "RETRY_DELAY_S", 0.0)
    with sync.Server() as server, sync.connect(server.client_url) as client:
        _stream(client.jetstream(), "TRIES")
        writer = _writer(server.client_url, "TRIES", retries="2", ackTimeoutMs="300")
    CONNECTIONS.close()

    with pytest.raises(Error):
        writer.write(_rows("TRIES", 1, 3))

    assert len(pauses) == 2


@pytest.mark.usefixtures("task")
def test_a_subject_for_all_rows_finds_its_stream(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "ALLROWS")
    source = JetStreamDataSource(options={"servers": url, "subject": "ALLROWS.rows"})
    writer: Any = source.streamWriter(StructType().add("value", "binary"), False)

    writer.write(iter([pa.RecordBatch.from_pydict({"value": [b"1", b"2"]})]))

    assert _stored(stream) == Counter([1, 2])


def test_rows_have_a_time_to_live(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "LIVES", allow_msg_ttl=True)
    _stream(jetstream, "FOREVER")
    schema = StructType([*SCHEMA.fields]).add("ttl", "string")
    ttl = ["1h", "never", None]

    _writer(url, "LIVES", schema=schema).write(
        _rows("LIVES", 1, 3, ttl=pa.array(ttl, pa.string()))
    )

    headers = [message.headers.get("Nats-TTL") for message in stream.get_batch(seq=1)]
    assert headers == ["1h", "never", None]
    task.epoch = "1"
    with pytest.raises(RowRefused, match="expected at least 1 second"):
        _writer(url, "LIVES", schema=schema).write(_rows("LIVES", 4, 1, ttl=["1ms"]))
    numbers = StructType([*SCHEMA.fields]).add("ttl", "double")
    for seconds in (float("nan"), float("inf"), 1e10):
        with pytest.raises(RowRefused, match=f"ttl is {seconds}: .* at most 9223372036"):
            _writer(url, "LIVES", schema=numbers).write(_rows("LIVES", 4, 1, ttl=[seconds]))
    with pytest.raises(
        WriteRefused, match="allow_msg_ttl disabled, which the column 'ttl' requires"
    ):
        _writer(url, "FOREVER", schema=schema)


def test_keys_have_a_time_to_live(url: str, jetstream: sync.JetStream) -> None:
    config = KeyValueConfig(bucket="TTLS", limit_marker_ttl=60)
    jetstream.create_key_value(config)
    schema = StructType().add("key", "string").add("value", "string").add("ttl", "integer")
    source = KvDataSource(options={"servers": url, "bucket": "TTLS"})
    writer: Any = source.writer(schema, False)
    rows = {"key": ["a", "b"], "value": ["1", "2"], "ttl": pa.array([3600, None], pa.int32())}

    writer.write(iter([pa.RecordBatch.from_pydict(rows)]))

    stream = jetstream.stream("KV_TTLS")
    assert [message.headers.get("Nats-TTL") for message in stream.get_batch(seq=1)] == [
        "3600s",
        None,
    ]
