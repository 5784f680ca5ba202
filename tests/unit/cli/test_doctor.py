"""`jetspark doctor`: check, repair, export, refusals."""

import base64
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jetspark.cli.doctor.command import doctor
from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.store import FileStore

BODY = bytes(range(200))
HEADERS = b"NATS/1.0\r\nA: b\r\nA: c\r\n\r\n"


# A device that is always full.
FULL = Path("/dev/full")


class Store:
    """A store on disk with two streams."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = OsFiles()
        store = FileStore(self.files, folder, segment_size=4000, cache_budget=0, reserve_size=4096)
        store.open(lambda *_: None)
        for number, name in ((1, "ORDERS"), (2, "OTHER")):
            identity = Identity(stream_id=number, account="A", name=name, created_ns=1)
            log = store.create(identity)
            for n in range(40):
                headers = HEADERS if n == 3 else b""
                tail = headers + BODY + b"\r\n"
                log.staged.add_message(b"orders.%d" % n, len(headers), tail, 10**18 + n)
                self.commit(log)
            while log.maintain():
                pass
            log.close()
        store.close()
        self.stream = next(path for path in folder.glob("acct-*/stream-*1"))

    def commit(self, log: StreamLog) -> None:
        group = log.take_group()
        assert group is not None
        self.files.write_synced(int(group.handle), [group.blob], int(group.offset))
        log.commit()

    def flip(self, path: Path, byte: int) -> None:
        content = bytearray(path.read_bytes())
        content[byte] ^= 1
        path.write_bytes(content)

    def damage(self) -> int:
        """Flip a bit inside the body of a message; its sequence."""
        path = sorted(self.stream.glob("*.seg"))[1]
        self.flip(path, path.read_bytes().find(BODY) + 5)
        return int(path.name[:20])

    def content(self) -> dict[str, bytes]:
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in paths}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(doctor, [str(word) for word in words])


def found(*words: str | Path) -> dict[str, object]:
    result = run(*words, "--json")
    streams = {stream["name"]: stream for stream in json.loads(result.stdout)["streams"]}
    assert set(streams) == {"ORDERS", "OTHER"}
    assert isinstance(streams["ORDERS"], dict)
    return streams["ORDERS"]


def test_a_healthy_store_is_reported_as_healthy_and_not_changed(store: Store) -> None:
    before = store.content()
    result = run(store.folder)

    assert result.exit_code == 0, result.output
    assert "Healthy" in result.output
    assert "ORDERS" in result.output
    assert store.content() == before


@pytest.mark.parametrize("messages", [0, 1])
def test_a_stream_that_was_just_created_is_healthy(tmp_path: Path, messages: int) -> None:
    """It has no manifests yet."""
    files, folder = OsFiles(), tmp_path / "stopped"
    store = FileStore(files, folder)
    store.open(lambda *_: None)
    log = store.create(Identity(stream_id=1, account="A", name="NEW", created_ns=1))
    for n in range(messages):
        log.staged.add_message(b"new", 0, b"x\r\n", 10**18 + n)
        group = log.take_group()
        assert group is not None
        files.write_synced(int(group.handle), [group.blob], int(group.offset))
        log.commit()
    # As a kill leaves it.
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    log.close()
    store.close()

    for each in (folder, killed):
        result = run("check", each)
        assert result.exit_code == 0, result.output
        assert "Healthy" in result.output


def test_json_says_what_the_table_says(store: Store) -> None:
    stream = found("check", store.folder)

    assert (stream["messages"], stream["first_seq"], stream["last_seq"]) == (40, 1, 40)
    assert stream["healthy"] is True
    assert int(str(stream["disk_bytes"])) == sum(
        path.stat().st_size for path in store.stream.glob("*.seg")
    )


def test_damage_that_a_start_would_not_see_is_found_and_nothing_is_changed(store: Store) -> None:
    """Condensed segments are read by their index alone; the doctor reads every record."""
    seq = store.damage()
    before = store.content()
    result = run("check", store.folder)

    assert result.exit_code == 1
    assert f"message {seq}" in result.output
    assert "jetspark doctor repair" in result.output
    assert store.content() == before


def test_repair_copies_damage_aside_and_the_next_check_finds_nothing_new(store: Store) -> None:
    seq = store.damage()
    repaired = run("repair", store.folder)
    again = found("check", store.folder)

    assert repaired.exit_code == 1
    assert len(list(store.stream.glob("quarantine/*.bin"))) == 1
    assert again["healthy"] is True
    assert (again["messages"], again["lost_messages"]) == (39, 1)
    assert [d["first_seq"] for d in again["damage"]] == [seq]  # type: ignore[attr-defined]
    for command in ("repair", "check"):
        result = run(command, store.folder)
        assert result.exit_code == 0
        assert "Healthy" not in result.output
        assert "Damaged: ORDERS; messages lost: at most 1" in result.output
    document = json.loads(run("check", store.folder, "--json").stdout)
    assert (document["known_damage"], document["lost_messages"]) == (1, 1)


def test_a_segment_that_was_lost_is_in_every_later_report(store: Store) -> None:
    """A start has noticed it, and nothing exists to be copied aside."""
    path = sorted(store.stream.glob("*.seg"))[1]
    lost = int(sorted(store.stream.glob("*.seg"))[2].name[:20]) - int(path.name[:20])
    path.unlink()
    run("repair", store.folder)
    result = run("check", store.folder)
    document = json.loads(run("check", store.folder, "--json").stdout)

    assert result.exit_code == 0, result.output
    assert f"messages lost: at most {lost}" in result.output
    assert "Healthy" not in result.output
    assert document["lost_messages"] == lost


def test_what_was_lost_with_both_manifests_is_unknown_and_not_none(store: Store) -> None:
    """How many messages followed the last one that was found cannot be counted."""
    for name in ("manifest.a", "manifest.b"):
        (store.stream / name).unlink()
    before = store.content()
    first = run("check", store.folder)
    unchanged = store.content() == before
    run("repair", store.folder)
    later = run("check", store.folder)
    document = json.loads(run("check", store.folder, "--json").stdout)

    for result in (first, later):
        assert "what was lost is unknown" in result.output
        assert "no messages lost" not in result.output
    assert unchanged
    assert document["uncounted_places"] > 0


def test_a_check_says_that_nothing_was_changed(store: Store) -> None:
    """The notes are those of a start, which wrote into an overlay."""
    (store.stream / "manifest.a").unlink()
    result = run("check", store.folder)

    assert "it was written again" in result.output
    assert "nothing was changed" in result.output
    assert not (store.stream / "manifest.a").exists()


@pytest.mark.parametrize("name", ["manifest.a", "manifest.b", "STORE"])
def test_metadata_is_written_again(store: Store, name: str) -> None:
    path = store.folder / name if name == "STORE" else store.stream / name
    content = path.read_bytes()
    store.flip(path, 20)

    repaired = run("repair", store.folder)

    assert repaired.exit_code == 0, repaired.output
    assert run("check", store.folder).exit_code == 0
    assert len(path.read_bytes()) == len(content)


def test_an_index_file_is_rebuilt(store: Store) -> None:
    path = min(store.stream.glob("*.idx"))
    content = path.read_bytes()
    store.flip(path, 200)

    assert run("check", store.folder).exit_code == 1
    assert run("repair", store.folder).exit_code == 0
    assert path.read_bytes() == content
    assert run("check", store.folder).exit_code == 0


def test_no_good_record_is_lost_by_a_repair(store: Store, tmp_path: Path) -> None:
    seq = store.damage()
    for path in store.stream.glob("manifest.*"):
        store.flip(path, 30)
    run("repair", store.folder)
    out = tmp_path / "out.ndjson"
    run("export", store.folder, "--stream", "ORDERS", "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]

    assert [line["seq"] for line in lines if "seq" in line] == [
        n for n in range(1, 41) if n != seq
    ]


def test_export_writes_messages_and_what_could_not_be_read(store: Store, tmp_path: Path) -> None:
    seq = store.damage()
    out = tmp_path / "out.ndjson"
    before = store.content()
    result = run("export", store.folder, "--stream", "ORDERS", "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    (unreadable,) = [line["unreadable"] for line in lines if "unreadable" in line]

    assert result.exit_code == 1
    assert "39 messages of ORDERS written, 1 could not be read" in result.stderr
    assert lines[3] == {
        "seq": 4,
        "time": "2001-09-09T01:46:40.000000003Z",
        "subject": "orders.3",
        "headers": {"A": ["b", "c"]},
        "data": base64.b64encode(BODY).decode(),
    }
    assert (unreadable["first_seq"], unreadable["last_seq"]) == (seq, seq)
    assert store.content() == before


def test_export_to_the_standard_output(store: Store) -> None:
    result = run("export", store.folder, "--stream", "OTHER", "--out", "-")

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 40


def test_export_refuses_to_overwrite(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "there"
    out.write_text("precious")
    result = run("export", store.folder, "--stream", "ORDERS", "--out", out)

    assert result.exit_code == 2
    assert "already exists: choose another name" in result.stderr
    assert out.read_text() == "precious"


def test_export_of_an_unknown_stream_says_which_there_are(store: Store, tmp_path: Path) -> None:
    result = run("export", store.folder, "--stream", "NONE", "--out", tmp_path / "x")

    assert result.exit_code == 2
    assert "stream NONE does not exist in this store; existing: ORDERS, OTHER" in result.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("| true", 141, ""),
        pytest.param(
            "> /dev/full", 2, "No space left on device",
            marks=pytest.mark.skipif(not FULL.is_char_device(), reason="no /dev/full here"),
        ),
    ],
)  # fmt: skip
def test_an_output_that_takes_no_more_is_no_traceback(
    store: Store, target: str, code: int, told: str
) -> None:
    export = f"{sys.executable} -m jetspark doctor export {store.folder} --stream ORDERS --out -"
    done = subprocess.run(
        ["bash", "-c", f"{export} {target}; exit ${{PIPESTATUS[0]}}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.returncode == code
    assert len(done.stderr.splitlines()) == (1 if told else 0), done.stderr
    assert told in done.stderr


def test_a_store_in_use_is_refused(store: Store) -> None:
    server = FileStore(OsFiles(), store.folder)
    logs = server.open(lambda *_: None)
    results = [run(word, store.folder) for word in ("check", "repair")]
    for log in logs:
        log.close()
    server.close()

    for result in results:
        assert result.exit_code == 2
        assert "is in use by a jetspark server: stop it first" in result.stderr


def test_a_stream_that_cannot_be_opened_does_not_hide_the_others(store: Store) -> None:
    for path in store.stream.iterdir():
        path.write_bytes(bytes(len(path.read_bytes())))
    result = run("check", store.folder)

    assert result.exit_code == 2
    assert "OTHER" in result.output
    assert "the stream cannot be identified" in " ".join(result.output.split())


def test_names_are_whole_on_a_narrow_screen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = run("check", store.folder)

    assert result.exit_code == 0
    assert "ORDERS: " in result.output
    assert "OTHER: " in result.output
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.output


def test_an_empty_store_is_healthy(tmp_path: Path) -> None:
    store = FileStore(OsFiles(), tmp_path / "empty")
    store.open(lambda *_: None)
    store.close()
    result = run(tmp_path / "empty")

    assert result.exit_code == 0
    assert "No streams" in result.output


@pytest.mark.parametrize("word", ["check", "repair"])
def test_what_is_no_store_is_refused_with_a_reason(tmp_path: Path, word: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "nats" / "jetstream" / "$G" / "streams").mkdir(parents=True)
    reasons = {
        "nowhere": "does not exist",
        "file": "is a file; expected a folder",
        "folder": "is not a jetspark store: it contains no file STORE",
        "nats": "contains a nats-server store",
    }
    for name, reason in reasons.items():
        result = run(word, tmp_path / name)

        assert result.exit_code == 2
        assert reason in result.stderr
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_refused(store: Store) -> None:
    store.folder.chmod(0)
    result = run(store.folder)
    store.folder.chmod(0o700)

    assert result.exit_code == 2
    assert "no permission" in result.stderr


def test_a_store_on_a_read_only_mount_is_checked_and_exported(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root writes everywhere, so the refusal comes from the call that opens files."""
    seq = store.damage()
    opened = os.open

    def refuse(
        path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) and store.folder in Path(path).parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    checked = run("check", store.folder)
    exported = run("export", store.folder, "--stream", "OTHER", "--out", tmp_path / "out")

    assert checked.exit_code == 1
    assert f"message {seq}" in checked.stdout
    assert exported.exit_code == 0
    assert len((tmp_path / "out").read_bytes().splitlines()) >= 40


def test_a_lack_of_permission_is_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root nothing is forbidden, so the refusal comes from the file layer."""

    def refuse(_self: OsFiles, path: Path) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(OsFiles, "lock", refuse)
    result = run(store.folder)

    assert result.exit_code == 2
    assert "no permission; run this as the user that owns the store" in result.stderr


@pytest.mark.parametrize(
    "words", [["--help"], ["check", "-h"], ["repair", "-h"], ["export", "-h"]]
)
def test_help_teaches_by_example(words: list[str]) -> None:
    result = run(*words)

    assert result.exit_code == 0
    assert "jetspark doctor" in result.output
    assert "Example" in result.output


def test_a_second_folder_of_a_stream_is_named_and_can_be_exported(store: Store) -> None:
    """Nothing was said about it, and what was said about one was said about both."""
    copy = store.stream.with_name("stream-copy")
    shutil.copytree(store.stream, copy)
    store.damage()
    result = run("check", store.folder)
    told = " ".join(result.output.split())
    exported = run(
        "export", store.folder, "--stream", "ORDERS", "--folder", "stream-copy", "--out", "-"
    )
    served = run("export", store.folder, "--stream", "ORDERS", "--out", "-")

    assert result.exit_code == 1
    assert f"{copy} is a second folder of this stream; a server serves {store.stream}" in told
    assert "--folder stream-copy" in told
    assert exported.exit_code == 0
    assert len(exported.stdout.splitlines()) == 40
    assert served.exit_code == 1, "the damaged one is the stream"


def test_a_copy_alone_is_the_stream(store: Store) -> None:
    store.stream.rename(store.stream.with_name("stream-copy"))

    assert run("check", store.folder).exit_code == 0


def test_what_lies_between_the_streams_is_named_and_left_alone(store: Store) -> None:
    note = store.stream.parent / "notes.txt"
    note.write_text("not ours")
    folder = store.folder / "acct-file"
    folder.write_text("not ours")
    result = run("check", store.folder)
    told = json.loads(run("repair", store.folder, "--json").stdout)

    assert result.exit_code == 1
    assert f"{note} is not part of a jetspark store" in "".join(result.output.split("\n"))
    assert told["foreign"] == [str(note), str(folder)]
    assert note.exists()
    assert folder.exists()


def consumer_numbers(folder: Path) -> list[int]:
    store = FileStore(OsFiles(), folder)
    logs = store.open(lambda *_: None)
    numbers = [number for log in logs for number in log.engine_state.consumers]
    for log in logs:
        log.close()
    store.close()
    return numbers


def test_a_consumer_that_cannot_be_served_can_be_dropped(store: Store) -> None:
    """There was no way out: it was reported at every start for ever."""
    opened = FileStore(store.files, store.folder)
    logs = opened.open(lambda *_: None)
    for number, document in ((3, b"not JSON"), (4, b'{"name":"bad","config":7,"created_ns":1}')):
        logs[0].staged.set_consumer(number, document)
        logs[0].staged.set_consumer_state(number, True, b"state")
    store.commit(logs[0])
    for log in logs:
        log.close()
    opened.close()
    before = run("check", store.folder)
    unknown = run("drop-consumer", store.folder, "--stream", "ORDERS", "--consumer", "nobody")
    unclear = run("drop-consumer", store.folder, "--stream", "ORDERS")
    by_number = run("drop-consumer", store.folder, "--stream", "ORDERS", "--number", "3")
    by_name = run("drop-consumer", store.folder, "--stream", "ORDERS", "--consumer", "bad")

    assert before.exit_code == 2
    assert "jetspark doctor drop-consumer" in " ".join(before.output.split())
    assert unknown.exit_code == 2
    assert "consumer nobody does not exist; existing: bad, number 3" in unknown.stderr
    assert unclear.exit_code == 2
    assert (by_number.exit_code, by_name.exit_code) == (0, 0), by_number.output + by_name.output
    kept = [json.loads(path.read_bytes()) for path in sorted(store.stream.glob("quarantine/*"))]
    assert [each["number"] for each in kept] == [3, 4]
    assert base64.b64decode(kept[0]["document"]) == b"not JSON"
    assert consumer_numbers(store.folder) == []
    assert run("check", store.folder).exit_code == 0
