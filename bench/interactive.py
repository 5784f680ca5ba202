"""Latency of other clients during full-speed ingest: stream info and direct gets, 99th percentile.

Target: under 50 ms. Reported, not asserted: it depends on the machine and its disk.
"""

import statistics
import threading
import time

from bench.batches import fast_ingest
from bench.load import Wire
from bench.servers import OURS, PEER, Running, running

TITLE = "interactive requests during ingest"
MESSAGES = 400_000
PUBLISHERS = 4
REQUESTS = (
    ("stream info", b"$JS.API.STREAM.INFO.FAST", b""),
    ("direct get", b"$JS.API.DIRECT.GET.FAST", b'{"seq":1}'),
)


def waits(server: Running) -> dict[str, list[float]]:
    """Milliseconds of each kind of request while fast publishers ran."""
    work = fast_ingest(PUBLISHERS)(server, MESSAGES)
    ingest = threading.Thread(target=work)
    wire = Wire(server)
    wire.send(b"SUB _L.1 7\r\n")
    wire.sync()
    took: dict[str, list[float]] = {name: [] for name, _, _ in REQUESTS}
    ingest.start()
    while ingest.is_alive():
        for name, subject, body in REQUESTS:
            begun = time.perf_counter()
            wire.send(b"PUB %b _L.1 %d\r\n%b\r\n" % (subject, len(body), body))
            seen = b""
            while b"_L.1 7" not in seen or not seen.endswith(b"\r\n"):
                seen += wire.receive()
            took[name].append((time.perf_counter() - begun) * 1000)
    ingest.join()
    return took


def report(*, only: str) -> None:
    """Print the latencies of each server."""
    if only not in "interactive requests during ingest":
        return
    print(
        f"\n{'interactive requests during ingest':<34} {'p50 ms':>12} {'p99 ms':>12} {'count':>7}"
    )
    for name in (PEER, OURS):
        with running(name) as server:
            for kind, milliseconds in waits(server).items():
                cuts = statistics.quantiles(milliseconds, n=100)
                print(
                    f"{name + ', ' + kind:<34} {cuts[49]:>12.2f} {cuts[98]:>12.2f} "
                    f"{len(milliseconds):>7}"
                )
