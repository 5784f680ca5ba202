"""Limits, configuration records, age, and segments that are not needed any more."""

import errno
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import check_counts, messages, sequences

from jetspark.store.format.manifest import read_manifests
from jetspark.store.format.segment import identity_of, read_head

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def commit(bench: "Bench") -> None:
    bench.write()
    bench.log.commit()


def settled(bench: "Bench") -> list[int]:
    """What exists, after a restart that must find the same."""
    before = messages(bench.log)
    check_counts(bench.log, before)
    bench.reopen()
    check_counts(bench.log, messages(bench.log))
    assert messages(bench.log) == before
    return list(before)


# Eviction ---------------------------------------------------------------------------------------


def test_the_oldest_goes_when_a_message_is_too_much(bench: "Bench") -> None:
    bench.limit(3, 0, 0)
    for _ in range(5):
        bench.publish(b"x")

    assert settled(bench) == [3, 4, 5]
    assert bench.log.index.first_seq == 3


def test_limits_evict_after_storing(bench: "Bench") -> None:
    """A message larger than max_bytes is acked and then evicted."""
    bench.limit(0, 200, 0)
    bench.publish(b"x" * 100)
    assert bench.publish(b"y" * 500) == [2]

    assert settled(bench) == []
    assert (bench.log.index.first_seq, bench.log.index.last_seq) == (3, 2)


def test_each_subject_keeps_its_newest(bench: "Bench") -> None:
    bench.limit(0, 0, 2)
    for number in range(9):
        bench.publish(b"x", subject=b"s.%d" % (number % 2))

    assert settled(bench) == [6, 7, 8, 9]


def test_the_subject_makes_room_before_others_have_to(bench: "Bench") -> None:
    bench.limit(2, 0, 1)
    bench.publish(b"x", subject=b"a")
    bench.publish(b"x", subject=b"b")
    bench.publish(b"x", subject=b"b")

    assert settled(bench) == [1, 3]


def test_lower_limits_evict_when_they_are_written(bench: "Bench") -> None:
    """wire.md, Streams, UPDATE."""
    bench.publish(*[b"x"] * 9)
    for limit, left in ((4, [6, 7, 8, 9]), (2, [8, 9])):
        before = sequences(bench.log)
        bench.limit(limit, 0, 0)
        assert sequences(bench.log) == before
        commit(bench)
        assert sequences(bench.log) == left
    bench.publish(b"x")
    assert settled(bench) == [9, 10]


def test_limits_that_are_staged_hold_from_their_place_on(bench: "Bench") -> None:
    """Raised while messages are in flight: those are evicted as before, here and at replay."""
    bench.limit(2, 0, 0)
    bench.publish(b"1", b"2")
    bench.stage(b"3")
    bench.limit(5, 0, 0)
    bench.stage(b"4", b"5")
    commit(bench)

    assert settled(bench) == [2, 3, 4, 5]


def test_what_was_evicted_stays_gone_when_room_is_made(bench: "Bench") -> None:
    bench.limit(3, 0, 0)
    bench.publish(*[b"x"] * 6)
    bench.log.staged.delete(5)
    commit(bench)

    assert settled(bench) == [4, 6]


def test_limits_that_fail_are_forgotten(bench: "Bench") -> None:
    bench.publish(b"1", b"2", b"3")
    bench.stage(b"4")
    bench.limit(1, 0, 0)
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.log.fail(no_space=True)
    bench.publish(b"5")

    assert settled(bench) == [1, 2, 3, 5]


def test_counts_for_decisions_have_what_is_staged(bench: "Bench") -> None:
    bench.publish(b"12345")
    bench.stage(b"1234567")
    group = bench.log.take_group()
    bench.stage(b"123456789")

    assert group is not None
    assert (bench.log.staged.messages, bench.log.staged.size) == (3, 3 * 33 + 21)
    assert (bench.log.index.messages, bench.log.index.bytes) == (1, 38)
    bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    bench.log.commit()
    assert (bench.log.staged.messages, bench.log.staged.size) == (3, 3 * 33 + 21)
    bench.log.fail(no_space=True)
    assert (bench.log.staged.messages, bench.log.staged.size) == (2, 2 * 33 + 12)


# Configuration ----------------------------------------------------------------------------------


def test_a_configuration_is_in_force_when_it_is_durable(bench: "Bench") -> None:
    bench.publish(*[b"x"] * 5)
    bench.log.staged.configure(b'{"a":1}')
    assert bytes(bench.log.identity.config) == b"{}"
    commit(bench)
    assert bytes(bench.log.identity.config) == b'{"a":1}'
    # The manifests are written in the background, soon after.
    while bench.log.upkeep.manifest_due and bench.log.maintain():
        pass
    manifest, damaged = read_manifests(bench.disk, bench.log.segments.folder)
    assert manifest is not None
    assert (bytes(manifest.identity.config), damaged) == (b'{"a":1}', [])
    bench.log.roll()
    head = read_head(bench.disk.read_file(bench.segments()[-1]))
    assert head is not None
    assert bytes(identity_of(head[0]).config) == b'{"a":1}'
    bench.reopen()
    assert bytes(bench.log.identity.config) == b'{"a":1}'


def test_a_configuration_survives_without_its_manifests(bench: "Bench") -> None:
    """Never drop a stream because metadata is damaged."""
    bench.limit(3, 0, 0)
    bench.log.staged.configure(b'{"a":1}')
    commit(bench)
    bench.publish(*[b"x"] * 5)
    bench.log.close()
    bench.store.close()
    for name in ("manifest.a", "manifest.b"):
        bench.disk.flip(bench.log.segments.folder / name, 300)
    bench.reopen(bench.disk)

    assert bytes(bench.log.identity.config) == b'{"a":1}'
    assert sequences(bench.log) == [3, 4, 5]
    assert bench.log.limits.max_msgs == 3


def test_a_manifest_that_cannot_be_written_is_renewed_by_the_next_start(bench: "Bench") -> None:
    bench.log.staged.configure(b'{"a":1}')
    bench.write()
    bench.disk.fail(1, errno.EIO, times=20)
    bench.log.commit()
    bench.disk.forget_failures()
    manifest, _ = read_manifests(bench.disk, bench.log.segments.folder)
    assert manifest is not None
    assert bytes(manifest.identity.config) == b"{}"
    bench.reopen()
    manifest, _ = read_manifests(bench.disk, bench.log.segments.folder)
    assert manifest is not None
    assert bytes(manifest.identity.config) == b'{"a":1}'


@pytest.mark.parametrize("raised", [False, True], ids=["lowered", "raised"])
def test_damage_to_a_change_of_limits_costs_no_message(bench: "Bench", raised: bool) -> None:
    """Nothing is evicted after bytes that may have said what the limits are."""
    bench.limit(2 if raised else 9, 0, 0)
    bench.publish(*[b"x"] * 4)
    path = bench.segments()[0]
    at = bench.disk.paths()[path]
    bench.limit(9 if raised else 3, 0, 0)
    bench.publish(*[b"x"] * 4)
    bench.publish(b"x")
    left = sequences(bench.log)
    bench.log.close()
    bench.store.close()
    bench.disk.flip(path, (at + 60) * 8)
    for _ in range(2):
        bench.reopen(bench.disk)
        assert set(sequences(bench.log)) == set(left)
        assert len(bench.recovery.damaged) == 1
        bench.log.close()
        bench.store.close()


# Age --------------------------------------------------------------------------------------------


def test_old_messages_go_by_their_time(bench: "Bench") -> None:
    for now in (10, 20, 30, 40):
        bench.publish(b"x", now=now)

    assert bench.log.expire_before(10) == 0
    assert bench.log.expire_before(30) == 2
    assert sequences(bench.log) == [3, 4]
    assert bench.log.reader.first_time == 30
    assert bench.log.expire_before(10**18) == 2
    assert (bench.log.index.first_seq, bench.log.reader.first_time) == (5, 0)
    assert bench.log.expire_before(10**18) == 0


def test_a_configuration_remembers_what_had_expired(bench: "Bench") -> None:
    """No record says that a message was too old; the next configuration may allow it again."""
    for now in (10, 20, 30, 40):
        bench.publish(b"x", now=now)
    bench.log.expire_before(30)
    bench.log.staged.configure(b'{"max_age":0}')
    commit(bench)

    assert settled(bench) == [3, 4]


# Segments ---------------------------------------------------------------------------------------


def test_a_segment_without_messages_is_removed(bench: "Bench") -> None:
    bench.limit(3, 0, 0)
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    handles = bench.disk.open_handles
    segments = len(bench.segments())
    dropped = 0
    while bench.log.drop_segment():
        dropped += 1

    assert segments > 3
    assert len(bench.segments()) == segments - dropped
    assert len(bench.segments()) <= 2
    assert bench.disk.open_handles == handles - dropped
    assert settled(bench) == [28, 29, 30]
    bench.publish(b"x" * 1_000)
    assert settled(bench) == [29, 30, 31]


def test_the_newest_segment_stays(bench: "Bench") -> None:
    bench.publish(b"x")
    bench.log.staged.purge(0, b"", 0)
    commit(bench)

    assert not bench.log.drop_segment()
    assert settled(bench) == []
    assert bench.publish(b"y") == [2]


def test_a_purged_stream_remembers_its_end_and_its_time(bench: "Bench") -> None:
    for now in range(1, 30):
        bench.publish(b"x" * 1_000, now=now * 10)
    bench.log.staged.purge(0, b"", 0)
    commit(bench)
    bench.log.roll()
    while bench.log.drop_segment():
        pass

    assert len(bench.segments()) == 1
    for _ in range(2):
        assert settled(bench) == []
        index = bench.log.index
        assert (index.first_seq, index.last_seq, index.last_time) == (30, 29, 290)
    assert bench.publish(b"x", now=5) == [30]
    assert bench.log.index.last_time == 291


def test_a_segment_that_cannot_be_removed_is_tried_again(bench: "Bench") -> None:
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    bench.log.staged.purge(30, b"", 0)
    commit(bench)
    for step in (1, 2):
        segments = bench.segments()
        # The second one is the sync of the folder: by then the file is deleted.
        wanted = ("unlink", "sync folder")[step - 1]

        def fail(operation: Operation, wanted: str = wanted) -> None:
            if operation.kind == wanted:
                bench.disk.fail(0, errno.EIO)

        bench.disk.before_step = fail
        assert not bench.log.drop_segment()
        bench.disk.before_step = None
        bench.disk.forget_failures()
        # Not the next one: its removal must not be durable before this one's is.
        assert bench.segments() == segments[step - 1 :]
        assert bench.log.drop_segment()
    assert settled(bench) == [30]


def test_removals_that_a_kill_left_unsynced_do_not_bring_messages_back(bench: "Bench") -> None:
    """The older segment came back without the newer one that listed what was deleted."""
    bench.limit(0, 1_200, 0)
    for _ in range(40):
        bench.publish(b"x" * 1_000)
    left: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "sync folder" and not left:
            left.append(bench.disk.survivor())

    bench.disk.before_step = look
    assert bench.log.drop_segment()
    bench.disk.before_step = None
    (killed,) = left
    images: list[SimulatedDisk] = []

    def collect(operation: Operation) -> None:
        if operation.kind == "sync folder":
            images.extend(killed.survivor() for _ in range(1))

    killed.before_step = collect
    bench.reopen(killed)
    killed.before_step = None
    for image in images:
        bench.reopen(image)
        assert sequences(bench.log) == [40]
        assert bench.recovery.lost == []


def test_a_segment_with_damage_is_kept(bench: "Bench") -> None:
    """Its bytes are for later inspection."""
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    first = bench.segments()[0]
    bench.log.staged.purge(30, b"", 0)
    commit(bench)
    bench.log.close()
    bench.store.close()
    bench.disk.flip(first, (bench.disk.paths()[first] - 300) * 8)
    bench.reopen(bench.disk)

    assert first in bench.disk.paths()
    assert sequences(bench.log) == [30]
