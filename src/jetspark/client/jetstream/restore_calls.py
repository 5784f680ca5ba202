"""The calls of ``JetStream`` about backups."""

# Every call has a timeout argument (design.md, "The client").

import os

from jetspark.api.stream import StreamConfig
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.backup import BackupProgress, put_back
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.streams import Stream


class RestoreCalls:
    """Part of ``JetStream``."""

    _api: ApiClient
    _high_water: HighWater

    async def restore_stream(
        self,
        folder: str | os.PathLike[str],
        *,
        config: StreamConfig | None = None,
        progress: BackupProgress | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """Make a stream from a backup that ``Stream.backup`` or the nats CLI wrote.

        ``config`` replaces the configuration of the backup, its name included (``read_backup``
        gives that to start from). ``progress`` hears the bytes sent so far. Raises StreamExists
        when the name is taken, BackupFailed when the folder has no whole backup, ApiError when
        the server cannot read the archive: those of nats-server go into nats-server, ours into
        ours.
        """
        info = await put_back(self._api, folder, config, progress, timeout)
        return Stream(self._api, info, self._high_water)
