"""Large messages are read in the background: what happens to the stream meanwhile counts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import pytest
from tests.unit.engine.consumer.conftest import SECOND, Inbox, World, WorldPorts, sequences

from jetspark.api.enums import AckPolicy
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.operations import Finish
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import ReadFailed
from jetspark.store.format.record import record_time
from jetspark.store.log.long_read import LONG_READ, LongRead
from jetspark.store.threads import attempt

WAIT = b'{"batch":20,"expires":60000000000}'
LARGE = LONG_READ + 1000


class HeldPorts(WorldPorts):
    """Large messages are read when the test says so."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.held: list[tuple[Callable[[], None], Finish]] = []

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        if isinstance(getattr(work, "__self__", None), LongRead):
            self.held.append((work, finish))
        else:
            super().run(work, finish, now, outbox)


class Late(World):
    """A world whose large messages are read when the test says so."""

    def make_ports(self) -> WorldPorts:
        self.ports = HeldPorts(self)
        return self.ports

    def read(self) -> None:
        """The disk answers: one message was read."""
        (work, finish) = self.ports.held.pop(0)
        finish(attempt(work), self.now, self.outbox)
        self.turn()

    def read_all(self) -> None:
        while self.ports.held:
            self.read()

    def filled(self, *sizes: int, **config: object) -> Stream:
        """A stream that is read from the disk: s.0, s.1, ..."""
        stream = self.stream("S", **config)
        for n, size in enumerate(sizes):
            self.publish(stream, b"s.%d" % n, payload=b"%d" % n * size)
        stream.log.reader.cache.budget = 0
        self.publish(stream, b"s.end")  # what came before leaves the cache
        stream.log.reader.forget_page()
        return stream

    def get(self, stream: Stream, body: bytes) -> None:
        self.engine.direct.get(stream, b"", body, b"_G", self.now, self.outbox)
        self.turn()

    def answers(self) -> list[tuple[bytes, bytes]]:
        """Headers and payloads of what came to direct gets."""
        return [(headers, payload) for _, _, headers, payload in self.got(b"_G")]

    def message_get(self, body: bytes) -> None:
        handle(self.engine, b"STREAM.MSG.GET.S", body, b"_G", self.now, self.outbox)
        self.turn()


@pytest.fixture
def late() -> Iterator[Late]:
    made = Late()
    yield made
    made.close()


def refuse(world: World, stream: Stream, seq: int, *, times: int = 1 << 62) -> None:
    """Let the disk refuse to read the body of one message."""
    columns = stream.log.index.segment_of(seq)
    assert columns is not None
    where = int(columns.offset_at(seq - columns.base))
    world.files.refuse_reads(columns.name, where + 9000, where + 9100, times=times)


def flip(world: World, stream: Stream, seq: int) -> None:
    """Damage the body of one message."""
    columns = stream.log.index.segment_of(seq)
    assert columns is not None
    where = int(columns.offset_at(seq - columns.base))
    (path,) = [path for path in world.files.paths() if path.name == columns.name]
    world.files.flip(path, (where + 9000) * 8)


def test_a_consumer_gets_messages_in_order_and_waits_for_a_large_one(late: Late) -> None:
    stream = late.filled(3, LARGE, 3)
    late.consumer(stream)

    late.pull(WAIT)
    before = late.got()
    late.pass_time(SECOND)  # nothing overtakes it
    meanwhile = late.got()
    late.read()

    after = late.got()
    assert (sequences(before), meanwhile, sequences(after)) == ([1], [], [2, 3, 4])
    assert after[0][3] == b"1" * LARGE
    assert late.ports.held == []


def test_a_push_consumer_waits_for_a_large_message(late: Late) -> None:
    stream = late.filled(LARGE, 3)
    inbox = late.bind(b"to")
    late.consumer(stream, deliver_subject="to", ack_policy=AckPolicy.NONE)

    assert inbox.take() == []
    late.read()
    assert [len(payload) for _, _, _, payload in inbox.take()] == [LARGE, 3, 1]


def test_a_large_message_is_read_once_for_all_that_wait_for_it(late: Late) -> None:
    stream = late.filled(LARGE)
    for name in ("one", "two"):
        late.consumer(stream, name)
        late.pull(WAIT, b"_R." + name.encode(), b"S." + name.encode())
    late.get(stream, b'{"seq":1}')

    assert len(late.ports.held) == 1
    late.read()
    assert late.ports.held == []
    assert sequences(late.got(b"_R.one")) == sequences(late.got(b"_R.two")) == [1, 2]
    assert [payload for _, payload in late.answers()] == [b"0" * LARGE]


def test_consumers_at_different_large_messages_all_get_theirs(late: Late) -> None:
    stream = late.filled(LARGE, LARGE, LARGE, LARGE)
    names = [b"c%d" % n for n in range(4)]
    for n, name in enumerate(names):
        late.consumer(stream, name.decode(), filter_subject=f"s.{n}")
        late.pull(WAIT, b"_R." + name, b"S." + name)

    late.read_all()

    assert [sequences(late.got(b"_R." + name)) for name in names] == [[1], [2], [3], [4]]


def test_a_message_that_was_deleted_while_it_was_read_is_not_delivered(late: Late) -> None:
    stream = late.filled(LARGE, LARGE, 3)
    late.consumer(stream)
    late.pull(WAIT)

    stream.log.staged.delete(1)
    late.engine.mark_dirty(stream)
    late.turn()
    late.read_all()

    assert sequences(late.got()) == [2, 3, 4]


def test_a_purge_while_a_message_is_read_ends_what_waits_for_it(late: Late) -> None:
    stream = late.filled(LARGE, LARGE)
    late.consumer(stream)
    late.pull(WAIT)
    late.get(stream, b'{"seq":1}')

    stream.log.staged.purge(0, b"", 0)
    late.engine.mark_dirty(stream)
    late.turn()
    late.read_all()
    late.publish(stream, b"s.new")
    late.turn()

    assert sequences(late.got()) == [4]
    assert [headers[:16] for headers, _ in late.answers()] == [b"NATS/1.0 404 Mes"]


def test_a_stream_deleted_while_it_is_read_answers_as_if_asked_then(late: Late) -> None:
    stream = late.filled(LARGE)
    late.consumer(stream)
    late.pull(WAIT)
    late.get(stream, b'{"seq":1,"batch":2}')
    late.message_get(b'{"seq":1}')

    late.remove(stream)
    late.read_all()

    assert not sequences(late.got())
    batch, body = late.answers()
    assert batch[0].startswith(b"NATS/1.0 503")
    assert json.loads(body[1])["error"]["err_code"] == 10059


def test_a_consumer_deleted_while_a_message_is_read_gets_nothing(late: Late) -> None:
    stream = late.filled(LARGE)
    consumer = late.consumer(stream)
    late.pull(WAIT)

    late.engine.consumers.drop(stream, consumer, late.now, late.outbox)
    late.turn()
    late.read_all()

    assert not sequences(late.got())


def test_a_client_that_left_while_its_message_was_read_costs_no_delivery(late: Late) -> None:
    stream = late.filled(LARGE)
    consumer = late.consumer(stream)
    late.pull(WAIT)
    late.inboxes[b"_R.1"].is_gone = True

    late.read_all()

    assert not sequences(late.got())
    assert late.info(consumer).delivered.stream_seq == 0
    assert late.info(consumer).num_pending == 2


def test_a_large_message_that_the_disk_refuses_stops_the_consumer_until_it_does_not(
    late: Late,
) -> None:
    stream = late.filled(3, LARGE)
    consumer = late.consumer(stream)
    refuse(late, stream, 2)

    late.pull(WAIT)
    late.read_all()
    stopped = late.info(consumer).stopped
    refused = list(stream.log.reader.refused_reads)
    damaged = dict(stream.log.reader.unreadable)
    late.files.allow_reads()
    late.pass_time(2 * SECOND)
    late.read_all()

    assert stopped == "message 2 cannot be read now: Input/output error"
    assert (refused, damaged) == ([2], {})
    assert sequences(late.got()) == [1, 2, 3]
    assert late.info(consumer).stopped == ""
    assert late.events(b"MSG_TERMINATED") == []


def test_a_passing_read_error_of_a_large_message_costs_nothing(late: Late) -> None:
    stream = late.filled(LARGE)
    consumer = late.consumer(stream)
    refuse(late, stream, 1, times=2)

    late.pull(WAIT)
    late.read()

    assert sequences(late.got()) == [1, 2]
    assert late.info(consumer).stopped == ""


def test_a_damaged_large_message_is_skipped_and_reported(late: Late) -> None:
    stream = late.filled(LARGE, 3)
    late.consumer(stream)
    flip(late, stream, 1)

    late.pull(WAIT)
    late.read_all()

    assert sequences(late.got()) == [2, 3]
    assert stream.log.reader.take_unreadable() == {1: "has a wrong checksum"}
    assert len(late.events(b"MSG_TERMINATED")) == 1


def test_direct_gets_of_large_messages(late: Late) -> None:
    stream = late.filled(LARGE, 3, LARGE, allow_direct=True)
    late.get(stream, b'{"last_by_subj":"s.0"}')
    late.get(stream, b'{"seq":1,"batch":2}')
    late.get(stream, b'{"multi_last":["s.*"]}')
    late.read_all()

    bodies = [payload for _, payload in late.answers()]
    first, third = b"0" * LARGE, b"2" * LARGE
    expected = [first, first, b"111", b"", first, b"111", third, b"x", b""]
    assert sorted(bodies) == sorted(expected)


def test_a_subject_is_not_missing_because_its_large_message_was_replaced_meanwhile(
    late: Late,
) -> None:
    """The replaced message was the last one when it was asked for."""
    stream = late.filled(LARGE, max_msgs_per_subject=1)
    late.get(stream, b'{"multi_last":["s.0"]}')

    late.publish(stream, b"s.0", payload=b"new")
    late.turn()
    late.read_all()

    (message, end) = late.answers()
    assert message[1] == b"0" * LARGE
    assert end[0].startswith(b"NATS/1.0 204")


@pytest.mark.parametrize("size", [LARGE, LARGE + 1, LARGE + 2])
def test_message_get_of_a_large_message_is_the_same_answer(late: Late, size: int) -> None:
    late.filled(size)
    late.message_get(b'{"seq":1}')
    late.read_all()

    ((_, body),) = late.answers()
    found = json.loads(body)
    data = found["message"].pop("data")
    assert list(found["message"]) == ["subject", "seq", "time"]
    assert found["message"]["subject"] == "s.0"
    assert base64.b64decode(data, validate=True) == b"0" * size


def test_what_cannot_wait_reads_a_large_message_at_once(late: Late) -> None:
    stream = late.filled(LARGE)
    reader = stream.log.reader
    when = int(reader.time_of(1))

    assert reader.locate(1)[0].count(b"0") >= LARGE
    assert when == int(record_time(*reader.locate(1)))


def test_the_time_of_a_large_message_is_verified(late: Late) -> None:
    stream = late.filled(LARGE, LARGE)
    reader = stream.log.reader
    flip(late, stream, 1)
    refuse(late, stream, 2)

    assert int(reader.time_of(1)) == -1
    with pytest.raises(ReadFailed):
        reader.first_at(int(stream.log.index.last_time))
    late.files.allow_reads()
    assert int(reader.first_at(int(stream.log.index.last_time))) == 3
    assert int(reader.time_of(2)) > 0


def test_info_of_a_waiting_consumer_shows_no_error(late: Late) -> None:
    stream = late.filled(LARGE)
    consumer: Consumer = late.consumer(stream)
    late.pull(WAIT)

    info = late.info(consumer)

    assert (info.stopped, info.num_waiting, info.num_pending) == ("", 1, 2)
    inbox: Inbox = late.inboxes[b"_R.1"]
    assert inbox.got == []
