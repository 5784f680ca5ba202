"""What the options of a change feed do, against both servers and without a JVM."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from jetspark import KeyValueConfig, sync
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream import streaming_reader
from jetspark.units import format_rfc3339


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_reader, "POLL_S", 0.0)


def _bucket(jetstream: sync.JetStream, name: str, count: int) -> sync.KeyValue:
    """Create a bucket with ``count`` values of 100 bytes, each of its own key."""
    bucket = jetstream.create_key_value(KeyValueConfig(bucket=name))
    for number in range(count):
        bucket.put(f"k.{number}", b"x" * 100)
    return bucket


def _feed(url: str, bucket: str, **options: str) -> Any:
    source = KvDataSource(options={"servers": url, "bucket": bucket, **options})
    return source.streamReader(source.schema())


def _following(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    end: dict[str, Any] = reader.latestOffset(start, reader.getDefaultReadLimit())
    return end


def _next(offset: dict[str, Any], bucket: str) -> int:
    following: int = offset["streams"][f"KV_{bucket}"]["next"]
    return following


def test_a_micro_batch_of_a_feed_is_bounded_by_bytes(url: str, jetstream: sync.JetStream) -> None:
    _bucket(jetstream, "BYTES", 20)
    state = jetstream.stream("KV_BYTES").info().state
    size = state.bytes // state.messages
    limit = str(5 * size + size // 2)
    reader = _feed(url, "BYTES", startingOffsets="earliest", maxBytesPerTrigger=limit)

    assert _next(_following(reader, reader.initialOffset()), "BYTES") == 6


def test_a_micro_batch_of_a_feed_waits_for_enough_but_not_for_ever(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = _bucket(jetstream, "ENOUGH", 5)
    now = [1000.0]
    monkeypatch.setattr("jetspark.spark.stream.streaming_reader.time.monotonic", lambda: now[0])
    limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s"}
    reader = _feed(url, "ENOUGH", startingOffsets="earliest", **limits)
    start = reader.initialOffset()

    held = _following(reader, start)
    now[0] += 31
    late = _following(reader, start)
    for number in range(10):
        bucket.put(f"more{number}", b"x")
    enough = _following(reader, late)

    assert [_next(one, "ENOUGH") for one in (held, late, enough)] == [1, 6, 16]


def test_a_micro_batch_of_a_feed_has_at_least_so_many_partitions(
    url: str, jetstream: sync.JetStream
) -> None:
    _bucket(jetstream, "PARTS", 20)
    counts = {}
    for asked in ("1", "5"):
        reader = _feed(url, "PARTS", startingOffsets="earliest", minPartitions=asked)
        start = reader.initialOffset()
        counts[asked] = len(reader.partitions(start, _following(reader, start)))

    assert counts == {"1": 1, "5": 5}


def test_a_feed_begins_at_a_time(url: str, jetstream: sync.JetStream) -> None:
    _bucket(jetstream, "SINCE", 10)
    moment = format_rfc3339(jetstream.stream("KV_SINCE").get_msg(seq=7).time_ns)

    begun = _feed(url, "SINCE", startingTimestamp=moment).initialOffset()
    later = _feed(url, "SINCE", startingTimestamp="2199-01-01T00:00:00Z").initialOffset()

    assert (_next(begun, "SINCE"), _next(later, "SINCE")) == (7, 11)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("startingOffsets", "1", "startingOffsets and startingTimestamp are mutually exclusive"),
        ("initialSnapshot", "true", "initialSnapshot excludes startingTimestamp"),
    ],
)
def test_a_feed_has_one_start(url: str, option: str, value: str, text: str) -> None:
    options = {option: value, "startingTimestamp": "2026-01-01T00:00:00Z"}

    with pytest.raises(InvalidOptions, match=text):
        _feed(url, "ANY", **options).initialOffset()


def test_the_position_of_a_feed_is_shown_by_a_consumer(
    url: str, jetstream: sync.JetStream
) -> None:
    """From the snapshot on, which comes before the first revision."""
    bucket = _bucket(jetstream, "SHOWN", 4)
    bucket.put("other", b"x")
    options = {"initialSnapshot": "true", "keys": "k.*", "maxOffsetsPerTrigger": "2"}
    reader = _feed(url, "SHOWN", progressConsumer="spark", **options)
    stream = jetstream.stream("KV_SHOWN")

    snapshot = _following(reader, reader.initialOffset())
    for number in range(3):
        bucket.put(f"k.1{number}", b"x")
    changes = _following(reader, snapshot)
    at_snapshot = stream.consumer("spark").info()
    _following(reader, changes)
    at_changes = stream.consumer("spark").info()

    assert (at_snapshot.ack_floor.stream_seq, at_snapshot.num_pending) == (5, 3)
    assert (at_changes.ack_floor.stream_seq, at_changes.num_pending) == (7, 1)
