"""Upgrades and downgrades: two builds of jetspark take turns on one store.

    python -m tests.campaigns.upgrade OLD.whl

Runs the wheel of an earlier release and the installed version in turn. Every life compares all
that was acknowledged before (streams, messages with sequences and times, consumers), then writes
more. After a clean stop the other version must open the store. After a kill while the journal is
in use, a version without a journal must refuse the store and leave it unchanged, until the version
that wrote it has started and stopped once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import jetspark

ROOT = Path(__file__).resolve().parents[2]
STREAMS = 12
ROUNDS = 40
Contents = dict[str, list[list[object]]]


async def contents(js: jetspark.JetStream) -> Contents:
    """Every message of every stream, and the positions of its consumers."""
    found: Contents = {}
    for name in sorted([name async for name in js.stream_names()]):
        stream = await js.stream(name)
        rows: list[list[object]] = []
        async for chunk in stream.scan(1):
            rows += [
                [seq, time, subject, data.decode()]
                for seq, time, subject, data in zip(
                    chunk.sequences, chunk.times, chunk.subjects, chunk.data, strict=True
                )
            ]
        async for consumer in stream.consumers():
            rows.append([consumer.name, consumer.ack_floor.stream_seq])
        found[name] = rows
    return found


async def write(js: jetspark.JetStream, life: int) -> None:
    """Publish to many streams at a time, so that a journal is used, and acknowledge a message."""
    for n in range(STREAMS):
        await js.create_or_update_stream(f"S{n}", subjects=[f"s{n}.>"], allow_direct=True)
    consumer = await js.create_or_update_consumer("S0", durable="reader")
    for round_ in range(ROUNDS):
        waiting = [
            await js.publish_async(f"s{n}.{round_}", b"life %d, round %d" % (life, round_))
            for n in range(STREAMS)
        ]
        await asyncio.gather(*waiting)
    for message in await consumer.fetch(1, timeout=20):
        await message.ack_sync()


async def live(store: Path, life: int, *, killed: bool) -> None:
    """Compare with the life before, write more, save the contents; stop, or be killed."""
    saved = store.with_suffix(".json")
    async with jetspark.Server(store_dir=str(store)) as server, server.connect() as client:
        js = client.jetstream(timeout=60)
        if saved.exists():
            before = json.loads(saved.read_text())
            after = json.loads(json.dumps(await contents(js)))
            assert after == before, "the contents have changed"
        await write(js, life)
        saved.write_text(json.dumps(await contents(js)))
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)


class Builds:
    """Runs one life of a store with the old or the new build."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self._old = folder / "old"
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self._old)
        self.old_has_journal = (self._old / "jetspark" / "store" / "journal").is_dir()
        self._store = folder / "store"
        self._life = 0

    def run(self, build: str, *, killed: bool = False) -> subprocess.CompletedProcess[str]:
        """One life, in a process of its own."""
        self._life += 1
        path = f"{self._old}{os.pathsep}{ROOT}" if build == "old" else str(ROOT)
        command = [sys.executable, "-m", "tests.campaigns.upgrade", "--live", str(self._store)]
        command += ["--life", str(self._life), *(["--killed"] if killed else [])]
        return subprocess.run(
            command,
            cwd=self._store.parent,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def opens(self, build: str, *, killed: bool = False) -> None:
        """A life that finds everything and ends as intended."""
        done = self.run(build, killed=killed)
        assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr

    def refuses(self, build: str) -> None:
        """A life that is refused by the version of the store, and changes nothing."""
        before = self.files()
        done = self.run(build)
        assert done.returncode == 1, done.stderr
        assert "jetspark-store 2" in done.stderr, done.stderr
        assert self.files() == before

    def mark(self) -> str:
        """The version in STORE."""
        return (self._store / "STORE").read_text().splitlines()[0]

    def files(self) -> dict[str, bytes]:
        """Every file of the store."""
        found = sorted(path for path in self._store.rglob("*") if path.is_file())
        return {str(path.relative_to(self._store)): path.read_bytes() for path in found}


def take_turns(wheel: Path) -> None:
    """Old and new in turn."""
    with TemporaryDirectory() as folder:
        builds = Builds(wheel, Path(folder))
        for build in ("old", "new", "old", "new"):
            builds.opens(build)
        builds.opens("new", killed=True)
        if builds.mark() == "jetspark-store 2" and not builds.old_has_journal:
            builds.refuses("old")
        else:
            builds.opens("old")
        builds.opens("new")
        builds.opens("old")
        builds.opens("old", killed=True)
        builds.opens("new")


def main() -> None:
    """Run the campaign, or one life of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--live", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--killed", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.live is not None:
        asyncio.run(live(arguments.live, arguments.life, killed=arguments.killed))
    elif arguments.wheel is None:
        parser.error("the wheel of the other version is missing")
    else:
        take_turns(arguments.wheel.resolve())


if __name__ == "__main__":
    main()
