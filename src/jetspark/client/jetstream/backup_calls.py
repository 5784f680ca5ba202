"""The calls of ``Stream`` about backups; ``restore_calls`` has those of ``JetStream``."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
import os

import msgspec

from jetspark.api.stream import SnapshotRequest, StreamInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.backup import (
    CHUNK_BYTES,
    BackupProgress,
    StreamBackup,
    put_back,
    read_backup,
    take_backup,
)


class BackupCalls:
    """Part of ``Stream``."""

    _api: ApiClient
    _name: str
    _info: StreamInfo

    async def backup(
        self,
        folder: str | os.PathLike[str],
        *,
        consumers: bool = True,
        check: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        progress: BackupProgress | None = None,
        timeout: float | None = None,
    ) -> StreamBackup:
        """Write the whole stream into ``folder``, as of now; ``restore`` reads it.

        With ``consumers`` their state is in it too; with ``check`` the server verifies the
        messages first. ``progress`` hears the bytes written so far. A backup that fails or is
        cancelled leaves no archive behind. ``timeout`` bounds the wait for each part. Raises
        BackupFailed when the folder holds a backup already.
        """
        request = SnapshotRequest(no_consumers=not consumers, chunk_size=chunk_bytes, jsck=check)
        return await take_backup(self._api, self._name, folder, request, progress, timeout)

    async def restore(
        self,
        folder: str | os.PathLike[str],
        *,
        progress: BackupProgress | None = None,
        timeout: float | None = None,
    ) -> None:
        """Bring this stream back from a backup, after it was deleted.

        Raises StreamExists while it is there: delete it first. As ``JetStream.restore_stream``.
        """
        backup = await asyncio.to_thread(read_backup, folder)
        config = msgspec.structs.replace(backup.config, name=self._name)
        self._info = await put_back(self._api, folder, config, progress, timeout)
