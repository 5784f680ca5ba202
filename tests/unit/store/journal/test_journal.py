"""The journal: groups of several streams in one synced write."""

import errno
from pathlib import Path
from random import Random

import pytest
from tests.support.disk.simulated import Operation
from tests.support.store.model import ROOT, messages
from tests.support.store.turns import Streams

from jetspark.store.committer import write, write_turn
from jetspark.store.journal.format import FRAMES_AT, Head, decode_head, frames_in
from jetspark.store.log.stream_log import Group
from jetspark.store.sharing import write_unsynced
from jetspark.store.store import JOURNAL_MARK, PLAIN_MARK

NAMES = ("A", "B", "C")


@pytest.fixture
def streams() -> Streams:
    made = Streams()
    made.create(*NAMES)
    return made


def syncs(streams: Streams) -> int:
    return sum(operation.kind == "sync" for operation in streams.disk.operations)


def journal_files(streams: Streams) -> list[Path]:
    return [path for path in streams.disk.paths() if path.parent.name == "journal"]


def images(streams: Streams, count: int = 40) -> list[dict[str, list[bytes]]]:
    """Return what starts after power failures find."""
    found = []
    for seed in range(count):
        started = streams.started(streams.disk.image(Random(seed)))
        assert not any(recovery.damaged for recovery in started.recoveries.values())
        found.append(started.bodies())
    return found


def test_one_sync_makes_the_groups_of_a_turn_durable(streams: Streams) -> None:
    streams.turn(b"one")
    streams.turn(b"two")
    before = syncs(streams)
    streams.turn(b"three")

    assert syncs(streams) == before + 1
    expected = {name: [b"one", b"two", b"three"] for name in NAMES}
    assert streams.bodies() == expected
    assert images(streams) == [expected] * 40


def test_a_synced_group_after_a_shared_one_loses_neither(streams: Streams) -> None:
    streams.turn(b"one")
    streams.publish("A", b"two")
    streams.turn(b"three")
    streams.publish("B", b"four")

    assert (
        images(streams)
        == [
            {
                "A": [b"one", b"two", b"three"],
                "B": [b"one", b"three", b"four"],
                "C": [b"one", b"three"],
            }
        ]
        * 40
    )


def test_a_stop_leaves_a_store_that_earlier_versions_read(streams: Streams) -> None:
    streams.turn(b"one")
    assert streams.disk.read_file(ROOT / "STORE") == JOURNAL_MARK

    streams.close()
    assert streams.disk.read_file(ROOT / "STORE") == PLAIN_MARK
    assert journal_files(streams) == []
    assert Streams(streams.disk).bodies() == {name: [b"one"] for name in NAMES}


def test_a_stop_without_time_leaves_the_journal_to_the_next_start(streams: Streams) -> None:
    streams.turn(b"one")
    streams.close(lambda: False)

    assert streams.disk.read_file(ROOT / "STORE") == JOURNAL_MARK
    again = Streams(streams.disk.image(Random(1)))
    assert again.bodies() == {name: [b"one"] for name in NAMES}
    assert journal_files(again) == []


def test_files_are_used_again_after_a_release(streams: Streams) -> None:
    for n in range(60):
        streams.turn(b"%02d" % n * 40)
        if streams.store.journal.wants_release:
            assert streams.store.journal.release() == []
    assert len(journal_files(streams)) <= 7
    assert streams.store.journal.frames > 55

    expected = [b"%02d" % n * 40 for n in range(60)]
    assert all(found == dict.fromkeys(NAMES, expected) for found in images(streams, 10))


def test_without_a_free_file_nothing_is_taken(streams: Streams) -> None:
    journal = streams.store.journal
    while journal.wants_file or journal.takes(3, 500):
        streams.turn(b"x" * 100)

    assert not journal.takes(3, 500)
    journal.release()
    assert journal.takes(3, 500)
    assert not journal.takes(3, 1 << 20)


def test_a_frame_that_failed_never_comes_back(streams: Streams) -> None:
    """Its groups were refused, and others were written in their place."""
    streams.turn(b"one")
    groups = staged(streams, b"refused")
    for group in groups:
        group.share(True)
        assert write_unsynced(streams.disk, group)
    # The frame arrives, its sync fails, and so does the first try to invalidate it.
    streams.disk.fail(2, errno.EIO)
    streams.disk.fail(3, errno.EIO)
    assert None not in write_turn(streams.disk, streams.store.journal, groups)
    assert not streams.store.journal.takes(1, 10)
    for log in streams.logs.values():
        log.fail(no_space=False)

    for log in streams.logs.values():
        assert log.reopen()
    for name in NAMES:
        streams.publish(name, b"two")
    assert images(streams) == [{name: [b"one", b"two"] for name in NAMES}] * 40


def staged(streams: Streams, body: bytes) -> list[Group]:
    """Stage a message in each stream and take the groups."""
    groups = []
    for log in streams.logs.values():
        log.staged.add_message(b"a.b", 0, body + b"\r\n", 1)
        group = log.take_group()
        assert group is not None
        groups.append(group)
    return groups


def test_a_log_is_not_opened_again_while_a_failed_frame_may_be_on_disk(streams: Streams) -> None:
    streams.turn(b"one")
    groups = staged(streams, b"refused")
    streams.disk.fail(1, errno.EIO, times=200)
    assert None not in write_turn(streams.disk, streams.store.journal, groups)
    for log in streams.logs.values():
        log.fail(no_space=False)
        assert not log.reopen()
    streams.disk.forget_failures()
    assert all(log.reopen() for log in streams.logs.values())


def test_if_the_journal_fails_each_group_is_written_to_its_segment(streams: Streams) -> None:
    streams.turn(b"one")
    # Three plain writes, then the frame, whose write fails; invalidating it works.
    streams.disk.fail(4, errno.EIO)
    assert streams.turn(b"two") == [None] * 3

    assert streams.store.journal.settled
    assert streams.store.journal.failures == 1
    streams.turn(b"three")
    expected = {name: [b"one", b"two", b"three"] for name in NAMES}
    assert images(streams) == [expected] * 40


def test_a_failed_sync_in_the_background_loses_nothing(streams: Streams) -> None:
    """The system has forgotten the bytes: the journal has them."""
    streams.turn(b"one")
    streams.disk.fail(2, errno.EIO)
    (failed,) = streams.store.journal.release(everything=True)
    log = next(log for log in streams.logs.values() if log.durability.segment is failed)
    failed.stop(failed.error)
    assert log.durability.sync_error is not None
    log.fail(no_space=False)
    assert images(streams) == [{name: [b"one"] for name in NAMES}] * 40

    assert log.reopen()
    streams.publish(log.identity.name, b"two")
    assert all(found[log.identity.name] == [b"one", b"two"] for found in images(streams))


def test_a_stop_after_a_failed_write_loses_nothing(streams: Streams) -> None:
    """A sync that failed forgets what others wrote to the file; the next one succeeds."""
    streams.turn(b"one")
    log = streams.logs["A"]
    log.staged.add_message(b"a.b", 0, b"refused\r\n", 1)
    group = log.take_group()
    assert group is not None
    streams.disk.fail(2, errno.EIO)
    assert write(streams.disk, group) is not None
    log.fail(no_space=False)
    streams.close()

    for seed in range(40):
        assert Streams(streams.disk.image(Random(seed))).bodies()["A"][0] == b"one"


def test_groups_of_a_stream_that_cannot_be_opened_are_kept(streams: Streams) -> None:
    streams.turn(b"one")
    crashed = streams.disk.image(Random(3))
    folder = streams.logs["B"].segments.folder
    crashed.refuse_reads(f"{folder.name}/manifest.a")
    crashed.refuse_reads(".seg", times=10**6)
    first = streams.started(crashed)
    crashed.allow_reads()
    kept = {path.name for path in journal_files(first)}
    assert first.disk.read_file(ROOT / "STORE") == JOURNAL_MARK
    first.close()

    again = Streams(first.disk)
    assert again.bodies() == {name: [b"one"] for name in NAMES}, kept
    again.close()
    assert journal_files(again) == []
    assert again.disk.read_file(ROOT / "STORE") == PLAIN_MARK


def test_a_kept_stream_is_opened_later_with_its_groups(streams: Streams) -> None:
    streams.turn(b"one")
    crashed = streams.disk.image(Random(3))
    folder = streams.logs["B"].segments.folder

    def refuse(operation: Operation) -> None:
        kind, path = operation.kind, operation.path
        if kind == "open" and folder.name in path and path.endswith(".seg"):
            crashed.fail(0, errno.EMFILE)

    crashed.before_step = refuse
    first = streams.started(crashed)
    crashed.before_step = None
    assert "B" not in first.logs
    assert [path.name for path in journal_files(first)] == [f"kept-{0x1001:016x}.jnl"]

    ((log, _),) = first.store.open_again(folder, first.cannot_open)
    first.logs["B"] = log
    assert first.bodies() == {name: [b"one"] for name in NAMES}
    assert journal_files(first) == []


def test_a_stream_that_was_dropped_holds_nothing(streams: Streams) -> None:
    streams.turn(b"one")
    streams.store.drop(streams.logs.pop("B"))
    assert streams.store.journal.release(everything=True) == []

    assert images(streams) == [{"A": [b"one"], "C": [b"one"]}] * 40


def test_a_journal_file_does_not_keep_a_stream_that_was_dropped(streams: Streams) -> None:
    streams.turn(b"one")
    log = streams.logs.pop("B")
    segment = log.durability.segment
    assert segment is not None
    assert log.segments in vars(segment).values()
    streams.store.drop(log)

    assert log.segments not in vars(segment).values()
    assert segment.path.parent == log.segments.folder


def test_a_rolled_segment_is_not_written_by_a_start(streams: Streams) -> None:
    """Its file may have been rewritten since."""
    for n in range(12):
        streams.turn(b"%02d" % n * 400, ["A", "B"])
    assert len(streams.logs["A"].segments.list_files()) > 1

    expected = [b"%02d" % n * 400 for n in range(12)]
    assert all(found == {"A": expected, "B": expected, "C": []} for found in images(streams, 20))


def test_frames_do_not_apply_to_a_copy_of_the_folder(streams: Streams) -> None:
    streams.turn(b"one")
    streams.turn(b"two")
    disk = streams.disk.survivor()
    folder = streams.logs["A"].segments.folder
    for path in disk.paths():
        if path.parent == folder:
            disk.put(folder.parent / "stream-00000000000000ff" / path.name, disk.read_file(path))
    started = Streams(disk)
    assert started.bodies()["B"] == [b"one", b"two"]


def test_the_first_frame_begins_after_the_head(streams: Streams) -> None:
    streams.turn(b"one")
    (used, *_) = journal_files(streams)
    data = streams.disk.read_file(used)
    assert data[FRAMES_AT : FRAMES_AT + 4] == b"JSF1"


def test_the_groups_of_one_stream_are_never_those_of_another(streams: Streams) -> None:
    """Segments of many streams have the same name, and a kept file may have been removed."""
    streams.turn(b"one")
    journal = streams.store.journal
    segment = streams.logs["A"].durability.segment
    assert segment is not None
    segment.kept_frame = 1  # without a file of its own
    assert [entry.last_seq for entry in journal.groups_of(segment).entries] == [1]

    assert journal.kept(0x1002).entries == []
    assert journal.groups_of(segment).entries[0].place.stream_id == 0x1000
    with pytest.raises(ValueError, match="another's"):
        journal.kept(0x1002).add(journal.groups_of(segment).entries[0])


def test_what_follows_the_copied_groups_of_a_segment_holds_the_journal(streams: Streams) -> None:
    """A log learns of a failed sync with its next group, which is acknowledged."""
    streams.turn(b"one")
    streams.disk.fail(2, errno.EIO)
    (failed,) = streams.store.journal.release(everything=True)
    (name,) = (n for n, log in streams.logs.items() if log.durability.segment is failed)
    streams.turn(b"two")
    journal = streams.store.journal
    n = 0
    while journal.releases < 3:
        streams.turn(b"%04d" % n * 30, [other for other in NAMES if other != name])
        n += 1
        if journal.wants_release:
            assert journal.release() == []

    assert all(found[name] == [b"one", b"two"] for found in images(streams))


def test_a_failed_sync_at_a_stop_loses_nothing_that_the_journal_had(streams: Streams) -> None:
    """The level of the stream was lowered: its last sync is not the journal's."""
    streams.turn(b"one")
    streams.logs["A"].durability.choose("async", 10**12)
    failed: list[str] = []

    def refuse(operation: Operation) -> None:
        if operation.kind == "sync" and operation.path.endswith(".seg") and not failed:
            failed.append(operation.path)
            streams.disk.fail(0, errno.EIO)

    streams.disk.before_step = refuse
    streams.close()
    streams.disk.before_step = None

    assert "0000000000001000" in failed[0]
    assert all(found["A"] == [b"one"] for found in images(streams))


def test_a_full_disk_in_a_sync_of_a_group_of_its_own_loses_nothing(streams: Streams) -> None:
    """The group is not for the journal, but the same sync was for groups that are in it."""
    streams.turn(b"one")
    log = streams.logs["A"]
    log.staged.add_message(b"a.b", 0, b"x" * 3000 + b"\r\n", 1)
    group = log.take_group()
    assert group is not None
    assert not group.may_share

    def refuse(operation: Operation) -> None:
        if operation.kind == "sync" and operation.path.endswith(".seg"):
            streams.disk.before_step = None
            streams.disk.fail(0, errno.ENOSPC)

    streams.disk.before_step = refuse
    error = write(streams.disk, group)
    assert error is not None
    log.fail(no_space=True)
    assert not log.access.failed
    for _ in range(20):
        streams.store.journal.release(everything=True)
        streams.turn(b"y" * 700, ["B", "C"])

    assert all(found["A"] == [b"one"] for found in images(streams))


def test_a_young_stream_reports_what_journal_and_segment_lost(streams: Streams) -> None:
    """It has no manifest that says how far it was stored: the journal does."""
    streams.turn(b"one")
    streams.store.journal.release(everything=True)
    streams.turn(b"lost-by-A")
    streams.turn(b"three", ["B", "C"])
    folder = streams.logs["A"].segments.folder
    for seed in range(100):
        disk = streams.disk.image(Random(seed))
        (segment,) = (path for path in disk.paths() if path.parent == folder)
        if b"lost-by-A" not in disk.read_file(segment):
            break
    (used, *_) = journal_files(streams)
    at = disk.read_file(used).index(b"lost-by-A")
    disk.flip(used, at * 8)
    started = Streams(disk)

    assert started.bodies() == {
        "A": [b"one"],
        "B": [b"one", b"lost-by-A", b"three"],
        "C": [b"one", b"lost-by-A", b"three"],
    }
    assert started.recoveries["A"].lost == [(2, 2)]
    started.publish("A", b"next")
    assert list(messages(started.logs["A"])) == [1, 3]
    started.close()
    assert list(messages(Streams(started.disk).logs["A"])) == [1, 3]


def test_a_missing_segment_of_which_the_journal_has_groups_is_reported(streams: Streams) -> None:
    """No manifest lists it yet."""
    n = 0
    while len(streams.logs["A"].segments.list_files()) < 2:
        streams.turn(b"%02d" % n * 400, ["A", "B"])
        n += 1
    streams.turn(b"last", ["A", "B"])
    disk = streams.disk.survivor()
    folder = streams.logs["A"].segments.folder
    newest = max(path for path in disk.paths() if path.parent == folder and path.suffix == ".seg")
    disk.lose(newest)
    started = Streams(disk)

    found = list(messages(started.logs["A"]))
    assert found == list(range(1, n))
    ((first, last),) = started.recoveries["A"].lost
    assert first == n
    assert last >= n + 1
    started.publish("A", b"next")
    assert max(messages(started.logs["A"])) > n + 1


def test_a_last_frame_that_the_disk_fails_to_read_counts(streams: Streams) -> None:
    """It may have been acknowledged; what no segment has of it is lost, and is reported."""
    n = 0
    while True:
        streams.turn(b"%03d" % n * 100)
        n += 1
        (used, *_) = journal_files(streams)
        data = streams.disk.read_file(used)
        *_, last = frames_in(data, decode_head(data) or Head(0, 0))
        page = last.end // 4096 * 4096
        if last.at + 200 < page and len(last.entries) == 3:
            break  # its table is in another page than its end
    for seed in range(20):
        disk = streams.disk.image(Random(seed))
        disk.refuse_reads(used.name, first=page)
        started = Streams(disk)
        assert started.store.journal_notes
        for name, bodies in started.bodies().items():
            lost = [first for first, _ in started.recoveries[name].lost]
            assert len(bodies) == n or lost == [n]
        if any(recovery.lost for recovery in started.recoveries.values()):
            return
    pytest.fail("no start missed it")


def test_a_journal_file_that_was_emptied_is_reported(streams: Streams) -> None:
    streams.turn(b"one")
    disk = streams.disk.survivor()
    (used, *_) = journal_files(streams)
    disk.cut(used, 0)

    assert Streams(disk).store.journal_notes


def two_files() -> tuple[Streams, list[Path]]:
    """Streams whose frames fill one file of the journal and begin another, in this order."""
    streams = Streams(journal_size=FRAMES_AT + 4096)
    streams.create(*NAMES)
    while True:
        streams.turn(b"x" * 100)
        heads = {
            path: decode_head(streams.disk.read_file(path)) for path in journal_files(streams)
        }
        used = sorted((head.first, path) for path, head in heads.items() if head is not None)
        if len(used) == 2:
            return streams, [path for _, path in used]


def test_missing_frames_before_all_others_are_reported() -> None:
    """The head of a file says where its frames begin."""
    streams, (older, _) = two_files()
    disk = streams.disk.survivor()
    disk.cut(older, FRAMES_AT)

    assert "frames 1 to " in Streams(disk).store.journal_notes[0]


@pytest.mark.parametrize("what", ["frame", "end of it"])
def test_a_damaged_last_frame_is_not_torn_if_another_file_came_into_use(what: str) -> None:
    """Then it was complete, although no frame follows it."""
    streams, (older, newer) = two_files()
    disk = streams.disk.survivor()
    disk.cut(newer, FRAMES_AT)
    data = disk.read_file(older)
    *_, last = frames_in(data, decode_head(data) or Head(0, 0))
    disk.put(older, data[: last.at if what == "frame" else last.end - 20])

    assert f"{last.number}" in Streams(disk).store.journal_notes[0]
