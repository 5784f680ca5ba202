"""Folders of files as objects, and back."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Connect

from jetspark import sync
from jetspark.client.jetstream.objects.folders import file_paths
from jetspark.client.jetstream.objects.info import CHUNK_SIZE
from jetspark.errors import FolderRefused

FILES = {
    "a.txt": b"text",
    "empty": b"",
    "deep/er/large.bin": os.urandom(CHUNK_SIZE * 2 + 17),
    "deep/näme with blanks.csv": b"1,2\n",
}


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_a_folder_comes_back_with_the_same_bytes_and_only_changes_are_copied(
    client: Connect, name: str, tmp_path: Path
) -> None:
    source, target = _write(tmp_path / "in", FILES), tmp_path / "out"
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        await store.put("other", b"not below the prefix")
        steps: list[tuple[int, int]] = []

        put = await store.put_folder(source, "2026/", progress=lambda *told: steps.append(told))
        got = await store.get_folder(target, "2026/")

        assert put.copied == got.copied == tuple(sorted(f"2026/{one}" for one in FILES))
        assert (put.size, put.unchanged) == (sum(map(len, FILES.values())), 0)
        assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert _digests(target) == _digests(source)

        before = {info.name: info.nuid async for info in store.list()}
        _write(source, {"a.txt": b"TEXT"})  # of the same size
        again = await store.put_folder(source, "2026/")
        back = await store.get_folder(target, "2026/")

        assert (again.copied, again.unchanged) == (("2026/a.txt",), 3)
        assert (back.copied, back.unchanged) == (("2026/a.txt",), 3)
        after = {info.name: info.nuid async for info in store.list()}
        assert {one for one in after if after[one] != before[one]} == {"2026/a.txt"}
        assert _digests(target) == _digests(source)


async def test_what_the_other_side_lacks_is_deleted_only_on_request(
    client: Connect, name: str, tmp_path: Path
) -> None:
    source, target = _write(tmp_path / "in", FILES), tmp_path / "out"
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        await store.put("keep", b"not below the prefix")
        await store.put_folder(source, "p/")
        await store.get_folder(target, "p/")
        (source / "deep/er/large.bin").unlink()

        assert (await store.put_folder(source, "p/")).deleted == ()
        dry = await store.put_folder(source, "p/", delete=True, dry_run=True)
        assert dry.deleted == ("p/deep/er/large.bin",)
        assert (await store.info("p/deep/er/large.bin")).size
        assert (await store.put_folder(source, "p/", delete=True)).deleted == dry.deleted
        assert await store.get("keep") == b"not below the prefix"

        assert (await store.get_folder(target, "p/")).deleted == ()
        dry = await store.get_folder(target, "p/", delete=True, dry_run=True)
        assert dry.deleted == ("deep/er/large.bin",)
        assert (target / "deep/er/large.bin").exists()
        assert (await store.get_folder(target, "p/", delete=True)).deleted == dry.deleted
        assert _digests(target) == _digests(source)
        assert not (target / "deep/er").exists()

        # A prefix with a mistake, or an empty folder, deletes nothing.
        with pytest.raises(FolderRefused, match="delete would delete every file"):
            await store.get_folder(target, "q/", delete=True)
        (tmp_path / "none").mkdir()
        with pytest.raises(FolderRefused, match="such as 'p2/x': end it with '/'"):
            await store.put_folder(source, "p", delete=True)
        with pytest.raises(FolderRefused, match="delete would delete every object"):
            await store.put_folder(tmp_path / "none", delete=True)
        assert _digests(target) == _digests(source)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["../x"], "'../x' leads out of the folder"),
        (["a/../../x"], "leads out of the folder"),
        (["/etc/x"], "'/etc/x' is an absolute path"),
        (["a//b"], "has an empty part"),
        (["a/./b"], "has an empty part or '.'"),
        (["a/"], "has an empty part"),
        (["README", "readme"], "'readme' and 'README' differ only in case"),
        (["\u00e9", "e\u0301"], "differ only in case"),
        (["a", "a/b"], "'a' cannot be a file, because 'a/b' is in a folder of that name"),
        (["a\0b"], "has a NUL character"),
        (["z/" + "y" * 256], "has a part of more than 255 bytes"),
        (["link/x"], "would be written through the link"),
        (["linked"], "would be written through the link"),
        (["folder"], "would replace the folder"),
        (["file/x"], "needs a folder where the file"),
    ],
)
async def test_a_name_that_is_no_file_of_the_folder_is_refused_before_anything_is_written(
    client: Connect, name: str, tmp_path: Path, names: list[str], problem: str
) -> None:
    target, outside = tmp_path / "out", tmp_path / "outside"
    (target / "folder").mkdir(parents=True)
    outside.mkdir()
    (target / "link").symlink_to(outside)
    (target / "linked").symlink_to(outside / "y")
    (target / "file").write_bytes(b"old")
    before = sorted(tmp_path.rglob("*"))
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        for one in ["0 first", *names]:
            await store.put(one, b"new")

        with pytest.raises(FolderRefused) as refused:
            await store.get_folder(target)

    assert problem in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert (target / "file").read_bytes() == b"old"


def test_names_that_windows_does_not_allow_are_refused_there(tmp_path: Path) -> None:
    names = ["..\\x", "C:x", "a./b", "fine/one", "sub/nul.txt"]

    assert list(file_paths(tmp_path, "", names)) == sorted(names)
    with pytest.raises(FolderRefused) as refused:
        file_paths(tmp_path, "", names, windows=True)
    assert len(refused.value.problems) == 4


async def test_what_is_no_file_is_refused_before_anything_is_stored(
    client: Connect, name: str, tmp_path: Path
) -> None:
    source = _write(tmp_path / "in", {"a": b"1"})
    (source / "loop").symlink_to(source)
    (source / "broken").symlink_to(source / "nothing")
    os.mkfifo(source / "pipe")
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)

        with pytest.raises(FolderRefused) as refused:
            await store.put_folder(source)
        with pytest.raises(NotADirectoryError, match="expected the path of a folder"):
            await store.put_folder(source / "a")

        assert sorted(refused.value.problems) == [
            "'broken' is a link to nothing",
            "'loop' is a link to a folder",
            "'pipe' is neither a file nor a folder",
        ]
        assert [info.name async for info in store.list()] == []


async def test_links_in_the_store_become_files_and_links_to_stores_are_refused(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        await store.link("alias", await store.put("real", b"here"))

        first = await store.get_folder(tmp_path)
        second = await store.get_folder(tmp_path)
        assert (first.copied, second.copied) == (("alias", "real"), ())
        assert (tmp_path / "alias").read_bytes() == b"here"

        await store.link_bucket("all", name)
        with pytest.raises(FolderRefused, match="'all' is a link that cannot be a file"):
            await store.get_folder(tmp_path)


async def test_a_damaged_object_leaves_its_file_as_it_was(
    client: Connect, name: str, tmp_path: Path
) -> None:
    """The copy ends with an error, and what was copied before it stays, complete."""
    _write(tmp_path, {"b": b"old"})
    async with client() as nc:
        js = nc.jetstream()
        store = await js.create_object_store(name)
        await store.put("a", b"whole")
        info = await store.put("b", b"good")
        stream = await js.stream(f"OBJ_{name}")
        chunk = await stream.get_msg(last_by_subject=f"$O.{name}.C.{info.nuid}")
        await stream.delete_msg(chunk.seq)
        await js.publish(f"$O.{name}.C.{info.nuid}", b"evil")

        with pytest.raises(Exception, match="'b'"):
            await store.get_folder(tmp_path)

    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files == {"a": b"whole", "b": b"old"}


def test_the_blocking_client_copies_folders(server: Any, name: str, tmp_path: Path) -> None:
    source = _write(tmp_path / "in", FILES)
    with sync.connect(server.url) as client:
        store = client.jetstream().create_object_store(name)

        assert len(store.put_folder(source).copied) == len(FILES)
        assert store.get_folder(tmp_path / "out").unchanged == 0

    assert _digests(tmp_path / "out") == _digests(source)
