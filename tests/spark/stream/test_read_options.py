"""What options of a read do, seen from the server or in the rows; for batch and streaming reads.

Each of these is compared with what the default does.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from jetspark import StreamConfig, sync
from jetspark.spark.stream import streaming_reader, view
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed
from jetspark.units import format_rfc3339

Read = Callable[..., list[dict[str, Any]]]
COUNT = 40


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_reader, "POLL_S", 0.0)


@pytest.fixture(scope="module")
def stream(jetstream: sync.JetStream) -> sync.Stream:
    made = jetstream.create_stream(
        StreamConfig(name="READ", subjects=("READ.>",), allow_direct=True)
    )
    for number in range(COUNT):
        jetstream.publish(f"READ.{number % 2}", b"x" * 100, headers={"Nr": str(number + 1)})
    return made


def _parts(url: str, *, streaming: bool, **options: str) -> tuple[Any, list[Any]]:
    """Return the reader of the stream and the partitions of all that it has."""
    source = JetStreamDataSource(options={"servers": url, "stream": "READ", **options})
    if not streaming:
        reader: Any = source.reader(source.schema())
        return reader, reader.partitions()
    following: Any = source.streamReader(source.schema())
    start = following.initialOffset()
    end = following.latestOffset(start, following.getDefaultReadLimit())
    return following, following.partitions(start, end)


@pytest.fixture(params=["read", "readStream"])
def streaming(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "readStream")


@pytest.fixture
def read(url: str, stream: sync.Stream, streaming: bool) -> Read:  # noqa: ARG001
    """Read the stream from its beginning, unless an option says otherwise."""

    def rows(**options: str) -> list[dict[str, Any]]:
        if not any(name.startswith("starting") for name in options):
            options["startingOffsets"] = "earliest"
        reader, parts = _parts(url, streaming=streaming, **options)
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    return rows


@pytest.fixture
def requests(url: str) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Return the requests that were sent to a subject since the last call."""
    with sync.connect(url) as client:
        seen = client.subscribe("$JS.API.>")
        client.flush()

        def sent(subject: str) -> list[dict[str, Any]]:
            client.publish("$JS.API.END", b"{}")
            found: list[dict[str, Any]] = []
            while (message := seen.next(timeout=20)).subject != "$JS.API.END":
                if message.subject.startswith(f"$JS.API.{subject}"):
                    found.append(json.loads(message.data or b"{}"))
            return found

        yield sent


def _numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["seq"] for row in rows)


def test_a_request_has_the_batch_size(read: Read, requests: Any) -> None:
    rows = read(batchSize="7")

    asked = [one["batch"] for one in requests("DIRECT.GET.READ") if "batch" in one]
    assert max(asked) == 7
    assert _numbers(rows) == list(range(1, COUNT + 1))


def test_a_request_has_the_maximum_of_bytes(read: Read, requests: Any) -> None:
    rows = read(maxBatchBytes="1000")

    asked = {one["max_bytes"] for one in requests("DIRECT.GET.READ") if "max_bytes" in one}
    assert asked == {1000}
    assert _numbers(rows) == list(range(1, COUNT + 1))


def test_a_consumer_reads_only_if_it_is_asked_for(read: Read, requests: Any) -> None:
    direct = read(readMode="direct")
    created = requests("CONSUMER.CREATE.READ")
    consumed = read(readMode="consumer")

    assert not created
    assert requests("CONSUMER.CREATE.READ")
    assert direct == consumed


def test_headers_are_a_column_in_the_form_that_is_asked_for(read: Read) -> None:
    as_map = read(includeHeaders="map")
    raw = read(includeHeaders="raw")

    assert "headers" not in read()[0]
    assert {row["seq"]: dict(row["headers"])["Nr"] for row in as_map} == {
        number: [str(number)] for number in range(1, COUNT + 1)
    }
    assert all(b"Nr: %d\r\n" % row["seq"] in row["headers"] for row in raw)


@pytest.mark.usefixtures("stream")
def test_a_partition_has_at_most_so_many_records(
    url: str,
    streaming: bool,
) -> None:
    options = {"startingOffsets": "earliest", "minPartitions": "1"}
    _, whole = _parts(url, streaming=streaming, **options)
    _, parts = _parts(url, streaming=streaming, maxRecordsPerPartition="8", **options)

    assert (len(whole), len(parts)) == (1, 5)


def test_a_read_starts_at_a_time_and_at_one_for_each_stream(
    read: Read, stream: sync.Stream
) -> None:
    moment = format_rfc3339(stream.get_msg(seq=31).time_ns)

    expected = list(range(31, COUNT + 1))
    assert _numbers(read(startingTimestamp=moment)) == expected
    assert _numbers(read(startingOffsetsByTimestamp=json.dumps({"READ": moment}))) == expected


def test_a_batch_read_ends_at_a_time(url: str, stream: sync.Stream) -> None:
    moment = format_rfc3339(stream.get_msg(seq=11).time_ns)

    reader, parts = _parts(url, streaming=False, endingTimestamp=moment)

    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert _numbers(rows) == list(range(1, 11))


def test_a_sequence_that_is_not_reached_is_waited_for_and_reported(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MIN_LAST_SEQ_WAIT_S", 0.1)

    assert len(read(minLastSeq=str(COUNT))) == COUNT
    with pytest.raises(PlanningFailed, match=f"minLastSeq is {COUNT + 1}, .* is at {COUNT}"):
        read(minLastSeq=str(COUNT + 1))


def test_a_start_that_was_removed_is_a_loss_unless_it_is_accepted(
    url: str,
    jetstream: sync.JetStream,
    streaming: bool,
) -> None:
    made = jetstream.create_stream(
        StreamConfig(name=f"CUT{int(streaming)}", subjects=(f"CUT{int(streaming)}",))
    )
    for _ in range(6):
        jetstream.publish(made.name, b"x")
    made.purge(seq=4)
    options = {"stream": made.name, "startingOffsets": "2"}

    with pytest.raises((DataLoss, PlanningFailed), match="startingOffsets is 2, but stream"):
        _parts(url, streaming=streaming, **options)
    reader, parts = _parts(url, streaming=streaming, failOnDataLoss="false", **options)

    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert _numbers(rows) == [4, 5, 6]
