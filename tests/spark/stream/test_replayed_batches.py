"""A micro-batch that Spark runs again reads the same rows in the same partitions.

The readers are driven as Spark's micro-batch execution does, with its offsets as JSON text, over
several lives of a query whose options, stream and server change in between. No JVM.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from jetspark.client.models.base import to_wire

pytest.importorskip("pyspark")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.checkpointed_query import CheckpointedQuery as Query
from tests.support.checkpointed_query import Parts

from jetspark import KeyValueConfig, Storage, sync
from jetspark.spark import lag
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream import followed_stream
from jetspark.spark.stream import streaming_reader as stream_reader
from jetspark.spark.stream.offsets import OffsetRefused
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.view import PlanningFailed
from jetspark.units import format_rfc3339

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "POLL_S", 0.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"R{abs(hash(request.node.nodeid)) % 10**12}"


@pytest.fixture
def filled(name: str, streams: "Streams") -> Iterator[sync.Stream]:
    """A stream of 100 messages; the subject is the sequence modulo 3."""
    yield streams.fill(name, 100, storage=Storage.MEMORY)
    streams.jetstream.delete_stream(name)


def _flat(parts: Parts) -> list[int]:
    return [seq for part in parts for seq in part]


def _query(streams: "Streams", name: str, **options: str) -> Query:
    return Query(streams.url, stream=name, **{"startingOffsets": "earliest", **options})


@pytest.mark.parametrize(
    "changed",
    [
        {"minPartitions": "8"},
        {"minPartitions": "1"},
        {"maxRecordsPerPartition": "7"},
        {"maxOffsetsPerTrigger": "10"},
        {"maxBytesPerTrigger": "1", "batchSize": "3"},
        {"readMode": "consumer"},
        {"startingOffsets": "50"},
        {"startingOffsets": "latest"},
    ],
    ids="-".join,
)
@pytest.mark.usefixtures("filled")
def test_a_replay_has_the_partitions_of_the_first_run_whatever_changed(
    streams: "Streams", name: str, changed: dict[str, str]
) -> None:
    query = _query(streams, name, minPartitions="4")
    query.plan()
    first = query.run()
    streams.jetstream.publish(f"{name}.0", b"later")

    query.restart(**changed)

    assert query.run() == first
    assert [len(part) for part in first] == [25, 25, 25, 25]
    query.commit()
    assert _flat(query.step()) == [101]


def test_the_cores_of_a_start_change_new_micro_batches_only(
    streams: "Streams", name: str, filled: sync.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JETSPARK_MIN_PARTITIONS", "4")
    query = _query(streams, name)
    query.plan()
    first = query.run()
    monkeypatch.setenv("JETSPARK_MIN_PARTITIONS", "2")

    query.restart()

    assert query.run() == first
    query.commit()
    for _ in range(10):
        streams.jetstream.publish(f"{filled.name}.0", b"x")
    assert [len(part) for part in query.step()] == [5, 5]


@pytest.mark.usefixtures("filled")
def test_the_first_micro_batch_of_a_query_from_latest_is_not_lost(
    streams: "Streams", name: str
) -> None:
    """Its start is not in the checkpoint: Spark asks for the initial offset once more."""
    query = _query(streams, name, startingOffsets="latest")
    assert query.start == query.start
    streams.jetstream.publish(f"{name}.0", b"while Spark plans")
    query.reader.initialOffset()
    query.plan()
    assert _flat(query.run()) == [101]
    streams.jetstream.publish(f"{name}.0", b"after the kill")

    query.restart()

    assert _flat(query.run()) == [101]
    query.commit()
    assert _flat(query.step()) == [102]


@pytest.mark.usefixtures("filled")
def test_an_empty_first_micro_batch_from_latest_loses_nothing_either(
    streams: "Streams", name: str
) -> None:
    query = _query(streams, name, startingOffsets="latest")
    query.plan()
    streams.jetstream.publish(f"{name}.0", b"after the kill")

    query.restart()

    assert query.run() == []
    query.commit()
    assert _flat(query.step()) == [101]


def test_rows_that_expire_before_a_replay_leave_the_others_where_they_were(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name, minPartitions="4", failOnDataLoss="false")
    query.plan()
    first = query.run()
    filled.purge(seq=31)
    filled.delete_msg(40)

    query.restart()

    kept = [[seq for seq in part if seq > 30 and seq != 40] for part in first]
    assert query.run() == kept
    query.restart(failOnDataLoss="true")
    with pytest.raises(DataLoss, match=r"starts at 31.*sequences 1 to 100.*failOnDataLoss"):
        query.run()


def test_a_replay_of_which_everything_expired_is_empty_and_the_query_continues(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name, minPartitions="4", failOnDataLoss="false")
    query.plan()
    filled.purge()

    query.restart()

    assert _flat(query.run()) == []
    query.commit()
    streams.jetstream.publish(f"{name}.0", b"x")
    assert _flat(query.step()) == [101]


@pytest.mark.usefixtures("filled")
def test_a_changed_filter_is_for_new_micro_batches(streams: "Streams", name: str) -> None:
    query = _query(streams, name, subject=f"{name}.0", maxOffsetsPerTrigger="50")
    query.plan()
    first = query.run()
    assert _flat(first) == list(range(3, 53, 3))

    query.restart(subject=f"{name}.1")

    assert query.run() == first
    query.commit()
    assert _flat(query.step()) == list(range(55, 101, 3))


@pytest.mark.usefixtures("filled")
def test_a_stream_renamed_in_the_options_is_refused_with_how_to_continue(
    streams: "Streams", name: str
) -> None:
    query = _query(streams, name)
    query.step()
    streams.fill(f"{name}_2", 3)

    query.ends, ends = [], query.ends
    query.restart(stream=f"{name}_2")
    query.ends = ends
    with pytest.raises(OffsetRefused, match=r'startingOffsets", "101"\) there to continue'):
        query.plan()


# What does not change gives no micro-batch: Spark compares the text of offsets.


def _version_1(stream: sync.Stream, following: int) -> str:
    made = _created(stream)
    place = {"next": following, "created": made}
    return json.dumps({"v": 1, "streams": {stream.name: place}})


def _created(stream: sync.Stream) -> str:
    return format_rfc3339(to_wire(stream.info()).created)


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("subject", ["", ".0"])
def test_nothing_new_is_the_same_offset(
    streams: "Streams",
    name: str,
    filled: sync.Stream,
    available_now: bool,
    version: int,
    subject: str,
) -> None:
    filters = {"subject": f"{name}{subject}"} if subject else {}
    query = _query(streams, name, **filters)
    if version == 1:
        query.ends, query.committed = [_version_1(filled, 101)], 1
    else:
        query.step()
    before = query.ends[-1]
    query.restart()
    if available_now:
        query.available_now()
        streams.jetstream.publish(f"{name}.0", b"after the target")

    assert not query.plan()
    assert query.ends[-1] == before


@pytest.mark.usefixtures("filled")
def test_messages_that_are_held_back_do_not_change_the_offset(
    streams: "Streams", name: str
) -> None:
    query = _query(streams, name, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    query.step()
    for _ in range(9):
        streams.jetstream.publish(f"{name}.0", b"x")
    assert not query.plan()

    streams.jetstream.publish(f"{name}.0", b"x")

    assert _flat(query.step()) == list(range(101, 111))


# Checkpoints of jetspark 0.1.0.


def test_a_checkpoint_of_the_version_before_continues(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name, minPartitions="4")
    query.ends, query.committed = [_version_1(filled, 51)], 1

    assert _flat(query.step()) == list(range(51, 101))
    assert json.loads(query.ends[-1])["v"] == 2


def test_a_micro_batch_of_the_version_before_is_planned_as_it_did(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name, minPartitions="4", failOnDataLoss="false")
    query.ends, query.committed = [_version_1(filled, 21), _version_1(filled, 101)], 1
    query.restart()

    first = query.run()

    assert [(part[0], part[-1]) for part in first] == [(21, 40), (41, 60), (61, 80), (81, 100)]
    filled.purge(seq=50)
    assert query.run() == [[seq for seq in part if seq >= 50] for part in first]


@pytest.mark.parametrize("start", ["latest", "31"])
def test_the_first_micro_batch_of_the_version_before_needs_its_start(
    streams: "Streams", name: str, filled: sync.Stream, start: str
) -> None:
    query = _query(streams, name, startingOffsets=start)
    query.ends = [_version_1(filled, 91)]
    query.restart()

    if start == "latest":
        with pytest.raises(OffsetRefused, match=r"0\.1\.0 was interrupted.*startingOffsets"):
            query.run()
    else:
        assert _flat(query.run()) == list(range(31, 91))


def test_an_offset_of_a_later_version_is_refused(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name)
    query.ends, query.committed = [_version_1(filled, 5).replace('"v": 1', '"v": 3')], 1

    with pytest.raises(OffsetRefused, match=r"version 3.*checkpointLocation"):
        query.plan()


# A stream that was created again, or is served by another server.


def _again(streams: "Streams", name: str, count: int) -> None:
    streams.jetstream.delete_stream(name)
    streams.fill(name, count, storage=Storage.MEMORY)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_stream_created_again_stops_the_query_by_default(
    streams: "Streams", name: str, interrupted: bool
) -> None:
    query = _query(streams, name, maxOffsetsPerTrigger="50")
    query.plan()
    if not interrupted:
        query.run()
        query.commit()
    _again(streams, name, 100)
    query.restart()

    with pytest.raises(DataLoss, match=r"created again.*earliest.*continue at 51.*fail"):
        query.run() if interrupted else query.plan()


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("option", [{"onRecreate": "earliest"}, {"failOnDataLoss": "false"}])
def test_a_new_stream_is_read_from_its_beginning_on_request(
    streams: "Streams", name: str, option: dict[str, str]
) -> None:
    query = _query(streams, name, maxOffsetsPerTrigger="50")
    query.step()
    query.plan()
    _again(streams, name, 80)

    query.restart(**option)

    assert _flat(query.run()) == []
    query.commit()
    assert _flat(query.step()) == list(range(1, 51))
    query.restart(failOnDataLoss="true", onRecreate="fail")
    assert _flat(query.step()) == list(range(51, 81))


@pytest.mark.usefixtures("filled")
def test_a_copy_with_the_same_sequences_is_continued_on_request(
    streams: "Streams", name: str
) -> None:
    query = _query(streams, name, maxOffsetsPerTrigger="30", minPartitions="3")
    query.step()
    query.plan()
    first = query.run()
    _again(streams, name, 100)

    query.restart(onRecreate="continue")

    assert query.run() == first
    query.commit()
    assert _flat(query.step()) == list(range(61, 91))
    query.restart(onRecreate="fail")
    assert _flat(query.step()) == list(range(91, 101))


@pytest.mark.usefixtures("filled")
def test_a_copy_that_ends_too_early_is_refused(streams: "Streams", name: str) -> None:
    query = _query(streams, name)
    query.step()
    _again(streams, name, 99)
    query.restart(onRecreate="continue")

    with pytest.raises(DataLoss, match=r"ends at 99: it is not a complete copy"):
        query.plan()


def test_a_stream_restored_from_an_older_state_continues_when_that_is_accepted(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name)
    query.step()
    ended = json.loads(query.ends[-1])
    ended["streams"][name]["next"] = 201
    query.ends[-1] = json.dumps(ended)
    query.restart()
    with pytest.raises(DataLoss, match="restored from an older state"):
        query.plan()

    query.restart(failOnDataLoss="false")
    query.step()
    streams.jetstream.publish(f"{filled.name}.0", b"x")

    assert _flat(query.step()) == [101]


# Filters: what they do not take gives no micro-batch.


def _publish(streams: "Streams", name: str, *subjects: str) -> None:
    for subject in subjects:
        streams.jetstream.publish(f"{name}.{subject}", b"x")


@pytest.mark.usefixtures("filled")
def test_messages_that_no_filter_takes_give_no_micro_batch(streams: "Streams", name: str) -> None:
    query = _query(streams, name, subject=f"{name}.a,{name}.b", startingOffsets="latest")
    query.step()
    for _ in range(3):
        _publish(streams, name, "other")
        assert not query.plan()

    _publish(streams, name, "b", "other", "a")

    assert sorted(_flat(query.step())) == [104, 106]
    assert not query.plan()


def test_the_end_of_a_stream_is_reported_with_its_first_message(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    """From it the lag is counted if the stream was created again since the last micro-batch."""
    filled.purge(seq=96)
    query = _query(streams, name, maxOffsetsPerTrigger="1")
    query.step()
    latest = query.reader.reportLatestOffset()
    before = {"v": 2, "streams": {name: {"next": 5, "created": "earlier"}}}

    (found,) = lag({"sources": [{"latestOffset": latest, "endOffset": before}]})

    assert found.behind == 5


@pytest.mark.usefixtures("filled")
def test_messages_that_no_filter_takes_are_no_lag(streams: "Streams", name: str) -> None:
    query = _query(streams, name, subject=f"{name}.a", maxOffsetsPerTrigger="1")

    def behind() -> int | None:
        """Return what Spark's progress shows after the offset was asked for."""
        latest = query.reader.reportLatestOffset()
        (found,) = lag({"sources": [{"latestOffset": latest, "endOffset": query.ends[-1]}]})
        return found.behind

    _publish(streams, name, "a", "a", "other")
    assert _flat(query.step()) == [101]
    assert behind() == 2
    assert _flat(query.step()) == [102]
    assert not query.plan()
    assert behind() == 0
    _publish(streams, name, *["other"] * 5)
    assert not query.plan()
    assert behind() == 0

    _publish(streams, name, "a", "a")

    assert _flat(query.step()) == [109]
    assert behind() == 1


@pytest.mark.usefixtures("filled")
def test_a_limited_micro_batch_begins_at_the_first_match(streams: "Streams", name: str) -> None:
    _publish(streams, name, *["other"] * 50, "a", "a", "a", "other")
    query = _query(streams, name, subject=f"{name}.a", maxOffsetsPerTrigger="2")

    assert _flat(query.step()) == [151, 152]
    assert _flat(query.step()) == [153]
    assert not query.plan()


def test_foreign_messages_are_passed_once_a_minute_and_may_expire_then(
    streams: "Streams", name: str, filled: sync.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = _query(streams, name, subject=f"{name}.a", startingOffsets="latest")
    query.step()
    _publish(streams, name, "other")
    assert not query.plan()
    monkeypatch.setattr(followed_stream, "PASS_S", 0.0)

    assert query.step() == []
    assert query.place()["next"] == 102

    filled.purge()
    query.restart()
    _publish(streams, name, "a")
    assert _flat(query.step()) == [102]


def test_foreign_messages_that_expire_while_the_query_runs_are_no_loss(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    query = _query(streams, name, subject=f"{name}.a", startingOffsets="latest")
    query.step()
    _publish(streams, name, *["other"] * 10)
    assert not query.plan()

    filled.purge(seq=109)

    assert query.step() == []
    assert query.place()["next"] == 111, "passed at once: a restart would take it for a loss"
    _publish(streams, name, "a")
    assert _flat(query.step()) == [111]


@pytest.mark.usefixtures("filled")
def test_available_now_ends_when_nothing_matches_and_has_passed_it_all(
    streams: "Streams", name: str
) -> None:
    query = _query(streams, name, subject=f"{name}.a")
    query.available_now()

    steps = [query.step() for _ in range(3)]

    assert steps == [[], [], []]
    assert len(query.ends) == 1
    assert query.place()["next"] == 101


# The change feed of a bucket.


@pytest.fixture
def bucket(name: str, streams: "Streams") -> Iterator[sync.KeyValue]:
    made = streams.jetstream.create_key_value(KeyValueConfig(bucket=name, history=3))
    for number in range(40):
        made.put(f"k.{number}", b"x")
    yield made
    streams.jetstream.delete_key_value(name)


def _feed(streams: "Streams", name: str, **options: str) -> Query:
    return Query(streams.url, KvDataSource, bucket=name, **options)


def test_a_replayed_snapshot_of_a_bucket_has_each_value_once_and_the_rest_as_changes(
    streams: "Streams", name: str, bucket: sync.KeyValue
) -> None:
    query = _feed(streams, name, initialSnapshot="true", minPartitions="4")
    query.plan()
    first = query.run()
    assert sorted(_flat(first)) == list(range(1, 41))
    for _ in range(3):
        bucket.put("k.0", b"new")
    bucket.put("k.1", b"new")
    bucket.put("fresh", b"new")

    query.restart(minPartitions="1")

    again = query.run()
    assert len(again) == len(first)
    assert sorted(_flat(again)) == list(range(2, 41)), "of k.0 three newer values are kept"
    query.commit()
    assert sorted(_flat(query.step())) == [41, 42, 43, 44, 45]


def test_a_replayed_snapshot_has_the_keys_of_the_first_run(
    streams: "Streams", name: str, bucket: sync.KeyValue
) -> None:
    query = _feed(streams, name, initialSnapshot="true", keys="k.1")
    query.plan()
    assert _flat(query.run()) == [2]

    query.restart(keys="k.2")

    assert _flat(query.run()) == [2]
    query.commit()
    bucket.put("k.1", b"x")
    bucket.put("k.2", b"x")
    assert _flat(query.step()) == [42]


def test_changes_of_a_bucket_are_replayed_in_their_partitions(
    streams: "Streams", name: str, bucket: sync.KeyValue
) -> None:
    query = _feed(streams, name, startingOffsets="earliest", minPartitions="4")
    query.plan()
    first = query.run()
    for _ in range(3):
        bucket.put("k.0", b"x")

    query.restart(minPartitions="3")

    assert query.run() == [[revision for revision in part if revision > 1] for part in first]
    query.commit()
    query.step()
    assert not query.plan()


@pytest.mark.usefixtures("bucket")
def test_a_bucket_created_again_is_read_as_the_option_says(streams: "Streams", name: str) -> None:
    query = _feed(streams, name, startingOffsets="earliest")
    query.step()
    streams.jetstream.delete_key_value(name)
    again = streams.jetstream.create_key_value(KeyValueConfig(bucket=name))
    again.put("a", b"x")
    query.restart()
    with pytest.raises(DataLoss, match="created again"):
        query.plan()

    query.restart(onRecreate="earliest")

    assert _flat(query.step()) == [1]


@pytest.mark.usefixtures("filled")
def test_too_many_partitions_are_refused_before_they_are_planned(
    streams: "Streams", name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.spark.stream.planner.PARTITIONS_MAX", 10)
    query = _query(streams, name, maxRecordsPerPartition="1")

    with pytest.raises(PlanningFailed, match=r"maxRecordsPerPartition.*maxOffsetsPerTrigger"):
        query.plan()
    query.restart(maxRecordsPerPartition="20")
    assert _flat(query.step()) == list(range(1, 101))


# A naive model, driven through random lives.

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "minPartitions": st.sampled_from(["1", "2", "3", "8"]),
        "maxRecordsPerPartition": st.sampled_from(["1", "5", "1000"]),
        "maxOffsetsPerTrigger": st.sampled_from(["1", "7", "1000"]),
        "filter": st.sampled_from(["", "0", "1", "0,2"]),
        "readMode": st.sampled_from(["auto", "consumer"]),
    },
)
ACTION = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(0, 2), min_size=1, max_size=12)),
    st.tuples(st.just("plan"), st.none()),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("restart"), OPTIONS),
    st.tuples(st.just("expire"), st.integers(1, 6)),
    st.tuples(st.just("delete"), st.integers(0, 1000)),
    st.tuples(st.just("recreate"), st.integers(0, 5)),
)


class Model:
    """What a query over one stream must read, kept as plain sets."""

    def __init__(self, streams: "Streams", name: str) -> None:
        self._streams = streams
        self.name = name
        self.stream = self._create()
        self.stored: dict[int, int] = {}
        self.planned: Parts | None = None
        self.taken: set[int] = set()
        self.reached = 1
        self.filter = ""
        self.query = _query(streams, name, failOnDataLoss="false", subject=f"{name}.>")

    def _create(self) -> sync.Stream:
        return self._streams.create(self.name, storage=Storage.MEMORY)

    def matches(self, seq: int) -> bool:
        return not self.filter or str(self.stored[seq]) in self.filter.split(",")

    def publish(self, subjects: list[int]) -> None:
        for subject in subjects:
            ack = self._streams.jetstream.publish(f"{self.name}.{subject}", b"x")
            self.stored[ack.seq] = subject

    def expire(self, count: int) -> None:
        head = sorted(self.stored)[:count]
        if head:
            self.stream.purge(seq=head[-1] + 1)
            for seq in head:
                del self.stored[seq]

    def delete(self, choice: int) -> None:
        # The newest one stays: what follows a deleted end is a matter of the server.
        inner = sorted(self.stored)[1:-1]
        if inner:
            seq = inner[choice % len(inner)]
            self.stream.delete_msg(seq)
            del self.stored[seq]

    def recreate(self, count: int) -> None:
        self._streams.jetstream.delete_stream(self.name)
        self.stream = self._create()
        self.stored, self.taken, self.reached = {}, set(), 1
        if self.planned is not None:
            self.planned = [[] for _ in self.planned]
        self.publish([number % 3 for number in range(count)])

    def restart(self, options: dict[str, str]) -> None:
        options = dict(options)
        if "filter" in options:
            self.filter = options.pop("filter")
            subjects = [f"{self.name}.{one}" for one in self.filter.split(",") if one]
            options["subject"] = ",".join(subjects or [f"{self.name}.>"])
        self.query.restart(**options)

    def plan(self) -> None:
        if self.planned is not None:
            return
        if self.query.plan():
            self.planned = self.query.run()
            rows = set(_flat(self.planned))
            window = set(range(1, self.query.place()["next"])) - self.taken
            due = {seq for seq in self.stored if seq in window and self.matches(seq)}
            due = {seq for seq in due if seq >= self.reached}
            assert rows == due, "each message that a filter takes, and no other"
        elif len(self.query.ends) > self.query.committed:
            self.planned = []
        else:
            due = {s for s in self.stored if s >= self.reached and self.matches(s)}
            assert not due, "nothing new although there is"

    def check_replay(self) -> None:
        if self.planned is None:
            return
        left = [[seq for seq in part if seq in self.stored] for part in self.planned]
        again = self.query.run()
        assert again == left or (_flat(left) == [] and _flat(again) == [])

    def commit(self) -> None:
        if self.planned is None:
            return
        self.check_replay()
        rows = _flat(self.planned)
        assert len(rows) == len(set(rows))
        assert not self.taken & set(rows)
        self.taken |= set(rows)
        if self.query.place()["created"] == _created(self.stream):
            self.reached = self.query.place()["next"]
        self.planned = None
        self.query.commit()


_examples = iter(range(10**9))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=st.lists(ACTION, min_size=4, max_size=25))
def test_whatever_changes_between_two_lives_a_replay_is_the_first_run(
    streams: "Streams", actions: list[tuple[str, Any]]
) -> None:
    model = Model(streams, f"MODEL{next(_examples)}")
    try:
        for action, value in actions:
            if value is None:
                getattr(model, action)()
            else:
                getattr(model, action)(value)
            model.check_replay()
        model.restart({})
        model.commit()
        model.plan()
        while model.planned is not None:
            model.commit()
            model.plan()
    finally:
        streams.jetstream.delete_stream(model.name)


def test_a_new_query_that_starts_outside_of_the_stream_has_read_nothing(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    filled.purge(seq=31)
    for first, problem in (
        ("7", "starts at 31"),
        ("102", f"last sequence of stream {name!r} is 100"),
    ):
        with pytest.raises(
            PlanningFailed, match=f"startingOffsets is {first}, but .*{problem}"
        ) as no:
            _query(streams, name, startingOffsets=first).plan()
        assert "has read" not in str(no.value)

        query = _query(streams, name, startingOffsets=first, failOnDataLoss="false")
        assert _flat(query.step()) == (list(range(31, 101)) if first == "7" else [])


def test_a_gap_takes_no_micro_batches_although_limits_count_sequences(
    streams: "Streams", name: str, filled: sync.Stream
) -> None:
    for seq in range(2, 98):
        filled.delete_msg(seq)
    query = _query(streams, name, maxOffsetsPerTrigger="3")

    assert [_flat(query.step()) for _ in range(4)] == [[1], [98, 99, 100], [], []]

    for seq in (98, 99, 100):
        filled.delete_msg(seq)
    other = _query(streams, name, startingOffsets="90", maxOffsetsPerTrigger="3")
    batches = [_flat(other.step()) for _ in range(4)]
    assert (batches, other.place()["next"]) == ([[]] * 4, 101), "the end of a gap is passed"
