"""An older release and a store with a journal: refused by name after a kill, read after a stop.

    python -m tests.campaigns.older_release WHEEL

``WHEEL`` is a release without a journal. Not a part of `make test`, which has no older wheel.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import nats
from tests.support.served import Served

STREAMS: Final = 40
ROUNDS: Final = 20
FLAGS: Final = ("-a", "127.0.0.1", "-p", "-1", "-js")


async def fill(url: str) -> None:
    """Create streams and publish to all of them at once, so that the journal is used."""
    client = await nats.connect(url, allow_reconnect=False)
    js = client.jetstream(timeout=20)
    for n in range(STREAMS):
        await js.add_stream(name=f"S{n}", subjects=[f"S{n}.>"])
    for number in range(ROUNDS):
        body = b"%d" % number
        await asyncio.gather(*(js.publish(f"S{n}.x", body) for n in range(STREAMS)))
    await client.close()


async def count(url: str) -> int:
    """Return how many messages there are."""
    client = await nats.connect(url, allow_reconnect=False)
    infos = await client.jetstream(timeout=20).streams_info()
    await client.close()
    return sum(info.state.messages for info in infos)


class Older:
    """The older release, unpacked."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self._path = folder / "older"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self._path)

    def serve(self, store: Path) -> tuple[int, str, int]:
        """Start it; return its exit code, what it said, and how many messages it has."""
        process = subprocess.Popen(
            [sys.executable, "-m", "jetspark", "serve", *FLAGS, "-sd", str(store)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._path,
            env=os.environ | {"PYTHONPATH": str(self._path), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stderr is not None
        said, messages = "", -1
        for line in process.stderr:
            said += line
            if "Server is ready" in line:
                found = re.search(r"Listening for client connections on (\S+)", said)
                assert found is not None
                messages = asyncio.run(count(f"nats://{found[1]}"))
                process.send_signal(signal.SIGTERM)
        return process.wait(), said, messages


def run(wheel: Path, folder: Path) -> None:
    """Raise AssertionError if the older release does anything else."""
    older = Older(wheel, folder)
    store, killed = folder / "store", folder / "killed"
    served = Served(store, command=True)
    asyncio.run(fill(served.url))
    served.stop(signal.SIGKILL)
    assert (store / "STORE").read_text().startswith("jetspark-store 2")
    shutil.copytree(store, killed)
    code, said, _ = older.serve(killed)
    assert code != 0, "it starts on a store with a journal"
    assert "jetspark-store 2" in said, said
    before = {path: path.read_bytes() for path in files_of(store)}
    after = {store / path.relative_to(killed): path.read_bytes() for path in files_of(killed)}
    assert before == after, "it changed what it refused"

    served = Served(store, command=True)
    assert asyncio.run(count(served.url)) == STREAMS * ROUNDS
    served.stop()
    assert (store / "STORE").read_text().startswith("jetspark-store 1")
    code, said, messages = older.serve(store)
    assert code == 0, said
    assert messages == STREAMS * ROUNDS, f"it found {messages} messages"
    served = Served(store, command=True)
    assert asyncio.run(count(served.url)) == STREAMS * ROUNDS
    served.stop()


def files_of(folder: Path) -> list[Path]:
    """Return all files of a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def main() -> None:
    """Run it with the wheel of an older release."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(sys.argv[1]).resolve(), Path(folder))
    print("refused after a kill, unchanged; read after a stop; read again by this one")  # noqa: T201


if __name__ == "__main__":
    main()
