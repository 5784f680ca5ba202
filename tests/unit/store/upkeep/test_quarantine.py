"""Damaged bytes are copied aside and reported."""

import errno
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.store.model import messages, sequences

from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.upkeep.quarantine import Damage, Quarantine, format_line, parse_line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.store.conftest import Bench

BODY = bytes(range(200))


@pytest.fixture
def full(bench: "Bench") -> "Bench":
    """Some full segments, condensed, and one that is written to."""
    bench.segment_size = 3000
    bench.cache_budget = 0
    bench.reopen()
    for _ in range(50):
        bench.publish(BODY)
    keep_house(bench)
    return bench


def keep_house(bench: "Bench", now: int = 7) -> None:
    while bench.log.maintain(now):
        pass


def place_of(bench: "Bench", seq: int) -> "tuple[Path, int]":
    columns = bench.log.index.segment_of(seq)
    assert columns is not None
    return bench.log.segments.folder / columns.name, int(columns.offset_at(seq - columns.base))


def flip(bench: "Bench", seq: int, at: int = 100) -> bytes:
    """Flip a bit of a record; its bytes afterwards."""
    path, offset = place_of(bench, seq)
    bench.disk.flip(path, (offset + at) * 8)
    return bench.disk.read_file(path)[offset : offset + len(BODY) + 53]


def copies(bench: "Bench") -> "dict[str, bytes]":
    return {
        path.name: bench.disk.read_file(path)
        for path in bench.disk.paths()
        if path.parent.name == "quarantine" and path.suffix == ".bin"
    }


def test_damage_met_by_a_reader_is_copied_aside(full: "Bench") -> None:
    path, offset = place_of(full, 3)
    damaged = flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    keep_house(full)

    (damage,) = full.log.quarantine.known.values()

    assert copies(full) == {f"{path.name}-{offset}.bin": damaged}
    assert damage == Damage(
        segment=path.name,
        offset=offset,
        length=len(damaged),
        reason="has a wrong checksum",
        first_seq=3,
        last_seq=3,
        messages=1,
        time_ns=7,
    )


def test_what_is_lost_is_counted_apart_and_its_neighbours_are_served(full: "Bench") -> None:
    flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    keep_house(full)

    assert full.log.quarantine.lost == [(3, 3)]
    assert full.log.quarantine.lost_messages == 1
    assert full.log.quarantine.lost_bytes == len(BODY) + 53
    assert full.log.reader.locate(3) == (b"", 0)
    assert list(messages(full.log)) == [1, 2, *range(4, 51)]


def test_what_is_lost_is_known_after_the_next_start(full: "Bench") -> None:
    flip(full, 3)
    flip(full, 4)
    for seq in (3, 4):
        with pytest.raises(CorruptRecord):
            full.log.reader.locate(seq)
    keep_house(full)
    full.reopen()

    assert full.log.quarantine.lost == [(3, 4)]
    assert full.log.quarantine.lost_messages == 2
    assert list(messages(full.log)) == [1, 2, *range(5, 51)]
    assert full.log.quarantine.take_news() == []


def test_each_find_is_news_once(full: "Bench") -> None:
    flip(full, 3)
    for _ in range(3):
        with pytest.raises(CorruptRecord):
            full.log.reader.locate(3)
    keep_house(full)

    assert [damage.first_seq for damage in full.log.quarantine.take_news()] == [3]
    assert full.log.quarantine.take_news() == []


def test_damage_found_by_a_start_is_copied_aside(full: "Bench") -> None:
    for path in list(full.disk.paths()):
        if path.suffix == ".idx":
            full.disk.remove(path)
    damaged = flip(full, 3)
    full.reopen()

    assert full.recovery.lost == [(3, 3)]
    assert full.log.quarantine.lost == [(3, 3)]
    assert copies(full) == {}

    keep_house(full)

    assert list(copies(full).values()) == [damaged]
    assert list(messages(full.log)) == [1, 2, *range(4, 51)]


def test_a_record_that_checks_the_second_time_is_not_damaged(full: "Bench") -> None:
    """A disk, or memory, may give wrong bytes once."""
    flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    flip(full, 3)
    keep_house(full)

    assert full.log.quarantine.known == {}
    assert len(messages(full.log)) == 50


def test_a_disk_that_cannot_be_read_is_not_damage(full: "Bench") -> None:
    full.disk.fail(1, errno.EIO, times=4)
    with pytest.raises(ReadFailed, match="cannot be read"):
        full.log.reader.locate(3)
    full.disk.fail(1, errno.EIO)
    keep_house(full)

    assert full.log.quarantine.known == {}
    assert len(messages(full.log)) == 50


def test_a_full_disk_keeps_the_segment_until_there_is_space(full: "Bench") -> None:
    path, _ = place_of(full, 3)
    flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    full.disk.capacity = 0
    keep_house(full)
    full.log.staged.purge(0, b"", 0)
    full.disk.capacity = None
    full.write()
    full.log.commit()

    assert full.log.quarantine.refused
    assert full.log.quarantine.lost == [(3, 3)]
    assert path in full.disk.paths()

    while path in full.disk.paths():
        full.publish(BODY)
        keep_house(full)

    assert list(copies(full)) == [
        f"{path.name}-{full.log.quarantine.known.popitem()[1].offset}.bin"
    ]


def test_a_segment_with_damage_goes_when_nothing_else_is_left(full: "Bench") -> None:
    path, _ = place_of(full, 3)
    flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    keep_house(full)
    full.log.staged.purge(0, b"", 0)
    full.write()
    full.log.commit()
    keep_house(full)

    assert path not in full.disk.paths()
    assert len(copies(full)) == 1


def test_a_missing_segment_is_reported_with_its_sequences(full: "Bench") -> None:
    path, _ = place_of(full, 12)
    inside = [seq for seq in range(1, 51) if place_of(full, seq)[0] == path]
    full.log.close()
    full.store.close()
    full.disk.remove(path)
    full.store = full.new_store(full.disk)
    (full.log,) = full.store.open(full.hear)

    assert full.log.quarantine.lost == [(inside[0], inside[-1])]
    assert full.log.quarantine.lost_messages == len(inside)
    assert sequences(full.log) == [seq for seq in range(1, 51) if seq not in inside]

    keep_house(full)
    full.reopen()

    assert full.log.quarantine.lost_messages == len(inside)


def test_a_damaged_line_costs_what_it_said_and_is_noted(full: "Bench") -> None:
    flip(full, 3)
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    keep_house(full)
    full.disk.flip(full.log.segments.folder / "quarantine" / "found.jsonl", 200)
    full.reopen()

    assert "1 lines of quarantine/found.jsonl are damaged" in full.recovery.notes[0]
    with pytest.raises(CorruptRecord):
        full.log.reader.locate(3)
    keep_house(full)
    assert full.log.quarantine.lost == [(3, 3)]


def test_in_a_rewritten_segment_only_its_contents_count_as_lost(bench: "Bench") -> None:
    """It has few of its sequences; the others were deleted, not lost."""
    bench.segment_size = 3000
    bench.reopen()
    for _ in range(60):
        bench.publish(BODY)
    for seq in range(1, 61):
        if seq % 7:
            assert bench.log.staged.delete(seq)
    bench.write()
    bench.log.commit()
    keep_house(bench)
    flip(bench, 14)
    for path in list(bench.disk.paths()):
        if path.suffix == ".idx":
            bench.disk.remove(path)
    bench.reopen()

    assert bench.recovery.lost == [(14, 14)]
    assert bench.log.quarantine.lost_messages == 1
    assert sequences(bench.log) == [seq for seq in range(7, 61, 7) if seq != 14]


def test_a_line_says_what_it_was_given() -> None:
    damage = Damage(segment="s", offset=1, length=2, reason="r", first_seq=3, last_seq=4)

    assert parse_line(format_line(damage).rstrip(b"\n")) == damage
    assert parse_line(b"") is None
    assert parse_line(b"{} 0") is None


def test_damage_that_grows_into_its_neighbours_is_reported_again() -> None:
    """A known place is noted once; what was lost since then next to it is not silent."""
    quarantine = Quarantine()
    found = Damage(segment="1.seg", offset=50, length=10, reason="r", first_seq=3, last_seq=3)
    grown = msgspec.structs.replace(found, length=30, last_seq=5)
    quarantine.note(found)
    quarantine.note_copied([found])
    quarantine.take_news()
    quarantine.note(found)
    again = quarantine.take_news()
    quarantine.note(grown)

    assert again == []
    assert quarantine.take_news() == [grown]
    assert quarantine.lost == [(3, 5)]
    # The copy of the shorter one, which was in progress, is not that of the longer.
    quarantine.note_copied([found])
    assert quarantine.waiting == [grown]
    quarantine.note_copied([grown])
    assert quarantine.waiting == []
