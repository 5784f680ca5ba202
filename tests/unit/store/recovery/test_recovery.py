"""Opening a stream after any kind of end: what is kept, what is cut, what is reported.

The rules are in the docstring of ``store/recovery/replay.py``; the promises in guarantees.md.
"""

import errno
import struct
from random import Random
from typing import TYPE_CHECKING

import pytest
from librt.strings import BytesWriter
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import messages
from xxhash import xxh3_64_digest

from jetspark.errors.storage import CorruptRecord, UnknownRecordKind
from jetspark.store.format.record import GROUP_FIRST, MESSAGE, OVERHEAD, SKIP, Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.unit.store.conftest import Bench

STREAM_ID = 0xABCDEF0123456789


def bodies(bench: "Bench") -> dict[int, bytes]:
    return {seq: message.body for seq, message in messages(bench.log).items()}


def left_behind(
    bench: "Bench", images: "Callable[[SimulatedDisk], Iterable[SimulatedDisk]]"
) -> list[SimulatedDisk]:
    """What the write of the staged group can leave when it is cut short."""
    found: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "sync":
            found.extend(images(bench.disk))

    bench.disk.before_step = look
    bench.write()
    bench.disk.before_step = None
    return found


def record(
    seq: int,
    *,
    kind: int = int(MESSAGE),
    flags: int = 0,
    body: bytes = b"",
    stream_id: int = STREAM_ID,
    key: int = 0,
) -> bytes:
    """A record made here, whole and with a check that holds."""
    writer = BytesWriter()
    Codec(stream_id).encode(writer, seq, 1, kind, flags, b"a.b", 0, body + b"\r\n")
    data = bytearray(writer.getvalue())
    if key:
        struct.pack_into("<I", data, 32, key)
        data[-8:] = xxh3_64_digest(bytes(data[8:-8]), stream_id)
    return bytes(data)


def append(bench: "Bench", data: bytes) -> "Path":
    """Put bytes after the newest segment, on the disk."""
    path = bench.segments()[-1]
    bench.disk.put(path, bench.disk.read_file(path) + data)
    return path


def stop(bench: "Bench") -> None:
    bench.log.close()
    bench.store.close()


def test_segments_of_the_highest_sequences_are_found_again(bench: "Bench") -> None:
    """Their file names say where they begin; a stream may begin at 2^62."""
    first = 2**62
    bench.log.staged.purge(first, b"", 0)
    for body in (b"one", b"two", b"three"):
        bench.publish(body)
        bench.log.roll()

    log = bench.reopen()

    assert {int(seq - first): message.body for seq, message in messages(log).items()} == {
        0: b"one", 1: b"two", 2: b"three",
    }  # fmt: skip


# Torn tails -------------------------------------------------------------------------------------


def test_a_group_torn_at_any_byte_costs_nothing_that_was_acknowledged(bench: "Bench") -> None:
    """Truncation at every byte of the tail."""
    bench.publish(b"one", b"two")
    bench.stage(b"three", b"four" * 30, b"five")
    images = left_behind(bench, SimulatedDisk.prefixes)
    ends = [0]
    for body in (b"three", b"four" * 30, b"five"):
        ends.append(ends[-1] + OVERHEAD + 3 + len(body))
    assert len(images) == ends[-1] + 1
    for kept, image in enumerate(images):
        bench.reopen(image)
        whole = max(n for n, end in enumerate(ends) if end <= kept)
        all_of_it = {1: b"one", 2: b"two", 3: b"three", 4: b"four" * 30, 5: b"five"}

        assert bodies(bench) == {seq: all_of_it[seq] for seq in range(1, whole + 3)}
        assert bench.recovery.damaged == []
        assert bench.recovery.torn_bytes == kept - ends[whole]
        # The sequence of the torn record is not used again, even if only its first byte exists.
        torn = kept > ends[whole]
        assert bench.publish(b"new") == [whole + 3 + torn]
        before = bodies(bench)
        bench.reopen()
        assert bodies(bench) == before
        assert (bench.recovery.damaged, bench.recovery.torn_bytes) == ([], 0)


@pytest.mark.parametrize("zeros", [False, True], ids=["short", "zeros"])
def test_sectors_in_any_order_cost_nothing_that_was_acknowledged(
    bench: "Bench", zeros: bool
) -> None:
    bench.publish(b"one", b"two")
    staged = [bytes([n]) * 300 for n in range(9)]
    bench.stage(*staged)
    images = left_behind(bench, lambda disk: disk.sector_subsets(zeros=zeros))
    assert len(images) == 128
    for image in images:
        bench.reopen(image)
        found = bodies(bench)
        next_seq = bench.publish(b"new")[0]

        assert found.pop(1) == b"one"
        assert found.pop(2) == b"two"
        assert all(staged[seq - 3] == body for seq, body in found.items())
        assert next_seq > max(found, default=2)
        # Nothing was damaged, and nothing is said to be for certain.
        assert bench.recovery.damaged == bench.recovery.doubtful
        first = (bench.recovery.damaged, bench.recovery.doubtful)
        bench.reopen()
        assert (bench.recovery.damaged, bench.recovery.doubtful) == first


def test_a_good_record_after_a_bad_one_is_kept(bench: "Bench") -> None:
    """Whether its group was acknowledged or not cannot be known, so it stays."""
    bench.publish(b"one")
    bench.stage(b"two" * 200, b"three" * 200, b"four" * 200)
    image = left_behind(bench, lambda disk: [disk.survivor()])[0]
    path = bench.segments()[0]
    data = bytearray(image.read_file(path))
    start = data.find(b"three")
    data[start : start + 20] = bytes(20)
    image.put(path, bytes(data))
    bench.reopen(image)

    assert list(bodies(bench)) == [1, 2, 4]
    assert len(bench.recovery.damaged) == 1
    assert bench.recovery.doubtful == bench.recovery.damaged
    assert (bench.recovery.lost, bench.recovery.unwritten) == ([], [(3, 3)])
    assert bench.publish(b"new") == [5]


def test_a_hole_in_a_group_whose_end_is_missing_is_torn_and_no_damage(bench: "Bench") -> None:
    """The file ends inside a record: that group never returned, and its holes are no damage."""
    bench.publish(b"one")
    bench.stage(b"two" * 200, b"three" * 200, b"four" * 200)
    image = left_behind(bench, lambda disk: [disk.survivor()])[0]
    path = bench.segments()[0]
    data = bytearray(image.read_file(path))
    start = data.find(b"two")
    data[start : start + 20] = bytes(20)
    image.put(path, bytes(data[:-100]))
    bench.reopen(image)

    assert list(bodies(bench)) == [1, 3]
    assert (bench.recovery.damaged, bench.recovery.lost) == ([], [])
    assert bench.recovery.torn_bytes > 100
    assert bench.publish(b"new") == [5]
    bench.reopen()
    # The hole is still there. The mark after it says what it is.
    assert list(bodies(bench)) == [1, 3, 5]
    assert bench.recovery.damaged == []
    assert bench.recovery.torn_bytes > 100


def test_damage_before_a_torn_group_is_not_taken_for_a_part_of_it(bench: "Bench") -> None:
    """Rot in the last acknowledged group, then a power failure: the torn group's head tells."""
    bench.publish(b"one")
    bench.publish(b"two", b"three")
    bench.stage(b"four" * 50)
    image = left_behind(bench, SimulatedDisk.prefixes)[150]
    path = bench.segments()[0]
    image.flip(path, image.read_file(path).find(b"two") * 8)
    bench.reopen(image)

    assert bodies(bench) == {1: b"one", 3: b"three"}
    assert len(bench.recovery.damaged) == 1
    assert bench.recovery.doubtful == []
    assert bench.recovery.lost == [(2, 2)]
    assert bench.recovery.torn_bytes == 150
    bench.publish(b"new")
    bench.reopen()
    # By then the mark comes after both, and says only of the last one that it was torn.
    assert len(bench.recovery.damaged) == 1
    assert bench.recovery.doubtful == []


def test_a_torn_tail_is_cut_and_leaves_only_a_skip(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(b"x" * 5000)
    image = left_behind(bench, SimulatedDisk.prefixes)[4000]
    size = bench.disk.paths()[bench.segments()[0]] - 5000 - OVERHEAD - 3
    bench.reopen(image)

    assert bench.disk.paths()[bench.segments()[0]] == size + OVERHEAD + 40


def test_garbage_after_the_last_record_stays_and_is_reported_once_more(bench: "Bench") -> None:
    """It may have been acknowledged: no one can know, so no one throws it away."""
    bench.publish(b"one")
    stop(bench)
    append(bench, b"\xaa" * 300)
    for _ in range(3):
        bench.reopen(bench.disk)

        assert bodies(bench)[1] == b"one"
        assert [length for _, length in bench.recovery.damaged] == [300]
        assert bench.recovery.doubtful == bench.recovery.damaged
        # As many sequences as can have been in there are used up.
        assert (bench.recovery.lost, bench.recovery.unwritten) == ([], [(2, 7)])
        assert bench.log.quarantine.lost == []
        bench.publish(b"new")
        stop(bench)


def test_a_tail_whose_cutting_was_interrupted_is_still_torn(bench: "Bench") -> None:
    """The mark that recovery wrote over the tail says how long the file was."""
    bench.publish(b"one")
    bench.stage(b"x" * 1000)
    bench.disk = left_behind(bench, SimulatedDisk.prefixes)[700]
    found: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "truncate":
            found.append(bench.disk.survivor())

    bench.disk.before_step = look
    bench.reopen(bench.disk)
    (interrupted,) = found
    bench.reopen(interrupted)

    assert bodies(bench) == {1: b"one"}
    assert bench.recovery.damaged == []
    assert bench.recovery.torn_bytes > 0
    assert bench.publish(b"new") == [3]


def test_the_first_sequences_of_a_torn_group_are_known_by_their_frames(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(*[b"x" * 100] * 6)
    image = left_behind(bench, SimulatedDisk.prefixes)[600]
    path = bench.segments()[0]
    data = bytearray(image.read_file(path))
    # The first record of the group is lost, heads after it name sequences up to 5.
    for _ in range(4):
        data[data.rfind(b"x" * 90)] ^= 1
    image.put(path, bytes(data))
    bench.reopen(image)

    assert bench.publish(b"new")[0] >= 6


def test_a_flipped_sequence_does_not_carry_the_stream_away(bench: "Bench") -> None:
    """The frame word covers the low half of the sequence; the high half is not believed."""
    bench.publish(b"one", b"two")
    stop(bench)
    path = bench.segments()[0]
    data = bench.disk.read_file(path)
    last = data.rfind(b"JSR1")
    whole = bench.disk
    for bit in range(32, 64):
        image = whole.survivor()
        image.flip(path, (last + 8) * 8 + bit)
        bench.reopen(image)

        assert bench.publish(b"new") == [3]


# Damage -----------------------------------------------------------------------------------------


def test_damage_before_the_last_group_is_certain(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.publish(b"two")
    bench.publish(b"three")
    stop(bench)
    path = bench.segments()[0]
    bench.disk.flip(path, bench.disk.read_file(path).find(b"two") * 8)
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one", 3: b"three"}
    assert len(bench.recovery.damaged) == 1
    assert bench.recovery.doubtful == []
    assert bench.recovery.lost == [(2, 2)]
    assert bench.publish(b"four") == [4]


def test_damage_to_the_last_acknowledged_record_is_reported(bench: "Bench") -> None:
    """The stop wrote down what was stored. Its bytes stay, its sequence is not reused."""
    bench.publish(b"one")
    bench.publish(b"two")
    stop(bench)
    path = bench.segments()[0]
    bench.disk.flip(path, bench.disk.read_file(path).find(b"two") * 8)
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one"}
    assert [length for _, length in bench.recovery.damaged] == [OVERHEAD + 6]
    assert bench.recovery.doubtful == []
    assert bench.recovery.lost == bench.log.quarantine.lost == [(2, 2)]
    assert b"JSR1" in bench.disk.read_file(path)
    assert bench.publish(b"three") == [3]
    # The bit flips back: the record is whole again, and that is seen at the next start.
    stop(bench)
    bench.disk.flip(path, bench.disk.read_file(path).find(b"uwo") * 8)
    bench.reopen(bench.disk)
    assert bodies(bench) == {1: b"one", 2: b"two", 3: b"three"}


def test_each_message_has_its_subject_again_around_damage(bench: "Bench") -> None:
    """Subjects are looked up for many records at a time, before the records are verified."""
    bench.segment_size = 1_000_000
    bench.reopen()
    subjects = [b"s.%d" % (n * 7 % 900) for n in range(2_000)]
    for subject in subjects:
        bench.stage(b"body", subject=subject)
    bench.write()
    bench.log.commit()
    bench.publish(b"end", subject=b"s.end")
    stop(bench)
    path = bench.segments()[0]
    data = bench.disk.read_file(path)
    damaged = {3, 700, 701, 1_500}
    at = data.index(b"JSR1")
    for seq in range(1, len(subjects) + 1):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        if seq in damaged:
            bench.disk.flip(path, (at + length - 1) * 8)
        at += length
    bench.reopen(bench.disk)

    expected = {seq: subject for seq, subject in enumerate(subjects, 1) if seq not in damaged} | {
        len(subjects) + 1: b"s.end"
    }
    assert {seq: message.subject for seq, message in messages(bench.log).items()} == expected
    for subject in set(expected.values()):
        entry = bench.log.index.known(subject)
        assert entry is not None
        seqs = [seq for seq, found in expected.items() if found == subject]
        assert (entry.first, entry.last, entry.count) == (seqs[0], seqs[-1], len(seqs))


def test_damage_at_the_end_of_an_older_segment_is_certain(bench: "Bench") -> None:
    """A segment is followed by another only when all of it is on disk."""
    for number in range(10):
        bench.publish(bytes([65 + number]) * 2000)
    first = bench.segments()[0]
    stop(bench)
    bench.disk.flip(first, (bench.disk.paths()[first] - 20) * 8)
    bench.reopen(bench.disk)

    assert len(bodies(bench)) == 9
    assert len(bench.recovery.damaged) == 1
    assert bench.recovery.doubtful == []
    (lost,) = bench.recovery.lost
    assert lost[0] == lost[1]


def test_a_missing_segment_is_reported(bench: "Bench") -> None:
    for number in range(15):
        bench.publish(bytes([65 + number]) * 2000)
    _, second, third = bench.segments()[:3]
    stop(bench)
    bench.disk.remove(second)
    bench.reopen(bench.disk)

    assert bench.recovery.lost == [(int(second.name[:20]), int(third.name[:20]) - 1)]
    assert len(bodies(bench)) == 15 - (bench.recovery.lost[0][1] - bench.recovery.lost[0][0] + 1)
    assert bench.publish(b"new") == [16]


def test_a_new_segment_remembers_where_the_old_one_ended(bench: "Bench") -> None:
    """Its name says so: what damage took at the end of the old one is not used again."""
    bench.publish(b"one", b"two")
    bench.log.roll()
    old = bench.segments()[0]
    stop(bench)
    bench.disk.flip(old, (bench.disk.paths()[old] - 1) * 8)
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one"}
    assert bench.recovery.lost == [(2, 2)]
    assert bench.publish(b"new") == [3]


def test_a_copy_of_a_segment_is_not_believed(bench: "Bench") -> None:
    """Someone restored a file next to itself: every message is served once, from one of them."""
    bench.publish(b"one", b"two")
    path = bench.segments()[0]
    stop(bench)
    copy = path.with_name("00000000000000000001-00000000000000000099.seg")
    bench.disk.put(copy, bench.disk.read_file(path))
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one", 2: b"two"}
    (damage,) = bench.log.quarantine.known.values()
    assert damage.reason == "the folder contains a copy of a segment"
    assert copy.with_name(copy.name + ".foreign") in bench.disk.paths(), "nothing is thrown away"
    seq = bench.publish(b"new")[0]
    bench.reopen()
    assert bodies(bench) == {1: b"one", 2: b"two", seq: b"new"}


def test_a_record_out_of_order_is_not_believed(bench: "Bench") -> None:
    """A stale sector, or a copy inside a payload: it checks, but it is not of this place."""
    bench.publish(b"one", b"two", b"three")
    stop(bench)
    append(bench, record(2, body=b"old"))
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one", 2: b"two", 3: b"three"}
    assert len(bench.recovery.damaged) == 1
    assert bench.publish(b"four")[0] >= 4


def test_a_copy_of_the_log_inside_a_damaged_message_stays_a_payload(bench: "Bench") -> None:
    bench.publish(b"one", b"two")
    path = bench.segments()[0]
    bench.publish(b"backup:" + bench.disk.read_file(path))
    bench.publish(b"three")
    stop(bench)
    bench.disk.flip(path, bench.disk.read_file(path).find(b"backup:") * 8)
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one", 2: b"two", 4: b"three"}
    assert bench.recovery.lost == [(3, 3)]


def test_the_rest_of_a_write_is_no_loss_and_never_becomes_one(bench: "Bench") -> None:
    """After a power failure bytes in the last group do not check: perhaps nothing was lost."""
    bench.publish(b"one")
    bench.publish(b"two", b"three")
    bench.disk = bench.disk.survivor()
    path = bench.segments()[0]
    bench.disk.flip(path, bench.disk.read_file(path).find(b"two") * 8)
    for _ in range(3):
        bench.reopen(bench.disk)
        while bench.log.maintain():
            pass

        assert bench.recovery.doubtful == bench.recovery.damaged != []
        assert bench.log.quarantine.lost == []
        assert (bench.log.quarantine.lost_messages, bench.log.quarantine.lost_bytes) == (0, 0)
        assert bench.log.quarantine.doubtful_bytes > 0
        bench.publish(b"new")
        stop(bench)


def test_a_copy_of_the_log_in_a_damaged_last_message_proves_nothing(bench: "Bench") -> None:
    """Frames inside the message are not the log's: it is doubtful, not torn."""
    bench.publish(b"one", b"two")
    path = bench.segments()[0]
    bench.publish(b"backup:" + bench.disk.read_file(path)[:-12])
    bench.disk = bench.disk.survivor()
    bench.disk.flip(path, bench.disk.read_file(path).find(b"backup:") * 8)
    bench.reopen(bench.disk)

    assert len(bench.recovery.doubtful) == 1
    assert bench.recovery.torn_bytes == 0


def test_positions_are_not_used_twice_after_damage(bench: "Bench") -> None:
    """A segment is named after its position: the same name twice would be a clash."""
    for number in range(6):
        bench.publish(b"%d" % number)
    position = bench.log.index.position
    stop(bench)
    path = bench.segments()[0]
    bench.disk.flip(path, bench.disk.read_file(path).find(b"JSR1") * 8)
    bench.reopen(bench.disk)

    assert bench.log.index.position >= position


def test_the_position_of_a_segment_is_believed(bench: "Bench") -> None:
    for number in range(10):
        bench.publish(bytes([65 + number]) * 2000)
    first = bench.segments()[0]
    stop(bench)
    bench.disk.remove(first)
    bench.reopen(bench.disk)

    assert bench.log.index.position == 10
    assert bench.log.index.first_seq == int(bench.segments()[0].name[:20])


# Heads ------------------------------------------------------------------------------------------


def test_a_damaged_head_costs_nothing_but_itself(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.publish(b"two")
    stop(bench)
    path = bench.segments()[0]
    bench.disk.flip(path, 5 * 8)
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one", 2: b"two"}
    assert bench.recovery.damaged[0][0] == 0
    assert bench.publish(b"three") == [3]


@pytest.mark.parametrize("size", [0, 1, 100, 10_000])
def test_a_segment_without_a_head_and_records_is_usable(bench: "Bench", size: int) -> None:
    """What a file system without our order of writes may leave; or damage to an empty segment."""
    path = bench.segments()[0]
    stop(bench)
    bench.disk.put(path, bench.disk.read_file(path)[:size][:-1] + b"\xff" * min(1, size))
    bench.reopen(bench.disk)

    assert bench.log.index.messages == 0
    assert bench.publish(b"one")[0] >= 1
    assert list(bodies(bench).values()) == [b"one"]
    bench.reopen()
    assert list(bodies(bench).values()) == [b"one"]
    assert bench.recovery.damaged == []


def test_a_head_that_cannot_be_renewed_makes_the_stream_read_only(bench: "Bench") -> None:
    path = bench.segments()[0]
    stop(bench)
    bench.disk.flip(path, 8)
    disk = bench.disk
    writes: list[Operation] = []

    def look(operation: Operation) -> None:
        if operation.kind == "write" and operation.path == str(path):
            writes.append(operation)
            if len(writes) == 2:  # the first one proves what exists
                disk.before_step = None
                disk.fail(0, errno.ENOSPC)

    disk.before_step = look
    bench.reopen(disk)

    assert bench.log.access.read_only
    assert "read-only" in bench.recovery.notes[1]


def test_a_stream_whose_segments_are_lost_starts_again(bench: "Bench") -> None:
    bench.publish(b"one")
    path = bench.segments()[0]
    stop(bench)
    bench.disk.remove(path)
    bench.reopen(bench.disk)

    assert "no segment file" in bench.recovery.notes[1]
    assert bench.recovery.lost == [(1, 1)]
    assert bench.publish(b"new")[0] > 1, "no sequence is used twice"


# Metadata ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.a", "manifest.b"])
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_lost_manifest_is_written_again(bench: "Bench", name: str, how: str) -> None:
    bench.publish(b"one")
    path = bench.log.segments.folder / name
    stop(bench)
    if how == "damaged":
        bench.disk.flip(path, 70)
    else:
        bench.disk.remove(path)
    bench.reopen(bench.disk)

    assert bench.recovery.notes == [f"{name} was missing or damaged; it was written again"]
    assert bodies(bench) == {1: b"one"}
    bench.reopen()
    assert bench.recovery.notes == []


def test_without_manifests_a_segment_says_which_stream_this_is(bench: "Bench") -> None:
    """Never drop a stream because metadata is damaged."""
    bench.publish(b"one")
    identity = bench.log.identity
    stop(bench)
    bench.disk.flip(bench.log.segments.folder / "manifest.a", 3)
    bench.disk.put(bench.log.segments.folder / "manifest.b", b"")
    bench.reopen(bench.disk)

    assert bench.log.identity == identity
    assert bodies(bench) == {1: b"one"}
    lost, *written = bench.recovery.notes
    assert "it is unknown whether messages after 1 are" in lost
    assert len(written) == 2
    while bench.log.maintain():
        pass
    stop(bench)
    bench.reopen(bench.disk)
    assert bench.recovery.notes == []
    # It is reported wherever a loss is, in later starts too.
    (damage,) = bench.log.quarantine.proven
    assert damage.reason == "a manifest was lost: it is unknown whether messages after 1 were"
    assert bench.log.quarantine.lost == []


@pytest.mark.parametrize("lost", ["oldest", "newest"])
def test_a_segment_that_is_lost_with_both_manifests_is_reported(bench: "Bench", lost: str) -> None:
    while len(bench.segments()) < 3:
        bench.publish(bytes(1000))
    files = bench.segments()
    stop(bench)
    folder = bench.log.segments.folder
    for name in ("manifest.a", "manifest.b", files[0] if lost == "oldest" else files[-1]):
        bench.disk.remove(folder / name)
    bench.reopen(bench.disk)

    assert any("it is unknown" in damage.reason for damage in bench.log.quarantine.proven)


def test_an_unknown_folder_is_named(bench: "Bench") -> None:
    folder = bench.log.segments.folder
    stop(bench)
    for name in bench.disk.list_folder(folder):
        bench.disk.put(folder / name, b"garbage")

    with pytest.raises(CorruptRecord, match="the stream cannot be identified; move") as caught:
        bench.reopen(bench.disk)
    assert caught.value.path == str(folder)
    assert bench.disk.open_handles == 0


def test_litter_and_foreign_files_are_no_matter(bench: "Bench") -> None:
    bench.publish(b"one")
    folder = bench.log.segments.folder
    stop(bench)
    bench.disk.put(folder / "manifest.a.tmp", b"half")
    bench.disk.put(folder / "00000000000000000002-00000000000000000002.seg.tmp", b"half")
    bench.disk.put(folder / "notes.seg", b"somebody's")
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one"}
    names = bench.disk.list_folder(folder)
    assert [name for name in names if name.endswith(".tmp")] == []
    assert "notes.seg" in names


# What this version does not know ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("strange", "words"),
    [
        (record(2, kind=10), "record kind 10 is unknown"),
        (record(0, kind=77), "record kind 77 is unknown"),
        (record(2, flags=32), "record flags 32 are unknown"),
        (record(2, key=5), r"encryption \(key 5\) is unknown"),
    ],
    ids=["kind", "later kind", "later flag", "encrypted"],
)
def test_what_another_version_wrote_is_refused_and_never_skipped(
    bench: "Bench", strange: bytes, words: str
) -> None:
    """An unknown kind with a valid check is an error, never skipped."""
    bench.publish(b"one")
    stop(bench)
    append(bench, strange)

    with pytest.raises(UnknownRecordKind, match=f"{words} to this version.*that wrote it"):
        bench.reopen(bench.disk)
    assert bench.disk.open_handles == 0


def test_bytes_of_another_stream_are_damage(bench: "Bench") -> None:
    bench.publish(b"one")
    stop(bench)
    append(bench, record(2, flags=int(GROUP_FIRST), stream_id=STREAM_ID + 1))
    bench.reopen(bench.disk)

    assert bodies(bench) == {1: b"one"}
    assert len(bench.recovery.damaged) == 1


# Disks that fail meanwhile ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["no space", "error"])
@pytest.mark.parametrize("tail", [b"JSR1", b"\xaa" * 300], ids=["torn", "doubtful"])
def test_a_mark_that_cannot_be_written_does_not_stop_the_start(
    bench: "Bench", tail: bytes, error: int
) -> None:
    bench.publish(b"one")
    stop(bench)
    append(bench, tail)
    disk = bench.disk
    writes: list[Operation] = []

    def look(operation: Operation) -> None:
        if operation.kind == "write" and operation.path.endswith(".seg"):
            writes.append(operation)
            if len(writes) == 2:  # the first one proves the last group
                disk.before_step = None
                disk.fail(0, error)

    disk.before_step = look
    bench.reopen(disk)

    assert bodies(bench) == {1: b"one"}
    assert "could not be recorded" in bench.recovery.notes[0]
    assert bench.log.access.read_only == (error != errno.ENOSPC)
    if error == errno.ENOSPC:
        seq = bench.publish(b"new")[0]
        assert seq > 2
        bench.reopen()
        assert bodies(bench) == {1: b"one", seq: b"new"}


@pytest.mark.parametrize(("kind", "served"), [("sync", [1]), ("truncate", [1, 2])])
def test_a_newest_segment_that_cannot_be_made_durable_is_read_only(
    bench: "Bench", kind: str, served: list[int]
) -> None:
    """What the disk does not take once more is not served until it does."""
    bench.publish(b"one")
    bench.publish(b"two")
    stop(bench)
    path = append(bench, record(3, body=b"x" * 500)[:300])
    disk = bench.disk

    def look(operation: Operation) -> None:
        if operation.kind == kind and operation.path == str(path):
            disk.before_step = None
            disk.fail(0, errno.EIO)

    disk.before_step = look
    bench.reopen(disk)

    assert bench.log.access.read_only
    assert "the stream is read-only" in bench.recovery.notes[0]
    assert list(bodies(bench)) == served
    bench.reopen()
    assert bodies(bench) == {1: b"one", 2: b"two"}
    assert bench.publish(b"three") > [3]


def test_a_kill_does_not_show_what_a_power_failure_can_lose(bench: "Bench") -> None:
    """What a killed process left unsynced is synced first."""
    bench.publish(b"one")
    bench.stage(b"two")
    killed = left_behind(bench, lambda disk: [disk.survivor()])[0]
    bench.reopen(killed)

    assert bodies(bench) == {1: b"one", 2: b"two"}
    for seed in range(20):
        bench.reopen(killed.image(Random(seed)))
        assert bodies(bench) == {1: b"one", 2: b"two"}


def test_a_recovery_says_how_much_it_read(bench: "Bench") -> None:
    bench.publish(b"one", b"two")
    size = sum(bench.disk.paths()[path] for path in bench.segments())
    bench.reopen()

    assert (bench.recovery.records, bench.recovery.bytes_read) == (2, size)


def test_a_skip_survives_a_start(bench: "Bench") -> None:
    bench.publish(b"one")
    stop(bench)
    writer = BytesWriter()
    body = struct.pack("<qq", 2, 40) + b"\r\n"
    Codec(STREAM_ID).encode(writer, 0, 1, SKIP, GROUP_FIRST, b"", 0, body)
    append(bench, writer.getvalue())
    bench.reopen(bench.disk)

    assert bench.log.index.last_seq == 40
    assert bench.publish(b"new") == [41]
