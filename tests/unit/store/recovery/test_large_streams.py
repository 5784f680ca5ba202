"""Opening a large stream takes memory for a whole segment: a start opens few of them at a time."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jetspark.store.recovery.stream_folder import LARGE, StreamFolder
from jetspark.store.store import FileStore
from jetspark.store.threads import LARGE_OPENERS, OPENERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.store.conftest import Bench


def entered(bench: "Bench") -> int:
    """How often opening the stream asks for a turn among the large ones."""
    times = 0

    @contextmanager
    def large() -> "Iterator[None]":
        nonlocal times
        times += 1
        yield

    folder = bench.log.segments.folder
    log, _ = StreamFolder(bench.disk, folder, 64 * LARGE, 1_000, large=large()).open()
    log.close()
    return times


def test_only_streams_with_much_to_read_wait_for_their_turn(bench: "Bench") -> None:
    assert LARGE_OPENERS < OPENERS
    assert entered(bench) == 0

    bench.segment_size = 64 * LARGE
    bench.reopen()
    bench.publish(b"x" * LARGE, b"y")
    assert entered(bench) == 1


def test_a_stream_of_several_segments_is_a_large_one(bench: "Bench") -> None:
    for n in range(60):
        bench.publish(b"x" * 1_000, b"%d" % n)
    assert len(bench.segments()) > 1

    assert entered(bench) == 1


def test_the_streams_of_a_store_share_these_turns(bench: "Bench") -> None:
    """More large streams than turns: each is given back."""
    for n in range(60):
        bench.publish(b"x" * 1_000, b"%d" % n)
    bench.log.close()
    bench.store.close()
    store: FileStore = bench.new_store(bench.disk)
    for _ in range(2 * LARGE_OPENERS):
        (log,) = store.open(bench.hear)
        log.close()
        store.close()
