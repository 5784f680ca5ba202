"""Files that are missing, cut, foreign or exchanged: reported, and no sequence is used twice."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.nodes import Operation
from tests.support.store.reading import messages

from jetspark.store.format.index_file import SUFFIX
from jetspark.store.format.manifest import (
    COPIES,
    Identity,
    Manifest,
    read_manifests,
    write_manifest,
)
from jetspark.store.format.segment import SEQUENCE_LIMIT

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

OTHER = Identity(stream_id=0x1111, account="A", name="OTHER", created_ns=1)


def fill(bench: Bench, count: int = 15) -> None:
    for number in range(count):
        bench.publish(bytes([65 + number]) * 2000)


def stop(bench: Bench) -> None:
    bench.log.close()
    bench.store.close()


def kill(bench: Bench) -> None:
    """The process ends silently, some time after housekeeping had its turn."""
    bench.log.upkeep.want_note(True)
    while bench.log.maintain():
        pass
    bench.disk = bench.disk.survivor()


def lost(bench: Bench) -> set[int]:
    return {seq for a, b in bench.log.quarantine.lost for seq in range(a, b + 1)}


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_segment_is_reported_and_its_sequences_are_not_used_again(
    bench: Bench, ended: object, which: int
) -> None:
    fill(bench)
    assert callable(ended)
    ended(bench)
    path = bench.segments()[which]
    bench.disk.lose(path)

    bench.reopen(bench.disk)

    served = set(messages(bench.log))
    assert served | lost(bench) >= set(range(1, 16)), "what is not served is reported"
    assert not served & lost(bench)
    assert f"the segment {path.name} is missing" in bench.recovery.notes
    assert bench.log.quarantine.news, "the engine tells it to the log, health and advisories"
    first = bench.publish(b"new")[0]
    assert first > 15
    bench.reopen()
    assert first in messages(bench.log)
    assert served | {first} == set(messages(bench.log))


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_newest_segment_that_was_cut_between_records_is_reported(
    bench: Bench, ended: object, left: int
) -> None:
    """Nothing in the file tells that it was longer."""
    fill(bench, 3)
    columns = bench.log.index.segments[0]
    ends = [int(columns.offset_at(i)) for i in range(3)]
    assert callable(ended)
    ended(bench)
    bench.disk.cut(bench.segments()[0], ends[left])

    bench.reopen(bench.disk)

    assert set(messages(bench.log)) == set(range(1, left + 1))
    assert lost(bench) == set(range(left + 1, 4))
    while bench.log.maintain():
        pass
    assert bench.publish(b"new") == [4]
    bench.reopen()
    assert lost(bench) == set(range(left + 1, 4)), "it is still known"
    assert sorted(messages(bench.log)) == [*range(1, left + 1), 4]


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("with_message", [False, True])
def test_deletes_missing_at_the_end_of_the_newest_segment_are_reported(
    bench: Bench, ended: object, with_message: bool
) -> None:
    """No sequence is missing then; the deleted message exists again."""
    fill(bench, 3)
    while bench.log.maintain():
        pass
    if with_message:
        bench.publish(b"the last one")
    end = int(bench.log.segments.end)
    assert bench.log.staged.delete(2)
    bench.write()
    bench.log.commit()
    assert callable(ended)
    ended(bench)
    bench.disk.cut(bench.segments()[0], end)

    bench.reopen(bench.disk)

    assert 2 in messages(bench.log)
    (damage,) = bench.log.quarantine.known.values()
    assert "deleted messages may exist again" in damage.reason
    assert lost(bench) == set()
    assert bench.log.quarantine.news, "the engine tells it to the log, health and advisories"
    bench.reopen()
    assert len(bench.log.quarantine.known) == 1, "once"


@pytest.mark.parametrize("ended", [stop, kill])
def test_the_end_of_a_log_is_not_missed_if_it_exists(bench: Bench, ended: object) -> None:
    fill(bench, 3)
    assert callable(ended)
    for seq in (1, 2, 3):
        assert bench.log.staged.delete(seq)
        bench.write()
        bench.log.commit()
        ended(bench)
        bench.reopen(bench.disk)
        assert (bench.recovery.notes, bench.log.quarantine.known) == ([], {})
    bench.publish(b"next")
    bench.reopen()
    assert (bench.recovery.notes, bench.log.quarantine.known) == ([], {})


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_segment_is_noticed_although_one_manifest_is_damaged(
    bench: Bench, ended: object, copy: str, which: int
) -> None:
    fill(bench)
    assert callable(ended)
    ended(bench)
    path = bench.segments()[which]
    bench.disk.lose(path)
    bench.disk.flip(bench.log.segments.folder / copy, 100)

    bench.reopen(bench.disk)

    assert set(messages(bench.log)) | lost(bench) >= set(range(1, 16))
    assert f"the segment {path.name} is missing" in bench.recovery.notes
    assert bench.publish(b"new")[0] > 15


def test_a_full_disk_does_not_keep_segments_from_being_removed(bench: Bench) -> None:
    """The manifests that stop listing them get the space of their index files."""
    fill(bench)
    kill(bench)
    bench.reopen(bench.disk)
    bench.log.staged.purge(14, b"", 0)
    bench.write()
    bench.log.commit()
    before = bench.segments()
    bench.disk.put(before[0].with_name(before[0].name + SUFFIX), bytes(2000))
    bench.disk.capacity = sum(bench.disk.paths().values())

    while bench.log.maintain():
        pass

    assert len(bench.segments()) < len(before)
    stop(bench)
    bench.reopen(bench.disk)
    assert lost(bench) == set()
    assert bench.recovery.notes == []


def test_all_segments_missing_is_reported(bench: Bench) -> None:
    fill(bench)
    stop(bench)
    for path in bench.segments():
        bench.disk.lose(path)

    bench.reopen(bench.disk)

    assert lost(bench) >= set(range(1, 16))
    assert bench.publish(b"new")[0] > 15


def test_segments_that_were_removed_on_purpose_are_not_missed(bench: Bench) -> None:
    """At any time of the removal: power failures included."""
    fill(bench)
    kill(bench)
    bench.reopen(bench.disk)
    bench.log.staged.purge(14, b"", 0)
    bench.write()
    bench.log.commit()
    images = []
    bench.disk.before_step = lambda _operation: images.append(bench.disk.survivor())
    while bench.log.maintain():
        pass
    bench.disk.before_step = None
    stop(bench)

    for disk in [*images, bench.disk]:
        bench.reopen(disk)
        assert bench.recovery.notes == []
        assert lost(bench) == set()
        assert bench.publish(b"new") == [16]


@pytest.mark.parametrize("name", COPIES)
def test_an_older_manifest_does_not_miss_what_was_removed_on_purpose(
    bench: Bench, name: str
) -> None:
    fill(bench)
    kill(bench)
    bench.reopen(bench.disk)
    bench.log.staged.purge(14, b"", 0)
    bench.write()
    bench.log.commit()
    kill(bench)
    bench.disk.flip(bench.log.segments.folder / name, 200)

    bench.reopen(bench.disk)

    assert lost(bench) == set()


def test_a_store_of_an_older_version_opens_and_gets_its_list(bench: Bench) -> None:
    fill(bench)
    stop(bench)
    found, _ = read_manifests(bench.disk, bench.log.segments.folder)
    assert found is not None
    for epoch in (found.epoch + 1, found.epoch + 2):
        old = Manifest(epoch=epoch, identity=found.identity)
        write_manifest(bench.disk, bench.log.segments.folder, old)

    bench.reopen(bench.disk)
    assert bench.recovery.notes == []
    stop(bench)

    again, _ = read_manifests(bench.disk, bench.log.segments.folder)
    assert again is not None
    assert again.segments == tuple(path.name for path in bench.segments())
    assert again.last_seq == 15


def foreign_segment(bench: Bench) -> bytes:
    """A segment of another stream of the same store."""
    other = bench.store.create(OTHER)
    other.staged.add_message(b"o", 0, b"foreign\r\n", 1)
    group = other.take_group()
    assert group is not None
    bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    other.commit()
    path = other.segments.folder / other.index.segments[0].name
    content = bench.disk.read_file(path)
    bench.store.drop(other)
    return content


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000-00000000000000000000.seg",
        "00000000000000000016-00000000000000000099.seg",
        "00000000000000000099-00000000000000000099.seg",
    ],
)
@pytest.mark.parametrize("manifests", [True, False])
def test_a_segment_of_another_stream_is_left_out_and_reported(
    bench: Bench, name: str, manifests: bool
) -> None:
    content = foreign_segment(bench)
    fill(bench)
    before = messages(bench.log)
    stop(bench)
    path = bench.log.segments.folder / name
    bench.disk.put(path, content)
    if not manifests:
        for copy in COPIES:
            bench.disk.lose(bench.log.segments.folder / copy)

    bench.reopen(bench.disk)

    assert bench.log.identity.name == "S"
    assert messages(bench.log) == before
    assert [note for note in bench.recovery.notes if "'OTHER'" in note]
    assert bench.log.quarantine.lost_bytes == len(content)
    assert bench.disk.read_file(Path(str(path) + ".foreign")) == content
    (new,) = bench.publish(b"new")
    # Without manifests no one knows whether the newest segment was the last one.
    assert new == 16 if manifests else new > 16
    found, damaged = read_manifests(bench.disk, bench.log.segments.folder)
    assert found is not None
    assert (found.identity.name, damaged) == ("S", [])


@pytest.mark.parametrize("copies", [COPIES[:1], COPIES[1:], COPIES])
def test_a_manifest_of_another_stream_is_not_believed(
    bench: Bench, copies: tuple[str, ...]
) -> None:
    fill(bench)
    before = messages(bench.log)
    stop(bench)
    for number, name in enumerate(copies):
        other = Manifest(epoch=1000 + COPIES.index(name) + number, identity=OTHER)
        write_manifest(bench.disk, bench.log.segments.folder, other)

    bench.reopen(bench.disk)

    assert bench.log.identity.name == "S"
    assert messages(bench.log) == before


def test_two_segments_with_each_others_names_cost_nothing(bench: Bench) -> None:
    fill(bench)
    before = messages(bench.log)
    stop(bench)
    one, other = bench.segments()[:2]
    bench.disk.swap(one, other)

    bench.reopen(bench.disk)

    assert messages(bench.log) == before
    assert len([note for note in bench.recovery.notes if "was renamed back" in note]) == 2
    assert lost(bench) == set()
    bench.reopen()
    assert bench.recovery.notes == []


def test_a_new_stream_needs_no_other_manifest_and_a_hurried_close_writes_none(
    bench: Bench,
) -> None:
    def manifests() -> int:
        renamed = [op for op in bench.disk.operations if op.kind == "rename"]
        return sum("manifest" in op.path for op in renamed)

    made = manifests()
    while bench.log.maintain():
        pass
    bench.publish(b"one")
    bench.log.close(note=False)
    assert manifests() == made

    bench.reopen(bench.disk.survivor())
    before = manifests()
    bench.log.close()
    assert manifests() > before


def test_deleted_messages_are_not_lost_with_a_file_that_a_manifest_still_lists(
    bench: Bench,
) -> None:
    """An older version removes files silently to the manifests."""
    fill(bench)
    kill(bench)
    oldest = bench.segments()[0]
    gone = int(bench.segments()[1].name.partition("-")[0])
    manifest, _ = read_manifests(bench.disk, oldest.parent)
    assert manifest is not None
    bench.reopen(bench.disk)
    bench.log.staged.purge(gone, b"", 0)
    bench.write()
    bench.log.commit()
    fill(bench)
    stop(bench)
    bench.disk.lose(oldest)
    for epoch in (1, 2):
        listed = Manifest(
            epoch=1000 + epoch, identity=manifest.identity, segments=manifest.segments
        )
        write_manifest(bench.disk, oldest.parent, listed)

    bench.reopen(bench.disk)

    assert f"the segment {oldest.name} is missing" in bench.recovery.notes
    assert lost(bench) == set()
    assert min(messages(bench.log)) == gone


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("index_files", [True, False])
def test_records_of_a_later_segment_at_the_end_of_an_earlier_one_cost_nothing(
    bench: Bench, ended: object, index_files: bool
) -> None:
    fill(bench)
    expected = messages(bench.log)
    assert callable(ended)
    ended(bench)
    first, *_, newest = bench.segments()
    assert first != newest
    bench.disk.put(first, bench.disk.read_file(first) + bench.disk.read_file(newest))
    if not index_files:
        for name in bench.disk.list_folder(first.parent):
            if name.endswith(SUFFIX):
                bench.disk.lose(first.parent / name)

    bench.reopen(bench.disk)

    assert messages(bench.log) == expected
    assert not lost(bench)
    assert not bench.log.access.read_only


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("kept", [[5], [6, 7], [8]])
def test_copies_of_records_that_a_rewritten_segment_lacks_cost_nothing(
    bench: Bench, ended: object, kept: list[int]
) -> None:
    """They were removed since; to believe them would leave out what is before them."""
    fill(bench)
    stop(bench)
    first, second, *_ = bench.segments()
    copied = bench.disk.read_file(second)
    bench.reopen(bench.disk)
    index = bench.log.index
    rows = range(int(index.segments[1].base), int(index.segments[2].base))
    assert set(kept) < set(rows)
    for seq in rows:
        if seq not in kept:
            assert bench.log.staged.delete(seq)
    bench.write()
    bench.log.commit()
    while bench.log.maintain():
        pass
    assert len(bench.disk.read_file(second)) < len(copied), "it was rewritten"
    expected = messages(bench.log)
    assert callable(ended)
    ended(bench)
    bench.disk.put(first, bench.disk.read_file(first) + copied)
    for name in bench.disk.list_folder(first.parent):
        if name.endswith(SUFFIX):
            bench.disk.lose(first.parent / name)

    for _ in range(2):
        bench.reopen(bench.disk)

        assert messages(bench.log) == expected
        assert not lost(bench)
        stop(bench)


@pytest.mark.parametrize("ended", [stop, kill])
def test_what_was_stored_without_a_segment_is_served_when_that_is_put_back(
    bench: Bench, ended: object
) -> None:
    """It is in the segment before, under sequences after those of the one that was put back."""
    fill(bench)
    assert callable(ended)
    ended(bench)
    *_, before, newest = bench.segments()
    content = bench.disk.read_file(newest)
    bench.disk.lose(newest)
    bench.reopen(bench.disk)
    acknowledged = bench.publish(b"acknowledged") + bench.publish(b"and another")
    assert bench.segments()[-1] == before
    expected = messages(bench.log)
    ended(bench)
    bench.disk.put(newest, content)

    bench.reopen(bench.disk)

    assert set(acknowledged) <= set(messages(bench.log))
    assert messages(bench.log) == expected


@pytest.mark.parametrize("torn", [0, 1, 50])
def test_a_segment_in_which_nothing_was_stored_takes_nothing_from_the_one_before(
    bench: Bench, torn: int
) -> None:
    """Its head became durable, and the stream continued without it."""
    bench.publish(b"one")
    head = bench.log.next_segment()
    acknowledged = [*bench.publish(b"two"), *bench.publish(b"three")]
    expected = messages(bench.log)
    first = bench.segments()[0]
    columns = bench.log.index.segments[0]
    begin = int(columns.offset_at(1))
    record = bench.disk.read_file(first)[begin : begin + torn]
    kill(bench)
    bench.disk.put(first.with_name(head.name), head.head + record)

    bench.reopen(bench.disk)

    assert messages(bench.log) == expected
    later = bench.publish(b"four")
    bench.reopen(bench.disk.survivor())
    assert set(acknowledged + later) <= set(messages(bench.log))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("ended", [stop, kill])
def test_a_segment_that_could_not_be_started_costs_nothing_that_is_stored_afterwards(
    bench: Bench, error: int, ended: object
) -> None:
    """The next attempt has the same name, although a small group would fit into the old one."""
    fill(bench, 3)
    bench.stage(bytes(9000))
    group = bench.log.take_work()
    assert group is not None
    group.assemble()

    def fails(operation: Operation) -> None:
        if operation.kind == "sync folder":
            raise OSError(error, "the folder cannot be synced")

    bench.disk.before_step = fails
    with pytest.raises(OSError, match="cannot be synced"):
        group.prepare()
    bench.disk.before_step = None
    bench.log.fail(no_space=error == errno.ENOSPC)
    assert len(bench.segments()) == 2
    if error == errno.ENOSPC:
        bench.log.access.set_full(False)
        bench.publish(b"small")
    expected = messages(bench.log)
    assert callable(ended)
    ended(bench)

    bench.reopen(bench.disk)

    assert messages(bench.log) == expected
    new = bench.publish(b"new")
    bench.reopen()
    assert set(expected) | set(new) == set(messages(bench.log))


@pytest.mark.parametrize("ended", [stop, kill])
@pytest.mark.parametrize("first", [2**62 - 2, 2**62, 2**62 + 2**40, SEQUENCE_LIMIT - 15])
def test_segments_of_the_highest_sequences_are_found(
    bench: Bench, ended: object, first: int
) -> None:
    bench.log.staged.skip_to(first - 1)
    fill(bench)
    expected = messages(bench.log)
    assert callable(ended)
    ended(bench)

    bench.reopen(bench.disk)

    assert messages(bench.log) == expected
    assert (len(expected), max(expected)) == (15, first + 14)
    assert bench.publish(b"next") == [first + 15]
