"""Planning and reading against a real nats-server, without a JVM."""

import functools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetspark import Storage
from jetspark.errors import AuthorizationFailed, ConnectFailed
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import IDLE_MAX, ConnectionCache, connect, jetstream_of
from jetspark.spark.stream import range_reader
from jetspark.spark.stream import view as stream_view
from jetspark.spark.stream.batch_reader import JetStreamBatchReader
from jetspark.spark.stream.options import HeaderMode, ReadMode, SourceOptions
from jetspark.spark.stream.planner import DataLoss, StreamRecreated
from jetspark.spark.stream.range_reader import RETRIES_MAX, SequencePartition
from jetspark.spark.stream.schema import default_schema
from jetspark.spark.stream.view import PlanningFailed

if TYPE_CHECKING:
    from tests.spark.conftest import NatsServer, Streams

SCHEMA = default_schema(HeaderMode.NONE)


def _options(url: str, stream: str, **changes: object) -> SourceOptions:
    options = SourceOptions(connection=Connection(servers=(url,)), stream=stream)
    return msgspec.structs.replace(options, **changes)


def _sequences(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


def _batch_sizes(options: SourceOptions) -> list[int]:
    reader = JetStreamBatchReader(options, SCHEMA)
    return [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]


def _read_all(options: SourceOptions) -> list[int]:
    reader = JetStreamBatchReader(options, SCHEMA)
    return [seq for part in reader.partitions() for seq in _sequences(reader.read(part))]


def test_every_message_is_read_once_whatever_the_sizes(streams: "Streams") -> None:
    streams.fill("SIZES", 1000)
    options = _options(
        streams.url, "SIZES", min_partitions=3, max_records_per_partition=150, batch_size=64
    )

    assert len(JetStreamBatchReader(options, SCHEMA).partitions()) == 7
    assert _read_all(options) == list(range(1, 1001))


def test_a_request_is_bounded_by_messages_and_by_bytes(streams: "Streams") -> None:
    """The options batchSize and maxBatchBytes are per request, and a request is a batch."""
    streams.fill("BOUNDED", 100)
    by_count = _options(streams.url, "BOUNDED", batch_size=30)
    by_bytes = _options(streams.url, "BOUNDED", max_batch_bytes=200)

    assert _batch_sizes(by_count) == [30, 30, 30, 10]
    assert max(_batch_sizes(by_bytes)) < 30
    assert sum(_batch_sizes(by_bytes)) == 100


def test_partitions_and_reader_travel_by_pickle(streams: "Streams") -> None:
    streams.fill("PICKLED", 10)
    reader = JetStreamBatchReader(_options(streams.url, "PICKLED", min_partitions=2), SCHEMA)

    parts = pickle.loads(pickle.dumps(reader.partitions()))
    copy = pickle.loads(pickle.dumps(reader))

    assert [(part.first, part.end) for part in parts] == [(1, 6), (6, 11)]
    assert _sequences(copy.read(parts[1])) == [6, 7, 8, 9, 10]
    assert len(pickle.dumps(parts[0])) < 300


def test_sparks_stand_in_for_no_partitions_is_read_as_nothing(streams: "Streams") -> None:
    """An empty list becomes one partition InputPartition(None)."""
    streams.create("NOTHING")
    reader = JetStreamBatchReader(_options(streams.url, "NOTHING"), SCHEMA)

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_deleted_messages_are_stepped_over(streams: "Streams") -> None:
    stream = streams.fill("HOLES", 100)
    for seq in (1, 2, 50, 99, 100):
        stream.delete_msg(seq)

    read = _read_all(_options(streams.url, "HOLES", min_partitions=4))

    assert read == [seq for seq in range(3, 99) if seq != 50]


def test_a_range_that_holds_only_deleted_messages_is_empty(streams: "Streams") -> None:
    stream = streams.fill("GONE", 30)
    for seq in range(11, 21):
        stream.delete_msg(seq)

    assert _read_all(_options(streams.url, "GONE", starting_seq=11, ending_seq=21)) == []


def test_a_filter_leaves_its_subjects(streams: "Streams") -> None:
    streams.fill("FILTERED", 100)

    read = _read_all(_options(streams.url, "FILTERED", subjects=("FILTERED.1",), min_partitions=3))

    assert read == list(range(1, 101, 3))


def test_a_stream_without_direct_get_is_read_from_its_leader(streams: "Streams") -> None:
    """No responders on DIRECT.GET is no error."""
    streams.fill("LEADER", 300, allow_direct=False)

    assert _read_all(_options(streams.url, "LEADER")) == list(range(1, 301))


def test_messages_removed_after_the_planning_are_data_loss(streams: "Streams") -> None:
    """Expired unread. Without failOnDataLoss the rest is read."""
    stream = streams.fill("EXPIRED", 100)
    options = _options(streams.url, "EXPIRED")
    strict = JetStreamBatchReader(options, SCHEMA)
    lenient = JetStreamBatchReader(
        msgspec.structs.replace(options, fail_on_data_loss=False), SCHEMA
    )
    (part,) = strict.partitions()
    stream.purge(seq=41)

    with pytest.raises(DataLoss, match=r"starts at 41.*message 1 was not"):
        _sequences(strict.read(part))

    assert _sequences(lenient.read(part)) == list(range(41, 101))


def test_messages_removed_unread_are_data_loss_with_a_filter_too(streams: "Streams") -> None:
    stream = streams.fill("QUIET", 30)
    options = _options(streams.url, "QUIET", subjects=("QUIET.1",))
    reader = JetStreamBatchReader(options, SCHEMA)
    lenient = JetStreamBatchReader(
        msgspec.structs.replace(options, fail_on_data_loss=False), SCHEMA
    )
    (part,) = reader.partitions()
    stream.purge(seq=2)

    with pytest.raises(DataLoss, match=r"now starts at 2, and message 1 was not"):
        _sequences(reader.read(part))
    assert _sequences(lenient.read(part)) == list(range(4, 31, 3))


def test_a_purge_of_all_messages_of_a_filter_is_data_loss(streams: "Streams") -> None:
    stream = streams.fill("SWEPT", 30)
    reader = JetStreamBatchReader(_options(streams.url, "SWEPT", subjects=("SWEPT.1",)), SCHEMA)
    (part,) = reader.partitions()
    stream.purge()

    with pytest.raises(DataLoss, match=r"starts at 31"):
        _sequences(reader.read(part))


def test_what_expires_after_a_filtered_read_has_passed_it_is_no_loss(streams: "Streams") -> None:
    stream = streams.fill("PASSED", 300)
    options = _options(streams.url, "PASSED", subjects=("PASSED.1",), batch_size=10)
    reader = JetStreamBatchReader(options, SCHEMA)
    (part,) = reader.partitions()
    batches = reader.read(part)
    first = next(batches)

    stream.purge(seq=25)

    assert _sequences([first, *batches]) == list(range(1, 301, 3))


def test_foreign_messages_that_expire_before_a_filtered_read_are_no_loss(
    streams: "Streams",
) -> None:
    stream = streams.fill("FOREIGN", 30)
    reader = JetStreamBatchReader(
        _options(streams.url, "FOREIGN", subjects=("FOREIGN.0",)), SCHEMA
    )
    (part,) = reader.partitions()
    stream.purge(seq=3)

    assert _sequences(reader.read(part)) == list(range(3, 31, 3))


def test_a_stream_that_is_created_again_with_fewer_messages_is_named(
    streams: "Streams", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one never reaches the sequences of the read, for which a copy is waited."""
    quick = functools.partial(jetstream_of, timeout=1.0)
    monkeypatch.setattr(range_reader, "jetstream_of", quick)
    streams.fill("FEWER", 100, storage=Storage.MEMORY)
    reader = JetStreamBatchReader(_options(streams.url, "FEWER", batch_size=10), SCHEMA)
    (part,) = reader.partitions()
    batches = reader.read(part)
    next(batches)

    streams.jetstream.delete_stream("FEWER")
    streams.fill("FEWER", 1, storage=Storage.MEMORY)

    with pytest.raises(StreamRecreated, match="created again"):
        _sequences(batches)


@pytest.mark.parametrize("mode", [ReadMode.DIRECT, ReadMode.CONSUMER])
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_stream_created_again_never_mixes_with_the_planned_one(
    streams: "Streams", mode: ReadMode, when: str
) -> None:
    name = f"AGAIN_{mode}_{when}"
    streams.fill(name, 100, storage=Storage.MEMORY)
    options = _options(streams.url, name, batch_size=10, read_mode=mode)
    strict = JetStreamBatchReader(options, SCHEMA)
    lenient = JetStreamBatchReader(
        msgspec.structs.replace(options, fail_on_data_loss=False), SCHEMA
    )
    (part,) = strict.partitions()
    reads = [strict.read(part), lenient.read(part)]
    begun = [next(batches) for batches in reads if when == "during"]

    streams.jetstream.delete_stream(name)
    streams.fill(name, 100, storage=Storage.MEMORY)

    assert len(begun) == (2 if when == "during" else 0)
    with pytest.raises(StreamRecreated, match="created again"):
        _sequences(reads[0])
    if when == "before":
        assert _sequences(reads[1]) == []
    else:
        with pytest.raises(StreamRecreated, match="created again"):
            _sequences(reads[1])


@pytest.mark.parametrize(
    ("start", "early", "late"),
    [
        ({"starting_seq": 15}, [], [15, 16, 17, 18, 19, 20]),
        # The year 2100: nothing is that new, before and after.
        ({"starting_time_ns": 4_102_444_800_000_000_000}, [], []),
    ],
    ids=["sequence", "time"],
)
def test_an_open_read_never_begins_before_its_start(
    streams: "Streams",
    request: pytest.FixtureRequest,
    start: dict[str, object],
    early: list[int],
    late: list[int],
) -> None:
    """The stream reaches the start only after the read was planned, or not at all."""
    name = f"OPEN_{request.node.callspec.id}"
    streams.fill(name, 10)
    options = _options(
        streams.url, name, open_ended=True, fail_on_data_loss=False, min_partitions=3, **start
    )
    reader = JetStreamBatchReader(options, SCHEMA)
    parts = reader.partitions()

    def sequences() -> list[int]:
        return [seq for part in parts for seq in _sequences(reader.read(part))]

    assert sequences() == early
    for number in range(11, 21):
        streams.jetstream.publish(f"{name}.0", b"%d" % number)
    assert sequences() == late


@pytest.mark.parametrize("start", ["sequence", "time", "filter"])
def test_an_open_read_has_all_of_a_stream_that_was_created_again(
    streams: "Streams", start: str
) -> None:
    """Its plan is of the stream before, which began elsewhere."""
    name = f"OPEN_AGAIN_{start}"
    stream = streams.fill(name, 30, storage=Storage.MEMORY)
    middle = stream.get_msg(seq=21)
    starts: dict[str, dict[str, object]] = {
        "sequence": {"starting_seq": 3},
        "time": {"starting_time_ns": middle.time_ns},
        "filter": {"starting_seq": 1, "subjects": (f"{name}.9",)},
    }
    options = _options(
        streams.url,
        name,
        open_ended=True,
        fail_on_data_loss=False,
        min_partitions=2,
        **starts[start],
    )
    reader = JetStreamBatchReader(options, SCHEMA)
    parts = reader.partitions()

    streams.jetstream.delete_stream(name)
    streams.create(name, storage=Storage.MEMORY)
    for number in range(1, 13):
        streams.jetstream.publish(f"{name}.9", b"%d" % number)

    read = [seq for part in parts for seq in _sequences(reader.read(part))]
    assert read == list(range(3 if start == "sequence" else 1, 13))


def test_a_hole_above_the_head_is_no_data_loss(streams: "Streams") -> None:
    """Holes cannot be distinguished from deliberate deletes."""
    stream = streams.fill("DELETED", 100)
    reader = JetStreamBatchReader(_options(streams.url, "DELETED"), SCHEMA)
    (part,) = reader.partitions()
    stream.delete_msg(50)

    assert _sequences(reader.read(part)) == [seq for seq in range(1, 101) if seq != 50]


def test_a_purge_of_one_subject_after_the_head_is_no_data_loss(streams: "Streams") -> None:
    """docs/spark.md, "Data loss": the read gives what is left, here nothing."""
    stream = streams.fill("ONE_PURGED", 10)
    options = _options(streams.url, "ONE_PURGED", subjects=("ONE_PURGED.2",))
    reader = JetStreamBatchReader(options, SCHEMA)
    parts = reader.partitions()
    stream.purge(subject="ONE_PURGED.2")

    assert [seq for part in parts for seq in _sequences(reader.read(part))] == []


def test_a_read_continues_when_the_server_was_restarted(
    start_nats: "Callable[..., NatsServer]",
) -> None:
    """Stale connections are tried again inside the task."""
    server = start_nats()
    filled = server.streams()
    filled.fill("RESTARTED", 1000)
    filled.client.close()
    reader = JetStreamBatchReader(_options(server.url, "RESTARTED", batch_size=100), SCHEMA)
    (part,) = reader.partitions()
    batches = reader.read(part)
    first = next(batches)

    server.stop()
    server.start()

    assert _sequences([first, *batches]) == list(range(1, 1001))


def test_a_server_that_stays_away_fails_the_task(
    start_nats: "Callable[..., NatsServer]", monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_nats()
    server.stop()
    waits: list[float] = []
    monkeypatch.setattr("jetspark.sync.retry.time.sleep", waits.append)
    monkeypatch.setattr(range_reader, "OUTAGE_S", 0.0)
    reader = JetStreamBatchReader(_options(server.url, "ANY"), SCHEMA)

    with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1"):
        list(reader.read(SequencePartition("ANY", 1, 10)))

    assert len(waits) == RETRIES_MAX


def test_a_missing_stream_is_one_line(streams: "Streams") -> None:
    reader = JetStreamBatchReader(_options(streams.url, "NO_SUCH"), SCHEMA)

    with pytest.raises(
        PlanningFailed, match=r"^format 'jetstream': stream 'NO_SUCH' does not exist"
    ):
        reader.partitions()


def test_a_missing_permission_is_reported_at_planning_time(
    start_nats: "Callable[..., NatsServer]",
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail in planning, on the driver, never in a task."""
    config = tmp_path_factory.mktemp("config") / "server.conf"
    config.write_text(
        'authorization { users = [ { user: "root", password: "r" }, '
        '{ user: "ann", password: "a", permissions: { '
        'publish: { allow: ["$JS.API.STREAM.INFO.*"] }, subscribe: { allow: ["_INBOX.>"] } } } ] }'
    )
    server = start_nats("-c", str(config))
    filled = server.streams("root:r")
    filled.fill("SECRET", 10)
    filled.client.close()
    allowed = Connection(servers=(server.url,), user="root", password="r")
    denied = Connection(servers=(server.url,), user="ann", password="a")
    wrong = Connection(servers=(server.url,), user="ann", password="hidden")

    assert _read_all(SourceOptions(connection=allowed, stream="SECRET")) == list(range(1, 11))
    with pytest.raises(PlanningFailed, match=r"(?i)permission.*DIRECT\.GET"):
        JetStreamBatchReader(
            SourceOptions(connection=denied, stream="SECRET"), SCHEMA
        ).partitions()
    with pytest.raises(PlanningFailed, match=r"(?i)authorization") as caught:
        JetStreamBatchReader(SourceOptions(connection=wrong, stream="SECRET"), SCHEMA).partitions()
    assert "hidden" not in str(caught.value)
    # Nothing is gained by trying the same password again.
    waits: list[float] = []
    monkeypatch.setattr("jetspark.sync.retry.time.sleep", waits.append)
    with pytest.raises(AuthorizationFailed):
        list(
            JetStreamBatchReader(SourceOptions(connection=wrong, stream="SECRET"), SCHEMA).read(
                SequencePartition("SECRET", 1, 2)
            )
        )
    assert waits == []


def test_a_connection_is_used_again(streams: "Streams") -> None:
    """Kept by worker process, checked with a PING before reuse."""
    cache = ConnectionCache(connect)
    settings = Connection(servers=(streams.url,), name="again")
    with cache.borrow(settings) as first:
        pass
    with cache.borrow(settings) as second:
        assert second is first
        with cache.borrow(settings) as other:
            assert other is not first
    cache.close()

    assert first.is_closed
    assert other.is_closed


def test_a_connection_is_dropped_after_an_error(streams: "Streams") -> None:
    cache = ConnectionCache(connect)
    settings = Connection(servers=(streams.url,))
    with pytest.raises(RuntimeError), cache.borrow(settings) as first:
        raise RuntimeError

    assert first.is_closed
    with cache.borrow(settings) as second:
        assert second is not first
    cache.close()


def test_a_connection_whose_server_went_away_is_replaced(
    start_nats: "Callable[..., NatsServer]",
) -> None:
    server = start_nats()
    cache = ConnectionCache(connect)
    settings = Connection(servers=(server.url,))
    with cache.borrow(settings) as first:
        pass
    server.stop()
    server.start()

    with cache.borrow(settings) as second:
        assert second is not first
        second.flush()
    cache.close()


def test_idle_connections_are_bounded(streams: "Streams") -> None:
    cache = ConnectionCache(connect)
    clients = []
    for index in range(IDLE_MAX + 1):
        with cache.borrow(Connection(servers=(streams.url,), name=f"n{index}")) as client:
            clients.append(client)

    assert [client.is_closed for client in clients] == [True] + [False] * IDLE_MAX
    cache.close()


FORKING = """
import os, sys
from jetspark.spark.connections import ConnectionCache, connect
from jetspark.spark.connection_settings import Connection

cache, settings = ConnectionCache(connect), Connection(servers=(sys.argv[1],))
with cache.borrow(settings) as inherited:
    pass
child = os.fork()
if child == 0:
    with cache.borrow(settings) as own:
        own.flush()
    cache.close()
    os._exit(0 if own is not inherited else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with cache.borrow(settings) as kept:
    assert kept is inherited
cache.close()
"""


def test_a_forked_process_does_not_use_its_parents_connections(streams: "Streams") -> None:
    """Workers are forked from a daemon; sockets would be shared."""
    # Newer Pythons warn about any fork next to a thread, which is what this is about.
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, streams.url], check=True, timeout=60
    )


def test_a_read_waits_for_a_sequence_and_fails_without_it(
    streams: "Streams", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option minLastSeq. Ten seconds in earnest, less here."""
    streams.fill("REACHED", 10)
    monkeypatch.setattr(stream_view, "MIN_LAST_SEQ_WAIT_S", 0.2)

    assert len(_read_all(_options(streams.url, "REACHED", min_last_seq=10))) == 10
    with pytest.raises(PlanningFailed, match="minLastSeq is 11"):
        _read_all(_options(streams.url, "REACHED", min_last_seq=11))
