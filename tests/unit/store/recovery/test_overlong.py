"""Segments far longer than segments get: read in pieces, and no further than their records go."""

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import messages

from jetspark.errors.storage import CorruptRecord
from jetspark.store.recovery import overlong

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

BODY = bytes(range(256))


@pytest.fixture
def crowded(bench: "Bench", monkeypatch: pytest.MonkeyPatch) -> "Bench":
    """A stream with some segments, where a file of 100 kB counts as overlong."""
    monkeypatch.setattr(overlong, "LENGTH_MAX", 100_000)
    monkeypatch.setattr(overlong, "PIECE", 1_000)
    monkeypatch.setattr(overlong, "SPARE", 500)
    for n in range(60):
        bench.publish(BODY, b"%d" % n)
    return bench


def lengthen(bench: "Bench", number: int, more: bytes) -> SimulatedDisk:
    disk = bench.disk.survivor()
    path = bench.segments()[number]
    disk.put(path, disk.read_file(path) + more)
    return disk


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("kind", ["zeros", "filler", "anything"])
def test_what_follows_the_records_of_an_overlong_segment_is_not_read(
    crowded: "Bench", number: int, kind: str
) -> None:
    more = {
        "zeros": bytes(300_000),
        "filler": b"\xa5" * 300_000,
        "anything": Random(1).randbytes(300_000),
    }[kind]
    before = messages(crowded.log)
    crowded.reopen(lengthen(crowded, number, more))

    assert crowded.recovery.bytes_read < 100_000
    assert any("bytes, and no record starts after" in note for note in crowded.recovery.notes)
    assert messages(crowded.log) == before
    (seq,) = crowded.publish(b"next")
    # As many as fit may have been there, unless something says that nothing was.
    assert seq == 121 if number >= 0 or kind == "filler" else seq > 121
    for _ in range(2):
        crowded.reopen()
        assert messages(crowded.log).keys() == before.keys() | {seq}


def test_an_overlong_segment_with_more_than_can_be_searched_costs_its_own_stream(
    crowded: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlong, "SEARCH_MAX", 50_000)
    disk = lengthen(crowded, 0, bytes(300_000))
    end = crowded.disk.paths()[crowded.segments()[0]]
    with pytest.raises(CorruptRecord, match=f"contain no record.*truncate -s {end}"):
        crowded.reopen(disk)

    assert disk.open_handles == 0


def test_a_long_segment_of_records_is_read_whole(
    crowded: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlong, "LENGTH_MAX", 5_000)
    before = messages(crowded.log)
    crowded.reopen()

    assert not crowded.recovery.notes
    assert messages(crowded.log) == before
