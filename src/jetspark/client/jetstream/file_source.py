"""A file read on threads, and closed even after a cancellation."""

import asyncio
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self


class FileSource:
    """For ``async with``. A read continues if its caller is cancelled; closing waits for it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._closed = False
        self.size: int = -1

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; empty at the end. Blocks, so call it on a thread."""
        with self._lock:
            return self._file.read(size) if self._file is not None else b""

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._open)
        except BaseException:
            await self._close_surely()  # the thread may still open it
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close_surely()

    async def _close_surely(self) -> None:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(self._close)))

    def _open(self) -> None:
        with self._lock:
            if not self._closed:
                self._file = self._path.open("rb")
                self.size = os.fstat(self._file.fileno()).st_size

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None
