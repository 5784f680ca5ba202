"""Thirty hostile clients at once: fifteen kinds, two of each, again and again until a deadline.

Each kind alone has a share of a turn; here the shares of all kinds have to fit into one.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from tests.support.hostile.clients import Target, connect, create

_LOGIN: Final = connect()
_THREADS: Final = 2


class Mix:
    """Runs all kinds; ``close`` ends the connections that were kept."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._kept = contextlib.ExitStack()
        # How often each kind was finished.
        self.runs: dict[str, int] = {}

    def run(self, seconds: float) -> None:
        """Run them all for this long."""
        with self._target.client() as wire:
            create(wire, "MIX", ["mix.>"], allow_direct=True, max_msgs=20_000)
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._repeat, args=(kind, number, until))
            for kind in KINDS
            for number in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, kind: Callable[[Mix, int], None], number: int, until: float) -> None:
        while time.monotonic() < until:
            with contextlib.suppress(OSError, AssertionError):  # the server refuses some
                kind(self, number)
                self.runs[kind.__name__] = self.runs.get(kind.__name__, 0) + 1

    def close(self) -> None:
        """Leave, all at once."""
        self._kept.close()

    def dial(self, *, reads: int = 0) -> socket.socket:
        """Connect; ``reads`` is the size of the receive buffer."""
        made = socket.create_connection(("127.0.0.1", self._target.port), 5)
        made.settimeout(2)
        if reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
        return made

    def leave(self, data: bytes, pause: float = 0.0) -> None:
        """Send something, wait a little and leave without reading."""
        with contextlib.closing(self.dial()) as made:
            made.sendall(data)
            time.sleep(pause)

    def stay(self, data: bytes, pause: float, *, reads: int = 0) -> None:
        """Send something, and stay without reading."""
        made = self.dial(reads=reads)
        self._kept.callback(made.close)
        made.sendall(data)
        time.sleep(pause)

    def ask_monitoring(self) -> None:
        """Send twenty requests in a row to the monitoring port, and read no answer."""
        made = socket.create_connection(("127.0.0.1", self._target.http_port), 5)
        self._kept.callback(made.close)
        made.sendall(b"GET /connz?subs=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        time.sleep(0.05)

    def create_consumers(self, number: int) -> None:
        """Create a hundred consumers, one after the other."""
        with self._target.client() as wire:
            for each in range(100):
                config = {
                    "ack_policy": "none",
                    "deliver_subject": f"d{number}.{each}",
                    "inactive_threshold": 10**9,
                }
                wire.request(b"CONSUMER.CREATE.MIX", {"stream_name": "MIX", "config": config})


def slow_readers(mix: Mix, _number: int) -> None:
    mix.stay(_LOGIN + b"SUB load 1\r\n", 0.5, reads=2048)


def load(mix: Mix, _number: int) -> None:
    mix.leave(_LOGIN + (b"PUB load 50000\r\n" + b"x" * 50_000 + b"\r\n") * 20, 0.05)


def half_payloads(mix: Mix, _number: int) -> None:
    mix.stay(_LOGIN + b"PUB a 1000000\r\n" + bytes(random.randrange(900_000)), 0.05)


def pings(mix: Mix, _number: int) -> None:
    mix.leave(_LOGIN + b"PING\r\n" * 20_000)


def subscriptions(mix: Mix, _number: int) -> None:
    many = b"".join(b"SUB s.%d.* %d\r\n" % (n % 50, n) for n in range(10_000))
    mix.leave(_LOGIN + many + b"PUB s.1.x 1\r\nx\r\n", 0.2)


def queue_names(mix: Mix, _number: int) -> None:
    many = b"".join(b"SUB qq q%d %d\r\n" % (n, n) for n in range(5_000))
    mix.leave(_LOGIN + many + b"PUB qq 1\r\nx\r\n" * 20, 0.3)


def lists(mix: Mix, _number: int) -> None:
    mix.stay(_LOGIN + b"SUB _r 1\r\n" + b"PUB $JS.API.STREAM.LIST _r 0\r\n\r\n" * 3_000, 0.3)


def consumers(mix: Mix, number: int) -> None:
    mix.create_consumers(number)


def publishers(mix: Mix, _number: int) -> None:
    many = (b"PUB mix.%d _z 5\r\nhello\r\n" % random.randrange(5_000) for _ in range(3_000))
    mix.leave(_LOGIN + b"".join(many), 0.2)


def garbage(mix: Mix, _number: int) -> None:
    mix.leave(os.urandom(20_000))


def connects(mix: Mix, _number: int) -> None:
    mix.leave(_LOGIN * 3_000, 0.2)


def direct_reads(mix: Mix, _number: int) -> None:
    body = b'{"multi_last":["mix.*"],"batch":1000000}'
    asked = b"PUB $JS.API.DIRECT.GET.MIX _r %d\r\n%b\r\n" % (len(body), body)
    mix.stay(_LOGIN + b"SUB _r 1\r\n" + asked * 50, 0.3)


def single_bytes(mix: Mix, _number: int) -> None:
    with contextlib.closing(mix.dial()) as made:
        for each in _LOGIN + b"PUB x 3\r\nabc\r\n":
            made.sendall(bytes([each]))
            time.sleep(0.002)


def monitoring(mix: Mix, _number: int) -> None:
    mix.ask_monitoring()


def snapshots(mix: Mix, _number: int) -> None:
    body = b'{"deliver_subject":"snap"}'
    asked = b"PUB $JS.API.STREAM.SNAPSHOT.MIX _r %d\r\n%b\r\n" % (len(body), body)
    mix.stay(_LOGIN + b"SUB snap 1\r\n" + asked, 0.5)


KINDS: Final[tuple[Callable[[Mix, int], None], ...]] = (
    slow_readers, load, half_payloads, pings, subscriptions, queue_names, lists, consumers,
    publishers, garbage, connects, direct_reads, single_bytes, monitoring, snapshots,
)  # fmt: skip
