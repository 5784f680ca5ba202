"""Core cases with very many subjects: most of them are used once, and few have a receiver."""

import threading
from collections.abc import Callable

from bench.cases import Case, Work
from bench.load import Wire, in_threads, make_stream, receive_all
from bench.servers import Running

BODY = b"x" * 128
SUBJECTS = 400_000
# About the size of the reads of a server.
CHUNK = 131_072


def chunks_of(frames: list[bytes]) -> list[bytes]:
    """Join frames into chunks that are sent at once."""
    per_chunk = max(1, CHUNK // len(frames[0]))
    return [b"".join(frames[at : at + per_chunk]) for at in range(0, len(frames), per_chunk)]


def send_all(wire: Wire, chunks: list[bytes]) -> None:
    """Publish, and wait until the server has processed all of it."""
    for chunk in chunks:
        wire.send(chunk)
    wire.sync()


def changing(
    subscriptions: bytes = b"", every: int = 0, stream: bool = False, root: bytes = b"core"
) -> Callable[[Running, int], Work]:
    """Publish to changing subjects.

    ``subscriptions`` are those of another client, which receives one in ``every`` messages.
    ``stream``: streams store other parts of the tree.
    """

    def prepare(server: Running, count: int) -> Work:
        writer = Wire(server)
        if stream:
            for name in (b"ORDERS", b"EVENTS", b"LOGS"):
                make_stream(writer, name)
        number = min(SUBJECTS, count)
        frames = [b"PUB %b.%d.value 128\r\n%b\r\n" % (root, n, BODY) for n in range(number)]
        if every:
            frames[::every] = [
                b"PUB %b.%d.wanted 128\r\n%b\r\n" % (root, n, BODY)
                for n in range(0, number, every)
            ]
        chunks = chunks_of(frames) * (count // number)
        if not subscriptions:
            return lambda: send_all(writer, chunks)
        reader = Wire(server)
        reader.send(subscriptions)
        reader.sync()
        wanted = len(range(0, number, every)) * (count // number) if every else 0

        def work() -> None:
            in_threads(
                threading.Thread(target=receive_all, args=(reader, b"MSG ", wanted)),
                threading.Thread(target=send_all, args=(writer, chunks)),
            )

        return work

    return prepare


# Wildcards that match nothing or little, as servers of many services have.
OTHERS = b"".join(b"SUB service.%d.> %d\r\n" % (n, n + 10) for n in range(1000))

CASES = (
    Case("400,000 subjects, no receiver", 1_200_000, changing()),
    Case("400,000 subjects, other streams", 1_200_000, changing(stream=True)),
    Case(
        "400,000 subjects, 1 in 10 received",
        1_200_000,
        changing(b"SUB core.*.wanted 1\r\n" + OTHERS, 10, stream=True),
    ),
    Case("400,000 subjects, all received", 800_000, changing(b"SUB core.> 1\r\n", 1)),
    Case("400,000 subjects, permissions on", 800_000, changing(root=b"other"), guarded=True),
)
