"""Segments that are older versions of themselves, and index files that are not theirs.

``tests/campaigns/store/replaced_files.py`` runs long.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.campaigns.store.lost_files import run as run_lost_files
from tests.campaigns.store.replaced_files import run as run_replaced_files
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.reading import messages

from jetspark.store.format.index_file import SUFFIX
from jetspark.store.format.manifest import read_manifests, write_manifest
from jetspark.store.log.stream_log import NO_LIMITS

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

OLDER = "older version of itself"


@pytest.mark.parametrize("seed", [5, 23])
def test_files_of_other_times_and_places_cost_nothing_silently(seed: int) -> None:
    assert run_replaced_files(1, seed) > 0


def test_a_segment_whose_newer_version_lacks_a_deleted_message_is_reported() -> None:
    """Found by torture: message 12 was served again, without a report."""
    assert run_lost_files(1, 182432144) == 10


def test_messages_do_not_go_to_an_empty_segment_that_a_rewritten_one_replaces() -> None:
    """Found by torture: an empty file, as if from before the newest segment, was continued."""
    assert run_replaced_files(1, 219583361) == 8


def keep_house(bench: Bench) -> None:
    bench.log.upkeep.want_note(True)
    while bench.log.maintain():
        pass


def stop(bench: Bench) -> None:
    bench.log.close()
    bench.store.close()


def kill(bench: Bench) -> None:
    keep_house(bench)
    bench.disk = bench.disk.survivor()


def fill(bench: Bench, count: int) -> list[int]:
    return [bench.publish(bytes([65 + n]) * 2000)[0] for n in range(count)]


def delete(bench: Bench, *sequences: int) -> None:
    for seq in sequences:
        assert bench.log.staged.delete(seq)
        bench.write()
        bench.log.commit()


def outdated(bench: Bench) -> list[str]:
    known = bench.log.quarantine.known.values()
    return [damage.segment for damage in known if OLDER in damage.reason]


def rewritten(bench: Bench) -> tuple[Path, bytes]:
    """A segment that was rewritten, and what it was before; and so was that with the deletes."""
    fill(bench, 15)
    keep_house(bench)
    path = bench.segments()[1]
    before = bench.disk.read_file(path)
    delete(bench, 5, 6, 7)
    fill(bench, 3)
    delete(bench, 13, 14, 15, 16)
    fill(bench, 12)
    keep_house(bench)
    assert len(bench.disk.read_file(path)) < len(before), "it was rewritten"
    assert not {5, 6, 7} & set(messages(bench.log))
    return path, before


@pytest.mark.parametrize("ended", [stop, kill])
def test_an_older_version_of_a_rewritten_segment_is_reported(bench: Bench, ended: object) -> None:
    path, before = rewritten(bench)
    expected = set(messages(bench.log))
    assert callable(ended)
    ended(bench)
    bench.disk.put(path, before)

    bench.reopen(bench.disk)

    assert set(messages(bench.log)) == expected | {5, 6, 7}, "no one knows which were deleted"
    assert outdated(bench) == [path.name]
    assert [note for note in bench.recovery.notes if path.name in note and "generation 0" in note]
    assert bench.log.quarantine.news, "the engine tells it to the log, health and advisories"
    ended(bench)
    bench.reopen(bench.disk)
    keep_house(bench)
    assert outdated(bench) == [path.name], "once, and it is still known"
    stop(bench)
    bench.reopen(bench.disk)
    assert bench.recovery.notes == [], "the manifests have what there is now"


@pytest.mark.parametrize("noted", ["as full", "as the newest"])
def test_a_full_segment_without_the_deletes_at_its_end_is_reported(
    bench: Bench, noted: str
) -> None:
    """No sequence is missing: the next segment begins where it did."""
    fill(bench, 4)
    keep_house(bench)
    (path,) = bench.segments()
    before = bench.disk.read_file(path)
    delete(bench, 2)
    if noted == "as the newest":
        keep_house(bench)
        bench.publish(b"x" * 3000)
        bench.disk = bench.disk.survivor()
    else:
        bench.publish(b"x" * 3000)
        kill(bench)
    assert bench.segments()[0] == path
    assert len(bench.segments()) == 2
    bench.disk.put(path, before)

    bench.reopen(bench.disk)

    assert 2 in messages(bench.log)
    assert outdated(bench) == [path.name]


def test_what_is_derived_from_the_lost_version_is_not_taken_for_that_of_the_next_one(
    bench: Bench,
) -> None:
    """Its index file had the generation that the segment got when it was rewritten again."""
    path, before = rewritten(bench)
    stop(bench)
    bench.disk.put(path, before)
    bench.reopen(bench.disk)
    delete(bench, 5, 6, 8)
    images: list[SimulatedDisk] = []
    bench.disk.before_step = lambda _operation: images.append(bench.disk.survivor())
    keep_house(bench)
    expected = messages(bench.log)
    bench.disk.before_step = None

    for disk in images:
        bench.reopen(disk)
        assert messages(bench.log) == expected


def test_an_index_file_of_a_newer_version_is_removed_also_without_manifests(bench: Bench) -> None:
    path, before = rewritten(bench)
    stop(bench)
    bench.disk.put(path, before)
    for name in ("manifest.a", "manifest.b"):
        bench.disk.lose(path.with_name(name))

    bench.reopen(bench.disk)

    assert path.with_name(path.name + SUFFIX) not in bench.disk.paths()
    assert {5, 6, 7} <= set(messages(bench.log))
    assert bench.log.quarantine.known


def test_an_index_file_of_what_was_truncated_since_is_not_used(bench: Bench) -> None:
    bench.segment_size = 100_000
    stop(bench)
    bench.reopen(bench.disk)
    fill(bench, 30)
    keep_house(bench)
    (path,) = bench.segments()
    index = path.with_name(path.name + SUFFIX)
    older = bench.disk.read_file(index)
    end = int(bench.log.index.segments[0].offset_at(10))
    stop(bench)
    bench.disk.cut(path, end)
    bench.reopen(bench.disk)
    for _ in range(30):
        bench.publish(b"another" * 200)
    expected = messages(bench.log)
    stop(bench)
    bench.disk.put(index, older)

    bench.reopen(bench.disk)

    assert messages(bench.log) == expected


@pytest.mark.parametrize("ended", ["stopped", "killed"])
@pytest.mark.parametrize("lost", ["oldest", "oldest emptied", "end"])
def test_what_a_start_missed_is_known_to_the_next_whatever_happened_between(
    bench: Bench, lost: str, ended: str
) -> None:
    """The first one removed the file, wrote manifests, or skipped the sequences."""
    fill(bench, 15)
    stop(bench)
    if lost == "end":
        bench.disk.cut(bench.segments()[-1], 300)
    elif lost == "oldest":
        bench.disk.lose(bench.segments()[0])
    else:
        bench.disk.put(bench.segments()[0], b"")
    bench.reopen(bench.disk)
    missing = bench.log.quarantine.lost
    assert missing
    bench.publish(b"new")

    bench.reopen(None if ended == "stopped" else bench.disk.survivor())

    assert bench.log.quarantine.lost == missing


@pytest.mark.parametrize("lost", ["oldest", "oldest emptied"])
def test_the_evidence_of_what_is_missing_stays_until_it_is_recorded(
    bench: Bench, lost: str
) -> None:
    """A full disk has no space for the line, and gets it later."""
    fill(bench, 15)
    stop(bench)
    if lost == "oldest":
        bench.disk.lose(bench.segments()[0])
    else:
        bench.disk.put(bench.segments()[0], b"")
    bench.disk.before_step = lambda operation: refuse(operation.path)
    bench.reopen(bench.disk)
    missing = bench.log.quarantine.lost
    assert missing
    keep_house(bench)
    stop(bench)
    bench.disk.before_step = None

    bench.reopen(bench.disk)

    assert bench.log.quarantine.lost == missing


def refuse(path: str) -> None:
    if "quarantine" in path:
        raise OSError(errno.EIO, "no quarantine", path)


def test_no_power_failure_while_segments_are_rewritten_makes_one_look_older(bench: Bench) -> None:
    fill(bench, 15)
    keep_house(bench)
    images: list[SimulatedDisk] = []
    random = Random(1)
    bench.disk.before_step = lambda _operation: images.append(bench.disk.image(random))
    delete(bench, 1, 2, 3, 5, 6, 7)
    fill(bench, 3)
    keep_house(bench)
    delete(bench, 9, 10, 11, 12)
    fill(bench, 9)
    keep_house(bench)
    bench.disk.before_step = None
    stop(bench)

    for disk in [*images, bench.disk]:
        bench.reopen(disk)
        assert outdated(bench) == []


def test_manifests_of_an_older_version_say_nothing_about_versions_and_get_them(
    bench: Bench,
) -> None:
    path, before = rewritten(bench)
    stop(bench)
    found, _ = read_manifests(bench.disk, path.parent)
    assert found is not None
    assert found.versions is not None
    assert dict(zip(found.segments or (), found.versions, strict=True))[path.name][0] == 1
    for epoch in (1, 2):
        write_manifest(
            bench.disk,
            path.parent,
            msgspec.structs.replace(found, epoch=found.epoch + epoch, versions=None),
        )
    bench.disk.put(path, before)

    bench.reopen(bench.disk)
    assert outdated(bench) == []
    stop(bench)

    again, _ = read_manifests(bench.disk, path.parent)
    assert again is not None
    assert again.versions is not None
    assert len(again.versions) == len(again.segments or ())
    bench.reopen(bench.disk)
    assert bench.recovery.notes == []


def test_files_that_are_removed_take_their_versions_out_of_the_manifests(bench: Bench) -> None:
    path, _ = rewritten(bench)
    bench.log.staged.purge(9, b"", 0)
    bench.write()
    bench.log.commit()
    while bench.log.maintain():
        pass
    assert path not in bench.segments()
    bench.disk = bench.disk.survivor()

    found, _ = read_manifests(bench.disk, path.parent)
    assert found is not None
    assert found.versions is not None
    ends = {
        file.name: (int(file.rows[0].generation), int(file.rows[0].records_end))
        for file in bench.log.segments.list_files()[:-1]
    }
    listed = dict(zip(found.segments or (), found.versions, strict=True))
    assert {name: listed[name] for name in ends} == ends


def test_the_end_of_a_copy_is_not_missed_with_segments_after_it(bench: Bench) -> None:
    """It gets them again from its origin, under the same sequences."""
    bench.log.staged.configure(b'{"mirror":{"name":"O"}}', NO_LIMITS)
    bench.write()
    bench.log.commit()
    fill(bench, 15)
    kill(bench)
    *_, before, newest = bench.segments()
    bench.disk.lose(newest)
    bench.disk.cut(before, 3000)

    bench.reopen(bench.disk)

    assert outdated(bench) == []


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_a_lost_message_does_not_count_towards_the_limits_at_a_later_start(
    bench: Bench, ended: str
) -> None:
    """The index file still had it, and the oldest message was removed instead."""
    bench.limit(5, 0, 0)
    fill(bench, 5)
    keep_house(bench)
    columns = next(rows for rows in bench.log.index.segments if rows.last_seq() >= 3)
    path = bench.log.segments.folder / columns.name
    bench.disk.flip(path, (int(columns.offset_at(3 - columns.base)) + 500) * 8)
    bench.reopen()
    assert set(messages(bench.log, set())) == {1, 2, 4, 5}
    keep_house(bench)
    assert bench.log.quarantine.lost == [(3, 3)]
    bench.publish(b"new")
    expected = set(messages(bench.log))
    assert expected == {1, 2, 4, 5, 6}

    bench.reopen(None if ended == "stopped" else bench.disk.survivor())

    assert set(messages(bench.log)) == expected
