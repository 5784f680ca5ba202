"""What a process loads: a client no server, a server no client, and neither what it does not use.

This is what keeps the start of a client shorter than ``import nats`` and an idle server below
35 MB; a list of modules does not depend on how busy the machine is.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

OF_EXTRAS: Final = {
    "bcrypt", "click", "cryptography", "fastavro", "pandas", "pyarrow", "pyspark", "rich",
    "starlette", "uvicorn", "websockets", "yaml",
}  # fmt: skip
# A server that says INFO and answers pings, and needs nothing of jetspark for it.
_CONNECT: Final = """
import asyncio, sys
import jetspark

async def answer(reader, writer):
    info = b'{"server_id":"A","version":"2.15.1","headers":true,"max_payload":1048576,"proto":1}'
    writer.write(b"INFO " + info + b"\\r\\n")
    async for line in reader:
        if line == b"PING\\r\\n":
            writer.write(b"PONG\\r\\n")
    writer.close()

async def main():
    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with jetspark.connect(f"nats://127.0.0.1:{port}") as client:
        await client.flush()
        print(*sys.modules)
    listener.close()

asyncio.run(main())
"""
_SERVE: Final = """
import asyncio, sys
import jetspark

async def main():
    async with jetspark.Server(store_dir=sys.argv[1]):
        print(*sys.modules)

asyncio.run(main())
"""


def loaded(code: str, *arguments: str) -> set[str]:
    """The modules that a new Python has loaded when ``code`` prints them, with their packages."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_client_loads_neither_a_server_nor_a_package_of_an_extra() -> None:
    found = loaded(_CONNECT)

    assert "jetspark.client.core" in found
    others = {"engine", "store", "server", "replica", "sync", "spark", "cli", "embedded"}
    assert found & (OF_EXTRAS | {f"jetspark.{name}" for name in others}) == set()
    # Streams and buckets come with the first call that has to do with them.
    assert "jetspark.client.jetstream" not in found


def test_an_idle_server_loads_no_client_and_nothing_for_rare_requests(tmp_path: Path) -> None:
    found = loaded(_SERVE, str(tmp_path / "store"))

    assert "jetspark.engine.engine" in found
    # `Server.connect` is declared with what client calls are opened with.
    clients = {name for name in found if name.startswith("jetspark.client.")}
    assert clients == {"jetspark.client.opening"}
    rare = {
        "difflib",  # a setting that was misspelt
        "encodings.idna",  # a name that is not ASCII
        "jetspark.engine.consumer.explain",
        "jetspark.server.config.language.lexer",  # a configuration file
        "jetspark.server.monitor",
        "shutil",
        "tarfile",  # a backup
        "tempfile",  # a server without store_dir
        "zoneinfo",  # a schedule in a time zone
    }
    assert found & (OF_EXTRAS | rare | {"jetspark.sync", "jetspark.cli"}) == set()
