"""Power failures of a real server: its file operations are recorded, and cut anywhere.

A server under load runs with a recorder (``recorder.c``) while clients write down what was
acknowledged, and when. Then the disk is repeated (``recording.py``): at many moments a store is
opened on what a power failure may have left then, and compared with what the clients know. With
``faults`` some syncs and writes of the server fail as well.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.campaigns.power import recording
from tests.support.store.reading import Violation, messages

from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore

SERVED: Final = Path(__file__).with_name("served.py")
STREAMS: Final = 24
IN_FLIGHT: Final = 60
# What is on disk is decided by the records: syncs need not wait for a real one.
IN_MEMORY: Final = Path("/dev/shm")
SIZES: Final = (10, 10, 100, 100, 700, 5_000)


@dataclass
class Known:
    """One stream, from its creation to its removal, with times in nanoseconds; 0: never."""

    name: str
    level: str
    # When its creation was asked for and confirmed; the same of its removal.
    asked: int
    made: int = 0
    removing: int = 0
    removed: int = 0
    # Payload -> when it was sent; sequence -> (payload, when it was acknowledged).
    sent: dict[bytes, int] = field(default_factory=dict)
    acked: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    # Sequence up to which everything is removed, when asked and confirmed; single ones.
    purges: list[tuple[int, int, int]] = field(default_factory=list)
    deletes: dict[int, tuple[int, int]] = field(default_factory=dict)


class Load:
    """Publishes to many streams, creates, removes and purges them; writes down what is true."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.known: list[Known] = []
        self._current: dict[str, Known] = {}
        self._waiting: dict[str, tuple[Known, bytes]] = {}
        self._number = 0
        self.refused = 0
        self._room = asyncio.Semaphore(IN_FLIGHT)

    async def run(self, url: str, seconds: float) -> None:
        """Load the server for a while."""
        client = await nats.connect(url, allow_reconnect=False)
        await client.subscribe("_R.>", cb=self._acknowledged)
        until = time.monotonic() + seconds
        try:
            for n in range(STREAMS):
                await self._create(client, f"S{n}")
            while time.monotonic() < until:
                await self._act(client)
        finally:
            await asyncio.sleep(0.2)
            await client.close()

    async def _act(self, client: Client) -> None:
        chance = self._random.random()
        names = list(self._current)
        if chance < 0.02 and len(names) > 4:
            await self._remove(client, self._random.choice(names))
        elif chance < 0.05:
            free = [f"S{n}" for n in range(STREAMS) if f"S{n}" not in self._current]
            if free:
                await self._create(client, self._random.choice(free))
        elif chance < 0.06 and names:
            await self._purge(client, self._random.choice(names))
        elif chance < 0.09 and names:
            await self._delete(client, self._random.choice(names))
        elif chance < 0.12:
            await asyncio.sleep(self._random.random() * 0.4)
        elif names:
            some = self._random.sample(names, self._random.randint(1, min(12, len(names))))
            for name in some * self._random.choice((1, 1, 4)):
                await self._publish(client, name)

    async def _publish(self, client: Client, name: str) -> None:
        try:
            await asyncio.wait_for(self._room.acquire(), 2)
        except TimeoutError:
            # Some are never answered when a stream is removed.
            self._room = asyncio.Semaphore(IN_FLIGHT)
            return
        self._number += 1
        payload = b"%d-" % self._number
        payload = payload.ljust(self._random.choice(SIZES), b"x")
        known = self._current[name]
        known.sent[payload] = time.monotonic_ns()
        self._waiting[f"_R.{self._number}"] = (known, payload)
        await client.publish(f"{name}.k{self._number % 7}", payload, f"_R.{self._number}")

    async def _acknowledged(self, reply: Msg) -> None:
        now = time.monotonic_ns()
        self._room.release()
        known, payload = self._waiting.pop(reply.subject)
        answer = json.loads(reply.data) if reply.data else {"error": {}}
        if "error" in answer:
            self.refused += 1
            return
        if answer["seq"] in known.acked:
            raise Violation(f"{known.name}: sequence {answer['seq']} was acknowledged twice")
        known.acked[answer["seq"]] = (payload, now)

    async def _ask(self, client: Client, what: str, body: object) -> bool:
        try:
            reply = await client.request(f"$JS.API.{what}", json.dumps(body).encode(), timeout=8)
        except nats.errors.TimeoutError:
            return False
        return "error" not in json.loads(reply.data)

    async def _create(self, client: Client, name: str) -> None:
        level = self._random.choice(("", "", "", "", "", "", "async"))
        known = Known(name, level or "durable", time.monotonic_ns())
        self.known.append(known)
        config: dict[str, object] = {"name": name, "subjects": [f"{name}.>"]}
        if level:
            config["persist_mode"] = level
        if await self._ask(client, f"STREAM.CREATE.{name}", config):
            known.made = time.monotonic_ns()
            self._current[name] = known

    async def _remove(self, client: Client, name: str) -> None:
        known = self._current[name]
        known.removing = time.monotonic_ns()
        if await self._ask(client, f"STREAM.DELETE.{name}", {}):
            known.removed = time.monotonic_ns()
            del self._current[name]
        else:
            # It may exist or not; it is not used again.
            del self._current[name]

    async def _purge(self, client: Client, name: str) -> None:
        known = self._current[name]
        last = max(known.acked, default=0)
        begin = time.monotonic_ns()
        # Noted before: the server may end before it answers.
        known.purges.append((last, begin, 0))
        at = len(known.purges) - 1
        if await self._ask(client, f"STREAM.PURGE.{name}", {"seq": last + 1}):
            known.purges[at] = (last, begin, time.monotonic_ns())

    async def _delete(self, client: Client, name: str) -> None:
        known = self._current[name]
        # Each once: the second request would hide when the first one was.
        left = [seq for seq in known.acked if seq not in known.deletes]
        if left:
            seq = self._random.choice(left)
            begin = time.monotonic_ns()
            known.deletes[seq] = (begin, 0)
            if await self._ask(client, f"STREAM.MSG.DELETE.{name}", {"seq": seq}):
                known.deletes[seq] = (begin, time.monotonic_ns())


@dataclass
class Cuts:
    """What a run did."""

    runs: int = 0
    states: int = 0
    acked: int = 0
    refused: int = 0
    steps: int = 0
    applied: int = 0

    def add(self, other: "Cuts") -> None:
        """Add another run."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        return (
            f"{self.states} power failures in {self.runs} runs of a server, {self.steps} steps on "
            f"disk, {self.acked} messages acknowledged, {self.refused} refused: 0 lost; "
            f"{self.applied} bytes came from journals"
        )


def run_cuts(states: int, *, seed: int, seconds: float = 4.0, faults: bool = False) -> Cuts:
    """Run a server once and cut it this often; raises Violation with the seed."""
    done = Cuts(runs=1)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        load = _recorded(folder, seed, seconds, faults=faults)
        done.acked = sum(len(known.acked) for known in load.known)
        done.refused = load.refused
        _judge(folder, load, done, Random(seed), states, faults=faults)
    return done


def _recorded(folder: Path, seed: int, seconds: float, *, faults: bool) -> Load:
    control = recording.Control(folder / "control")
    environment = os.environ | {
        "LD_PRELOAD": str(recording.build(folder)),
        "RECORD_ROOT": str(folder / "store"),
        "RECORD_TO": str(folder / "records"),
        "RECORD_CONTROL": str(folder / "control"),
        "RECORD_SEED": str(seed),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": "",
    }
    flags = ["-a", "127.0.0.1", "-js", "-sd", str(folder / "store"), "-p", "-1"]
    command = [sys.executable, str(SERVED), "serve", *flags]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    try:
        url = _address(folder / "log", process)
        load = Load(seed)
        if faults:
            control.fail(syncs=Random(seed).choice((300, 2_000, 10_000)), writes=200)
        asyncio.run(load.run(url, seconds))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return load


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        text = log.read_text()
        if "Server is ready" in text:
            found = re.search(r"Listening for client connections on (\S+)", text)
            assert found is not None
            return "nats://" + found[1]
        time.sleep(0.05)
    raise Violation(f"the server does not start: {log.read_text()[-2000:]}")


def _judge(
    folder: Path, load: Load, done: Cuts, random: Random, states: int, *, faults: bool
) -> None:
    recorded = list(recording.steps(folder / "records"))
    done.steps = len(recorded)
    begin = min(known.made for known in load.known if known.made)
    first = next(n for n, step in enumerate(recorded) if step.time > begin)
    chosen = sorted(random.sample(range(first, len(recorded)), min(states, len(recorded) - first)))
    disk = recording.Disk(str(folder / "store"))
    target = folder / "image"
    for number, step in enumerate(recorded):
        while chosen and chosen[0] == number:
            chosen.pop(0)
            disk.write_image(target, Random(f"{random.random()}"))
            try:
                done.applied += _check(target, load, step.time, faults=faults)
            except Exception as error:
                kept = Path(tempfile.mkdtemp(prefix="power-cut-"))
                shutil.copytree(folder / "image", kept / "image", dirs_exist_ok=True)
                shutil.copy(folder / "log", kept)
                raise Violation(f"at step {number} ({kept}): {error!r}") from error
            shutil.rmtree(target)
            done.states += 1
        disk.apply(step)


def _check(target: Path, load: Load, now: int, *, faults: bool) -> int:
    """Open the store that a power failure left and compare it with what clients know."""
    problems: list[object] = []
    recoveries: dict[str, Recovery] = {}

    def recovered(identity: Identity, recovery: Recovery) -> None:
        recoveries[identity.name] = recovery

    # Only the start counts: the judge looks at the files again if something is wrong.
    work = target.with_name("work")
    shutil.copytree(target, work)
    store = FileStore(OsFiles(), work, segment_size=64 * 1024, journal_size=96 * 1024)
    logs = store.open(recovered, lambda path, error: problems.append((path, error)))
    try:
        problems += store.journal_notes
        for name, recovery in recoveries.items():
            async_level = any(k.name == name and k.level == "async" for k in load.known)
            found = [recovery.lost, recovery.doubted, recovery.missing, recovery.truncated]
            certain = [each for each in recovery.damaged if each not in recovery.doubtful]
            if (any(found) or certain or (recovery.notes and not faults)) and not async_level:
                problems.append((name, *found, certain, recovery.notes))
        if problems:
            raise Violation(f"reported although nothing was damaged: {problems}")
        _compare(logs, load, now)
    finally:
        for log in logs:
            log.close()
        store.close()
        shutil.rmtree(work)
    return sum(recovery.journaled_bytes for recovery in recoveries.values())


def _compare(logs: list[StreamLog], load: Load, now: int) -> None:
    by_name: dict[str, StreamLog] = {}
    for log in logs:
        if log.identity.name in by_name:
            raise Violation(f"two streams {log.identity.name}")
        by_name[log.identity.name] = log
    lives: dict[str, list[Known]] = {}
    for known in load.known:
        if known.asked < now:
            lives.setdefault(known.name, []).append(known)
    for name, all_lives in lives.items():
        last = all_lives[-1]
        found = by_name.pop(name, None)
        if found is None:
            # One that was never confirmed may have replaced nothing.
            if 0 < last.made < now and not 0 < last.removing < now:
                raise Violation(f"{name} is missing")
            continue
        if 0 < last.removed < now:
            raise Violation(f"{name} was removed and exists")
        held = {seq: message.body for seq, message in messages(found).items()}
        candidates = [last] if last.made or len(all_lives) == 1 else all_lives
        errors = [error for life in candidates if (error := _differs(life, held, found, now))]
        if len(errors) == len(candidates):
            raise Violation(f"{name} ({last.level}): {errors}")
    if by_name:
        raise Violation(f"{list(by_name)} were never created")


def _differs(known: Known, held: dict[int, bytes], log: StreamLog, now: int) -> str:
    """Return what is wrong with a stream; empty: nothing."""
    gone = max((last for last, begin, _ in known.purges if begin < now), default=0)
    surely_gone = max((last for last, _, end in known.purges if 0 < end < now), default=0)
    for seq, (payload, when) in known.acked.items():
        maybe = seq <= gone or (seq in known.deletes and known.deletes[seq][0] < now)
        if when < now and not maybe and held.get(seq) != payload and known.level == "durable":
            return f"{seq} was acknowledged, {str(held.get(seq))[:30]} is there of {len(held)}"
        if when < now and log.index.last_seq < seq and known.level == "durable":
            return f"{seq} was acknowledged and would be used again"
        if seq in held and held[seq] != payload:
            return f"{seq} is another message: {held[seq][:20]!r} instead of {payload[:20]!r}"
    bodies = set()
    for seq, body in held.items():
        if known.sent.get(body, now + 1) > now:
            return f"{seq} was never sent: {body[:20]!r}"
        if body in bodies:
            return f"{seq} is there twice: {body[:20]!r}"
        bodies.add(body)
        deleted = known.deletes.get(seq, (0, 0))[1]
        if (0 < deleted < now or seq <= surely_gone) and known.level == "durable":
            return f"{seq} was removed and is there"
    return ""


def main() -> None:
    """Run with a seed: states, seconds, faults (0 or 1)."""
    seed, states, seconds, faults = (int(each) for each in sys.argv[1:])
    print(run_cuts(states, seed=seed, seconds=seconds, faults=bool(faults)))  # noqa: T201


if __name__ == "__main__":
    main()
