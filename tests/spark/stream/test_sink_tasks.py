"""What a task of a write does, against both servers and without a JVM."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.support.waiting import wait_until

from jetspark import sync
from jetspark.errors import (
    BatchDuplicate,
    MessageTooLarge,
    PayloadTooLarge,
    WrongLastSequence,
)
from jetspark.spark.stream.sink import writer as sink_writer
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.spark.stream.sink.writer import StreamRowWriter
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask, NatsServer

SCHEMA = StructType().add("subject", "string").add("data", "string")
WITH_IDS = StructType([*SCHEMA.fields]).add("msg_id", "string")


def _stream(jetstream: sync.JetStream, name: str, **settings: Any) -> sync.Stream:
    return jetstream.create_stream(name, subjects=[f"{name}.>"], allow_direct=True, **settings)


def _writer(
    url: str, stream: str, schema: StructType = SCHEMA, *, streaming: bool = True, **options: str
) -> StreamRowWriter:
    source = JetStreamDataSource(options={"servers": url, "stream": stream, **options})
    made: Any = source.streamWriter(schema, False) if streaming else source.writer(schema, False)
    rows: StreamRowWriter = pickle.loads(pickle.dumps(made._rows))
    return rows


def _batch(stream: str, first: int, count: int, **more: object) -> Iterator[pa.RecordBatch]:
    numbers = range(first, first + count)
    columns = {
        "subject": [f"{stream}.{number % 3}" for number in numbers],
        "data": [str(number) for number in numbers],
        **more,
    }
    return iter([pa.RecordBatch.from_pydict(columns)])


def _stored(stream: sync.Stream) -> Counter[int]:
    return Counter(int(one) for chunk in stream.scan() for one in chunk.data)


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("mode", ["fast", "async", "atomic"])
def test_every_mode_stores_every_row_once(url: str, jetstream: sync.JetStream, mode: str) -> None:
    name = f"MODE_{mode}"
    stream = _stream(jetstream, name, allow_batched=True, allow_atomic=True)
    delivery = "at-least-once" if mode == "atomic" else "exactly-once"

    told = _writer(url, name, publishMode=mode, delivery=delivery).write(_batch(name, 1, 2500))

    assert _stored(stream) == Counter(range(1, 2501))
    assert (told.rows, told.last_seq, told.task.partition) == (2500, 2500, 0)


@pytest.mark.usefixtures("task")
def test_rows_after_a_chunk_that_fails_are_not_sent(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 10)
    stream = _stream(jetstream, "FAILS", allow_batched=True)
    rows = [*_batch("FAILS", 1, 10), *_batch("NONE", 11, 10), *_batch("FAILS", 21, 10)]

    with pytest.raises(RowRefused, match="does not belong to stream 'FAILS'"):
        _writer(url, "FAILS").write(iter(rows))

    assert _stored(stream) == Counter(range(1, 11))


@pytest.mark.parametrize("mode", ["fast", "async"])
def test_an_epoch_that_is_run_again_stores_nothing_twice(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", mode: str
) -> None:
    name = f"AGAIN_{mode}"
    stream = _stream(jetstream, name, allow_batched=True)
    _writer(url, name, publishMode=mode).write(_batch(name, 1, 700))

    # The first run stopped half way; the second writes all.
    second = _writer(url, name, publishMode=mode, ackTimeoutMs="200")
    second.commit([second.write(_batch(name, 1, 1200))])
    task.epoch = "1"
    _writer(url, name, publishMode=mode).write(_batch(name, 1, 10))

    assert _stored(stream) == Counter(range(1, 1201)) + Counter(range(1, 11))


def test_a_batch_with_the_same_transaction_stores_nothing_twice(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "TXN", allow_batched=True)
    for version in ("1", "1", "2"):
        writer = _writer(url, "TXN", streaming=False, txnAppId="job", txnVersion=version)
        writer.commit([writer.write(_batch("TXN", 1, 50))])

    assert _stored(stream) == Counter(dict.fromkeys(range(1, 51), 2))


def test_headers_that_act_in_the_target_are_kept(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "ROLLED", allow_rollup_hdrs=True)
    schema = StructType([*SCHEMA.fields]).add("headers", "binary")
    rollup = b"NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Rollup: sub\r\n\r\n"
    rows = _batch("ROLLED", 1, 6, headers=[b"", b"", b"", b"", rollup, b""])

    _writer(url, "ROLLED", schema, streaming=False).write(rows)

    # Row 5 has the subject of row 2.
    assert _stored(stream) == Counter([1, 3, 4, 5, 6])


def test_ids_of_a_column_are_used_as_they_are(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "OWN")
    rows = _batch("OWN", 1, 4, msg_id=["a", "b", "a", "c"])

    _writer(url, "OWN", WITH_IDS, streaming=False).write(rows)

    assert _stored(stream) == Counter([1, 2, 4])
    assert stream.get_msg(seq=1).headers["Nats-Msg-Id"] == "a"
    assert stream.get_msg(seq=1).headers["Nats-Expected-Stream"] == "OWN"


def test_an_atomic_batch_of_known_ids_is_a_success_and_a_mixed_one_is_not(
    url: str, jetstream: sync.JetStream
) -> None:
    """Error 10201 of the server."""
    stream = _stream(jetstream, "KNOWN", allow_atomic=True)
    options = {"publishMode": "atomic", "delivery": "at-least-once"}
    writer = _writer(url, "KNOWN", WITH_IDS, streaming=False, **options)
    writer.write(_batch("KNOWN", 1, 2, msg_id=["a", "b"]))

    writer.write(_batch("KNOWN", 1, 2, msg_id=["a", "b"]))
    with pytest.raises(BatchDuplicate) as refusal:
        writer.write(_batch("KNOWN", 2, 2, msg_id=["b", "c"]))

    assert "'c' is not stored" in "".join(refusal.value.__notes__)
    assert _stored(stream) == Counter([1, 2])


def test_an_expected_sequence_is_compared(url: str, jetstream: sync.JetStream) -> None:
    stream = _stream(jetstream, "CAS", allow_batched=True)
    schema = StructType([*SCHEMA.fields]).add("expected_last_subject_seq", "long")
    writer = _writer(url, "CAS", schema, streaming=False, subject="CAS.one")

    writer.write(_batch("CAS", 1, 2, expected_last_subject_seq=[0, 1]))
    with pytest.raises(WrongLastSequence):
        writer.write(_batch("CAS", 3, 1, expected_last_subject_seq=[1]))

    assert _stored(stream) == Counter([1, 2])


@pytest.mark.parametrize("mode", ["fast", "async", "atomic"])
def test_the_row_whose_expected_sequence_is_not_the_last_is_named(
    url: str, jetstream: sync.JetStream, mode: str
) -> None:
    """Not one of those before it, which were stored by the same write."""
    name = f"NAMED_{mode}"
    stream = _stream(jetstream, name, allow_batched=True, allow_atomic=True)
    for _ in range(2):
        jetstream.publish(f"{name}.c", b"0")
    schema = StructType([*SCHEMA.fields]).add("expected_last_subject_seq", "long")
    options = {"publishMode": mode, "delivery": "at-least-once"}
    writer = _writer(url, name, schema, streaming=False, **options)
    subjects = [f"{name}.a", f"{name}.b", f"{name}.c"]

    with pytest.raises(WrongLastSequence) as refusal:
        writer.write(_batch(name, 1, 3, subject=subjects, expected_last_subject_seq=[0, 0, 1]))

    assert f"'{name}.c' has 2 and the row expects 1" in refusal.value.__notes__[-1]
    assert 3 not in _stored(stream)


@pytest.mark.usefixtures("task")
def test_a_subject_of_no_stream_is_named_before_anything_is_sent(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "MINE", allow_batched=True)

    with pytest.raises(RowRefused, match=r"subject 'ELSE\.\d' does not belong to stream 'MINE'"):
        _writer(url, "MINE").write(_batch("ELSE", 1, 3))

    assert stream.info().state.messages == 0


def test_an_overwrite_removes_the_old_messages_when_all_is_written(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "OVER", allow_batched=True)
    _writer(url, "OVER", streaming=False).write(_batch("OVER", 1, 20))
    options = {"servers": url, "stream": "OVER", "allowPurge": "true"}
    writer = JetStreamDataSource(options=options).writer(SCHEMA, True)

    told = writer.write(_batch("OVER", 11, 20))
    before = stream.info().state.messages
    writer.commit([told])

    assert before == 40
    assert _stored(stream) == Counter(range(11, 31))


def test_planning_says_what_is_missing(url: str, jetstream: sync.JetStream) -> None:
    with pytest.raises(PlanningFailed, match="stream 'NOWHERE' does not exist on"):
        _writer(url, "NOWHERE")
    _stream(jetstream, "SLOWLY")
    with pytest.raises(PlanningFailed, match="allow_batched disabled"):
        _writer(url, "SLOWLY", publishMode="fast")


@pytest.mark.usefixtures("task")
def test_a_task_continues_after_its_server_was_restarted(
    start_nats: "Callable[..., NatsServer]",
) -> None:
    """Connect refused, stale connection: retry inside the task."""
    server = start_nats()
    with sync.connect(server.url) as client:
        stream = _stream(client.jetstream(), "STAY", allow_batched=True)
        writer = _writer(server.url, "STAY")
        writer.write(_batch("STAY", 1, 10))

        server.stop()
        server.start()
        writer.write(_batch("STAY", 1, 20))

        assert _stored(stream) == Counter(range(1, 21))


@pytest.mark.parametrize("mode", ["fast", "async", "atomic"])
def test_a_subject_that_is_too_long_is_refused_at_once_and_named(
    url: str, jetstream: sync.JetStream, mode: str
) -> None:
    """The server closes the connection, as it would close every next one."""
    name = f"LONG_{mode}"
    _stream(jetstream, name, allow_batched=True, allow_atomic=True)
    subjects = [f"{name}.a", f"{name}.{'x' * 5000}", f"{name}.b"]
    batch = pa.RecordBatch.from_pydict({"subject": subjects, "data": ["1", "2", "3"]})
    writer = _writer(url, name, streaming=False, publishMode=mode)

    with pytest.raises(RowRefused, match=r"x'\.\.\. has 50\d\d bytes, .*max_control_line"):
        writer.write(iter([batch]))


@pytest.mark.parametrize("mode", ["fast", "async"])
@pytest.mark.parametrize(
    ("limit", "size", "error"),
    [(-1, 2 * 1024 * 1024, PayloadTooLarge), (1000, 3000, MessageTooLarge)],
)
def test_a_row_that_is_too_large_is_named(
    url: str, jetstream: sync.JetStream, mode: str, limit: int, size: int, error: type[Exception]
) -> None:
    name = f"LARGE_{mode}_{size}"
    _stream(jetstream, name, allow_batched=True, allow_atomic=True, max_msg_size=limit)
    data = ["1", "2" * size, "3"]
    batch = pa.RecordBatch.from_pydict({"subject": [f"{name}.{at}" for at in "abc"], "data": data})
    writer = _writer(url, name, streaming=False, publishMode=mode)

    with pytest.raises(error) as refused:
        writer.write(iter([batch]))

    assert f"largest row, of subject '{name}.b', has {size}"[:-3] in refused.value.__notes__[-1]
    assert "nats_object" in refused.value.__notes__[-1]


@pytest.mark.parametrize("scope", ["", "chunk", "partition", "epoch"])
def test_a_row_that_is_too_large_for_an_atomic_batch_is_named(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", scope: str
) -> None:
    """The server says of the batch that it is incomplete, and nothing of the row."""
    name = f"LARGE_ATOMIC_{scope}"
    stream = _stream(jetstream, name, allow_atomic=True, max_msg_size=1000)
    data = ["1", "2" * 3000, "3"]
    batch = pa.RecordBatch.from_pydict({"subject": [f"{name}.{at}" for at in "abc"], "data": data})
    marked = {"ledgerSubject": f"{name}.ledger", "atomicScope": scope}
    marked |= {"delivery": "exactly-once"}
    options = {"publishMode": "atomic", **(marked if scope else {})}
    writer = _writer(url, name, SCHEMA, streaming=bool(scope), **options)
    task.epoch = "1"

    with pytest.raises(RowRefused) as refused:
        writer.commit([writer.write(iter([batch]))])

    text = str(refused.value)
    assert f"stream {name!r} accepts messages of at most 1000 bytes" in text
    assert f"largest row, of subject '{name}.b', has 30" in text
    assert not list(stream.scan(filters=(f"{name}.*",)))


ROUTED = StructType([*SCHEMA.fields]).add("stream", "string")


def _routed(first: int, count: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows in turn for each stream, in batches of 100; ``data`` is their number."""
    for start in range(first, first + count, 100):
        numbers = range(start, min(start + 100, first + count))
        where = [names[number % len(names)] for number in numbers]
        yield pa.RecordBatch.from_pydict(
            {
                "subject": [f"{names[n % len(names)]}.{n % 5}" for n in numbers],
                "data": [str(number) for number in numbers],
                "stream": where,
            }
        )


def test_rows_go_to_the_streams_that_a_column_names_once_although_the_write_is_repeated(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    names = ["LEFT", "RIGHT", "UNUSED"]
    streams = [_stream(jetstream, name, allow_batched=name != "RIGHT") for name in names]

    def writer(listed: str = "LEFT, RIGHT,UNUSED") -> Any:
        options = {"servers": url, "streams": listed, "ackTimeoutMs": "100"}
        made: Any = JetStreamDataSource(options=options).streamWriter(ROUTED, False)
        return pickle.loads(pickle.dumps(made._rows))

    # A run that dies after some rows; one whose commit dies between two streams; one more.
    writer().write(_routed(0, 350, names[:2]))
    half = writer()
    half._writers[0].commit([half.write(_routed(0, 1000, names[:2])).commits[0]])
    last = writer()
    last.commit([last.write(_routed(0, 1000, names[:2]))])
    task.epoch = "1"
    following = writer()
    following.commit([following.write(_routed(1000, 10, names[:2]))])
    task.epoch = "2"
    added = _stream(jetstream, "ADDED")
    for _ in range(2):
        changed = writer("ADDED,LEFT")
        changed.commit([changed.write(_routed(1010, 10, ["LEFT", "ADDED"]))])

    assert _stored(streams[0]) == Counter(range(0, 1020, 2))
    assert _stored(added) == Counter(range(1011, 1020, 2))
    assert _stored(streams[1]) == Counter(range(1, 1010, 2))
    assert _stored(streams[2]) == Counter()


@pytest.mark.usefixtures("task")
def test_a_row_for_another_stream_or_for_none_is_refused_and_named(
    url: str, jetstream: sync.JetStream
) -> None:
    _stream(jetstream, "LISTED")
    options = {"servers": url, "streams": "LISTED"}
    made: Any = JetStreamDataSource(options=options).streamWriter(ROUTED, False)

    with pytest.raises(RowRefused, match=r"contains 'OTHER', .* does not list \(LISTED\)"):
        made._rows.write(_routed(0, 10, ["LISTED", "OTHER"]))
    batch = pa.RecordBatch.from_pydict({"subject": ["a"], "data": ["1"], "stream": [None]})
    with pytest.raises(RowRefused, match="column 'stream' is NULL"):
        made._rows.write(iter([batch.cast(next(_routed(0, 1, ["x"])).schema)]))
    with pytest.raises(PlanningFailed, match="stream 'ABSENT' does not exist"):
        JetStreamDataSource(options={"servers": url, "streams": "LISTED,ABSENT"}).streamWriter(
            ROUTED, False
        )


def test_rows_with_a_schedule_are_published_when_it_is_due(
    url: str, jetstream: sync.JetStream
) -> None:
    stream = _stream(jetstream, "PLANNED", allow_msg_schedules=True, allow_msg_ttl=True)
    schema = StructType([*WITH_IDS.fields]).add("schedule", "timestamp")
    schema = schema.add("schedule_target", "string").add("schedule_ttl", "string")
    due = datetime(2020, 1, 1, tzinfo=UTC)
    later = datetime(2190, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    rows = pa.RecordBatch.from_pydict(
        {
            "subject": ["PLANNED.due", "PLANNED.later", "PLANNED.plain"],
            "data": ["1", "2", "3"],
            "msg_id": ["a", "b", "c"],
            "schedule": pa.array([due, later, None], pa.timestamp("us", "UTC")),
            "schedule_target": ["PLANNED.done", "PLANNED.done", None],
            "schedule_ttl": ["1h", None, None],
        }
    )

    _writer(url, "PLANNED", schema, streaming=False).write(iter([rows]))

    wait_until(lambda: bool(stream.info(subjects_filter="PLANNED.done").state.subjects))
    fired = stream.get_msg(last_by_subject="PLANNED.done")
    assert (fired.data, fired.headers["Nats-TTL"]) == (b"1", "1h")
    planned = stream.get_msg(last_by_subject="PLANNED.later")
    assert planned.headers["Nats-Schedule"] == "@at 2190-05-06T07:08:09.123456Z"
    assert stream.get_msg(last_by_subject="PLANNED.plain").headers.get("Nats-Schedule") is None
    for pattern, target, text in (
        ("@every 5m", None, "schedule_target is NULL"),
        ("@every 5m\r\nNats-Rollup: all", "PLANNED.x", "schedule is .*expected a time"),
        ("tomorrow", "PLANNED.x", "schedule is 'tomorrow': expected a time"),
        ("@every 1ms", "PLANNED.x", "schedule is '@every 1ms': expected a time"),
        ("@every 5m", "PLANNED.*", "without wildcards"),
    ):
        wrong = StructType([*WITH_IDS.fields, *schema.fields[3:5]])
        wrong["schedule"].dataType = wrong["subject"].dataType
        batch = {"subject": ["PLANNED.a"], "data": ["1"], "msg_id": ["d"]}
        batch |= {"schedule": [pattern], "schedule_target": pa.array([target], pa.string())}
        with pytest.raises(RowRefused, match=text):
            _writer(url, "PLANNED", wrong, streaming=False).write(
                iter([pa.RecordBatch.from_pydict(batch)])
            )
