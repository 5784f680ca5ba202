"""The cost of a stream of a million messages: memory, and startup time after a kill."""

import statistics
import tempfile
import time
from pathlib import Path

from bench.load import Wire, make_stream, windowed_frames
from bench.servers import OURS, PEER, Running, running

MESSAGES = 1_000_000
SUBJECTS = 10_000
EXTRA = 200_000
WINDOW = 5_000


def fill(server: Running, messages: int, subjects: int) -> None:
    """Publish this many messages of 128 bytes over this many subjects."""
    wire = Wire(server)
    make_stream(wire, b"BIG")
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    once = [b"PUB BIG.%d _I.1 128\r\n%b\r\n" % (n, b"x" * 128) for n in range(subjects)]
    left = messages // subjects
    while left > 0:
        # Few subjects are repeated, or the window would never fill.
        times = min(left, max(1, 4 * WINDOW // subjects))
        windowed_frames(wire, once * times, b'"seq":', WINDOW)
        left -= times
    wire.close()


def killed(name: str, messages: int, subjects: int) -> tuple[float, float]:
    """Resident MB with the messages, and seconds from a start after SIGKILL to ready."""
    with tempfile.TemporaryDirectory(prefix="jetspark-bench-", dir=Path.cwd()) as folder:
        with running(name, store=Path(folder)) as server:
            fill(server, messages, subjects)
            memory = server.resident_mb()
            server.kill()
        begun = time.perf_counter()
        with running(name, store=Path(folder)) as server:
            seconds = time.perf_counter() - begun
            found = Wire(server).request(b"$JS.API.STREAM.INFO.BIG", b"")
            if name == OURS and b'"messages":%d' % messages not in found:
                raise RuntimeError(f"{name} lost acknowledged messages: {found!r}")
        return memory, seconds


def subject_bytes(name: str, extra: int) -> float:
    """Memory of one more subject: as many messages on one subject, and on as many subjects."""
    taken = []
    for subjects in (1, extra):
        with running(name) as server:
            before = server.resident_mb()
            fill(server, extra, subjects)
            taken.append(server.resident_mb() - before)
    return (taken[1] - taken[0]) * 1024 * 1024 / extra


def report(rounds: int, scale: float = 1.0) -> None:
    """Print the rows; ``scale`` reduces everything."""
    messages, subjects = int(MESSAGES * scale), int(SUBJECTS * scale)
    figures = {
        name: [killed(name, messages, subjects) for _ in range(rounds)] for name in (PEER, OURS)
    }
    for at, what, unit in (
        (0, f"memory, {messages:,} msgs, {subjects:,} subjects", "MB"),
        (1, f"start after SIGKILL, {messages:,} msgs", "s"),
    ):
        theirs, ours = (
            statistics.median(row[at] for row in figures[name]) for name in (PEER, OURS)
        )
        print(f"{what:<44} {theirs:>9.2f} {unit:<2} {ours:>9.2f} {unit}")
    theirs, ours = (subject_bytes(name, int(EXTRA * scale)) for name in (PEER, OURS))
    print(f"{'bytes per extra subject':<44} {theirs:>9.0f} B  {ours:>9.0f} B")
