"""The folder of a store: claiming it, making and dropping streams, what crashes leave there."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.support.store.model import ROOT, messages

from jetspark.errors.storage import StoreLocked, StoreReadOnly, WrongStoreFormat
from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.journal.journal import ASIDE
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import JOURNAL_MARK, PLAIN_MARK, FileStore

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def identity(name: str, *, number: int = 5) -> Identity:
    return Identity(stream_id=number, account="A", name=name, created_ns=1)


def ignore(_identity: Identity, _recovery: Recovery) -> None:
    """No one asks what recovery found."""


def started(disk: SimulatedDisk) -> list[str]:
    """Start a store on a disk and stop it; the streams it found."""
    store = FileStore(disk, ROOT)
    logs = store.open(ignore)
    for log in logs:
        assert not log.access.read_only
        log.close()
    store.close()
    assert disk.open_handles == 0
    return [log.identity.name for log in logs]


class CountingDisk(SimulatedDisk):
    """Counts how often a folder is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0

    def list_folder(self, path: Path) -> list[str]:
        self.listed += 1
        return super().list_folder(path)


def start_costs(streams: int) -> tuple[int, int]:
    """How often a start with so many new streams reads a file and lists a folder."""
    disk = CountingDisk()
    store = FileStore(disk, ROOT)
    store.open(ignore)
    for number in range(streams):
        store.create(identity(f"S{number}", number=number + 1)).close()
    store.close()
    reads, listed = disk.read_calls, disk.listed
    assert len(started(disk)) == streams
    return disk.read_calls - reads, disk.listed - listed


def test_a_start_reads_twice_and_lists_once_for_each_new_stream() -> None:
    """With thousands of streams, what is done for each of them is the time of a start."""
    few, many = start_costs(3), start_costs(13)

    assert (many[0] - few[0], many[1] - few[1]) == (2 * 10, 10)


def test_a_file_of_an_absurd_length_costs_no_stream_and_little_memory(tmp_path: Path) -> None:
    """Its length may be damaged, or it is sparse: it is never read whole."""
    store = FileStore(OsFiles(), tmp_path)
    store.open(ignore)
    log = store.create(identity("S"))
    log.close()
    store.close()
    folder = log.segments.folder
    segment = next(folder.glob("*.seg"))
    for name in ("manifest.a", segment.name + ".idx", "scrubbed"):
        path = folder / name
        path.touch()
        os.truncate(path, 1 << 40)

    for _ in range(2):
        logs = store.open(ignore)
        assert [log.identity.name for log in logs] == ["S"]
        assert not logs[0].access.read_only
        logs[0].close()
        store.close()

    assert (folder / "manifest.a").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "name",
    [
        "18446744073709551615-18446744073709551615.seg",
        "09223372036854775808-00000000000000000001.seg",
        "00000000000000000001-99999999999999999999.seg",
        "\u0661" * 20 + "-" + "\u0661" * 20 + ".seg",
    ],
)
def test_a_file_named_like_a_segment_that_no_stream_can_have_is_left_alone(
    tmp_path: Path, name: str
) -> None:
    store = FileStore(OsFiles(), tmp_path)
    store.open(ignore)
    log = store.create(identity("S"))
    log.close()
    store.close()
    other = log.segments.folder / name
    other.write_bytes(b"x")

    for _ in range(2):
        logs = store.open(ignore)
        assert [(log.identity.name, log.index.last_seq) for log in logs] == [("S", 0)]
        assert not logs[0].access.read_only
        logs[0].close()
        store.close()
    assert other.read_bytes() == b"x"


class MistakenFiles(OsFiles):
    """Raises in the folder of one stream what a mistake of ours would raise."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def list_folder(self, path: Path) -> list[str]:
        if path.name == "stream-0000000000000005":
            raise self._error
        return super().list_folder(path)


@pytest.mark.parametrize("openers", [1, 2])
@pytest.mark.parametrize(
    ("error", "said"),
    [(TypeError("i64 object expected"), "i64 object expected"), (MemoryError(), "memory")],
)
def test_whatever_opening_a_stream_raises_the_others_are_opened(
    tmp_path: Path, error: Exception, said: str, openers: int
) -> None:
    store = FileStore(OsFiles(), tmp_path)
    store.open(ignore)
    store.create(identity("BAD")).close()
    store.create(identity("GOOD", number=6)).close()
    store.close()
    reported: list[tuple[str, str]] = []

    store = FileStore(MistakenFiles(error), tmp_path, openers=openers)
    logs = store.open(ignore, lambda folder, why: reported.append((folder.name, str(why))))

    assert [log.identity.name for log in logs] == ["GOOD"]
    assert [name for name, _ in reported] == ["stream-0000000000000005"]
    assert said in reported[0][1]
    assert store.identity_in(tmp_path / "acct" / "stream-0000000000000005") is None
    logs[0].close()
    store.close()


@pytest.mark.parametrize("name", ["0000000000000001.jnl", "kept-0000000000001001.jnl"])
def test_a_folder_in_place_of_a_journal_file_costs_no_stream(tmp_path: Path, name: str) -> None:
    store = FileStore(OsFiles(), tmp_path)
    store.open(ignore)
    store.create(identity("S")).close()
    store.close()
    place = tmp_path / "journal" / name
    (place / "of somebody else").mkdir(parents=True)
    (tmp_path / "STORE").write_bytes(JOURNAL_MARK)

    for notes in ([f"{place} is a folder, not a file of the journal"], []):
        store = FileStore(OsFiles(), tmp_path)
        logs = store.open(ignore)
        assert [log.identity.name for log in logs] == ["S"]
        assert store.journal_notes == notes
        logs[0].close()
        store.close()
    assert place.with_name(f"{name}{ASIDE}").joinpath("of somebody else").is_dir()


# Claiming ---------------------------------------------------------------------------------------


def test_the_mark_is_the_one_of_the_contract() -> None:
    """The first bytes of STORE."""
    disk = SimulatedDisk()
    started(disk)

    assert disk.read_file(ROOT / "STORE").startswith(b"jetspark-store 1\n")


def test_a_store_is_for_one_server(bench: "Bench") -> None:
    with pytest.raises(StoreLocked, match="used by another jetspark server; stop it or choose"):
        bench.new_store(bench.disk).open(ignore)

    bench.log.close()
    bench.store.close()

    assert started(bench.disk) == ["S"]


def test_a_store_is_for_one_process(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from jetspark.store.files import OsFiles\n"
        "from jetspark.store.store import FileStore\n"
        "FileStore(OsFiles(), pathlib.Path(sys.argv[1])).open(lambda *_: None)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        store = FileStore(OsFiles(), tmp_path / "store")
        with pytest.raises(StoreLocked):
            store.open(ignore)
        other.send_signal(signal.SIGKILL)
        other.wait()
    # A killed process holds nothing.
    assert store.open(ignore) == []
    store.close()


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(b"", id="empty"),
        pytest.param(PLAIN_MARK[:17], id="without its check"),
        pytest.param(PLAIN_MARK[:5], id="torn"),
        pytest.param(bytes(40), id="zeros"),
        pytest.param(b"\xff" * 40, id="garbage"),
    ],
)
def test_a_mark_that_was_never_finished_is_finished(found: bytes) -> None:
    disk = SimulatedDisk()
    disk.put(ROOT / "STORE", found)

    assert started(disk) == []
    assert disk.read_file(ROOT / "STORE") == PLAIN_MARK


def test_no_flipped_bit_of_the_mark_costs_the_store(bench: "Bench") -> None:
    """Damage of the mark costs no stream."""
    bench.log.close()
    bench.store.close()
    for bit in range(len(PLAIN_MARK) * 8):
        image = bench.disk.survivor()
        image.flip(ROOT / "STORE", bit)

        assert started(image) == ["S"]
        assert image.read_file(ROOT / "STORE") == PLAIN_MARK


@pytest.mark.parametrize("found", [b"\xa5" * 5000, b"x" * 41], ids=["reserve", "text"])
def test_another_file_in_place_of_the_mark_costs_no_stream(bench: "Bench", found: bytes) -> None:
    bench.log.close()
    bench.store.close()
    bench.disk.put(ROOT / "STORE", found)

    assert started(bench.disk) == ["S"]
    assert bench.disk.read_file(ROOT / "STORE") == PLAIN_MARK


def test_a_longer_mark_of_a_later_version_is_refused(bench: "Bench") -> None:
    bench.log.close()
    bench.store.close()
    found = b"jetspark-store 3\ncheck 0123456789abcdef\nmore: 1\n"
    bench.disk.put(ROOT / "STORE", found)

    with pytest.raises(WrongStoreFormat, match="if you are sure that it is a jetspark store"):
        started(bench.disk)
    assert bench.disk.read_file(ROOT / "STORE") == found


@pytest.mark.parametrize(
    "found",
    [b"jetspark-store 3\n", b"jetspark-store 3\ncheck 0123456789abcdef\n", b"x" * 41],
    ids=["later", "later with a check", "foreign"],
)
def test_another_mark_is_refused(found: bytes) -> None:
    disk = SimulatedDisk()
    disk.put(ROOT / "STORE", found)
    disk.put(ROOT / "acct-1" / "something", b"")

    with pytest.raises(WrongStoreFormat, match="not a jetspark store, or one of another version"):
        started(disk)
    assert disk.read_file(ROOT / "STORE") == found
    assert disk.open_handles == 0


@pytest.mark.parametrize(
    "path",
    ["jetstream/$G/streams/S/meta.inf", "$G/streams/S/meta.inf", "jetstream/$G/tpm"],
    ids=["store_dir", "one folder inside", "without streams"],
)
def test_the_folder_of_a_nats_server_is_refused(path: str) -> None:
    """Refused with a message that says so; and nothing is put there."""
    disk = SimulatedDisk()
    disk.put(ROOT / path, b"{}")
    before = disk.paths()

    with pytest.raises(WrongStoreFormat, match=r"contains a nats-server store, .* another folder"):
        started(disk)
    assert disk.paths() == before


def test_what_is_not_ours_is_left_alone() -> None:
    disk = SimulatedDisk()
    disk.put(ROOT / "README", b"mine")
    disk.put(ROOT / "acct-1" / "README", b"mine")
    started(disk)

    assert disk.read_file(ROOT / "README") == b"mine"
    assert disk.read_file(ROOT / "acct-1" / "README") == b"mine"


# Making and dropping ----------------------------------------------------------------------------


def test_no_name_becomes_a_path(bench: "Bench") -> None:
    """disk-format.md, Folders."""
    bench.store.create(identity("../../etc/passwd"))
    names = " ".join(str(path) for path in bench.disk.paths())

    assert "passwd" not in names
    assert ".." not in names


def test_a_stream_is_found_again_with_its_identity(bench: "Bench") -> None:
    bench.publish(b"one")
    wanted = bench.log.identity
    bench.reopen()

    assert bench.log.identity == wanted
    assert [message.body for message in messages(bench.log).values()] == [b"one"]


def test_a_dropped_stream_no_longer_exists(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.store.drop(bench.log)
    bench.store.close()

    assert list(bench.disk.paths()) == [ROOT / "STORE"]
    assert started(bench.disk) == []


def test_two_streams_may_have_the_same_name_in_two_accounts(bench: "Bench") -> None:
    other = Identity(stream_id=5, account="B", name="S", created_ns=1)
    bench.store.create(other).close()
    bench.log.close()
    bench.store.close()

    assert started(bench.disk) == ["S", "S"]


def cut_short(disk: SimulatedDisk) -> list[tuple[SimulatedDisk, SimulatedDisk]]:
    """Before every step that follows: what a kill leaves, and what a power failure may leave."""
    found: list[tuple[SimulatedDisk, SimulatedDisk]] = []

    def look(operation: Operation) -> None:
        if operation.kind in CHANGING:
            found.extend((disk.survivor(), disk.image(Random(seed))) for seed in range(16))

    disk.before_step = look
    return found


def test_a_stream_is_made_whole_or_not_at_all(bench: "Bench") -> None:
    """A crash at every step of create()."""
    bench.publish(b"one")
    images = cut_short(bench.disk)
    bench.store.create(identity("NEW"))
    bench.disk.before_step = None

    assert len(images) > 100
    for pair in images:
        for image in pair:
            assert started(image) in (["S"], ["NEW", "S"])
            # Whatever it was, the second start finds it settled.
            litter = [path for path in image.paths() if path.parent.name.startswith("new-")]
            assert litter == []
    assert sorted(started(bench.disk.image(Random(1)))) == ["NEW", "S"]


def test_a_stream_is_dropped_whole_or_not_at_all(bench: "Bench") -> None:
    """A crash at every step of drop()."""
    for _ in range(4):
        bench.publish(b"x" * 9000)
    log = bench.store.create(identity("OTHER"))
    images = cut_short(bench.disk)
    bench.store.drop(log)
    bench.store.drop(bench.log)
    bench.disk.before_step = None
    for pair in images:
        for image in pair:
            store = FileStore(image, ROOT)
            for found in store.open(ignore):
                assert found.identity.name == "OTHER" or len(messages(found)) == 4
                found.close()
            store.close()
            assert image.open_handles == 0
            assert not [path for path in image.paths() if "dropped-" in str(path)]
    assert started(bench.disk.image(Random(1))) == []


@pytest.mark.parametrize("step", [1, 2])
def test_a_drop_that_the_disk_refuses_leaves_the_stream_as_it_was(
    bench: "Bench", step: int
) -> None:
    """The rename itself fails, or the sync that would make it durable."""
    bench.publish(b"one")
    folder = bench.log.segments.folder
    bench.disk.fail(step, errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        bench.store.drop(bench.log)

    assert bench.log.segments.folder == folder
    assert bench.publish(b"two", b"x" * 20_000, b"four") == [2, 3, 4]
    bench.reopen()
    assert list(messages(bench.log)) == [1, 2, 3, 4]
    bench.store.drop(bench.log)
    bench.store.close()
    assert started(bench.disk) == []


@pytest.mark.parametrize("ends", ["made again", "made again and dropped", "given up"])
def test_a_stream_whose_creation_was_refused_is_not_there_later(ends: str) -> None:
    """Whatever step fails, and however many of those that would undo it."""
    for step in range(1, 30):
        for times in (1, 2, 3, 100):
            disk = SimulatedDisk()
            store = FileStore(disk, ROOT)
            store.open(ignore)
            store.create(identity("OTHER", number=3)).close()
            disk.fail(step, errno.EIO, times=times)
            try:
                store.create(identity("S", number=9)).close()
            except OSError:
                disk.forget_failures()
            else:
                disk.forget_failures()
                store.close()
                continue
            expected = ["OTHER"]
            if ends != "given up":
                log = store.create(identity("S", number=7))
                if ends == "made again":
                    log.close()
                    expected = ["OTHER", "S"]
                else:
                    store.drop(log)
            store.close()

            assert sorted(started(disk)) == expected, (step, times)


def test_a_stream_created_after_a_refused_one_survives_a_power_failure() -> None:
    """The first stream of an account creates the account's folder."""
    for step in range(1, 20):
        disk = SimulatedDisk()
        store = FileStore(disk, ROOT)
        store.open(ignore)
        disk.fail(step, errno.EIO)
        with suppress(OSError):
            store.create(identity("REFUSED", number=9)).close()
        disk.forget_failures()
        store.create(identity("S", number=7)).close()

        for seed in range(8):
            assert "S" in started(disk.image(Random(seed))), (step, seed)


@pytest.mark.parametrize("times", [2, 3])
def test_a_stream_whose_name_cannot_be_undone_takes_no_writes(bench: "Bench", times: int) -> None:
    """The next start removes it: nothing may be acknowledged that would go with it."""
    bench.publish(b"one")
    bench.disk.fail(2, errno.EIO, times=times)

    with pytest.raises(OSError, match="Input/output"):
        bench.store.drop(bench.log)

    assert list(messages(bench.log)) == [1]
    with pytest.raises(StoreReadOnly):
        bench.stage(b"two")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_stream_whose_removal_was_refused_exists_after_a_stop(
    bench: "Bench", times: int
) -> None:
    """Also when the disk refused to undo its new name, and no one opened it again since."""
    bench.publish(b"one")
    bench.disk.fail(2, errno.EIO, times=times)
    with pytest.raises(OSError, match="Input/output"):
        bench.store.drop(bench.log)
    bench.disk.forget_failures()

    bench.log.close()
    bench.store.close()

    assert started(bench.disk) == ["S"]


def test_a_stream_that_was_removed_at_the_second_attempt_stays_removed(bench: "Bench") -> None:
    """A stop gives a name back to streams whose removal failed, and to no others."""
    bench.publish(b"one")
    bench.disk.fail(2, errno.EIO, times=2)
    with pytest.raises(OSError, match="Input/output"):
        bench.store.drop(bench.log)
    assert bench.log.reopen()
    bench.disk.fail(3, errno.EIO, times=100)  # what is left of it cannot be removed either

    bench.store.drop(bench.log)
    bench.disk.forget_failures()
    bench.store.close()

    assert started(bench.disk) == []


@pytest.mark.parametrize("times", [2, 3])
def test_a_stream_whose_removal_failed_is_opened_again_when_the_disk_works(
    bench: "Bench", times: int
) -> None:
    bench.publish(b"one")
    bench.disk.fail(2, errno.EIO, times=times)
    with pytest.raises(OSError, match="Input/output"):
        bench.store.drop(bench.log)
    bench.disk.fail(1, errno.EIO, times=2)
    assert not bench.log.reopen(), "the disk does not work yet"
    bench.disk.forget_failures()

    assert bench.log.reopen()

    assert bench.publish(b"two") == [2]
    for seed in range(20):
        assert started(bench.disk.image(Random(seed))) == ["S"], "no power cut removes it"
    bench.reopen()
    assert list(messages(bench.log)) == [1, 2]
    bench.store.drop(bench.log)
    bench.store.close()
    assert started(bench.disk) == []


def test_a_roll_that_is_cut_short_loses_nothing(bench: "Bench") -> None:
    """A crash at every step of roll()."""
    bench.publish(b"x" * 9_900)
    bench.stage(b"y" * 200)
    images = cut_short(bench.disk)
    bench.write()
    for pair in images:
        for image in pair:
            bench.reopen(image)
            found = messages(bench.log)
            assert found[1].body == b"x" * 9_900
            assert set(found) <= {1, 2}
            assert bench.recovery.damaged == bench.recovery.doubtful
            assert bench.publish(b"new")[0] >= 2


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["no space", "error"])
def test_a_stream_that_cannot_be_made_leaves_nothing(bench: "Bench", error: int) -> None:
    step = 1
    while True:
        disk = bench.disk.survivor()
        store = FileStore(disk, ROOT)
        logs = store.open(ignore)
        handles = disk.open_handles
        disk.fail(step, error)
        try:
            logs.append(store.create(identity("NEW")))
        except OSError:
            assert disk.failed_steps == 1
        else:
            break
        assert disk.open_handles == handles
        assert not [path for path in disk.paths() if path.parent.name.endswith(f"{5:016x}")]
        # With space again, the same store makes it.
        log = store.create(identity("NEW"))
        for opened in (*logs, log):
            opened.close()
        store.close()
        assert sorted(started(disk)) == ["NEW", "S"]
        step += 1

    assert step >= 9, "there are many steps, and each of them failed once"


def test_a_full_disk_refuses_a_stream_and_keeps_the_others(bench: "Bench") -> None:
    bench.publish(b"one")
    used = sum(bench.disk.paths().values())
    for room in range(0, 400, 20):
        disk = bench.disk.survivor()
        disk.capacity = used + room
        store = FileStore(disk, ROOT)
        (log,) = store.open(ignore)
        with pytest.raises(OSError, match="No space left"):
            store.create(identity("NEW"))
        log.close()
        store.close()

        assert started(disk) == ["S"]
        # Nothing of the new one is left. The manifests of the other may have grown when it closed.
        assert {path.parent.name for path in disk.paths() if path.parent != ROOT} == {
            "stream-abcdef0123456789"
        }
        assert not [path for path in disk.paths() if path.suffix == ".tmp"]


@pytest.mark.parametrize("step", range(4), ids=["list", "file", "folder", "sync"])
def test_litter_that_cannot_be_removed_does_not_stop_a_start(bench: "Bench", step: int) -> None:
    account = bench.log.segments.folder.parent
    bench.log.close()
    bench.store.close()
    bench.disk.put(account / "new-1" / "manifest.a", b"half")
    disk = bench.disk

    def look(operation: Operation) -> None:
        if operation.path.endswith("new-1"):
            disk.before_step = None
            disk.fail(step, errno.EIO)

    disk.before_step = look

    assert started(disk) == ["S"]
    assert disk.failed_steps == 1


# Ending -----------------------------------------------------------------------------------------


def test_a_start_that_fails_gives_everything_back(bench: "Bench") -> None:
    bench.store.create(identity("Z", number=2**64 - 1)).close()
    bench.log.close()
    bench.store.close()
    total = bench.disk.survivor()
    before = total.steps
    started(total)
    failures = 0
    for step in range(1, total.steps - before + 1):
        disk = bench.disk.survivor()
        disk.fail(step, errno.EIO)
        store = FileStore(disk, ROOT)
        try:
            for log in store.open(ignore):
                log.close()
            store.close()
        except OSError:
            failures += 1

        assert disk.open_handles == 0
        assert sorted(started(disk)) == ["S", "Z"]
    assert failures > 5


def test_a_report_that_raises_gives_everything_back(bench: "Bench") -> None:
    bench.log.close()
    bench.store.close()

    def refuse(_identity: Identity, _recovery: Recovery) -> None:
        raise KeyError("nobody listens")

    with pytest.raises(KeyError):
        bench.new_store(bench.disk).open(refuse)
    assert bench.disk.open_handles == 0


def test_a_store_closes_twice_and_opens_again(bench: "Bench") -> None:
    bench.log.close()
    bench.store.close()
    bench.store.close()
    (log,) = bench.store.open(ignore)

    assert log.identity.name == "S"


def test_a_store_on_the_real_file_system_survives_a_kill(tmp_path: Path) -> None:
    """The same code on real files, ended by SIGKILL while it writes."""
    program = (
        "import sys, pathlib\n"
        "from jetspark.store.files import OsFiles\n"
        "from jetspark.store.format.manifest import Identity\n"
        "from jetspark.store.store import FileStore\n"
        "files = OsFiles()\n"
        "store = FileStore(files, pathlib.Path(sys.argv[1]), segment_size=20_000)\n"
        "store.open(lambda *_: None)\n"
        "log = store.create(Identity(stream_id=9, account='A', name='S', created_ns=1))\n"
        "while True:\n"
        "    seq = log.staged.add_message(b'a.b', 0, b'x' * 500 + b'\\r\\n', 1)\n"
        "    group = log.take_group()\n"
        "    files.write_synced(group.handle, [group.blob], group.offset)\n"
        "    log.commit()\n"
        "    print(seq, flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        acked = 0
        while acked < 100:
            acked = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        acked = int(rest[-1]) if rest else acked
    store = FileStore(OsFiles(), tmp_path / "store", segment_size=20_000)
    (log,) = store.open(ignore)
    found = messages(log)
    log.close()
    store.close()

    assert acked <= len(found) <= acked + 1
    assert all(message.body == b"x" * 500 for message in found.values())
