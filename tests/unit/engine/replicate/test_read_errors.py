"""The disk refuses to read an origin: copies wait there, say so, and pass no message."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.replicate.conftest import CopyBench, rows

COPIES: list[dict[str, Any]] = [{"mirror": {"name": "A"}}, {"sources": [{"name": "A"}]}]


def filled(files: SimulatedDisk) -> CopyBench:
    """Twenty messages that are read from the disk."""
    bench = CopyBench(KeptPath("/store"), files, cache_budget=0)
    bench.make("A", subjects=["a.>"])
    for n in range(20):
        bench.put("A", b"a.%d" % n, b"%02d" % n * 3000)
    bench.restart()
    return bench


def refuse(bench: CopyBench, files: SimulatedDisk, seq: int, times: int = 1 << 62) -> None:
    columns = bench.engine.streams["A"].log.index.segment_of(seq)
    assert columns is not None
    where = int(columns.offset_at(seq - columns.base))
    files.refuse_reads(
        str(bench.engine.streams["A"].log.segments.folder / columns.name),
        where + 80,
        where + 90,
        times=times,
    )


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_stops_at_a_message_that_the_disk_refuses_and_says_so(
    copy: dict[str, Any],
) -> None:
    files = SimulatedDisk()
    bench = filled(files)
    refuse(bench, files, 8)

    bench.make("C", **copy)
    bench.wait(5)
    bench.settle()

    info = bench.info("C")
    shown = info.get("mirror") or info["sources"][0]
    assert info["state"]["messages"] == 7
    assert shown["lag"] == 13
    assert shown["error"]["description"] == "message 8 cannot be read now: Input/output error"
    assert bench.info("A")["state"].get("lost") is None


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("times", [1, 5, 20])
def test_a_copy_has_every_message_when_reading_works_again(
    copy: dict[str, Any], times: int
) -> None:
    files = SimulatedDisk()
    bench = filled(files)
    refuse(bench, files, 8, times)

    bench.make("C", **copy)
    for _ in range(20):
        bench.wait(2)
        bench.settle()

    info = bench.info("C")
    shown = info.get("mirror") or info["sources"][0]
    bodies = [row[3] for row in rows(bench.engine.streams["C"])]
    assert bodies == [row[3] for row in rows(bench.engine.streams["A"])]
    assert (len(bodies), shown["lag"], shown.get("error")) == (20, 0, None)


def test_a_source_that_cannot_read_its_own_labels_does_not_begin_again() -> None:
    """The position stands in labels when there is no record of it: guessing would copy twice."""
    files = SimulatedDisk()
    bench = filled(files)
    bench.make("C", sources=[{"name": "A"}])
    bench.restart()
    target = bench.engine.streams["C"]
    target.log.staged.engine_state.sources.clear()
    target.log.engine_state.sources.clear()
    (copy,) = target.copies
    copy.failed()
    target.log.reader.forget_page()
    files.refuse_reads(str(target.log.segments.folder / target.log.index.segments[0].name))

    bench.put("A", b"a.new")
    bench.wait(5)
    bench.settle()
    stopped = bench.info("C")["sources"][0]["error"]["err_code"]
    files.allow_reads()
    bench.wait(5)
    bench.settle()

    assert stopped == 10077
    assert len(rows(target)) == 21
