"""How long a turn of the loop large messages take: ``python -m tests.campaigns.large_messages``.

CPU time of the longest callback of the loop, in milliseconds, for messages of 1, 16 and 63 MB:
published to a stream, read back from memory, after a restart and from the disk, and sent to a
subscriber.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.turn_probe import TurnProbe

SETTINGS = "max_payload: 64MB\nmax_pending: 256MB\n"
SIZES_MB = (1, 16, 63)
GET = b'PUB $JS.API.DIRECT.GET.B in 20\r\n{"last_by_subj":"b"}\r\n'


def measure(storage: str, megabytes: int) -> tuple[float, float, float]:
    """The longest turns of a publish, of a get of what was published last, and of the core."""
    size = megabytes << 20
    payload = bytes(size)
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch, SETTINGS) as probe,
        probe.client() as client,
    ):
        config = {"name": "B", "subjects": ["b"], "storage": storage, "allow_direct": True}
        answer = client.request(b"STREAM.CREATE.B", json.dumps(config).encode())
        assert b'"error"' not in answer, answer
        client.send(b"SUB in 7\r\n")
        client.settle()
        probe.longest_ms()
        client.send(b"PUB b in %d\r\n%b\r\n" % (size, payload))
        client.until(b'"seq"')
        client.settle()
        published = probe.longest_ms()
        client.send(GET)
        client.until(b"HMSG in 7 ")
        client.until(payload)
        client.settle()
        got = probe.longest_ms()
        client.send(b"PUB in %d\r\n%b\r\n" % (size, payload))
        client.until(payload)
        client.settle()
        return published, got, probe.longest_ms()


def measure_cold(megabytes: int) -> float:
    """The longest turn of a get after a restart."""
    size = megabytes << 20
    with tempfile.TemporaryDirectory() as folder:
        for is_first in (True, False):
            with (
                pytest.MonkeyPatch.context() as patch,
                TurnProbe(Path(folder), patch, SETTINGS) as probe,
                probe.client() as client,
            ):
                client.send(b"SUB in 7\r\n")
                if is_first:
                    config = {"name": "B", "subjects": ["b"], "allow_direct": True}
                    client.request(b"STREAM.CREATE.B", json.dumps(config).encode())
                    client.send(b"PUB b in %d\r\n%b\r\n" % (size, bytes(size)))
                    client.until(b'"seq"')
                    continue
                client.settle()
                probe.longest_ms()
                client.send(GET)
                client.until(b"HMSG in 7 ")
                client.until(bytes(size))
                client.settle()
                return probe.longest_ms()
    raise AssertionError("the second server answers")


def measure_uncached(megabytes: int) -> float:
    """The longest turn of gets of messages that are not in memory."""
    size = megabytes << 20
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch, SETTINGS) as probe,
        probe.client() as client,
    ):
        config = {"name": "B", "subjects": ["b"], "allow_direct": True}
        client.request(b"STREAM.CREATE.B", json.dumps(config).encode())
        client.send(b"SUB in 7\r\n")
        for seq in (1, 2, 3):
            client.send(b"PUB b in %d\r\n%b\r\n" % (size, bytes(size)))
            client.until(b'"seq":%d' % seq)
        client.settle()
        probe.longest_ms()
        for seq in (1, 2, 1):
            client.send(b'PUB $JS.API.DIRECT.GET.B in 9\r\n{"seq":%d}\r\n' % seq)
            client.until(b"HMSG in 7 ")
            client.until(b"\r\n\r\n")
            client.read(size)
            client.settle()
        return probe.longest_ms()


def main() -> None:
    """Print one line for each size and storage."""
    for storage in ("file", "memory"):
        for megabytes in SIZES_MB:
            published, got, sent = measure(storage, megabytes)
            line = f"publish {published:.1f}, get {got:.1f}, subscriber {sent:.1f}"
            sys.stdout.write(f"{storage} {megabytes} MB: {line}\n")
    for megabytes in SIZES_MB:
        took = measure_cold(megabytes)
        uncached = measure_uncached(megabytes)
        line = f"get after a restart {took:.1f}, from the disk {uncached:.1f}"
        sys.stdout.write(f"file {megabytes} MB: {line}\n")


if __name__ == "__main__":
    main()
