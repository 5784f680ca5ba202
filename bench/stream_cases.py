"""Stream cases: keys, ids, expectations, batched reads, durability levels."""

from collections.abc import Callable

from bench.cases import Case, Work, publish
from bench.load import Wire, make_stream, windowed, windowed_frames
from bench.servers import SYNC_ALWAYS, Running

BODY = b"x" * 128
ACK = b'"seq":'


def _stream(server: Running, name: bytes, config: bytes = b"") -> Wire:
    wire = Wire(server)
    make_stream(wire, name, config)
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    return wire


def keys(number: int, window: int) -> Callable[[Running, int], Work]:
    """Publish over many subjects, each of which keeps its newest message."""

    def prepare(server: Running, count: int) -> Work:
        wire = _stream(server, b"KEYS", b',"max_msgs_per_subject":1')
        once = [b"PUB KEYS.%d _I.1 128\r\n%b\r\n" % (n, BODY) for n in range(number)]
        frames = (once * (count // number + 1))[:count]
        return lambda: windowed_frames(wire, frames, ACK, window)

    return prepare


def with_header(make: Callable[[int], bytes], window: int) -> Callable[[Running, int], Work]:
    """Publish to one subject; ``make(n)`` is the header line of message n."""

    def prepare(server: Running, count: int) -> Work:
        wire = _stream(server, b"HDR")
        frames = []
        for n in range(count):
            block = b"NATS/1.0\r\n%b\r\n\r\n" % make(n)
            frames.append(
                b"HPUB HDR.x _I.1 %d %d\r\n%b%b\r\n"
                % (len(block), len(block) + len(BODY), block, BODY)
            )
        return lambda: windowed_frames(wire, frames, ACK, window)

    return prepare


def message_id(n: int) -> bytes:
    """A new id for each message."""
    return b"Nats-Msg-Id: id-%d" % n


def expectation(n: int) -> bytes:
    """Each message expects the one before it on its subject."""
    return b"Nats-Expected-Last-Subject-Sequence: %d" % n


def batches(size: int) -> Callable[[Running, int], Work]:
    """Read the stream repeatedly with direct gets of this many messages each."""

    def prepare(server: Running, count: int) -> Work:
        wire = _stream(server, b"BATCH")
        windowed(wire, b"PUB BATCH.x _I.1 128\r\n%b\r\n" % BODY, ACK, size, 1000)
        body = b'{"seq":1,"batch":%d}' % size
        ask = b"PUB $JS.API.DIRECT.GET.BATCH _I.1 %d\r\n%b\r\n" % (len(body), body)
        return lambda: _read_in_pages(wire, ask, count // size, size)

    return prepare


def multi_last(number: int) -> Callable[[Running, int], Work]:
    """Read the newest message of this many subjects, repeatedly."""

    def prepare(server: Running, count: int) -> Work:
        wire = _stream(server, b"LAST")
        once = [b"PUB LAST.%d _I.1 128\r\n%b\r\n" % (n, BODY) for n in range(number)]
        windowed_frames(wire, once, ACK, 1000)
        body = b'{"multi_last":["LAST.>"],"batch":%d}' % number
        ask = b"PUB $JS.API.DIRECT.GET.LAST _I.1 %d\r\n%b\r\n" % (len(body), body)
        return lambda: _read_in_pages(wire, ask, count // number, number)

    return prepare


def _read_in_pages(wire: Wire, ask: bytes, pages: int, size: int) -> None:
    """Two pages are requested at a time; each has its messages and an end message."""
    mark = b"HMSG _I.1 1 "
    asked = min(2, pages)
    wire.send(ask * asked)
    seen = 0
    tail = b""
    while seen < pages * (size + 1):
        data = tail + wire.receive()
        seen += data.count(mark)
        tail = data[-(len(mark) - 1) :]
        while asked < pages and seen >= (asked - 1) * (size + 1):
            wire.send(ask)
            asked += 1


def round_robin(streams: int, window: int, before: int = 120) -> Callable[[Running, int], Work]:
    """Publish to many streams in turn: each message dirties another one.

    ``before`` is how many messages each of them has already. What a server prepares when many
    streams are busy, or for a stream of that size, is ready then.
    """

    def prepare(server: Running, count: int) -> Work:
        wire = Wire(server)
        for number in range(streams):
            make_stream(wire, b"RR%d" % number)
        wire.send(b"SUB _I.* 1\r\n")
        wire.sync()
        once = [b"PUB RR%d.x _I.1 128\r\n%b\r\n" % (n, BODY) for n in range(streams)]
        windowed_frames(wire, once * before, ACK, 10_000)
        wire.sync()
        frames = (once * (count // streams + 1))[:count]
        return lambda: windowed_frames(wire, frames, ACK, window)

    return prepare


CASES = (
    Case("10,000 keys, history 1, 128 B", 100_000, keys(10_000, 1000)),
    Case("publish with Nats-Msg-Id", 100_000, with_header(message_id, 1000)),
    Case("publish with an expectation", 100_000, with_header(expectation, 1000)),
    Case("publish with permissions on", 200_000, publish(128, 1000), guarded=True),
    Case("direct get, batches of 1,000", 500_000, batches(1000)),
    Case("multi_last over 1,000 keys", 500_000, multi_last(1000)),
    Case("round robin, 100 streams", 200_000, round_robin(100, 10_000)),
    Case("round robin, 1,000 streams", 100_000, round_robin(1000, 10_000)),
    Case("round robin, 1,000 streams, 1,000 in flight", 50_000, round_robin(1000, 1000)),
    Case("round robin, 1,000 new streams", 50_000, round_robin(1000, 1000, before=5)),
    Case(
        "round robin, 1,000 streams, synced",
        20_000,
        round_robin(1000, 10_000),
        peer=SYNC_ALWAYS,
    ),
    Case("publish, 1,000 in flight, synced", 100_000, publish(128, 1000), peer=SYNC_ALWAYS),
    Case("one at a time, synced", 4_000, publish(128, 1), peer=SYNC_ALWAYS),
    Case(
        "one at a time, persist async",
        10_000,
        publish(128, 1, b',"persist_mode":"async"'),
    ),
)
