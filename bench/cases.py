"""The measured cases: each prepares a server and then runs one timed piece of work."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from bench.batches import atomic_batches, fast_ingest
from bench.load import (
    Wire,
    answer_all,
    in_threads,
    make_stream,
    publish_all,
    receive_all,
    windowed,
)
from bench.servers import PEER, Running

Work = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One row of the table. ``prepare`` returns the work to be timed."""

    name: str
    count: int
    prepare: Callable[[Running, int], Work]
    # The server to compare with, and whether the client has permissions to check.
    peer: str = PEER
    guarded: bool = False


def publish(size: int, window: int, config: bytes = b"") -> Callable[[Running, int], Work]:
    """Publish to a stream with this many messages in flight; each is acknowledged."""

    def prepare(server: Running, count: int) -> Work:
        wire = Wire(server)
        make_stream(wire, b"PUB", config)
        wire.send(b"SUB _I.* 1\r\n")
        wire.sync()
        frame = b"PUB PUB.x _I.1 %d\r\n%b\r\n" % (size, b"x" * size)
        return lambda: windowed(wire, frame, b'"seq":', count, window)

    return prepare


def direct_get(window: int) -> Callable[[Running, int], Work]:
    """Get messages by sequence with this many requests in flight."""

    def prepare(server: Running, count: int) -> Work:
        wire = Wire(server)
        make_stream(wire, b"GET")
        wire.send(b"SUB _I.* 1\r\n")
        wire.sync()
        body = b"x" * 128
        windowed(wire, b"PUB GET.x _I.1 128\r\n%b\r\n" % body, b'"seq":', 1000, 1000)
        ask = b'PUB $JS.API.DIRECT.GET.GET _I.1 11\r\n{"seq":500}\r\n'
        return lambda: windowed(wire, ask, b"HMSG _I.1", count, window)

    return prepare


def core(subscribers: int) -> Callable[[Running, int], Work]:
    """One publisher, this many subscribers, no stream."""

    def prepare(server: Running, count: int) -> Work:
        readers = [Wire(server) for _ in range(subscribers)]
        for reader in readers:
            reader.send(b"SUB core.x 1\r\n")
            reader.sync()
        writer = Wire(server)
        frame = b"PUB core.x 128\r\n%b\r\n" % (b"x" * 128)

        def work() -> None:
            in_threads(
                *(
                    threading.Thread(target=receive_all, args=(reader, b"MSG core.x 1 ", count))
                    for reader in readers
                ),
                threading.Thread(target=publish_all, args=(writer, frame, count)),
            )

        return work

    return prepare


def request_reply(window: int) -> Callable[[Running, int], Work]:
    """One requester with this many requests in flight, one responder; both over raw sockets."""

    def prepare(server: Running, count: int) -> Work:
        responder = Wire(server)
        responder.send(b"SUB service 1\r\n")
        responder.sync()
        requester = Wire(server)
        requester.send(b"SUB _INBOX.bench.* 1\r\n")
        requester.sync()
        frame = b"PUB service _INBOX.bench.1 16\r\n0123456789abcdef\r\n"

        def work() -> None:
            in_threads(
                threading.Thread(target=answer_all, args=(responder, count)),
                threading.Thread(
                    target=windowed,
                    args=(requester, frame, b"MSG _INBOX.bench", count, window),
                ),
            )

        return work

    return prepare


def wildcards(subscriptions: int) -> Callable[[Running, int], Work]:
    """One publisher over many subjects, each with one subscriber of a thousand wildcards."""

    def prepare(server: Running, count: int) -> Work:
        reader = Wire(server)
        reader.send(b"".join(b"SUB w.%d.*.> %d\r\n" % (n, n + 1) for n in range(subscriptions)))
        reader.sync()
        writer = Wire(server)
        frames = b"".join(
            b"PUB w.%d.x.y 128\r\n%b\r\n" % (n, b"x" * 128) for n in range(subscriptions)
        )

        def work() -> None:
            in_threads(
                threading.Thread(target=receive_all, args=(reader, b"MSG w.", count)),
                threading.Thread(
                    target=publish_all, args=(writer, frames, count // subscriptions)
                ),
            )

        return work

    return prepare


CASES = (
    Case("core 1:1, 128 B", 1_000_000, core(1)),
    Case("core fan-out 1:10, 128 B", 100_000, core(10)),
    Case("request / reply, 1 in flight", 10_000, request_reply(1)),
    Case("request / reply, 100 in flight", 150_000, request_reply(100)),
    Case("1,000 wildcard subscriptions", 500_000, wildcards(1000)),
    Case("publish, 1,000 in flight, 128 B", 200_000, publish(128, 1000)),
    Case("publish, 1,000 in flight, 1 KiB", 80_000, publish(1024, 1000)),
    Case("publish, one at a time, 128 B", 4_000, publish(128, 1)),
    Case("fast ingest, 128 B", 200_000, fast_ingest(1)),
    Case("fast ingest, four publishers", 200_000, fast_ingest(4)),
    Case("atomic batches of 100, 128 B", 100_000, atomic_batches(100)),
    Case("atomic batches of 1,000, 128 B", 100_000, atomic_batches(1000)),
    Case("direct get, 100 in flight", 100_000, direct_get(100)),
)
