"""Streams that are on disk and cannot be served: others are, and no one takes their names."""

import asyncio
import errno
import json
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import jetspark
from jetspark import StreamConfig
from jetspark.client.jetstream.context import JetStream
from jetspark.errors import ApiError, StoreFailed, StreamNotFound
from jetspark.store.files import OsFiles


async def health(server: jetspark.Server) -> str:
    """What /healthz says, in one line."""

    def ask() -> str:
        try:
            with urllib.request.urlopen(f"{server.monitor_url}/healthz") as answer:
                return str(json.loads(answer.read()))
        except urllib.error.HTTPError as refused:
            return str(json.loads(refused.read()))

    return await asyncio.to_thread(ask)


async def stored(folder: Path, *names: str) -> dict[str, Path]:
    """Make a store with streams of one message each; the folder of each stream."""
    folders: dict[str, Path] = {}
    async with jetspark.Server(store_dir=str(folder)) as server, await server.connect() as client:
        js = client.jetstream()
        for name in names:
            before = set(folder.glob("acct-*/stream-*"))
            await js.create_stream(StreamConfig(name=name, subjects=(name.lower(),)))
            await js.publish(name.lower(), b"first")
            (folders[name],) = set(folder.glob("acct-*/stream-*")) - before
    return folders


async def test_the_name_of_a_stream_that_cannot_be_opened_is_not_given_away(
    tmp_path: Path,
) -> None:
    folders = await stored(tmp_path, "A", "B")
    (segment,) = folders["B"].glob("*.seg")
    segment.rename(tmp_path.parent / "kept.seg")
    segment.mkdir()
    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        assert (await js.publish("a", b"second")).seq == 2
        with pytest.raises(StoreFailed, match="could not be opened"):
            await js.create_stream(StreamConfig(name="B", subjects=("b",)))
    segment.rmdir()
    (tmp_path.parent / "kept.seg").rename(segment)

    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("b", b"second")).seq == 2


async def until_served(js: JetStream, name: str) -> None:
    """Wait until a stream that could not be opened at the start is served."""
    async with asyncio.timeout(30):
        while True:
            try:
                await js.stream(name)
            except (StoreFailed, StreamNotFound):
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_stream_is_served_without_a_restart_once_it_can_be_opened(tmp_path: Path) -> None:
    """It was served after the next start only."""
    folders = await stored(tmp_path, "A", "B")
    (segment,) = folders["B"].glob("*.seg")
    segment.rename(tmp_path.parent / "kept.seg")
    segment.mkdir()
    async with (
        jetspark.Server(store_dir=str(tmp_path), http_port=-1) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        assert "it is retried" in await health(server)
        with pytest.raises(StoreFailed, match="could not be opened"):
            await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        segment.rmdir()
        (tmp_path.parent / "kept.seg").rename(segment)
        await until_served(js, "B")
        assert (await js.publish("b", b"second")).seq == 2
        assert "could not be recovered" not in await health(server)

    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("b", b"third")).seq == 3


async def test_streams_of_a_folder_that_could_not_be_listed_are_served_once_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(tmp_path, "A", "B")
    broken = True
    listed = OsFiles.list_folder

    def list_folder(files: OsFiles, path: Path) -> list[str]:
        if broken and path.name.startswith("acct-"):
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return listed(files, path)

    monkeypatch.setattr(OsFiles, "list_folder", list_folder)
    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        with pytest.raises(ApiError, match="could not be listed yet"):
            await js.create_stream(StreamConfig(name="A", subjects=("other",)))
        broken = False
        for name in ("A", "B"):
            await until_served(js, name)
            assert (await js.publish(name.lower(), b"second")).seq == 2


async def test_a_stream_that_is_opened_late_takes_no_subjects_from_others(tmp_path: Path) -> None:
    folders = await stored(tmp_path, "A", "B")
    (segment,) = folders["B"].glob("*.seg")
    segment.rename(tmp_path.parent / "kept.seg")
    segment.mkdir()
    async with (
        jetspark.Server(store_dir=str(tmp_path), http_port=-1) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        await js.create_stream(StreamConfig(name="C", subjects=("b",)))
        segment.rmdir()
        (tmp_path.parent / "kept.seg").rename(segment)
        async with asyncio.timeout(30):
            while "another stream has some of the subjects" not in await health(server):
                await asyncio.sleep(0.05)
        assert (await js.publish("b", b"other")).stream == "C"
        await js.delete_stream("C")
        await until_served(js, "B")
        assert (await js.publish("b", b"second")).seq == 2


async def test_an_older_copy_is_not_served_in_place_of_a_stream_that_cannot_be_opened(
    tmp_path: Path,
) -> None:
    """Sequences that the stream itself gave out would be given out again."""
    folders = await stored(tmp_path, "A")
    copy = folders["A"].with_name("stream-" + "0" * 16)
    shutil.copytree(folders["A"], copy)
    (segment,) = folders["A"].glob("*.seg")
    segment.rename(tmp_path.parent / "kept.seg")
    segment.mkdir()
    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        with pytest.raises(StoreFailed, match="could not be opened"):
            await js.stream("A")
        segment.rmdir()
        (tmp_path.parent / "kept.seg").rename(segment)
        await until_served(js, "A")
        assert (await js.publish("a", b"second")).seq == 2
    assert copy.exists()


async def test_what_lies_between_the_streams_is_reported_and_is_no_stream(tmp_path: Path) -> None:
    folders = await stored(tmp_path, "A")
    account = folders["A"].parent
    (account / "notes.txt").write_text("not ours")
    (account / "stream-old.tar").write_text("not ours")
    (account / "stream-empty").mkdir()
    (account / f"stream-{5:016x}").write_text("not ours")
    async with (
        jetspark.Server(store_dir=str(tmp_path), http_port=-1) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("a", b"second")).seq == 2
        answer = await health(server)
    assert "could not be recovered" not in answer
    for name in ("notes.txt", "stream-old.tar", "stream-empty", f"stream-{5:016x}"):
        assert f"{account.name}/{name} in the store" in answer
        assert (account / name).exists()


async def test_a_copy_of_a_folder_does_not_take_the_place_of_its_stream(tmp_path: Path) -> None:
    folders = await stored(tmp_path, "A")
    # By its name it comes first.
    shutil.copytree(folders["A"], folders["A"].with_name("stream-" + "0" * 16))
    async with (
        jetspark.Server(store_dir=str(tmp_path), http_port=-1) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("a", b"second")).seq == 2
        assert f"stream-{'0' * 16}" in await health(server)

    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("a", b"third")).seq == 3


async def test_an_entry_that_is_no_account_folder_stops_nothing(tmp_path: Path) -> None:
    await stored(tmp_path, "A")
    (tmp_path / "acct-0123456789abcdef").write_text("not a folder")
    async with (
        jetspark.Server(store_dir=str(tmp_path), http_port=-1) as server,
        await server.connect() as client,
    ):
        assert (await client.jetstream().publish("a", b"second")).seq == 2
        assert "acct-0123456789abcdef" in await health(server)


@pytest.mark.parametrize("kind", ["manifest.a", "*.seg.idx", "*.seg"])
async def test_a_pipe_in_place_of_a_file_of_a_stream_blocks_nothing(
    tmp_path: Path, kind: str
) -> None:
    """A start waited for the other end of the pipe, for ever."""
    folders = await stored(tmp_path, "A", "B")
    (segment,) = folders["B"].glob("*.seg")
    name = kind.replace("*", segment.name.removesuffix(".seg"))
    place = folders["B"] / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    async with (
        jetspark.Server(store_dir=str(tmp_path)) as server,
        await server.connect() as client,
    ):
        js = client.jetstream()
        assert (await js.publish("a", b"second")).seq == 2
        if kind != "*.seg":
            assert (await js.publish("b", b"second")).seq == 2
