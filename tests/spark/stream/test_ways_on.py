"""The ways on that refused exactly-once writes advise; options that nothing reads are refused."""

import logging
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.sink import epoch_ledger
from jetspark.spark.stream.sink import plan as sink_plan
from jetspark.spark.stream.sink import writer as sink_writer
from jetspark.spark.stream.sink.epoch_ledger import ReplayRefused
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.writer import SinkCommit, StreamRowWriter
from jetspark.spark.stream.source import JetStreamDataSource

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask

SCHEMA = StructType().add("subject", "string").add("data", "string")
WITH_IDS = StructType([*SCHEMA.fields]).add("msg_id", "string")
STRENGTHS = ("default", "ledger", "markers")
MARKED = {"publishMode": "atomic", "ledgerSubject": "X.ledger"}


@pytest.fixture(autouse=True)
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_ledger, "CHECK_INTERVAL_S", 0.0)


class Query:
    """A streaming query of one partition after the other, in runs of any layout."""

    def __init__(
        self,
        url: str,
        jetstream: sync.JetStream,
        task: "type[FakeTask]",
        name: str,
        strength: str = "default",
        **settings: Any,
    ) -> None:
        self.name = name
        self.task = task
        settings = {"allow_direct": True, "allow_atomic": True, "allow_batched": True} | settings
        self.stream = jetstream.create_stream(
            StreamConfig(name=name, subjects=(f"{name}.>",), **settings)
        )
        self.base = {"servers": url, "stream": name, "ackTimeoutMs": "150"}
        self.options: dict[str, str] = {}
        self.batch = strength == "batch"
        if strength == "ledger":
            jetstream.create_key_value(KeyValueConfig(bucket=f"{name}_L"))
            self.options["ledgerBucket"] = f"{name}_L"
        if strength == "markers":
            self.options |= {"publishMode": "atomic", "ledgerSubject": f"{name}.ledger"}

    def run(self, epoch: int, *layout: range, dies: bool = False, **options: str) -> None:
        """Run an epoch, one partition for each range."""
        given = self.options if options.get("delivery") != "at-least-once" else {}
        source = JetStreamDataSource(options=self.base | given | options)
        made: Any = source.streamWriter(SCHEMA, False)
        if self.batch:
            # What foreach_batch_writer does.
            names = {"txnAppId": self.name, "txnVersion": str(epoch)}
            made = JetStreamDataSource(options=self.base | names).writer(SCHEMA, False)
        rows: StreamRowWriter = pickle.loads(pickle.dumps(made._rows))
        self.task.epoch = str(epoch)
        told: list[SinkCommit] = []
        for self.task.partition, part in enumerate(layout):
            told.append(rows.write(batch(self.name, part)))
        if not dies:
            rows.commit(told)

    def stored(self) -> Counter[int]:
        return Counter(
            int(one)
            for chunk in self.stream.scan(filters=(f"{self.name}.rows",))
            for one in chunk.data
        )


def batch(name: str, numbers: range) -> Iterator[pa.RecordBatch]:
    columns = {"subject": [f"{name}.rows"] * len(numbers), "data": [str(one) for one in numbers]}
    return iter([pa.RecordBatch.from_pydict(columns)])


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"delivery": "at-least-once"}, "is for delivery exactly-once"),
        ({"msg_id": "column"}, "'msg_id'"),
        ({**MARKED, "atomicScope": "epoch"}, "no effect with atomicScope epoch"),
    ],
    ids=["at-least-once", "msg_id", "epoch"],
)
@pytest.mark.parametrize("option", ["failOnReplayGaps", "keepCommittedEpoch"])
def test_an_option_for_replays_is_refused_where_nothing_reads_it(
    url: str, jetstream: sync.JetStream, options: dict[str, str], refused: str, option: str
) -> None:
    config = StreamConfig(name="X", subjects=("X.>",), allow_atomic=True)
    jetstream.create_or_update_stream(config)
    given = dict(options)
    schema = WITH_IDS if given.pop("msg_id", None) else SCHEMA
    value = {"failOnReplayGaps": "false", "keepCommittedEpoch": "3"}[option]
    source = JetStreamDataSource(options={"servers": url, "stream": "X", option: value, **given})
    if (option, options.get("atomicScope")) == ("keepCommittedEpoch", "epoch"):
        source.streamWriter(SCHEMA, False)  # a committed epoch may be kept there too
        return

    with pytest.raises((WriteRefused, InvalidOptions), match=option) as error:
        source.streamWriter(schema, False)

    assert refused in str(error.value)


def test_a_batch_without_a_name_refuses_options_for_replays(
    url: str, jetstream: sync.JetStream
) -> None:
    jetstream.create_stream(StreamConfig(name="NONAME", subjects=("NONAME.>",)))
    for option, value in (("failOnReplayGaps", "true"), ("keepCommittedEpoch", "1")):
        source = JetStreamDataSource(options={"servers": url, "stream": "NONAME", option: value})
        with pytest.raises(WriteRefused, match=f"{option} is for delivery exactly-once"):
            source.writer(SCHEMA, False)


@pytest.mark.parametrize("removed", ["the last marker", "a row"])
def test_a_replay_by_markers_is_refused_when_messages_of_its_epoch_were_removed(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", removed: str
) -> None:
    """Without its marker a stored batch looks as if it had never been stored."""
    query = Query(url, jetstream, task, f"GAP{len(removed)}", "markers")
    query.run(0, range(5))
    query.run(1, range(10, 20), range(20, 30), dies=True)
    if removed == "a row":
        query.stream.delete_msg(query.stream.info().state.last_seq - 3)
    else:
        query.stream.purge(subject=f"{query.name}.ledger.q1.1")
    before = query.stored()

    with pytest.raises(ReplayRefused, match=r"1 messages of stream .* have been removed since"):
        query.run(1, range(10, 30))

    assert query.stored() == before
    if removed == "a row":
        # The marker says that it was stored: it is not stored a second time.
        query.run(1, range(10, 30), failOnReplayGaps="false")
        assert query.stored() == before


@pytest.mark.parametrize("strength", STRENGTHS)
def test_at_least_once_leads_on_after_a_gap_and_later_replays_are_exact(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    query = Query(url, jetstream, task, f"ON_{strength}", strength)
    query.run(0, range(5))
    query.run(1, range(10, 20), dies=True)
    gone = 8 if strength != "markers" else query.stream.info().state.last_seq
    query.stream.delete_msg(gone)
    with pytest.raises(ReplayRefused, match=r'option."delivery", "at-least-once"'):
        query.run(1, range(10, 30))

    query.run(1, range(10, 30), delivery="at-least-once")
    after = query.stored()
    assert set(after) == {*range(5), *range(10, 30)}
    assert max(after.values()) <= 2
    # The gap lies before the next epoch and does not concern it.
    query.run(2, range(40, 50), dies=True)
    query.run(2, range(40, 45), range(45, 60))
    query.run(3, range(60, 70))

    assert query.stored() == after + Counter(range(40, 70))


@pytest.mark.parametrize("strength", STRENGTHS)
def test_an_epoch_with_other_rows_continues_by_keeping_or_by_storing_them(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    query = Query(url, jetstream, task, f"KEEP_{strength}", strength)
    query.run(0, range(10))
    with pytest.raises(WriteRefused, match=r'set option."keepCommittedEpoch", "0"'):
        query.run(0, range(1, 11))

    query.run(0, range(1, 11), keepCommittedEpoch="0")
    assert query.stored() == Counter(range(10))
    query.run(0, range(1, 11), delivery="at-least-once")
    query.run(1, range(20, 30), keepCommittedEpoch="0")

    assert query.stored() == Counter(range(10)) + Counter(range(1, 11)) + Counter(range(20, 30))


@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_new_checkpoint_continues_with_another_prefix_or_after_the_entry_is_removed(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    query = Query(url, jetstream, task, f"FRESH_{strength}", strength)
    query.options["idPrefix"] = "nightly"
    query.run(0, range(10))
    query.run(1, range(10, 20))
    task.query = "q2"
    with pytest.raises(WriteRefused, match="another idPrefix") as error:
        query.run(0, range(30, 40))

    query.run(0, range(30, 40), idPrefix="weekly")
    key = f"nightly.{query.name}" if strength == "default" else "nightly"
    if strength == "markers":
        assert f"purge the subject '{query.name}.ledger.nightly.*'" in str(error.value)
        query.stream.purge(subject=f"{query.name}.ledger.nightly.*")
    else:
        assert f"delete key {key!r} of the ledger bucket" in str(error.value)
        jetstream.key_value(query.options.get("ledgerBucket", "jetspark_ledger")).delete(key)
    task.query = "q3"
    query.run(0, range(50, 60))
    query.run(1, range(60, 70))

    expected = Counter(range(20)) + Counter(range(30, 40)) + Counter(range(50, 70))
    assert query.stored() == expected


@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_checkpoint_that_is_older_than_the_rows_continues_after_the_entry_is_removed(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    query = Query(url, jetstream, task, f"OLDER_{strength}", strength)
    for epoch in range(3):
        query.run(epoch, range(10 * epoch, 10 * epoch + 10))
    with pytest.raises(WriteRefused, match="older than the rows in the stream") as error:
        query.run(1, range(10, 20))

    if strength == "markers":
        subject = f"{query.name}.ledger.q1.*"
        assert f"if rows may be stored twice, purge the subject {subject!r}" in str(error.value)
        query.stream.purge(subject=subject)
    else:
        key = "q1" if strength == "ledger" else f"q1.{query.name}"
        assert f"if rows may be stored twice, delete key {key!r}" in str(error.value)
        jetstream.key_value(query.options.get("ledgerBucket", "jetspark_ledger")).delete(key)
    for epoch in range(1, 4):
        query.run(epoch, range(10 * epoch, 10 * epoch + 10))

    assert set(query.stored()) == set(range(40))


def test_a_replay_by_markers_says_which_rows_it_lacks(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(url, jetstream, task, "LACKS", "markers")
    query.run(0, range(20), dies=True)

    with caplog.at_level(logging.WARNING):
        query.run(0, range(5, 15), range(15, 25))

    assert "earlier runs stored 5 rows that this run of 20 rows does not have" in caplog.text
    assert query.stored() == Counter(range(25))


def test_a_replay_by_markers_is_not_committed_when_rows_are_missing(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(url, jetstream, task, "LOSES", "markers")
    query.run(0, range(10), dies=True)

    with monkeypatch.context() as patch:
        patch.setattr("jetspark.spark.stream.sink.writer.MarkedWriter.write", lambda *_: 0)
        with pytest.raises(ReplayRefused, match="has 20 rows, but only 10 are stored"):
            query.run(0, range(20))
    query.run(0, range(20))

    assert query.stored() == Counter(range(20))


@pytest.mark.parametrize("strength", [*STRENGTHS, "batch"])
def test_a_replay_is_exact_when_the_stream_has_forgotten_the_ids(
    url: str,
    jetstream: sync.JetStream,
    task: "type[FakeTask]",
    monkeypatch: pytest.MonkeyPatch,
    strength: str,
) -> None:
    monkeypatch.setattr(sink_plan, "MIN_DUPLICATE_WINDOW_NS", 0)
    query = Query(url, jetstream, task, f"LATE_{strength}", strength, duplicate_window=0.1)

    for _ in range(2):
        query.run(0, range(10), range(10, 20), dies=True)
        forget(jetstream, query)
    query.run(0, range(5), range(5, 12), range(12, 30))
    forget(jetstream, query)
    query.run(0, range(30))  # committed

    assert query.stored() == Counter(range(30))


def test_a_repeated_task_that_is_slower_than_the_window_stores_nothing_twice(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins while the stream knows the ids of the first attempt, and ends when it does not."""
    monkeypatch.setattr(sink_plan, "MIN_DUPLICATE_WINDOW_NS", 0)
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 10)
    query = Query(url, jetstream, task, "SLOW", duplicate_window=2)
    made: Any = JetStreamDataSource(options=query.base).streamWriter(SCHEMA, False)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from batch("SLOW", range(10))
        forget(jetstream, query)
        yield from batch("SLOW", range(10, 20))

    made.write(iter([*batch("SLOW", range(10)), *batch("SLOW", range(10, 20))]))
    task.attempt = 1
    made.commit([made.write(slowly())], 0)

    assert query.stored() == Counter(range(20))


def forget(jetstream: sync.JetStream, query: Query) -> None:
    """Wait until the stream takes an id again that it has just stored."""
    msg_id = f"probe {time.monotonic_ns()}"
    jetstream.publish(f"{query.name}.probe", msg_id=msg_id)
    while jetstream.publish(f"{query.name}.probe", msg_id=msg_id).duplicate:
        time.sleep(0.05)
