"""``kv_lookup``: values as new as the bucket, against both servers and in a real session."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from jetspark import KeyValueConfig, sync
from jetspark.errors import KeyNotFound
from jetspark.spark import kv_lookup
from jetspark.spark.connection_settings import Connection
from jetspark.spark.kv import lookup_values
from jetspark.spark.kv.lookup_values import BucketLookup, LookupFailed, LookupPlan
from jetspark.spark.option_reader import InvalidOptions

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


def _lookup(url: str, bucket: str, max_staleness: float = 0.0) -> BucketLookup:
    return BucketLookup(LookupPlan(Connection(servers=(url,)), bucket, max_staleness))


def _values(lookup: BucketLookup, *keys: str | None) -> list[bytes | None]:
    found = lookup.look_up(pa.array(keys, pa.string())).to_pylist()
    return [None if one is None else one["value"] for one in found]


@pytest.mark.parametrize("history", [1, 3])
def test_each_lookup_sees_every_change_before_it(
    url: str, jetstream: sync.JetStream, history: int
) -> None:
    """Random changes of every kind; the truth is a get of each key."""
    dice = random.Random(history)
    name = f"SEEN{history}"
    bucket = jetstream.create_key_value(KeyValueConfig(bucket=name, history=history))
    lookups = [_lookup(url, name), _lookup(url, name)]
    keys = [f"k.{number}" for number in range(12)]

    def truth(key: str) -> tuple[bytes, int] | None:
        try:
            entry = bucket.get(key)
        except KeyNotFound:
            return None
        return entry.value, entry.revision

    for turn in range(60):
        key = dice.choice(keys)
        match dice.randrange(6):
            case 0:
                bucket.delete(key)
            case 1:
                bucket.purge(key)
            case 2 if turn % 10 == 0:
                # No marker is left of these.
                jetstream.stream(f"KV_{name}").purge(subject=f"$KV.{name}.{key}")
            case _:
                bucket.put(key, b"%d" % turn)
        asked = dice.sample(keys, 5)
        found = dice.choice(lookups).look_up(pa.array(asked)).to_pylist()
        seen = [None if one is None else (one["value"], one["revision"]) for one in found]
        assert seen == [truth(key) for key in asked], turn


def test_what_cannot_be_a_key_has_no_value_and_wildcards_match_nothing(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="ODD"))
    bucket.put("a.b", b"1")
    bucket.put("empty", b"")

    found = _values(_lookup(url, "ODD"), None, "", "a.*", ">", "a b", ".", "a.b", "empty", "a.b")

    assert found == [None, None, None, None, None, None, b"1", b"", b"1"]


def test_a_bucket_created_again_is_read_again(url: str, jetstream: sync.JetStream) -> None:
    lookup = _lookup(url, "AGAIN")
    for value in (b"1", b"2"):
        bucket = jetstream.create_key_value(KeyValueConfig(bucket="AGAIN"))
        bucket.put("key", value)
        assert _values(lookup, "key") == [value]
        jetstream.delete_key_value("AGAIN")

    with pytest.raises(LookupFailed, match="bucket 'AGAIN' does not exist"):
        _values(lookup, "key")
    with pytest.raises(LookupFailed, match="'AGAIN' are int64: a key is a string, so cast"):
        lookup.look_up(pa.array([1]))


def test_values_may_be_as_old_as_max_staleness_and_no_older(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("jetspark.spark.kv.lookup_values.time.monotonic", lambda: now[0])
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="STALE"))
    bucket.put("key", b"1")
    lookup = _lookup(url, "STALE", 5.0)

    assert _values(lookup, "key") == [b"1"]
    bucket.put("key", b"2")
    now[0] += 4.9
    assert _values(lookup, "key") == [b"1"]
    now[0] += 0.1
    assert _values(lookup, "key") == [b"2"]


def test_more_values_than_a_worker_keeps_are_read_again(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_values, "KEPT_BYTES", 100_000)
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="MANY"))
    bucket.put_many({f"k.{number}": b"%d" % number for number in range(6_000)})
    lookup = _lookup(url, "MANY")

    for start in (0, 3_000, 0):
        keys = [f"k.{number}" for number in range(start, start + 3_500)]
        due = [b"%d" % number for number in range(start, start + 3_500)]
        assert _values(lookup, *keys) == [value if int(value) < 6_000 else None for value in due]


def test_mistakes_are_refused_on_the_driver() -> None:
    with pytest.raises(ValueError, match="'a b' is not a bucket name"):
        kv_lookup("key", "a b", servers="nats://localhost")
    with pytest.raises(ValueError, match="expected 0 or more seconds"):
        kv_lookup("key", "A", servers="nats://localhost", max_staleness=-1)
    with pytest.raises(InvalidOptions, match="unknown option 'server': did you mean servers"):
        kv_lookup("key", "A", server="nats://localhost")


def test_events_of_a_streaming_query_get_the_values_of_the_time_of_their_micro_batch(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    streams.create("SALES")
    bucket = streams.jetstream.create_key_value(KeyValueConfig(bucket="LISTED", history=1))
    events = spark.readStream.format("jetstream").options(servers=streams.url, stream="SALES")
    rows = events.option("startingOffsets", "earliest").load()
    price = kv_lookup(
        functions.element_at(functions.split("subject", "[.]"), 2), "LISTED", servers=streams.url
    )
    rows = rows.select("seq", price.alias("price"))
    seen: list[Any] = []

    def each(batch: Any, _: int) -> None:
        for row in batch.orderBy("seq").collect():
            seen.append((row.seq, None if row.price is None else bytes(row.price.value)))
            if row.price is not None:
                assert row.price.timestamp.astimezone(UTC) <= datetime.now(UTC)

    for value in (b"1", b"2"):
        bucket.put("apple", value)
        for subject in ("SALES.apple", "SALES.pear"):
            streams.jetstream.publish(subject, b"")
        writer = rows.writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.start().awaitTermination(120)

    assert seen == [(1, b"1"), (2, None), (3, b"2"), (4, None)]
