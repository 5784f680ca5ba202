"""Large messages are copied in pieces, and survive whatever happens to their step."""

from __future__ import annotations

from errno import EIO
from typing import Any

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.replicate.conftest import CopyBench, rows

from jetspark.store.log.long_read import LONG_READ

COPIES: list[dict[str, Any]] = [
    {"mirror": {"name": "A"}},
    {"sources": [{"name": "A"}]},
    {"sources": [{"name": "A"}], "max_msgs": 100},
]
SIZES = (3, LONG_READ, 5, 7, LONG_READ + 1, LONG_READ + 2, 0)


def filled(**options: Any) -> CopyBench:
    """Small and large messages, with headers and without."""
    bench = CopyBench(KeptPath("/store"), SimulatedDisk(), **options)
    bench.make("A", subjects=["a.>"])
    stream = bench.engine.streams["A"]
    for n, size in enumerate(SIZES):
        headers = b"NATS/1.0\r\nN: %d\r\n\r\n" % n if n % 2 else b""
        bench.publish(stream, b"a.%d" % n, b"%d" % n * size, headers=headers)
        bench.submit()
        bench.land()
    return bench


def agree(bench: CopyBench, *, labelled: bool) -> bool:
    """Whether the copy has what its origin has."""
    own = [(row[1], row[3]) for row in rows(bench.engine.streams["A"])]
    found = rows(bench.engine.streams["C"])
    if not labelled:
        assert [row[2] for row in found] == [row[2] for row in rows(bench.engine.streams["A"])]
    return [(row[1], row[3]) for row in found] == own


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("cache_budget", [0, 1 << 30])
def test_large_messages_are_copied(copy: dict[str, Any], cache_budget: int) -> None:
    bench = filled(cache_budget=cache_budget)
    bench.make("C", **copy)
    bench.wait(5)
    bench.settle()
    assert agree(bench, labelled="sources" in copy)

    bench.restart()
    bench.settle()
    bench.put("A", b"a.new", b"n" * LONG_READ)
    bench.wait(5)
    bench.settle()

    assert agree(bench, labelled="sources" in copy)
    bench.close()


@pytest.mark.parametrize("copy", COPIES)
def test_a_step_with_a_large_message_that_fails_is_copied_again(copy: dict[str, Any]) -> None:
    bench = filled()
    answer = bench.ask("STREAM.CREATE.C", {"name": "C", **copy})
    assert "error" not in answer, answer
    for _ in range(100):
        bench.turn()
        bench.submit()
        if bench.on_the_way:
            break
    while bench.on_the_way:
        bench.fail(OSError(EIO, "no"))
    for _ in range(5):
        bench.wait(5)
        bench.settle()

    assert agree(bench, labelled="sources" in copy)
    bench.close()
