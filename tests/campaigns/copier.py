"""A server in a process of its own that copies from a remote ``hub``, and is in a hurry about it.

python -m tests.campaigns.copier STORE URL
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from tests.support.remotes import copying


async def serve(store: str, url: str) -> None:
    """Serve until someone kills the process."""
    async with copying(url, Path(store)):
        await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    asyncio.run(serve(*sys.argv[1:]))
