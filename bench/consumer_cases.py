"""Consumer cases: pull, push, many at a time, and the memory of each."""

import re
import statistics
import threading
from collections.abc import Callable
from pathlib import Path

from bench.cases import Case, Work
from bench.load import Wire, in_threads, make_stream, receive_all, windowed
from bench.servers import OURS, PEER, Running, running

SIZE = 128
BODY = b"x" * SIZE
_DELIVERED = re.compile(rb"MSG \S+ 1 (\$JS\.ACK\.\S+) \d+\r\n")
_FLOW = re.compile(rb"HMSG \S+ 1 (\$JS\.FC\.\S+) ")


def filled(wire: Wire, name: bytes, count: int) -> None:
    """A stream with this many messages."""
    make_stream(wire, name)
    wire.send(b"SUB _I.* 9\r\n")
    wire.sync()
    frame = b"PUB %b.x _I.1 %d\r\n%b\r\n" % (name, SIZE, BODY)
    windowed(wire, frame, b'"seq":', count, 1000)
    wire.send(b"UNSUB 9\r\n")
    wire.sync()


def make_consumer(wire: Wire, stream: bytes, name: bytes, config: bytes) -> None:
    """Create a consumer from the fields of a JSON object."""
    body = b'{"stream_name":"%b","config":{%b}}' % (stream, config)
    reply = wire.request(b"$JS.API.CONSUMER.CREATE.%b.%b" % (stream, name), body)
    if b'"error"' in reply:
        raise RuntimeError(reply.decode(errors="replace"))


def pull(batch: int) -> Callable[[Running, int], Work]:
    """Fetch this many at a time, and acknowledge each message."""

    def prepare(server: Running, count: int) -> Work:
        wire = Wire(server)
        filled(wire, b"PULL", count)
        limits = b'"ack_policy":"explicit","max_ack_pending":100000'
        make_consumer(wire, b"PULL", b"c", limits)
        wire.send(b"SUB _P.1 1\r\n")
        wire.sync()
        return lambda: fetch_all(wire, count, batch)

    return prepare


def fetch_all(wire: Wire, count: int, batch: int) -> None:
    """Two overlapping requests, so that the server need not wait for the acknowledgements."""
    body = b'{"batch":%d,"expires":30000000000}' % batch
    ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.PULL.c _P.1 %d\r\n%b\r\n" % (len(body), body)
    wire.send(ask * 2)
    seen = asked = 0
    tail = b""
    while seen < count:
        data = tail + wire.receive()
        # Anything after the last line end is parsed again with the next chunk.
        tail = data[data.rfind(b"\r\n") + 2 :]
        acks = _DELIVERED.findall(data)
        if not acks:
            continue
        seen += len(acks)
        out = b"PUB " + b" 0\r\n\r\nPUB ".join(acks) + b" 0\r\n\r\n"
        while asked < seen // batch:
            asked += 1
            out += ask
        wire.send(out)
    wire.sync()


def replay(server: Running, count: int) -> Work:
    """Push a stored stream as for ordered consumers: no acks, flow control, heartbeats."""
    wire = Wire(server)
    filled(wire, b"PUSH", count)
    reader = Wire(server)
    reader.send(b"SUB _D.1 1\r\n")
    reader.sync()
    config = b'"deliver_subject":"_D.1","flow_control":true,"idle_heartbeat":5000000000'

    def work() -> None:
        make_consumer(wire, b"PUSH", b"c", config + b',"mem_storage":true')
        follow(reader, count)

    return work


def follow(reader: Wire, count: int) -> None:
    """Read this many messages, and answer flow control."""
    mark = b"MSG PUSH.x 1 "
    seen = 0
    tail = b""
    while seen < count:
        data = tail + reader.receive()
        seen += data.count(mark)
        asked = _FLOW.findall(data)
        if asked:
            reader.send(b"".join(b"PUB %b 0\r\n\r\n" % one for one in asked))
            tail = b""
        else:
            tail = data[-(len(mark) - 1) :]


def live(consumers: int) -> Callable[[Running, int], Work]:
    """Publish, acknowledged, while this many push consumers follow; every delivery counts."""

    def prepare(server: Running, count: int) -> Work:
        published = count // consumers
        writer = Wire(server)
        make_stream(writer, b"LIVE")
        writer.send(b"SUB _I.* 1\r\n")
        reader = Wire(server)
        for n in range(consumers):
            reader.send(b"SUB _D.%d 1%d\r\n" % (n, n))
            reader.sync()
            make_consumer(writer, b"LIVE", b"c%d" % n, b'"deliver_subject":"_D.%d"' % n)
        frame = b"PUB LIVE.x _I.1 %d\r\n%b\r\n" % (SIZE, BODY)

        def work() -> None:
            in_threads(
                threading.Thread(
                    target=receive_all, args=(reader, b"MSG LIVE.x 1", published * consumers)
                ),
                threading.Thread(
                    target=windowed, args=(writer, frame, b'"seq":', published, 1000)
                ),
            )

        return work

    return prepare


def made_and_deleted(server: Running, count: int) -> Work:
    """Create and delete this many unused ephemeral consumers."""
    wire = Wire(server)
    filled(wire, b"MANY", 1000)
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    return lambda: make_and_delete(wire, count)


def make_and_delete(wire: Wire, count: int) -> None:
    """All requests at once, twice."""
    body = b'{"stream_name":"MANY","config":{"ack_policy":"explicit","filter_subject":"MANY.x"}}'
    wire.send(
        b"".join(
            b"PUB $JS.API.CONSUMER.CREATE.MANY.c%d.MANY.x _I.1 %d\r\n%b\r\n" % (n, len(body), body)
            for n in range(count)
        )
    )
    receive_all(wire, b"consumer_create_response", count)
    wire.send(
        b"".join(b"PUB $JS.API.CONSUMER.DELETE.MANY.c%d _I.1 0\r\n\r\n" % n for n in range(count))
    )
    receive_all(wire, b"consumer_delete_response", count)


CONSUMER_CASES = (
    Case("pull, fetch 500, ack each", 100_000, pull(500)),
    Case("push replay, ordered, ack none", 300_000, replay),
    Case("publish and follow live", 200_000, live(1)),
    Case("100 push consumers, deliveries", 500_000, live(100)),
    Case("idle consumers made and deleted", 1_000, made_and_deleted),
)


def bytes_per_consumer(name: str, count: int = 1000) -> float:
    """Resident memory of one idle durable consumer."""
    with running(name) as server:
        wire = Wire(server)
        filled(wire, b"MANY", 1000)
        before = resident(server)
        for n in range(count):
            config = b'"durable_name":"c%d","ack_policy":"explicit"' % n
            make_consumer(wire, b"MANY", b"c%d" % n, config)
        return (resident(server) - before) / count


def resident(server: Running) -> int:
    """Resident memory of a server, in bytes."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def report(rounds: int) -> None:
    """Print the memory of a consumer."""
    theirs, ours = (
        statistics.median(bytes_per_consumer(name) for _ in range(rounds)) for name in (PEER, OURS)
    )
    print(f"{'memory per idle consumer':<34} {theirs / 1024:>9.1f} KB {ours / 1024:>9.1f} KB")
