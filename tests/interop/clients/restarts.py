"""A server that comes back on the same port with the same store."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import jetspark


class Restarted:
    """A server in this process; ``restart`` ends it and starts it again."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._server = jetspark.Server(store_dir=store)

    @property
    def url(self) -> str:
        """Where clients connect, before and after."""
        return self._server.client_url

    async def restart(self) -> None:
        """End it, and start it again on the same port."""
        port = self._server.port
        await self._server.close()
        self._server = jetspark.Server(port=port, store_dir=self._store)
        await self._server.start()

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self._server.close()
