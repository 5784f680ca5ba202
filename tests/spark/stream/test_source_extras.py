"""Push-down refused, ``onCommit`` and several filters, without a JVM."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from jetspark import (
    AckPolicy,
    ConsumerConfig,
    MessageColumns,
    Retention,
    StreamConfig,
    StreamSource,
)
from jetspark.errors import ConnectionClosed
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream import range_reader
from jetspark.spark.stream.batch_reader import JetStreamBatchReader
from jetspark.spark.stream.offsets import decode_offsets, encode_offsets
from jetspark.spark.stream.options import parse_source_options
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed
from jetspark.sync import retry

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

    from jetspark.sync import Stream


def _source(streams: "Streams", stream: str, **options: str) -> JetStreamDataSource:
    return JetStreamDataSource(options={"servers": streams.url, "stream": stream, **options})


def _read(reader: Any, parts: Any) -> list[int]:
    batches = [batch for part in parts for batch in reader.read(part)]
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


@pytest.mark.parametrize("streaming", [False, True])
def test_push_down_is_refused_with_what_to_use_instead(streaming: bool) -> None:
    """A filter that Spark pushed into a DataFrame stays in it and shortens later queries."""
    given = {"servers": "h:1", "stream": "S"}

    with pytest.raises(InvalidOptions, match=r"pushDown is not supported.*startingOffsets"):
        parse_source_options({**given, "pushDown": "true"}, streaming=streaming)

    without = parse_source_options({**given, "pushDown": "false"}, streaming=streaming)
    assert without == parse_source_options(given, streaming=streaming)
    # One that has this method fails every read where Spark's setting for push-down is off.
    assert JetStreamBatchReader.pushFilters is DataSourceReader.pushFilters


def test_an_unknown_answer_to_a_stream_created_again_is_refused() -> None:
    given = {"servers": "h:1", "stream": "S", "onRecreate": "maybe"}

    with pytest.raises(InvalidOptions, match="onRecreate 'maybe' is not one of fail, earliest"):
        parse_source_options(given, streaming=True)


def test_a_read_of_several_filters_continues_where_each_was(
    streams: "Streams", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection lost between two filters loses no row and repeats none."""
    streams.fill("SEVERAL", 90)
    scan, calls = range_reader.RangeReader.scan, list[int]()

    def dies(*arguments: Any) -> Iterator[MessageColumns]:
        calls.append(1)
        number = len(calls)
        for chunk in scan(*arguments):
            yield chunk
            if number in {1, 3}:
                raise ConnectionClosed("lost")

    source = _source(streams, "SEVERAL", subject="SEVERAL.0,SEVERAL.1", batchSize="10")
    reader = source.reader(source.schema())
    parts = reader.partitions()
    monkeypatch.setattr(range_reader.RangeReader, "scan", dies)
    monkeypatch.setattr(retry, "RETRY_DELAY_S", 0.0)

    assert sorted(_read(reader, parts)) == [seq for seq in range(1, 91) if seq % 3 != 2]


def test_committed_messages_are_purged_on_request(streams: "Streams") -> None:
    stream = streams.fill("QUEUE", 50)
    options = {"startingOffsets": "earliest", "onCommit": "purge", "maxOffsetsPerTrigger": "20"}

    def reader() -> Any:
        source = _source(streams, "QUEUE", **options)
        return source.streamReader(source.schema())

    first = reader()
    start = first.initialOffset()
    end = first.latestOffset(start, first.getDefaultReadLimit())
    assert _read(first, first.partitions(start, end)) == list(range(1, 21))
    before = stream.info().state.first_seq
    first.commit(end)
    after = stream.info().state.first_seq
    # The last batch of a run is not reported: the next run begins with it.
    last = first.latestOffset(end, ReadAllAvailable())
    second = reader()
    second.latestOffset(last, ReadAllAvailable())

    assert (before, after) == (1, 21)
    assert stream.info().state.messages == 0


@pytest.mark.parametrize(("name", "on_commit"), [("CHANGED", "purge"), ("RENAMED", "ack:spark")])
def test_messages_that_only_a_changed_filter_takes_are_not_given_back(
    streams: "Streams", name: str, on_commit: str
) -> None:
    stream = streams.fill(name, 30)
    stream.create_consumer(ConsumerConfig(durable="spark", filter_subject=f"{name}.0"))

    def reader(subject: str) -> Any:
        source = _source(
            streams, name, startingOffsets="earliest", onCommit=on_commit, subject=subject
        )
        return source.streamReader(source.schema())

    first = reader(f"{name}.0")
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())

    with pytest.raises(PlanningFailed, match=rf"has read {name}\.0 so far, but now .*{name}\.1"):
        reader(f"{name}.1").latestOffset(end, ReadAllAvailable())
    # Nor where the last that happened was that messages of others were passed.
    passed = encode_offsets({name: decode_offsets(end)[name].reached()})
    with pytest.raises(PlanningFailed, match=rf"has read {name}\.0"):
        reader(f"{name}.2").latestOffset(passed, ReadAllAvailable())
    assert stream.info().state.messages == 30
    reader(f"{name}.0").latestOffset(end, ReadAllAvailable())
    assert stream.info().state.messages == (20 if on_commit == "purge" else 30)


def test_a_purge_takes_nothing_that_lies_before_the_start_of_a_query(streams: "Streams") -> None:
    stream = streams.fill("BEFORE", 30)

    def reader(start: str, subject: str = "") -> Any:
        more = {"subject": subject} if subject else {}
        source = _source(streams, "BEFORE", startingOffsets=start, onCommit="purge", **more)
        return source.streamReader(source.schema())

    for start in ("latest", "11"):
        late = reader(start)
        with pytest.raises(PlanningFailed, match="starting at 1, which it does not read"):
            late.latestOffset(late.initialOffset(), ReadAllAvailable())
    assert stream.info().state.messages == 30
    # What another subject has is not taken.
    stream.purge(subject="BEFORE.1")
    late = reader("latest", "BEFORE.1")
    assert late.latestOffset(late.initialOffset(), ReadAllAvailable()) == late.initialOffset()
    assert stream.info().state.messages == 20


def test_committed_messages_are_acknowledged_on_request(streams: "Streams") -> None:
    """For work queues: the stream removes what its durable consumer has acknowledged."""
    config = StreamConfig(
        name="WORK", subjects=("WORK.>",), retention=Retention.WORKQUEUE, allow_direct=True
    )
    stream = streams.jetstream.create_stream(config)
    durable = ConsumerConfig(durable="spark", ack_policy=AckPolicy.EXPLICIT)
    stream.create_consumer(durable)
    for number in range(30):
        streams.jetstream.publish("WORK.x", b"%d" % number)
    options = {"startingOffsets": "earliest", "onCommit": "ack:spark"}
    source = _source(streams, "WORK", **options, maxOffsetsPerTrigger="20")
    reader = source.streamReader(source.schema())

    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    before = stream.info().state.messages
    reader.commit(end)

    assert before == 30
    assert stream.info().state.first_seq == 21


def _work_queue(streams: "Streams", name: str, **consumer: Any) -> "Stream":
    config = StreamConfig(
        name=name, subjects=(f"{name}.>",), retention=Retention.WORKQUEUE, allow_direct=True
    )
    stream = streams.jetstream.create_stream(config)
    for number in range(30):
        streams.jetstream.publish(f"{name}.{number % 3}", b"%d" % number)
    if consumer:
        stream.create_consumer(ConsumerConfig(durable="spark", **consumer))
    return stream


@pytest.mark.parametrize(
    ("name", "consumer", "options", "said"),
    [
        ("WQNONE", {}, {}, "'spark' of stream 'WQNONE', which does not exist: create it"),
        ("WQPUSH", {"deliver_subject": "here"}, {}, "which is a push consumer"),
        (
            "WQALL",
            {"ack_policy": AckPolicy.EXPLICIT},
            {"subject": "WQALL.0,WQALL.1"},
            r"also gets messages of WQALL\.>. This query reads WQALL\.0, WQALL\.1, and would",
        ),
        (
            "WQSOME",
            {"filter_subjects": ("WQSOME.1", "WQSOME.2")},
            {"subject": "WQSOME.1"},
            r"also gets messages of WQSOME\.2\. ",
        ),
        (
            "WQLATE",
            {"filter_subject": "WQLATE.>"},
            {"startingOffsets": "11"},
            "starting at 1",
        ),
        (
            "WQLAST",
            {"filter_subject": "WQLAST.1"},
            {"subject": "WQLAST.1", "startingOffsets": "latest"},
            "starting at 2, which it does not read",
        ),
    ],
)
def test_a_query_that_would_acknowledge_what_it_does_not_read_is_refused_at_its_start(
    streams: "Streams", name: str, consumer: dict[str, Any], options: dict[str, str], said: str
) -> None:
    stream = _work_queue(streams, name, **consumer)
    given = {"startingOffsets": "earliest", "onCommit": "ack:spark", **options}
    source = _source(streams, name, **given)
    reader = source.streamReader(source.schema())

    with pytest.raises(PlanningFailed, match=said):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    assert stream.info().state.messages == 30


def test_a_query_acknowledges_as_a_consumer_with_its_filters_and_begins_where_that_is(
    streams: "Streams",
) -> None:
    stream = _work_queue(streams, "WQPART", filter_subjects=("WQPART.1", "WQPART.2"))
    consumer = stream.consumer("spark")
    for message in consumer.fetch(8, no_wait=True):
        message.ack_sync()
    given = {"subject": "WQPART.1,WQPART.2", "startingOffsets": "13", "onCommit": "ack:spark"}
    source = _source(streams, "WQPART", **given)
    reader = source.streamReader(source.schema())

    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    read = _read(reader, reader.partitions(start, end))
    reader.commit(end)

    assert sorted(read) == [seq for seq in range(13, 31) if seq % 3 != 1]
    left = {message.subject for message in stream.get_batch(seq=1)}
    assert left == {"WQPART.0"}


def test_a_stream_without_direct_gets_is_read_with_a_consumer(streams: "Streams") -> None:
    stream = streams.fill("SLOWREAD", 2500, allow_direct=False)
    options = {"batchSize": "600", "minPartitions": "2", "endingOffsets": "2401"}

    def read(**more: str) -> list[int]:
        source = _source(streams, "SLOWREAD", **options, **more)
        reader = source.reader(source.schema())
        return sorted(_read(reader, reader.partitions()))

    assert read() == list(range(1, 2401))
    assert read(subject="SLOWREAD.1") == list(range(1, 2401, 3))
    assert list(stream.consumer_names()) == []


def test_read_modes(streams: "Streams") -> None:
    streams.fill("MODES", 10)
    streams.fill("MODESOFF", 10, allow_direct=False)
    through = _source(streams, "MODES", readMode="consumer")
    reader = through.reader(through.schema())

    assert _read(reader, reader.partitions()) == list(range(1, 11))
    refused = _source(streams, "MODESOFF", readMode="direct")
    with pytest.raises(
        PlanningFailed, match="allow_direct disabled, which readMode direct requires"
    ):
        refused.reader(refused.schema()).partitions()
    work = StreamConfig(name="MODESWORK", subjects=("MODESWORK.>",), retention=Retention.WORKQUEUE)
    streams.jetstream.create_stream(work)
    streams.jetstream.publish("MODESWORK.0", b"1")
    refused = _source(streams, "MODESWORK", readMode="consumer")
    with pytest.raises(
        PlanningFailed, match="'MODESWORK' is a work queue, from which readMode con"
    ):
        refused.reader(refused.schema()).partitions()
    for name, value in (("onCommit", "burn"), ("onCommit", "ack:"), ("readMode", "quick")):
        wrong = _source(streams, "MODES", **{name: value})
        with pytest.raises(InvalidOptions, match=f"{name} '{value}' is not one of"):
            wrong.streamReader(wrong.schema()).initialOffset()


def test_a_filter_that_can_match_nothing_is_refused(streams: "Streams") -> None:
    """A typo in a subject read nothing, without an error."""
    stream = streams.fill("TYPED", 3)
    streams.fill("OTHERTYPED", 3)
    mirror = StreamConfig(name="TYPEDMIRROR", mirror=StreamSource(name="TYPED"))
    streams.jetstream.create_stream(mirror)

    def batch(stream: str, subject: str, **more: str) -> list[int]:
        source = _source(streams, stream, subject=subject, **more)
        reader = source.reader(source.schema())
        return _read(reader, reader.partitions())

    def start(subject: str) -> object:
        source = _source(streams, "TYPED", subject=subject)
        return source.streamReader(source.schema()).initialOffset()

    refused = pytest.raises(PlanningFailed, match=r"subject TYPD\.\* matches nothing .* 'TYPED'")
    with refused:
        batch("TYPED", "TYPD.*")
    with refused:
        start("TYPD.*,TYPED.1")
    assert batch("TYPED", "TYPED.9") == []
    assert start("TYPED.9")
    assert batch("TYPEDMIRROR", "TYPD.*") == []
    several = JetStreamDataSource(
        options={"servers": streams.url, "streams": "TYPED,OTHERTYPED", "subject": "TYPED.*"}
    )
    reader = several.reader(several.schema())
    assert len(_read(reader, reader.partitions())) == 3
    stream.update(subjects=("NEWTYPED.*",))
    assert len(batch("TYPED", "TYPED.*")) == 3, "stored under an earlier subject"
