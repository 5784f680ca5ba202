"""Ledger and markers against both servers, without a JVM."""

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import (
    KeyValueConfig,
    MessageColumns,
    StreamConfig,
    StreamSource,
    SubjectTransform,
    sync,
)
from jetspark.client.jetstream.api import ApiClient
from jetspark.headers.block import find_value
from jetspark.spark.stream.sink import epoch_ledger, markers, replay
from jetspark.spark.stream.sink.epoch_ledger import ReplayRefused, Superseded
from jetspark.spark.stream.sink.ledger import LedgerEntry, read_entry
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.spark.stream.sink.sending import Sender
from jetspark.spark.stream.sink.writer import SinkCommit, StreamRowWriter
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask, NatsServer

SCHEMA = StructType().add("subject", "string").add("data", "string")


def _stream(jetstream: sync.JetStream, name: str) -> sync.Stream:
    subjects = (f"{name}.>",)
    config = StreamConfig(name=name, subjects=subjects, allow_direct=True, allow_atomic=True)
    return jetstream.create_stream(config.replace(allow_batched=True))


def _writer(url: str, stream: str, **options: str) -> StreamRowWriter:
    # How long a run waits for the tasks of an earlier one: by default 5 s.
    given = {"servers": url, "stream": stream, "ackTimeoutMs": "500", **options}
    made: Any = JetStreamDataSource(options=given).streamWriter(SCHEMA, False)
    rows: StreamRowWriter = pickle.loads(pickle.dumps(made._rows))
    return rows


def _marked(url: str, stream: str, **options: str) -> StreamRowWriter:
    ledger = f"{stream}.ledger"
    return _writer(url, stream, publishMode="atomic", ledgerSubject=ledger, **options)


def _batch(stream: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
    numbers = range(first, first + count)
    subjects = [f"{stream}.rows" for _ in numbers]
    data = [str(number) for number in numbers]
    return iter([pa.RecordBatch.from_pydict({"subject": subjects, "data": data})])


def _with_ids(stream: str, count: int) -> Iterator[pa.RecordBatch]:
    numbers = [str(number) for number in range(1, count + 1)]
    columns = {
        "subject": [f"{stream}.rows"] * count,
        "data": numbers,
        "msg_id": [f"id{number}" for number in numbers],
    }
    return iter([pa.RecordBatch.from_pydict(columns)])


def _stored(stream: sync.Stream) -> Counter[int]:
    return Counter(
        int(one) for chunk in stream.scan(filters=(f"{stream.name}.rows",)) for one in chunk.data
    )


def test_a_committed_epoch_is_skipped_whatever_the_window(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """B: the ledger knows the epoch, so that not even a forgotten id lets a row in twice."""
    stream = _stream(jetstream, "LEDGER")
    jetstream.create_key_value(KeyValueConfig(bucket="EPOCHS"))
    writer = _writer(url, "LEDGER", ledgerBucket="EPOCHS")
    told = writer.write(_batch("LEDGER", 1, 20))
    writer.commit([told])

    # Other partitions have other ids, as if the window had forgotten them.
    replay = _writer(url, "LEDGER", ledgerBucket="EPOCHS")
    task.partition = 1
    replay.commit([replay.write(_batch("LEDGER", 1, 20))])
    task.epoch = "1"
    writer.commit([writer.write(_batch("LEDGER", 21, 5))])

    assert _stored(stream) == Counter(range(1, 26))
    entry = msgspec.json.decode(jetstream.key_value("EPOCHS").get("q1").value)
    assert entry.items() >= {"epoch": 1, "last_seq": 25, "query": "q1", "rows": 5}.items()


@pytest.mark.usefixtures("task")
def test_rows_of_a_task_that_is_repeated_late_are_read_back(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B: the window is over (for the writer: its length is 0), half of the epoch is stored."""
    stream = _stream(jetstream, "BACK")
    jetstream.create_key_value(KeyValueConfig(bucket="BACKS"))
    writer = _writer(url, "BACK", ledgerBucket="BACKS")
    writer.write(_batch("BACK", 1, 30))
    plan = msgspec.structs.replace(writer._plan, duplicate_window_ns=0)
    late = StreamRowWriter(plan, SCHEMA)
    sent: list[str] = []
    send = Sender.send

    def recording(self: Sender, messages: MessageColumns) -> int:
        sent.extend(messages.subjects)
        return send(self, messages)

    monkeypatch.setattr(Sender, "send", recording)
    late.commit([late.write(_batch("BACK", 1, 50))])

    assert len(sent) == 20
    assert _stored(stream) == Counter(range(1, 51))


@pytest.mark.usefixtures("task")
def test_rows_with_ids_of_their_own_are_read_back_as_well(
    url: str, jetstream: sync.JetStream
) -> None:
    """B: the stream has forgotten the ids: its window was made short meanwhile."""
    stream = _stream(jetstream, "OWNBACK")
    jetstream.create_key_value(KeyValueConfig(bucket="OWNBACKS"))
    schema = StructType([*SCHEMA.fields]).add("msg_id", "string")
    options = {"servers": url, "stream": "OWNBACK", "ledgerBucket": "OWNBACKS"}
    made: Any = JetStreamDataSource(options=options).streamWriter(schema, False)
    late = StreamRowWriter(
        msgspec.structs.replace(made._rows._plan, duplicate_window_ns=0), schema
    )
    late.write(_with_ids("OWNBACK", 4))
    jetstream.update_stream(stream.info().config.replace(duplicate_window=0.1))
    time.sleep(0.3)

    late.write(_with_ids("OWNBACK", 4))

    assert _stored(stream) == Counter(range(1, 5))


def test_a_ledger_of_another_checkpoint_is_refused(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """A new checkpoint counts from 0: by the old entry its rows would be taken for stored."""
    stream = _stream(jetstream, "ANEW")
    jetstream.create_key_value(KeyValueConfig(bucket="ANEWS"))
    writer = _writer(url, "ANEW", ledgerBucket="ANEWS", idPrefix="nightly")
    writer.commit([writer.write(_batch("ANEW", 1, 5))])

    task.query = "q2"
    with pytest.raises(WriteRefused, match="epochs up to 0 of 'nightly' from another"):
        writer.write(_batch("ANEW", 6, 5))
    jetstream.key_value("ANEWS").purge("nightly")
    writer.commit([writer.write(_batch("ANEW", 6, 5))])

    assert _stored(stream) == Counter(range(1, 11))


def test_another_job_reads_up_to_the_last_commit(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """Read committed between stages: endingOffsets=committed:<queryId>."""
    _stream(jetstream, "STAGE")
    jetstream.create_key_value(KeyValueConfig(bucket="STAGES"))
    writer = _writer(url, "STAGE", ledgerBucket="STAGES")
    writer.commit([writer.write(_batch("STAGE", 1, 20))])
    task.epoch = "1"
    writer.write(_batch("STAGE", 21, 10))

    def read(query: str, bucket: str = "STAGES", by: str = "stream") -> list[int]:
        options = {"endingOffsets": f"committed:{query}", "ledgerBucket": bucket}
        named = {"stream": "STAGE"} if by == "stream" else {"subject": "STAGE.>"}
        source = JetStreamDataSource(options={"servers": url, **named, **options})
        reader = source.reader(source.schema())
        parts: list[Any] = [reader.read(part) for part in reader.partitions()]
        return [seq for part in parts for batch in part for seq in batch["seq"].to_pylist()]

    assert read("q1") == list(range(1, 21))
    by_default = _writer(url, "STAGE", delivery="exactly-once")
    by_default.commit([by_default.write(_batch("STAGE", 31, 10))])
    assert read("q1", "jetspark_ledger") == list(range(1, 41))
    assert read("q1", "jetspark_ledger", by="subject") == list(range(1, 41))
    with pytest.raises(PlanningFailed, match="'q2' has not committed anything"):
        read("q2")


def test_a_missing_ledger_is_found_in_planning(url: str, jetstream: sync.JetStream) -> None:
    _stream(jetstream, "NOLEDGER")

    with pytest.raises(WriteRefused, match="bucket 'NOTHERE' for the ledger"):
        _writer(url, "NOLEDGER", ledgerBucket="NOTHERE")
    with pytest.raises(WriteRefused, match="requires ledgerSubject"):
        _writer(url, "NOLEDGER", publishMode="atomic")
    with pytest.raises(WriteRefused, match="does not store the markers"):
        _writer(url, "NOLEDGER", publishMode="atomic", ledgerSubject="elsewhere")


def test_a_bucket_that_would_forget_epochs_is_no_ledger(
    url: str, jetstream: sync.JetStream
) -> None:
    _stream(jetstream, "FORGETFUL")
    jetstream.create_key_value(KeyValueConfig(bucket="SHORT", ttl=3600))
    jetstream.create_key_value(KeyValueConfig(bucket="WHOLE_LEDGER"))
    original = StreamSource(name="WHOLE_LEDGER")
    jetstream.create_key_value(KeyValueConfig(bucket="COPIED", mirror=original))

    for bucket, problem in (
        ("SHORT", "has a ttl of 1h0m0s, after which commits are forgotten"),
        ("COPIED", "is a mirror of"),
    ):
        with pytest.raises(WriteRefused, match=f"'{bucket}' cannot be the ledger: it {problem}"):
            _writer(url, "FORGETFUL", ledgerBucket=bucket)


def test_a_read_of_the_ledger_costs_one_look_at_its_stream(
    jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task asks twice a second whether a later run has taken over."""
    jetstream.create_key_value(KeyValueConfig(bucket="COSTS")).put(
        "q1", msgspec.json.encode(LedgerEntry(4, 10))
    )
    asked: list[str] = []
    call = ApiClient.call

    async def recording(self: ApiClient, verb: str, *rest: Any, **named: Any) -> Any:
        asked.append(verb)
        return await call(self, verb, *rest, **named)

    monkeypatch.setattr(ApiClient, "call", recording)
    found = read_entry(jetstream, "COSTS", "q1")

    assert found is not None
    assert found.entry.epoch == 4
    assert asked == ["STREAM.INFO.KV_COSTS"]


def test_markers_refuse_a_replay_whatever_the_delay(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """C: no message ids are involved, so that no window can run out."""
    stream = _stream(jetstream, "MARKED")
    writer = _marked(url, "MARKED")
    for _ in range(2):
        told = writer.write(_batch("MARKED", 1, 2500))
    writer.commit([told])

    task.epoch = "1"
    writer.write(_batch("MARKED", 2501, 10))
    task.epoch = "0"
    with pytest.raises(WriteRefused, match="epoch 0 of 'q1' comes after epoch 1"):
        writer.write(_batch("MARKED", 1, 2500))

    assert _stored(stream) == Counter(range(1, 2511))
    assert stream.info(subjects_filter="MARKED.ledger.>").state.subjects == {
        "MARKED.ledger.q1.0": 4,
        "MARKED.ledger.q1.run": 3,
    }


@pytest.mark.usefixtures("task")
def test_a_partition_that_died_half_way_continues_after_its_marker(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = _stream(jetstream, "HALF")
    writer = _marked(url, "HALF")
    store = markers.MarkedWriter._store

    def dies(self: markers.MarkedWriter, *arguments: object) -> int:
        if stream.info().state.messages >= 1000:
            raise RuntimeError("the task dies")
        return store(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(markers.MarkedWriter, "_store", dies)
        with pytest.raises(RuntimeError, match="dies"):
            writer.write(_batch("HALF", 1, 2500))
    before = _stored(stream)
    writer.write(_batch("HALF", 1, 2500))

    assert before.total() == markers.ROWS_PER_BATCH
    assert _stored(stream) == Counter(range(1, 2501))


@pytest.mark.usefixtures("task")
def test_a_repeated_task_with_other_rows_is_refused(url: str, jetstream: sync.JetStream) -> None:
    _stream(jetstream, "OTHER")
    writer = _marked(url, "OTHER")
    writer.write(_batch("OTHER", 1, 10))

    with pytest.raises(ReplayRefused, match="stored 1 rows that this one"):
        writer.write(_batch("OTHER", 2, 10))


def test_an_epoch_is_stored_as_a_whole_by_the_driver(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "WHOLE")
    writer = _marked(url, "WHOLE", atomicScope="epoch")
    told: list[SinkCommit | None] = []
    for partition in range(3):
        task.partition = partition
        told.append(writer.write(_batch("WHOLE", 1 + 100 * partition, 100)))
    before = stream.info().state.messages

    for _ in range(2):
        writer.commit(told)

    assert before == 0
    assert _stored(stream) == Counter(range(1, 301))
    with pytest.raises(RowRefused, match="has 1000 rows, but an atomic batch at most 999"):
        writer.write(_batch("WHOLE", 1, 1000))


@pytest.mark.parametrize("strength", ["default", "ledger", "markers"])
def test_an_epoch_that_is_run_again_with_more_partitions_stores_nothing_twice(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    """E2: a driver dies and comes back with other cores."""
    name = f"CORES_{strength}"
    stream = _stream(jetstream, name)
    options = {"ackTimeoutMs": "200"}
    if strength == "ledger":
        jetstream.create_key_value(KeyValueConfig(bucket="CORES"))
        options["ledgerBucket"] = "CORES"
    if strength == "markers":
        options |= {"publishMode": "atomic", "ledgerSubject": f"{name}.ledger"}

    for layout in ((30, 30), (20, 10, 30)):
        writer, first = _writer(url, name, **options), 1
        told: list[SinkCommit | None] = []
        for task.partition, count in enumerate(layout):
            told.append(writer.write(_batch(name, first, count)))
            first += count
    writer.commit(told)

    assert _stored(stream) == Counter(range(1, 61))


@pytest.mark.usefixtures("task")
def test_a_replay_of_a_committed_epoch_must_have_the_same_rows(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "SAME")

    def run(first: int, count: int, **options: str) -> None:
        writer = _writer(url, "SAME", **options)
        writer.commit([writer.write(_batch("SAME", first, count))])

    run(1, 20)
    run(1, 20)
    for first, count in ((2, 20), (1, 15), (1, 25)):
        with pytest.raises(WriteRefused, match=r'set option."keepCommittedEpoch", "0"'):
            run(first, count)
        run(first, count, keepCommittedEpoch="0")

    assert _stored(stream) == Counter(range(1, 21))


def test_a_checkpoint_or_a_version_that_goes_back_is_refused_before_a_row_is_written(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "OLDER")
    for task.epoch in ("0", "1"):
        writer = _writer(url, "OLDER")
        writer.commit([writer.write(_batch("OLDER", 1 + 10 * int(task.epoch), 10))])
    task.epoch = "0"
    with pytest.raises(WriteRefused, match="older than the rows in the stream"):
        writer.write(_batch("OLDER", 90, 10))

    def job(version: str) -> None:
        options = {
            "servers": url,
            "stream": "OLDER",
            "txnAppId": "j\u00f6b",
            "txnVersion": version,
        }
        made: Any = JetStreamDataSource(options=options).writer(SCHEMA, False)
        made.commit([made.write(_batch("OLDER", 1, 1))])

    job("5")
    job("5")
    job("7")
    with pytest.raises(WriteRefused, match=r"txnVersion 5 .* comes after txnVersion 7"):
        job("5")

    assert _stored(stream) == Counter(range(1, 21)) + Counter({1: 2})


@pytest.mark.usefixtures("task")
def test_a_job_may_write_to_several_streams_under_one_name(
    url: str, jetstream: sync.JetStream
) -> None:
    """A commit to one stream proves nothing about another."""
    streams = [_stream(jetstream, name) for name in ("TWO_A", "TWO_B")]
    jetstream.create_key_value(KeyValueConfig(bucket="TWO"))

    def job(stream: str, first: int = 1, **options: str) -> None:
        given = {"servers": url, "stream": stream, "txnAppId": "two", "txnVersion": "1", **options}
        made: Any = JetStreamDataSource(options=given).writer(SCHEMA, False)
        made.commit([made.write(_batch(stream, first, 5))])

    job("TWO_A")
    job("TWO_B")
    with pytest.raises(WriteRefused, match="use another txnAppId"):
        job("TWO_A", 6)
    job("TWO_A", ledgerBucket="TWO", txnAppId="named")
    with pytest.raises(WriteRefused, match="in stream 'TWO_A'"):
        job("TWO_B", ledgerBucket="TWO", txnAppId="named")

    assert _stored(streams[0]) == Counter(dict.fromkeys(range(1, 6), 2))
    assert _stored(streams[1]) == Counter(range(1, 6))


@pytest.mark.usefixtures("task")
def test_jobs_whose_names_begin_alike_do_not_take_the_rows_of_each_other_for_their_own(
    url: str, jetstream: sync.JetStream
) -> None:
    """The ids of ``job.1`` begin as those of version 1 of ``job`` do."""
    stream = _stream(jetstream, "ALIKE")

    def job(name: str, version: int, first: int, *, killed: bool = False) -> None:
        given = {"servers": url, "stream": "ALIKE", "txnAppId": name, "txnVersion": str(version)}
        options = {**given, "ackTimeoutMs": "100"}
        made: Any = JetStreamDataSource(options=options).writer(SCHEMA, False)
        told = made.write(_batch("ALIKE", first, 5))
        if not killed:
            made.commit([told])

    for version in range(3):
        job("job", version, 10 * version)
        job("job.1", version, 100 + 10 * version)
    # A first version in progress, and one that is run again.
    job("job.4", 7, 200)
    job("job", 4, 50, killed=True)
    job("job.4", 8, 210)
    job("job", 4, 50)

    first = [0, 10, 20, 50, 100, 110, 120, 200, 210]
    assert _stored(stream) == Counter(start + one for start in first for one in range(5))


@pytest.mark.usefixtures("task")
def test_a_committed_write_is_not_skipped_when_its_stream_was_created_again(
    url: str, jetstream: sync.JetStream
) -> None:
    """The ledger outlives the stream; what it calls committed is in none."""

    def job(**more: str) -> None:
        given = {"servers": url, "stream": "GONE", "txnAppId": "import", "txnVersion": "1", **more}
        made: Any = JetStreamDataSource(options=given).writer(SCHEMA, False)
        made.commit([made.write(_batch("GONE", 1, 20))])

    def epoch(**more: str) -> None:
        writer = _writer(url, "GONE", **more)
        writer.commit([writer.write(_batch("GONE", 21, 20))])

    _stream(jetstream, "GONE")
    job()
    epoch()
    jetstream.delete_stream("GONE")
    stream = _stream(jetstream, "GONE")
    for write, key in ((job, "import.GONE"), (epoch, "q1.GONE")):
        number = "1" if write is job else "0"
        with pytest.raises(WriteRefused, match=rf"created again.*delete key '{key}'"):
            write()
        write(keepCommittedEpoch=number)
        jetstream.key_value("jetspark_ledger").delete(key)
        write()
        write()

    assert _stored(stream) == Counter(range(1, 41))


@pytest.mark.usefixtures("task")
def test_a_committed_write_is_skipped_in_a_copy_of_its_stream(
    url: str, jetstream: sync.JetStream
) -> None:
    """A copy has another creation time, and the rows with their ids."""
    stream = _stream(jetstream, "COPIED")

    def epoch() -> None:
        writer = _writer(url, "COPIED")
        writer.commit([writer.write(_batch("COPIED", 1, 20))])

    epoch()
    saved = list(stream.scan())
    jetstream.delete_stream("COPIED")
    stream = _stream(jetstream, "COPIED")
    for chunk in saved:
        for block, payload in zip(chunk.headers, chunk.data, strict=True):
            msg_id = find_value(block, b"Nats-Msg-Id")
            assert msg_id is not None
            headers = {"Nats-Msg-Id": msg_id.decode()}
            jetstream.publish("COPIED.rows", payload, headers=headers)
    epoch()

    assert _stored(stream) == Counter(range(1, 21))


def test_rows_that_a_stream_takes_for_duplicates_of_removed_ones_are_not_committed(
    url: str, jetstream: sync.JetStream
) -> None:
    """The ledger has forgotten the job, the stream is purged, and its window has not forgotten."""
    stream = _stream(jetstream, "PURGED")

    def job(version: str = "1") -> None:
        given = {"servers": url, "stream": "PURGED", "txnAppId": "purged", "txnVersion": version}
        made: Any = JetStreamDataSource(options={**given, "ackTimeoutMs": "200"}).writer(
            SCHEMA, False
        )
        made.commit([made.write(_batch("PURGED", 1, 20))])

    job()
    stream.purge()
    jetstream.key_value("jetspark_ledger").delete("purged.PURGED")
    for _ in range(2):
        with pytest.raises(ReplayRefused, match=r"20 rows, but only 0 are stored.*window of 2m"):
            job()
    job("2")
    job("2")

    assert _stored(stream) == Counter(range(1, 21))


@pytest.mark.usefixtures("task")
def test_a_replay_with_accepted_gaps_does_not_lose_rows_as_duplicates(
    url: str, jetstream: sync.JetStream
) -> None:
    """The same partition makes the same id for the row that was removed."""
    stream = _stream(jetstream, "GAPPED")
    _writer(url, "GAPPED").write(_batch("GAPPED", 1, 20))
    stream.delete_msg(7)
    again = _writer(url, "GAPPED", failOnReplayGaps="false", ackTimeoutMs="200")
    told = again.write(_batch("GAPPED", 1, 20))

    with pytest.raises(ReplayRefused, match="20 rows, but only 19 are stored"):
        again.commit([told])


@pytest.mark.usefixtures("task")
def test_a_run_that_stored_nothing_in_an_empty_stream_does_not_stop_the_next(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "NOTHING")

    def died() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        _writer(url, "NOTHING").write(died())
    again = _writer(url, "NOTHING", ackTimeoutMs="200")
    again.commit([again.write(_batch("NOTHING", 1, 20))])

    assert _stored(stream) == Counter(range(1, 21))


def test_a_replay_whose_rows_were_removed_is_refused_and_says_how_to_continue(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "REMOVED")
    _writer(url, "REMOVED").write(_batch("REMOVED", 1, 20))
    stream.delete_msg(7)
    task.partition = 1
    options = {"ackTimeoutMs": "200"}

    with pytest.raises(
        ReplayRefused, match=r"1 messages of stream 'REMOVED'.*disk was full.*at-least-once"
    ):
        _writer(url, "REMOVED", **options).write(_batch("REMOVED", 1, 20))
    again = _writer(url, "REMOVED", failOnReplayGaps="false", **options)
    again.commit([again.write(_batch("REMOVED", 1, 20))])

    assert _stored(stream) == Counter(range(1, 21))


def test_an_epoch_started_by_the_version_before_continues_in_another_layout(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """0.1.0 registered no runs: its rows are found by their ids, and by its markers."""
    ids, marked = _stream(jetstream, "UPIDS"), _stream(jetstream, "UPMARKS")
    writer = _writer(url, "UPIDS")
    writer.write(_batch("UPIDS", 1, 10))
    jetstream.key_value("jetspark_ledger").purge("q1.UPIDS")
    js = jetstream.atomic_batch()
    for number in range(1, 11):
        js.add("UPMARKS.rows", str(number).encode(), headers={"Nats-Expected-Stream": "UPMARKS"})
    js.add("UPMARKS.ledger.q1.0", b'{"epoch":0,"batch":0,"final":true,"digest":"00"}')
    js.commit()

    for name, make in (("UPIDS", _writer), ("UPMARKS", _marked)):
        again = make(url, name, ackTimeoutMs="200")
        told: list[SinkCommit | None] = []
        for task.partition in range(3):
            told.append(again.write(_batch(name, 1 + 10 * task.partition, 10)))
        again.commit(told)

    assert _stored(ids) == _stored(marked) == Counter(range(1, 31))


def test_a_ledger_that_cannot_be_created_is_refused_with_what_to_do(
    start_nats: "Callable[..., NatsServer]", tmp_path: Path
) -> None:
    settings = tmp_path / "server.conf"
    settings.write_text(
        "authorization { users = [{user: a, password: a}, {user: b, password: b, permissions: "
        '{publish: {deny: ["$JS.API.STREAM.CREATE.>"]}}}] }'
    )
    server = start_nats("-c", str(settings))
    _stream(server.streams("a:a").jetstream, "DENIED")

    with pytest.raises(WriteRefused, match=r"cannot be created .*with_msg_id"):
        _writer(server.url.replace("nats://", "nats://b:b@"), "DENIED")


def test_an_epoch_continues_under_another_atomic_scope(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """What chunks of an earlier run stored is not stored again by a driver with scope epoch."""
    stream = _stream(jetstream, "SCOPE")
    _marked(url, "SCOPE").write(_batch("SCOPE", 1, 30))

    whole = _marked(url, "SCOPE", atomicScope="epoch")
    told: list[SinkCommit | None] = []
    for task.partition in range(2):
        told.append(whole.write(_batch("SCOPE", 1 + 25 * task.partition, 25)))
    whole.commit(told)
    for scope in ("epoch", "chunk"):
        again = _marked(url, "SCOPE", atomicScope=scope)
        again.commit([again.write(_batch("SCOPE", 1, 50))])

    assert _stored(stream) == Counter(range(1, 51))


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_ledger_of_an_older_state_lets_no_row_in_twice(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", epochs: int
) -> None:
    """The bucket was restored from a backup; ids in the stream tell that the epoch was started."""
    name = f"RESTORED{epochs}"
    stream = _stream(jetstream, name)
    first = _writer(url, name)
    first.commit([first.write(_batch(name, 1, 10))])
    ledger = jetstream.key_value("jetspark_ledger")
    backup = ledger.get(f"q1.{name}").value
    jetstream.publish(f"{name}.others", b"")
    for number in range(1, epochs + 1):
        task.epoch = str(number)
        writer = _writer(url, name)
        writer.commit([writer.write(_batch(name, 1 + 10 * number, 10))])

    ledger.put(f"q1.{name}", backup)
    replay, told = _writer(url, name, ackTimeoutMs="200"), list[SinkCommit | None]()
    for task.partition, count in ((1, 4), (2, 6)):
        told.append(replay.write(_batch(name, 1 + 10 * epochs + 4 * (task.partition - 1), count)))
    replay.commit(told)

    assert _stored(stream) == Counter(range(1, 11 + 10 * epochs))


def test_messages_removed_before_an_epoch_began_do_not_stop_its_replay(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "BEFORE")
    writer = _writer(url, "BEFORE")
    writer.commit([writer.write(_batch("BEFORE", 1, 10))])
    for _ in range(3):
        jetstream.publish("BEFORE.others", b"")
    stream.purge(subject="BEFORE.others")

    task.epoch = "1"
    _writer(url, "BEFORE").write(_batch("BEFORE", 11, 5))
    task.partition = 1
    again = _writer(url, "BEFORE", ackTimeoutMs="200")
    again.commit([again.write(_batch("BEFORE", 11, 10))])

    assert _stored(stream) == Counter(range(1, 21))


@pytest.mark.parametrize("strength", ["default", "markers"])
def test_a_driver_that_died_before_its_first_row_continues(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    """The epoch is registered and the stream is empty: there is nothing to read back."""
    stream = _stream(jetstream, f"DIED_{strength}")
    make = _writer if strength == "default" else _marked
    make(url, stream.name).write(iter(()))

    again, told = make(url, stream.name, ackTimeoutMs="200"), list[SinkCommit | None]()
    for task.partition in range(2):
        told.append(again.write(_batch(stream.name, 1 + 10 * task.partition, 10)))
    again.commit(told)

    assert _stored(stream) == Counter(range(1, 21))


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(
    "change",
    ["to markers", "from markers", "subject", "bucket", "prefix", "no prefix", "marked prefix"],
)
def test_an_epoch_that_was_started_with_another_ledger_is_refused(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", change: str, committed: bool
) -> None:
    """A ledger, or the name in it, was changed in the middle of an epoch; after it is fine."""
    name = f"CHANGED_{change.replace(' ', '_')}_{committed}"
    stream = _stream(jetstream, name)
    jetstream.create_key_value(KeyValueConfig(bucket=name))
    task.query = name
    markers_of = {"publishMode": "atomic", "ledgerSubject": f"{name}.ledger"}
    deep = {"ledgerSubject": f"{name}.other.place.of.many.words.in.it.a.b.c.d.e.f.g.h.i.j.k"}
    before, after = {
        "to markers": ({}, markers_of),
        "from markers": (markers_of | deep, {}),
        "subject": (markers_of, markers_of | deep),
        "bucket": ({}, {"ledgerBucket": name}),
        "prefix": ({}, {"idPrefix": f"{name}.other"}),
        "no prefix": ({"ledgerBucket": name, "idPrefix": "mine"}, {"ledgerBucket": name}),
        "marked prefix": (markers_of | {"idPrefix": f"{name}.other"}, markers_of),
    }[change]
    first = _writer(url, name, **before)
    told = first.write(_batch(name, 1, 10))
    if committed:
        first.commit([told])

    with pytest.raises(WriteRefused, match="started with another publishMode, ledgerSubject"):
        _writer(url, name, **after).write(_batch(name, 1, 10))
    again = _writer(url, name, ackTimeoutMs="200", **before)
    again.commit([again.write(_batch(name, 1, 10))])
    task.epoch = "1"
    changed = _writer(url, name, **after)
    changed.commit([changed.write(_batch(name, 11, 10))])

    assert _stored(stream) == Counter(range(1, 21))


def test_rows_of_an_epoch_whose_ledger_was_deleted_are_found_after_the_duplicate_window(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket was renamed or its entry deleted: the ids in the stream say what is stored."""
    monkeypatch.setattr(replay, "_SEARCH_PAGE", 7)
    stream = _stream(jetstream, "GONELEDGER")
    for bucket in ("GONEOLD", "GONENEW"):
        jetstream.create_key_value(KeyValueConfig(bucket=bucket))
    for task.epoch, first in (("0", 1), ("1", 21)):
        writer = _writer(url, "GONELEDGER", ledgerBucket="GONEOLD")
        told = writer.write(_batch("GONELEDGER", first, 20))
        if task.epoch == "0":
            writer.commit([told])
    for number in range(30):
        jetstream.publish("GONELEDGER.foreign", b"%d" % number)
    jetstream.update_stream(stream.info().config.replace(duplicate_window=0.1))
    time.sleep(0.3)
    jetstream.update_stream(stream.info().config.replace(duplicate_window=60))

    made = _writer(url, "GONELEDGER", ledgerBucket="GONENEW", ackTimeoutMs="200")
    plan = msgspec.structs.replace(made._plan, duplicate_window_ns=0)
    again = StreamRowWriter(plan, SCHEMA)
    task.partition = 1
    again.commit([again.write(_batch("GONELEDGER", 21, 25))])

    assert _stored(stream) == Counter(range(1, 46))


def test_rows_of_another_checkpoint_with_the_same_prefix_are_none_of_a_lost_epoch(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    stream = _stream(jetstream, "PREFIXED")
    options = {"idPrefix": "nightly", "ackTimeoutMs": "100"}
    for task.epoch, first in (("0", 1), ("1", 11), ("2", 21)):
        writer = _writer(url, "PREFIXED", **options)
        writer.commit([writer.write(_batch("PREFIXED", first, 10))])
    jetstream.key_value("jetspark_ledger").purge("nightly.PREFIXED")
    task.query, task.epoch = "a new checkpoint", "1"

    again = _writer(url, "PREFIXED", **options)
    task.partition = 1  # the stream knows the ids of partition 0
    again.commit([again.write(_batch("PREFIXED", 11, 10))])

    assert _stored(stream) == Counter(range(1, 31)) + Counter(range(11, 21))


def test_a_task_that_was_stopped_while_it_sent_says_that_its_rows_came_too_late(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later run waits for a task that is sending, but not for ever."""
    _stream(jetstream, "STOPPED")
    monkeypatch.setattr(epoch_ledger, "CHECK_INTERVAL_S", 0.0)
    stopped = _writer(url, "STOPPED", ackTimeoutMs="100")
    later = _writer(url, "STOPPED", ackTimeoutMs="100")
    check = epoch_ledger.EpochLedger.check

    def then_stopped(self: epoch_ledger.EpochLedger, js: sync.JetStream) -> None:
        check(self, js)
        monkeypatch.setattr(epoch_ledger.EpochLedger, "check", check)
        task.partition = 1
        later.commit([later.write(_batch("STOPPED", 1, 10))])

    monkeypatch.setattr(epoch_ledger.EpochLedger, "check", then_stopped)
    with pytest.raises(Superseded, match=r"while it was sending 10 rows .* stored twice"):
        stopped.write(_batch("STOPPED", 1, 10))


@pytest.mark.parametrize("publish_mode", ["async", "atomic"])
@pytest.mark.usefixtures("task")
def test_copies_of_equal_rows_get_the_subject_of_the_others_where_the_stream_changes_it(
    url: str, jetstream: sync.JetStream, publish_mode: str
) -> None:
    """A replay stores what is missing of equal rows; their stored subject is not the one sent."""
    name = f"CHANGED{publish_mode.upper()}"
    config = StreamConfig(
        name=name,
        subjects=(f"{name}.>", f"{name}_LEDGER.>"),
        allow_direct=True,
        allow_atomic=True,
        subject_transform=SubjectTransform(src=f"{name}.>", dest=f"{name}.kept.>"),
    )
    stream = jetstream.create_stream(config)
    options = {"publishMode": publish_mode}
    if publish_mode == "atomic":
        options["ledgerSubject"] = f"{name}_LEDGER.epochs"

    def rows(*data: str) -> Iterator[pa.RecordBatch]:
        columns = {"subject": [f"{name}.rows"] * len(data), "data": list(data)}
        return iter([pa.RecordBatch.from_pydict(columns)])

    _writer(url, name, **options).write(rows("a", "a", "b"))  # and the driver died
    again = _writer(url, name, **options)
    again.commit([again.write(rows("a", "a", "a", "b", "c"))])

    stored = Counter(
        (subject, payload)
        for chunk in stream.scan(filters=(f"{name}.>",))
        for subject, payload in zip(chunk.subjects, chunk.data, strict=True)
    )
    kept = f"{name}.kept.rows"
    assert stored == {(kept, b"a"): 3, (kept, b"b"): 1, (kept, b"c"): 1}


def test_markers_that_the_stream_would_store_elsewhere_are_refused_in_planning(
    url: str, jetstream: sync.JetStream
) -> None:
    config = StreamConfig(
        name="MOVED",
        subjects=("MOVED.>",),
        allow_direct=True,
        allow_atomic=True,
        subject_transform=SubjectTransform(src="MOVED.>", dest="MOVED.kept.>"),
    )
    jetstream.create_stream(config)

    with pytest.raises(WriteRefused, match="choose a ledgerSubject without transform"):
        _marked(url, "MOVED")
