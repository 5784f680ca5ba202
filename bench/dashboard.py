"""What an open dashboard costs the server: CPU time per second, and of a publish.

    python -m bench.dashboard

A server without the dashboard, with one that is not looked at, and with one and ten overviews that
are open, each idle and while another client publishes.
"""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.cases import publish
from bench.servers import OURS, Running, running

SECONDS = 6.0
PUBLISHED = 20_000
VIEWERS = (0, 1, 10)


@contextmanager
def viewer(server: Running) -> Iterator[None]:
    """A browser with an open overview: it reads every sample."""
    connection = http.client.HTTPConnection(server.host, server.monitor, timeout=30)
    connection.request("GET", "/dashboard/api/live")
    answer = connection.getresponse()
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set() and answer.readline():
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(30)
        connection.close()


def measured(viewers: int | None) -> tuple[float, float]:
    """CPU milliseconds per idle second, and CPU microseconds per publish; None: no dashboard."""
    flags = () if viewers is None else ("--dashboard",)
    with ExitStack() as stack:
        server = stack.enter_context(running(OURS, *flags))
        for _ in range(viewers or 0):
            stack.enter_context(viewer(server))
        time.sleep(1.0)
        begun, cpu = time.monotonic(), server.cpu_ns()
        time.sleep(SECONDS)
        idle = (server.cpu_ns() - cpu) / 1e6 / (time.monotonic() - begun)
        work = publish(128, 100)(server, PUBLISHED)
        cpu = server.cpu_ns()
        work()
        return idle, (server.cpu_ns() - cpu) / 1e3 / PUBLISHED


def report(*, only: str = "") -> None:
    """Print the table."""
    if only and only not in "dashboard":
        return
    print("\nthe dashboard: CPU time of the server")
    print(f"{'':<28}{'idle, ms per s':>16}{'µs per publish':>18}")
    for label, viewers in (
        ("without", None),
        *((f"{number} pages open", number) for number in VIEWERS),
    ):
        idle, each = measured(viewers)
        print(f"{label:<28}{idle:>16.1f}{each:>18.2f}")


if __name__ == "__main__":
    report()
