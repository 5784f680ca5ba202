"""Backups of a stream: a folder with ``backup.json`` and ``stream.tar.s2``, as in the nats CLI.

The archive format is the server's and opaque to clients: an archive of nats-server can only be
restored to a nats-server, one of ours to ours. ``backup.json`` holds configuration and state; we
add size and SHA-256 of the archive. It is written last, so a folder that has it is complete.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from jetspark.api import stream as wire
from jetspark.api.base import decoder, encode
from jetspark.api.stream import (
    STREAM_CREATE,
    STREAM_RESTORE,
    STREAM_SNAPSHOT,
    RestoreRequest,
    SnapshotRequest,
)
from jetspark.client.jetstream.api import ApiClient, read_answer
from jetspark.client.jetstream.file_source import FileSource
from jetspark.client.message import Message
from jetspark.client.models.base import Model, from_wire
from jetspark.client.models.stream import StreamConfig, StreamState
from jetspark.client.subscription import SubscriptionCore
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import BackupFailed, ConnectionClosed, RequestTimeout, status_error
from jetspark.headers.status import END_OF_BATCH, parse_status

META_FILE: Final = "backup.json"
_DRAFT: Final = f"{META_FILE}.part"
DATA_FILE: Final = "stream.tar.s2"
CHUNK_BYTES: Final = 128 * 1024  # of a backup; the server allows 1 KiB to 1 MiB
RESTORE_CHUNK_BYTES: Final = 512 * 1024
RESTORE_PATIENCE: Final = 60.0  # seconds for the last answer, sent after unpacking

BackupProgress = Callable[[int], None]
_Result = TypeVar("_Result")


class BackupMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of ``backup.json``."""

    config: wire.StreamConfig
    state: wire.StreamState
    size: int = 0
    sha256: str = ""


class StreamBackup(Model[BackupMeta], wire=BackupMeta):
    """The contents of ``backup.json``: the stream at that time, and a checksum of its archive.

    ``size`` and ``sha256`` are empty in backups of other tools.
    """

    __slots__ = ()

    config: StreamConfig
    state: StreamState
    size: int
    sha256: str


_DECODER: Final = decoder(BackupMeta)


def read_backup(folder: str | os.PathLike[str]) -> StreamBackup:
    """The contents of a backup, without restoring it; BackupFailed if the folder has none."""
    return from_wire(StreamBackup, read_meta(folder))


def read_meta(folder: str | os.PathLike[str]) -> BackupMeta:
    """Read ``backup.json``; BackupFailed if the folder has none."""
    path = Path(folder, META_FILE)
    try:
        return _DECODER.decode(path.read_bytes())
    except OSError as error:
        raise BackupFailed(
            f"{str(folder)!r} is not a complete backup: {META_FILE} cannot be read "
            f"({error.strerror}); it is written after everything else"
        ) from error
    except UNREADABLE as error:
        raise BackupFailed(f"{str(path)!r} does not describe a stream: {error}") from error


async def take_backup(
    api: ApiClient,
    stream: str,
    folder: str | os.PathLike[str],
    request: SnapshotRequest,
    progress: BackupProgress | None,
    timeout: Timeout | None,
) -> StreamBackup:
    """Receive the archive from the server and write it to ``folder``."""
    place = Path(folder)
    files = _Files(place)
    inbox = api.new_inbox()
    subscription: SubscriptionCore | None = None
    try:
        file = await files.do(_begin, place)
        files.opened = file
        subscription = api.core.add_subscription(inbox)
        answer = await api.call(
            f"STREAM.SNAPSHOT.{stream}",
            msgspec.structs.replace(request, deliver_subject=inbox),
            STREAM_SNAPSHOT,
            timeout=timeout,
        )
        received = _Archive(api, stream, files, file, progress)
        await received.fill(subscription, api.seconds(timeout))
        await files.do(_finish, file)
        done = BackupMeta(
            config=answer.config or wire.StreamConfig(name=stream),
            state=answer.state or wire.StreamState(),
            size=received.size,
            sha256=received.digest.hexdigest(),
        )
        await files.do(_write_meta, place, done)
    except BaseException:
        await files.remove()
        raise
    finally:
        if subscription is not None:
            with suppress(ConnectionClosed):
                await subscription.unsubscribe()
    return from_wire(StreamBackup, done)


class _Files:
    """The files of a backup, written in a thread, removed if the backup fails."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._working: asyncio.Future[Any] | None = None
        self.opened: BinaryIO | None = None

    async def do(self, work: Callable[..., _Result], *arguments: object) -> _Result:
        """Run work in a thread; if cancelled, it continues there."""
        working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        self._working = working
        return await asyncio.shield(working)

    async def remove(self) -> None:
        """Remove everything after the thread's last write, even if the caller does not wait."""
        if self._working is not None:
            self._working.add_done_callback(self._remove)
            await asyncio.wait({self._working})

    def _remove(self, worked: asyncio.Future[Any]) -> None:
        failed = worked.cancelled() or worked.exception() is not None
        if self.opened is None and not failed:
            self.opened = worked.result()
        if self.opened is None:
            return  # the folder's contents are not ours
        self.opened.close()
        for name in (DATA_FILE, _DRAFT, META_FILE):
            (self._place / name).unlink(missing_ok=True)


class _Archive:
    """The archive of a backup, received from the server and written to a file."""

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        files: _Files,
        file: BinaryIO,
        progress: BackupProgress | None,
    ) -> None:
        self._api = api
        self._stream = stream
        self._files = files
        self._file = file
        self._progress = progress
        self.size = 0
        self.digest = hashlib.sha256()

    async def fill(self, subscription: SubscriptionCore, seconds: float) -> None:
        """Receive and acknowledge chunks until the last one."""
        ended = False
        while not ended:
            try:
                async with asyncio.timeout(seconds):
                    arrived = await subscription.next_chunk(64)
            except TimeoutError:
                raise RequestTimeout(
                    f"backup of stream {self._stream!r}: no chunk received within {seconds} s"
                ) from None
            if not arrived:
                raise self._api.core.closed_error()  # drained
            before = self.size
            await self._files.do(self._write, [each.data for each in arrived])
            for message in arrived:
                ended = self._is_end(message)
                if ended:
                    break
                if message.reply:
                    self._api.core.send_message(message.reply.encode(), b"", b"", b"")
            # Also for data that came with the end: a small archive is one chunk.
            if self._progress is not None and self.size > before:
                self._progress(self.size)

    def _write(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self._file.write(piece)
            self.digest.update(piece)
            self.size += len(piece)

    def _is_end(self, message: Message) -> bool:
        if message.data:
            return False
        # nats-server ends an archive of one chunk without a status.
        code, text = parse_status(message.header_block) if message.header_block else (0, b"")
        if code not in {0, END_OF_BATCH}:
            error = status_error(code, text.decode("utf-8", "replace"))
            error.add_note(f"the server aborted the backup of stream {self._stream!r}")
            raise error
        return True


async def restore_backup(
    api: ApiClient,
    folder: str | os.PathLike[str],
    config: wire.StreamConfig | None,
    progress: BackupProgress | None,
    timeout: Timeout | None,
) -> wire.StreamInfo:
    """Create a stream from a backup; returns the server's answer."""
    backup = await asyncio.to_thread(read_meta, folder)
    path = Path(folder, DATA_FILE)
    await asyncio.to_thread(_check_archive, path, backup)
    wanted = config or backup.config
    opened = await api.call(
        f"STREAM.RESTORE.{wanted.name}",
        RestoreRequest(config=wanted, state=backup.state),
        STREAM_RESTORE,
        timeout=timeout,
    )
    target = opened.deliver_subject.encode()
    size = min(RESTORE_CHUNK_BYTES, api.core.max_payload)
    sent = 0
    async with FileSource(path) as file:
        while piece := await asyncio.to_thread(file.read, size):
            reply = await api.core.ask(target, b"", piece, api.seconds(timeout))
            if reply.data:
                return read_answer(target, STREAM_CREATE, reply.data)
            sent += len(piece)
            if progress is not None:
                progress(sent)
    patience = call_seconds(timeout, max(api.timeout, RESTORE_PATIENCE))
    reply = await api.core.ask(target, b"", b"", patience)
    return read_answer(target, STREAM_CREATE, reply.data)


def _check_archive(path: Path, backup: BackupMeta) -> None:
    """Refuse an archive with another checksum, before the server unpacks it."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno()).st_size
            digest = hashlib.file_digest(file, "sha256").hexdigest() if backup.sha256 else ""
    except OSError as error:
        raise BackupFailed(f"{str(path)!r} cannot be read: {error.strerror}") from error
    if backup.sha256 and (found, digest) != (backup.size, backup.sha256):
        raise BackupFailed(
            f"{str(path)!r} is damaged: it has {found} bytes, expected {backup.size} with SHA-256 "
            f"{backup.sha256[:12]}…"
        )


def _begin(place: Path) -> BinaryIO:
    """Open the file of a new archive in a folder that has none."""
    place.mkdir(parents=True, exist_ok=True)
    if (place / META_FILE).exists() or (place / DATA_FILE).exists():
        raise BackupFailed(f"{str(place)!r} already contains a backup: choose another folder")
    return (place / DATA_FILE).open("xb")


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _write_meta(place: Path, backup: BackupMeta) -> None:
    """Write under another name first: the folder is complete once the file is renamed."""
    draft = place / _DRAFT
    with draft.open("wb") as file:
        file.write(msgspec.json.format(encode(backup), indent=2))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(place / META_FILE)
