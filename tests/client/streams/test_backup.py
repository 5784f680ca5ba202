"""Backup and restore of streams over the client (wire.md, Snapshot and restore)."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from tests.support.servers import ServerProcess

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    JetStream,
    Stream,
    StreamConfig,
    read_backup,
    sync,
)
from jetspark.errors import ApiError, BackupFailed, StreamExists, StreamNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]

SIZE = 2000  # bytes of a message, different ones, so that an archive has many chunks


def body(n: int) -> bytes:
    return b"".join((n * 7919 + k * k).to_bytes(4, "big") for k in range(SIZE // 4))


async def filled(js: JetStream, name: str, count: int) -> Stream:
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    for n in range(1, count + 1):
        await js.publish_async(f"{name}.{n % 3}", body(n), headers={"n": str(n)})
    await js.publish_async_complete()
    return stream


async def contents(stream: Stream) -> list[tuple[int, str, bytes, bytes, int]]:
    """Everything about every message."""
    rows = []
    async for chunk in stream.scan():
        rows += list(
            zip(
                chunk.sequences,
                chunk.subjects,
                chunk.data,
                chunk.headers,
                chunk.times,
                strict=True,
            )
        )
    return rows


async def test_a_stream_comes_back_as_it_was(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 300)
        await stream.delete_msg(7)
        consumer = await stream.create_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT)
        )
        for message in await consumer.fetch(5):
            await message.ack_sync()
        before = await contents(stream)
        written: list[int] = []
        sent: list[int] = []
        taken = await stream.backup(tmp_path / "b", chunk_bytes=10_000, progress=written.append)
        with pytest.raises(StreamExists):
            await js.restore_stream(tmp_path / "b")
        await js.delete_stream(name)
        await stream.restore(tmp_path / "b", progress=sent.append)
        after = await contents(stream)
        again = await (await stream.consumer("d")).info()

    assert len(before) == 299
    assert after == before
    assert (again.ack_floor.stream_seq, again.num_pending) == (5, 294)
    assert read_backup(tmp_path / "b") == taken
    assert (taken.config.name, taken.state.messages) == (name, 299)
    assert written[-1] == taken.size == (tmp_path / "b/stream.tar.s2").stat().st_size
    assert written == sorted(written)
    assert sent[-1] == taken.size


async def test_a_backup_becomes_another_stream(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 3)
        await stream.create_consumer(ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT))
        told: list[int] = []
        taken = await stream.backup(tmp_path, consumers=False, check=True, progress=told.append)
        config = read_backup(tmp_path).config.replace(name=f"{name}-2", subjects=(f"{name}-2.>",))
        other = await js.restore_stream(tmp_path, config=config)

        assert told[-1] == taken.size
        assert await contents(other) == await contents(stream)
        assert [each async for each in other.consumer_names()] == []
        assert (await js.publish(f"{name}-2.x")).seq == 4


async def test_a_folder_holds_one_backup(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        await stream.backup(tmp_path)

        with pytest.raises(BackupFailed, match="already contains a backup"):
            await stream.backup(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2


async def test_a_backup_that_is_given_up_leaves_nothing(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 50)
        written = asyncio.Event()
        taking = asyncio.ensure_future(
            stream.backup(tmp_path, chunk_bytes=2000, progress=lambda _: written.set())
        )
        await written.wait()
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await taking
        await js.delete_stream(name)

        with pytest.raises(StreamNotFound):
            await stream.backup(tmp_path)
        assert list(tmp_path.iterdir()) == []
        assert nc.stats.subscriptions == 0


async def test_a_backup_cancelled_at_any_time_leaves_nothing(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)
        for turns in range(12):
            taking = asyncio.ensure_future(stream.backup(tmp_path / "b"))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await taking
                shutil.rmtree(tmp_path / "b")  # it was faster
            assert not any(tmp_path.glob("b/*"))

        assert nc.stats.subscriptions == 0


async def test_a_folder_that_cannot_be_written_to_leaves_no_subscription(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match="file"):
            await stream.backup(tmp_path / "file" / "b")

        assert nc.stats.subscriptions == 0


async def test_a_backup_that_is_not_whole_is_refused(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 20)
        with pytest.raises(BackupFailed, match="not a complete backup"):
            await js.restore_stream(tmp_path)
        await stream.backup(tmp_path)
        await js.delete_stream(name)
        archive = tmp_path / "stream.tar.s2"
        whole = archive.read_bytes()
        archive.write_bytes(whole[:-1])
        with pytest.raises(BackupFailed, match="is damaged"):
            await js.restore_stream(tmp_path)
        archive.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(BackupFailed, match="is damaged"):
            await js.restore_stream(tmp_path)
        archive.unlink()
        with pytest.raises(BackupFailed, match="cannot be read"):
            await js.restore_stream(tmp_path)


async def test_an_archive_that_the_server_cannot_read_is_its_error(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        await stream.backup(tmp_path)
        await js.delete_stream(name)
        # As another tool writes it: without size and digest.
        meta = msgspec.json.decode((tmp_path / "backup.json").read_bytes())
        del meta["size"], meta["sha256"]
        (tmp_path / "backup.json").write_bytes(msgspec.json.encode(meta))
        (tmp_path / "stream.tar.s2").write_bytes(b"garbage")

        with pytest.raises(ApiError, match="restore failed"):
            await js.restore_stream(tmp_path)
        with pytest.raises(StreamNotFound):
            await js.stream(name)


def test_backups_without_asyncio(server: ServerProcess, name: str, tmp_path: Path) -> None:
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name=name, subjects=(name,), allow_direct=True))
        js.publish(name, b"1")
        stream.backup(tmp_path)
        js.delete_stream(name)
        restored = js.restore_stream(tmp_path)

        assert restored.get_msg(seq=1).data == b"1"
