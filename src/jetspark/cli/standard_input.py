"""Standard input as it comes, without blocking the connection."""

import asyncio
import io
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

_CHUNK: Final = 64 * 1024


async def chunks() -> AsyncIterator[bytes]:
    """Pieces of standard input, read on threads: the connection answers the server meanwhile.

    They are daemons, so that an interrupted command need not wait for the end of the input; and
    they bypass Python's buffer, whose lock an ending interpreter would wait for.
    """
    loop = asyncio.get_running_loop()
    while True:
        arrived: asyncio.Future[bytes] = loop.create_future()
        threading.Thread(target=_read, args=(loop, arrived), daemon=True).start()
        chunk = await arrived
        if not chunk:
            return
        yield chunk


def _read(loop: asyncio.AbstractEventLoop, arrived: "asyncio.Future[bytes]") -> None:
    try:
        chunk = os.read(sys.stdin.fileno(), _CHUNK)
    except io.UnsupportedOperation:  # no file: replaced by a program
        chunk = sys.stdin.buffer.read(_CHUNK)
    except OSError:  # closed by the shell: <&-
        chunk = b""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(_give, arrived, chunk)


def _give(arrived: "asyncio.Future[bytes]", chunk: bytes) -> None:
    if not arrived.done():
        arrived.set_result(chunk)
