"""Hostile clients of full size, one after the other, next to a probe of the loop's turns."""

import json
import random
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.turn_probe import LONGEST_MS, TurnProbe, Wire

from jetspark.api.stream import StreamConfig, StreamState
from jetspark.engine.archive import ArchiveWriter

# 60 MB of a restore take up to 57 ms in one turn; all others stay below 10.
SLOW = {"restore"}
EXPECTS = b"Nats-Expected-Last-Subject-Sequence"


def create(client: Wire, name: str, subjects: list[str]) -> None:
    """Make a stream in memory."""
    config = {"name": name, "subjects": subjects, "storage": "memory"}
    answer = client.request(b"STREAM.CREATE.%b" % name.encode(), json.dumps(config).encode())
    assert b'"error"' not in answer, answer


def drop(client: Wire, *names: str) -> None:
    """Remove streams."""
    for name in names:
        client.request(b"STREAM.DELETE.%b" % name.encode(), b"")


def subscriptions(probe: TurnProbe) -> None:
    """60,000 subscriptions of one subject that leave in reverse, at CONNECT, and by closing."""
    with probe.client() as client:
        for _ in range(3):
            client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(60_000)))
            client.settle()
        client.send(b"".join(b"UNSUB %d\r\n" % sid for sid in reversed(range(60_000))))
        client.settle()
        client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(60_000)))
        client.send(b'CONNECT {"verbose":false}\r\n')
        client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(60_000)))
        client.settle()


def queue_groups(probe: TurnProbe) -> None:
    """40,000 queue groups of one subject, and messages for all of them."""
    with probe.client() as client:
        client.send(b"".join(b"SUB same q%d %d\r\n" % (sid, sid) for sid in range(40_000)))
        client.send(b"PUB same 2\r\nhi\r\n" * 5)
        client.settle()


def fan_out(probe: TurnProbe) -> None:
    """20,000 subscriptions: many small messages, then one of 1 MB."""
    with probe.client() as client, probe.client() as other:
        client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(20_000)))
        client.send(b"PUB same 2\r\nhi\r\n" * 20)
        client.settle()
        before = probe.server.slow_consumers
        client.send(b"PUB same 1000000\r\n%b\r\n" % bytes(1_000_000))
        while probe.server.slow_consumers == before:
            other.settle()


def alternating(probe: TurnProbe) -> None:
    """A subscription, a message, a subscription, a message, all of one subject."""
    with probe.client() as client:
        # 1,000: the answers (7 MB) stay below max_pending however slowly they are read.
        client.send(b"".join(b"SUB s %d\r\nPUB s 0\r\n\r\n" % sid for sid in range(1_000)))
        client.settle()


def requests(probe: TurnProbe) -> None:
    """Requests without end."""
    with probe.client() as client:
        for verb in (b"INFO", b"STREAM.NAMES", b"STREAM.LIST", b"STREAM.INFO.none", b"UNKNOWN"):
            client.send(b"PUB $JS.API.%b answer 0\r\n\r\n" % verb * 20_000)
        client.settle()


def acknowledgements(probe: TurnProbe) -> None:
    """Publishers are answered on a subject that is subscribed to 20,000 times."""
    with probe.client() as client, probe.client() as other:
        create(other, "S", ["s"])
        client.send(b"".join(b"SUB acks %d\r\n" % sid for sid in range(20_000)))
        client.settle()
        # The server runs in a thread of this process: five times 20,000 answers are less than
        # what may wait for a client that has no time to read them.
        for last in range(5, 55, 5):
            other.send(b"PUB s acks 0\r\n\r\n" * 5)
            other.settle()
            for _ in range(20_000):
                client.until(b'{"stream":"S","seq":%d}' % last)
        drop(other, "S")


def overlaps(probe: TurnProbe) -> None:
    """Streams of 3,000 subjects."""
    with probe.client() as client:
        create(client, "A", [f"a.{n}.*" for n in range(3_000)])
        create(client, "B", [f"b.{n}.*" for n in range(3_000)])
        create(client, "C", [f"c.*.{n}" for n in range(3_000)])
        drop(client, "A", "B", "C")


def filters(probe: TurnProbe) -> None:
    """A consumer of 3,000 filter subjects over 20,000 subjects."""
    with probe.client() as client:
        create(client, "S", ["s.>"])
        client.send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(20_000)))
        config = {"name": "C", "filter_subjects": [f"s.{n}.*" for n in range(3_000)]}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        assert json.loads(client.request(b"CONSUMER.CREATE.S.C", body))["num_pending"] == 3_000
        drop(client, "S")


def expectations(probe: TurnProbe) -> None:
    """200 expectations with wildcards over 50,000 subjects."""
    with probe.client() as client:
        create(client, "S", ["s.>"])
        client.send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(50_000)))
        block = b"NATS/1.0\r\n%b: 1\r\n%b-Subject: s.*.x\r\n\r\n" % (EXPECTS, EXPECTS)
        client.send(b"HPUB s.1 %d %d\r\n%b\r\n" % (len(block), len(block), block) * 200)
        client.settle()
        drop(client, "S")


def restore(probe: TurnProbe) -> None:
    """60 MB of a restore, then 300 chunks of one byte."""
    with probe.client() as client:
        body = json.dumps({"config": {"name": "R", "subjects": ["r"]}, "state": {}}).encode()
        to = json.loads(client.request(b"STREAM.RESTORE.R", body))["deliver_subject"].encode()
        head = ArchiveWriter().head(StreamConfig(name="R"), StreamState())
        entry = tarfile.TarInfo("messages-00000001.bin")
        entry.size = 100 * 1024 * 1024
        data = head + entry.tobuf(tarfile.USTAR_FORMAT) + bytes(60_000_000)
        for start in range(0, len(data), 500_000):
            piece = data[start : start + 500_000]
            client.send(b"PUB %b %d\r\n%b\r\n" % (to, len(piece), piece))
        client.send(b"PUB %b 1\r\nx\r\n" % to * 300)
        client.send(b"PUB %b 0\r\n\r\n" % to)
        client.settle()


HOSTILE: tuple[Callable[[TurnProbe], None], ...] = (
    subscriptions,
    queue_groups,
    fan_out,
    alternating,
    requests,
    acknowledgements,
    overlaps,
    filters,
    expectations,
    restore,
)


def campaign(deadline: float, seed: int) -> str:
    """Play them in any order; the longest turn that each of them caused."""
    chosen = random.Random(seed)
    longest: dict[str, float] = {}
    runs = 0
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch) as probe,
    ):
        while time.monotonic() < deadline or runs < len(HOSTILE):
            hostile = HOSTILE[runs] if runs < len(HOSTILE) else chosen.choice(HOSTILE)
            hostile(probe)
            took = probe.check(2 * LONGEST_MS if hostile.__name__ in SLOW else LONGEST_MS)
            longest[hostile.__name__] = max(took, longest.get(hostile.__name__, 0))
            runs += 1
    worst = max(longest, key=lambda name: longest[name])
    return f"{runs} hostile clients, longest turn {longest[worst]:.0f} ms of CPU time ({worst})"
