"""Objects as files, and object stores as a whole: listed and changed."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Connect
from tests.support.waiting import until

from jetspark import ObjectStoreConfig, sync
from jetspark.client.jetstream.objects.info import CHUNK_SIZE
from jetspark.errors import BucketNotFound, DigestMismatch, ObjectNotFound

DATA = os.urandom(CHUNK_SIZE * 3 + 17)


async def test_a_file_appears_when_it_is_whole(client: Connect, name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "report.bin", tmp_path / "copies" / "copy.bin"
    source.write_bytes(DATA)
    target.parent.mkdir()
    sent: list[tuple[int, int]] = []
    seen: list[list[str]] = []

    def received(_count: int, _total: int) -> None:
        seen.append([each.name for each in target.parent.iterdir()])

    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        info = await store.put_file(source, progress=lambda *told: sent.append(told))
        again = await store.put_file(source, "other name", description="the same")
        got = await store.get_file("report.bin", target, progress=received)

        assert (info.name, info.size) == ("report.bin", len(DATA))
        assert (again.name, again.description) == ("other name", "the same")
        assert sent[-1] == (len(DATA), len(DATA))
        assert got.digest == info.digest
        assert target.read_bytes() == DATA
        assert [each.name for each in target.parent.iterdir()] == ["copy.bin"]
        assert seen
        assert not any("copy.bin" in names for names in seen)


async def test_a_file_is_replaced_with_its_mode_and_through_links(
    client: Connect, name: str, tmp_path: Path
) -> None:
    target, link = tmp_path / "secret.bin", tmp_path / "link.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        await store.put("a", b"new")
        await store.put("empty", b"")

        await store.get_file("a", link)
        assert target.read_bytes() == b"new"
        assert target.stat().st_mode & 0o777 == 0o640
        assert link.is_symlink()

        await store.get_file("empty", str(target))
        assert target.read_bytes() == b""


async def test_a_damaged_object_leaves_the_file_as_it_was(
    client: Connect, name: str, tmp_path: Path
) -> None:
    target = tmp_path / "copy.bin"
    target.write_bytes(b"old")
    async with client() as nc:
        js = nc.jetstream()
        store = await js.create_object_store(name)
        info = await store.put("a", DATA)
        stream = await js.stream(f"OBJ_{name}")
        first = await stream.get_msg(last_by_subject=f"$O.{name}.C.{info.nuid}")
        await stream.delete_msg(first.seq)
        await js.publish(f"$O.{name}.C.{info.nuid}", b"x" * len(first.data))

        with pytest.raises(DigestMismatch):
            await store.get_file("a", target)
        with pytest.raises(ObjectNotFound):
            await store.get_file("nobody", target)
        with pytest.raises(IsADirectoryError, match="expected the path of a file"):
            await store.get_file("a", tmp_path)
        with pytest.raises(FileNotFoundError, match="the folder for the file does not exist"):
            await store.get_file("a", tmp_path / "nowhere" / "copy.bin")
        with pytest.raises(FileNotFoundError):
            await store.put_file(tmp_path / "nothing")

        assert target.read_bytes() == b"old"
        assert [each.name for each in tmp_path.iterdir()] == ["copy.bin"]


async def test_a_cancelled_get_leaves_nothing(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc:
        store = await nc.jetstream().create_object_store(name)
        await store.put("a", DATA)
        running: asyncio.Task[Any] | None = None

        def cut(_count: int, _total: int) -> None:
            assert running is not None
            running.cancel()

        running = asyncio.ensure_future(store.get_file("a", tmp_path / "copy.bin", progress=cut))
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not list(tmp_path.iterdir()), "something was left behind")

        running = asyncio.ensure_future(store.put_file(__file__, "b", progress=cut))
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [info.name async for info in store.list()] == ["a"]


async def test_object_stores_are_listed_with_their_mirrors(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_object_store(name, description="files")
        await js.create_object_store(f"{name}-copy", mirror=name)
        await js.create_key_value(name)
        await js.create_key_value(f"{name}-copy", mirror=name)
        await js.create_stream(f"OBJ_{name}-not", subjects=[f"{name}.not"])

        names = {each async for each in js.object_store_names() if each.startswith(name)}
        found = {each.bucket: each async for each in js.object_stores()}
        buckets = {each async for each in js.key_value_names() if each.startswith(name)}

        assert names == {name, f"{name}-copy"}
        assert found[name].config.description == "files"
        assert f"{name}-not" not in found
        assert buckets == {name, f"{name}-copy"}


async def test_an_object_store_is_changed_by_its_settings(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_object_store(name, description="files", max_bytes=10_000_000)
        stream = await js.stream(f"OBJ_{name}")
        await stream.update(max_msg_size=1_000_000)
        before = (await stream.info()).config

        store = await js.update_object_store(name, max_bytes=20_000_000)
        status = await store.status()
        assert status.config.max_bytes == 20_000_000
        assert status.config.description == "files"
        assert status.stream_info.config == before.replace(max_bytes=20_000_000)

        store = await js.update_object_store(ObjectStoreConfig(name, max_bytes=5_000_000))
        status = await store.status()
        assert (status.config.description, status.config.max_bytes) == ("", 5_000_000)
        assert status.stream_info.config.max_msg_size == 1_000_000
        with pytest.raises(BucketNotFound):
            await js.update_object_store(f"{name}-nothing", description="x")


def test_blocking_stores_put_and_get_files(server: Any, name: str, tmp_path: Path) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(DATA)
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        store = js.create_object_store(name)
        store.put_file(source)
        store.get_file("a.bin", tmp_path / "b.bin")
        js.update_object_store(name, description="changed")

        assert (tmp_path / "b.bin").read_bytes() == DATA
        assert name in list(js.object_store_names())
        assert {each.bucket: each for each in js.object_stores()}[name].config.description == (
            "changed"
        )
