"""Server address and credentials kept outside the program: contexts and NATS_URL."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import jetspark
from jetspark.errors import BadCredentials


async def main(url: str | None = None) -> list[str]:
    """Connect by name, by selection, and by environment; returns what was observed."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    before = {name: os.environ.pop(name, None) for name in ("NATS_URL", "XDG_CONFIG_HOME")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        try:
            return await connected_in_three_ways(Path(folder), url)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


async def connected_in_three_ways(folder: Path, url: str) -> list[str]:
    """The same server each time; the program contains no address."""
    learnt: list[str] = []
    # Written by `nats context save staging --server ... --inbox-prefix ...`.
    contexts = folder / "nats" / "context"
    contexts.mkdir(parents=True)
    settings = {"url": url, "inbox_prefix": "_INBOX_example"}
    (contexts / "staging.json").write_text(json.dumps(settings))

    async with jetspark.connect(context="staging", name="by name") as client:
        learnt.append(f"by name: inboxes start with {client.new_inbox().partition('.')[0]}")

    # Written by `nats context select staging`: from now on no argument is needed.
    (folder / "nats" / "context.txt").write_text("staging")
    async with jetspark.connect() as client:
        learnt.append(f"selected: {client.status}")

    # NATS_URL takes precedence over the selected context, and an argument over both.
    os.environ["NATS_URL"] = url
    async with jetspark.connect() as client:
        learnt.append(f"NATS_URL: inboxes start with {client.new_inbox().partition('.')[0]}")

    try:
        await jetspark.connect(context="production")
    except BadCredentials as error:
        learnt.append(str(error).partition(":")[0])
    print(*learnt, sep="\n")
    return learnt


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
