"""Pages that the disk refuses to read at a start: damage, and the rest is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.store.reading import messages

from jetspark.store.inspection import StoreInspection
from jetspark.store.overlay import OverlayFiles

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

COUNT = 60


@pytest.fixture
def full(bench: Bench) -> Bench:
    """Two segments, of ten and of five pages, with messages of a quarter of a page."""
    bench.segment_size = 40_000
    bench.log.segments.size = 40_000
    for number in range(COUNT):
        bench.publish(b"%03d" % number * 300)
    bench.log.close()
    bench.store.close()
    return bench


def lost(bench: Bench) -> set[int]:
    return {seq for a, b in bench.log.quarantine.lost for seq in range(a, b + 1)}


@pytest.mark.parametrize(
    ("which", "page"), [*((0, page) for page in range(10)), *((1, page) for page in range(5))]
)
def test_an_unreadable_page_costs_its_own_messages_and_is_reported(
    full: Bench, which: int, page: int
) -> None:
    before = {n + 1: b"%03d" % n * 300 for n in range(COUNT)}
    path = full.segments()[which]
    pages = [-(-full.disk.paths()[each] // 4096) for each in full.segments()]
    assert pages == [10, 5]
    content = full.disk.read_file(path)
    full.disk.refuse_reads(path.name, page * 4096, page * 4096 + 4096)

    full.reopen(full.disk)

    served = {seq: message.body for seq, message in messages(full.log).items()}
    gone = set(before) - set(served)
    assert len(gone) <= 8, "the neighbours are served"
    assert all(served[seq] == before[seq] for seq in served)
    assert gone <= lost(full)
    assert {damage.reason for damage in full.log.quarantine.known.values()} == {"cannot be read"}
    assert full.publish(b"new", now=10_000)[0] > COUNT
    while full.log.maintain(1):
        pass
    full.disk.allow_reads()
    assert full.disk.read_file(path)[: len(content)] == content, "nothing was written over it"

    full.reopen()

    served = {seq: message.body for seq, message in messages(full.log).items() if seq <= COUNT}
    assert served == before, "all of it is there when the disk can read again"
    assert lost(full) == set()


def test_a_passing_read_error_at_a_start_costs_nothing(full: Bench) -> None:
    full.disk.refuse_reads(".seg", times=2)

    full.reopen(full.disk)

    assert len(messages(full.log)) == COUNT
    assert full.log.quarantine.known == {}


@pytest.mark.parametrize("which", [0, 1])
def test_doctor_reads_the_rest_and_changes_nothing(full: Bench, which: int) -> None:
    path = full.segments()[which]
    full.disk.refuse_reads(path.name, 8192, 8192 + 4096)
    before = full.disk.paths()
    inspection = StoreInspection(OverlayFiles(full.disk), full.log.segments.folder.parent.parent)
    inspection.open()

    (found,) = list(inspection.examine(lambda _count: None))

    assert (found.error, found.healthy) == ("", False)
    assert found.messages >= COUNT - 8
    assert found.lost_messages >= COUNT - found.messages
    (log,) = inspection.logs
    assert len(messages(log, set())) == found.messages
    inspection.close()
    assert full.disk.paths() == before
