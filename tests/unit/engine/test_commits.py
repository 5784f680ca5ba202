"""Groups of a turn that are taken and applied together."""

from tests.unit.engine.conftest import Bench

from jetspark.api.enums import Storage
from jetspark.engine.commits import by_owner, for_disk
from jetspark.engine.stream.stream import Stream
from jetspark.store.committer import write
from jetspark.store.log.stream_log import Group


def written(bench: Bench, *streams: Stream) -> None:
    """Publish a message to each stream and write the groups; nothing is applied yet."""
    for stream in streams:
        bench.publish(stream, b"%b.x" % stream.name, b"hello", b"_INBOX.1")
    for stream, group in bench.engine.take_groups(bench.now):
        assert isinstance(group, Group)
        assert write(stream.log.segments.files, group) is None


def test_streams_without_anything_else_are_acknowledged_and_counted_together(
    bench: Bench,
) -> None:
    streams = [bench.create(name, f"{name}.>") for name in ("A", "B")]
    written(bench, *streams)
    others, _ = bench.engine.committed_together(streams, bench.outbox, bench.now)

    assert others == []
    assert bench.replies() == [b'{"stream":"A","seq":1}', b'{"stream":"B","seq":1}']
    sizes = [int(stream.log.index.bytes) for stream in streams]
    assert bench.engine.usage.used[Storage.FILE] == sum(sizes) > 0


def test_a_stream_with_consumers_is_left_to_the_caller(bench: Bench) -> None:
    alone, consumed = (bench.create(name, f"{name}.>") for name in ("A", "B"))
    config = b'{"stream_name":"B","config":{"durable_name":"d","ack_policy":"explicit"}}'
    bench.request(b"CONSUMER.CREATE.B.d", config)
    written(bench, alone, consumed)
    others, _ = bench.engine.committed_together([alone, consumed], bench.outbox, bench.now)

    assert others == [consumed]
    assert bench.replies() == [b'{"stream":"A","seq":1}']
    bench.engine.committed(consumed, bench.outbox, bench.now)
    assert bench.replies() == [b'{"stream":"B","seq":1}']


def test_removed_streams_are_left_to_the_caller(bench: Bench) -> None:
    stream = bench.create("A", "A.>")
    written(bench, stream)
    stream.drop()

    others, _ = bench.engine.committed_together([stream], bench.outbox, bench.now)
    assert others == [stream]


def test_a_stream_with_upkeep_is_named(bench: Bench) -> None:
    stream, other = (bench.create(name, f"{name}.>") for name in ("A", "B"))
    for each in (stream, other):
        while each.log.maintain(bench.now):
            pass
    stream.log.upkeep.want_note(True)
    written(bench, stream, other)

    _, kept = bench.engine.committed_together([stream, other], bench.outbox, bench.now)
    assert kept == [stream]


def test_groups_of_streams_in_memory_are_not_for_the_disk(bench: Bench) -> None:
    answer = bench.request(
        b"STREAM.CREATE.M", b'{"name":"M","subjects":["M.>"],"storage":"memory"}'
    )
    assert b"error" not in answer
    on_disk, in_memory = bench.create("A", "A.>"), bench.engine.streams["M"]
    for stream in (in_memory, on_disk):
        bench.publish(stream, b"%b.x" % stream.name, b"hello")
        bench.publish(stream, b"%b.y" % stream.name, b"hello")
    taken = bench.engine.take_groups(bench.now)
    turn, rest, messages = for_disk(taken, bench)

    assert [owner for owner, _ in turn] == [(bench, on_disk)]
    assert [stream for stream, _ in rest] == [in_memory]
    assert messages == 2


def test_reports_are_sorted_by_owner_and_result(bench: Bench) -> None:
    streams = [bench.create(name, f"{name}.>") for name in ("A", "B", "C")]
    error = OSError("no")
    found = by_owner([((1, streams[0]), None), ((2, streams[1]), None), ((1, streams[2]), error)])

    assert found[1].written == [streams[0]]
    assert found[1].failed == [(streams[2], error)]
    assert found[2].written == [streams[1]]
    assert found[2].failed == []
