"""The longest turn of the loop while tables of very many entries grow, and when they are freed.

``python -m tests.campaigns.large_tables [ENTRIES] [WORD]`` prints a row for each table whose name
has the word: the longest turn of each step, in milliseconds of CPU time of the loop's thread.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.turn_probe import TurnProbe, Wire

CHUNK = 1_000
SETTINGS = "max_pending: 64MB\n"
Step = tuple[str, float]


def create(client: Wire, **config: object) -> None:
    """Make the stream S."""
    body = {"name": "S", "subjects": ["s", "s.>"], "storage": "memory", **config}
    answer = client.request(b"STREAM.CREATE.S", json.dumps(body).encode())
    assert b'"error"' not in answer, answer


def consume(client: Wire, **config: object) -> None:
    """Make its consumer C."""
    wanted = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1, **config}
    body = json.dumps({"stream_name": "S", "config": wanted}).encode()
    answer = client.request(b"CONSUMER.DURABLE.CREATE.S.C", body)
    assert b'"error"' not in answer, answer


def publish(client: Wire, entries: int, message: Callable[[int], bytes]) -> None:
    """Store so many messages, and wait for them."""
    for first in range(0, entries, CHUNK):
        client.send(b"".join(message(n) for n in range(first, first + CHUNK)))
        client.settle()


def plain(_n: int) -> bytes:
    """A message of the same subject as all."""
    return b"PUB s 0\r\n\r\n"


def on_subject(n: int) -> bytes:
    """A message of its own subject."""
    return b"PUB s.%d 0\r\n\r\n" % n


def with_id(n: int) -> bytes:
    """A message with an id."""
    block = b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % n
    return b"HPUB s %d %d\r\n%b\r\n" % (len(block), len(block), block)


def deliver(client: Wire, entries: int) -> bytes:
    """Fetch so many messages, without acknowledging them; the last reply subject."""
    client.send(b"SUB got 1\r\n")
    last = b""
    for fetched in range(0, entries, CHUNK):
        client.send(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C got 14\r\n{"batch":1000}\r\n')
        client.until(b".%d." % (fetched + CHUNK))
        last = client.until(b"\r\n").split()[0]
    client.send(b"UNSUB 1\r\n")
    return last


def pending(client: Wire) -> int:
    """How many messages are not acknowledged."""
    info = json.loads(client.request(b"CONSUMER.INFO.S.C", b""))
    return int(info["num_ack_pending"])


def ids(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Message ids inside the window of duplicates."""
    create(client, max_msgs=1000)
    publish(client, entries, with_id)
    yield "publish", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def subjects(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Subjects with one message each."""
    create(client)
    publish(client, entries, on_subject)
    yield "publish", probe.longest_ms()
    client.request(b"STREAM.PURGE.S", b"")
    yield "purge", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def messages(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Messages of one subject."""
    create(client)
    publish(client, entries, plain)
    yield "publish", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def unacknowledged(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Messages that a consumer delivered and that are not acknowledged, on disk."""
    create(client, storage="file")
    consume(client)
    publish(client, entries, plain)
    probe.longest_ms()
    last = deliver(client, entries)
    yield "deliver", probe.longest_ms()
    stamp = last.split(b".")[-2]
    for first in range(1, entries, 2 * CHUNK):
        acked = range(first, min(first + 2 * CHUNK, entries), 2)
        client.send(
            b"".join(b"PUB $JS.ACK.S.C.1.%d.%d.%b.0 0\r\n\r\n" % (n, n, stamp) for n in acked)
        )
        client.settle()
    assert pending(client) == entries // 2
    yield "acknowledge every other one", probe.longest_ms()
    client.request(b"CONSUMER.INFO.S.C", b"")
    client.request(b"STREAM.PURGE.S", json.dumps({"seq": entries // 2}).encode())
    while pending(client) > entries // 4 + 1:
        pass
    yield "purge half of them", probe.longest_ms()
    client.request(b"CONSUMER.DELETE.S.C", b"")
    client.settle()
    yield "delete the consumer", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def late(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Messages whose ack wait ends, and which are delivered again."""
    create(client, storage="file")
    consume(client, ack_wait=100 * 10**9)
    publish(client, entries, plain)
    deliver(client, entries)
    probe.longest_ms()
    consume(client, ack_wait=10**9)
    client.send(b"SUB again 2\r\n")
    for _ in range(0, entries, CHUNK):
        client.send(
            b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C again 36\r\n"
            b'{"batch":1000,"expires":60000000000}\r\n'
        )
        for _ in range(CHUNK):
            client.until(b"$JS.ACK.S.C.")
    yield "deliver again", probe.longest_ms()
    client.request(b"STREAM.PURGE.S", b"")
    while pending(client):
        pass
    yield "purge", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def spent(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Messages that were delivered as often as they may be."""
    create(client, storage="file")
    consume(client, ack_wait=10**9, max_deliver=1)
    publish(client, entries, plain)
    probe.longest_ms()
    deliver(client, entries)
    client.send(b"SUB again 2\r\n")
    client.send(
        b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C again 36\r\n{"batch":1000,"expires":5000000000} \r\n'
    )
    while pending(client):
        pass
    yield "give up", probe.longest_ms()
    publish(client, CHUNK, plain)
    deliver(client, 0)
    yield "more", probe.longest_ms()
    client.request(b"STREAM.PURGE.S", b"")
    client.settle()
    yield "purge", probe.longest_ms()
    client.request(b"STREAM.DELETE.S", b"")
    yield "delete the stream", probe.longest_ms()


def streams(probe: TurnProbe, client: Wire, entries: int) -> Iterator[Step]:
    """Streams, at most 10,000, as pages of them are asked for."""
    entries = min(entries, 10_000)
    for n in range(entries):
        config = {"name": f"S{n}", "subjects": [f"a.{n}.>"], "storage": "memory"}
        body = json.dumps(config).encode()
        client.send(b"PUB $JS.API.STREAM.CREATE.S%d x %d\r\n%b\r\n" % (n, len(body), body))
    while json.loads(client.request(b"STREAM.NAMES", b""))["total"] < entries:
        pass
    probe.longest_ms()
    for verb in (b"STREAM.NAMES", b"STREAM.LIST"):
        for body in (b"", b'{"offset":5000}', b'{"subject":"a.*.x"}'):
            client.request(verb, body)
            client.settle()
            yield f"{verb.decode()} {body.decode()}", probe.longest_ms()


TABLES = (streams, ids, subjects, messages, unacknowledged, late, spent)


def main() -> None:
    """Print one line for each table."""
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    for table in TABLES:
        if word not in table.__name__:
            continue
        with (
            tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
            pytest.MonkeyPatch.context() as patch,
            TurnProbe(Path(folder), patch, SETTINGS) as probe,
            probe.client() as client,
        ):
            steps = [f"{name} {took:.1f}" for name, took in table(probe, client, entries)]
        sys.stdout.write(f"{table.__name__}: {', '.join(steps)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
