"""Hostile clients next to a neighbour, on a server in a process of its own.

``python -m tests.campaigns.hostile [SCALE] [NAME ...]`` prints how long the neighbour waits next
to each of them, at a server of ours and at nats-server.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from tests.support.certificates import make_certificate
from tests.support.hostile.clients import CONFIG, HOSTILE, PASSWORD, TLS, Hostile, Target
from tests.support.hostile.delayed import DELAYED, GROUPS
from tests.support.hostile.mix import Mix
from tests.support.hostile.requests import REQUESTS
from tests.support.neighbour import Neighbour, Waits
from tests.support.servers import ServerProcess

from jetspark import COMPILED

# How long all kinds attack at once.
MIX_S = 35.0
# The promise is for the compiled build.
LONGEST_MS = 100 if COMPILED else 400


class Street:
    """A server, and a neighbour that stays."""

    def __init__(
        self, folder: Path, kind: str, scale: float, *, tls: bool = False, delayed: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        http = free_port()
        text = CONFIG + f'http: "127.0.0.1:{http}"\n'
        if delayed and kind == "jetspark":
            text += DELAYED
        if tls:
            cert, key = make_certificate(folder)
            text += f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n'
        config = folder / "server.conf"
        config.write_text(text)
        self._server = ServerProcess(kind, folder / "store", "-js", "-c", str(config))
        port = int(self._server.url.rpartition(":")[2])
        self._target = Target(port, http, scale, tls)
        self._neighbour = Neighbour(port, self._server.process.pid, "neighbour", PASSWORD, tls=tls)

    def visit(self, hostile: Hostile) -> Waits:
        """How long the neighbour waits next to this one, and while its connections end."""
        self._neighbour.waits()
        self._target.ends = contextlib.ExitStack()
        with self._target.ends:
            hostile(self._target)
            during = self._neighbour.waits()
        after = self._neighbour.waits()
        return Waits(
            max(during.server_ms, after.server_ms),
            max(during.wall_ms, after.wall_ms),
            during.pings + after.pings,
        )

    def mix(self, seconds: float) -> Waits:
        """How long the neighbour waits while thirty of fifteen kinds attack at once."""
        mix = Mix(self._target)
        self._neighbour.waits()
        try:
            mix.run(seconds)
            waits = self._neighbour.waits()
        finally:
            mix.close()
        assert len(mix.runs) > 10, mix.runs
        return waits

    def internal_errors(self) -> int:
        """How many requests failed with an unexpected exception; only ours counts them."""
        # From an address of its own: those that flooded the port have used up theirs for a while.
        port = self._target.http_port
        monitoring = HTTPConnection("127.0.0.1", port, source_address=("127.0.0.9", 0))
        with closing(monitoring):
            monitoring.request("GET", "/metrics")
            answer = monitoring.getresponse().read().decode()
        found = re.search(r"internal_errors_total\S* (\d+)", answer)
        assert found is not None
        return int(found[1])

    def resident_mib(self) -> float:
        """The memory of the server."""
        status = Path(f"/proc/{self._server.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def close(self) -> None:
        """End both."""
        self._neighbour.close()
        self._server.kill()


@contextmanager
def street(
    folder: Path, kind: str, scale: float, *, tls: bool = False, delayed: bool = False
) -> Iterator[Street]:
    """A server with a neighbour; ``delayed``: its groups wait for a second, as on a slow disk."""
    made = Street(folder, kind, scale, tls=tls, delayed=delayed)
    try:
        yield made
    finally:
        made.close()


def free_port() -> int:
    """A port that no one listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def campaign(deadline: float, seed: int) -> str:
    """Visit all of them in full size, then any of them; no wait is longer than promised."""
    chosen = random.Random(seed)
    worst: dict[str, float] = {}
    visits = pings = 0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for clients in (TLS, GROUPS, HOSTILE + REQUESTS):
            tls, delayed = clients is TLS, clients is GROUPS
            once = tls or delayed
            path = Path(folder, f"{tls} {delayed}")
            with street(path, "jetspark", 1.0, tls=tls, delayed=delayed) as made:
                order = list(clients)
                chosen.shuffle(order)
                while order or (time.monotonic() < deadline and not once):
                    hostile = order.pop() if order else chosen.choice(clients)
                    waits = made.visit(hostile)
                    assert waits.server_ms < LONGEST_MS, f"{hostile.__name__}: {waits}"
                    worst[hostile.__name__] = max(waits.server_ms, worst.get(hostile.__name__, 0))
                    visits += 1
                    pings += waits.pings
                if not once:
                    worst["all at once"] = made.mix(MIX_S).server_ms
                    assert worst["all at once"] < LONGEST_MS, worst
                assert made.internal_errors() == 0
    name = max(worst, key=lambda each: worst[each])
    return (
        f"{visits} hostile clients, {pings} pings of a neighbour, the longest waited "
        f"{worst[name]:.0f} ms of server time ({name})"
    )


def main() -> None:
    """Print the table."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    names = sys.argv[2:]
    sys.stdout.write(f"{'server ms':>10} {'ms':>8} {'nats ms':>8}\n")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for number, clients in enumerate((HOSTILE + REQUESTS, TLS, GROUPS)):
            tls, delayed = clients is TLS, clients is GROUPS
            chosen = [each for each in clients if not names or each.__name__ in names]
            if not chosen:
                continue
            mine_at, theirs_at = Path(folder, f"a{number}"), Path(folder, f"b{number}")
            with (
                street(mine_at, "jetspark", scale, tls=tls, delayed=delayed) as mine,
                street(theirs_at, "nats-server", scale, tls=tls, delayed=delayed) as theirs,
            ):
                for hostile in chosen:
                    began = time.monotonic()
                    waits = mine.visit(hostile)
                    took = time.monotonic() - began
                    other = theirs.visit(hostile)
                    sys.stdout.write(
                        f"{waits.server_ms:10.1f} {waits.wall_ms:8.1f} {other.wall_ms:8.1f}   "
                        f"{hostile.__name__}  ({took:.2f} s)\n"
                    )
                    sys.stdout.flush()
                sys.stdout.write(f"internal errors: {mine.internal_errors()}\n")


if __name__ == "__main__":
    main()
