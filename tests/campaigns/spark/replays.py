"""Random replays of epochs: the writers of tasks and the commit of the driver, without Spark.

Each epoch has many equal rows and is run until it is committed, each time in another layout. Runs
die anywhere, also before, within and after the commit; some of their tasks live on and write while
the next run is in progress; tasks are repeated, or run twice at once; the stream forgets ids, and
the ledger is lost. After each epoch the stream has the rows, exactly.

``tests/spark/stream/test_replay_layouts.py`` is the short form, ``make torture`` the long one;
``python -m tests.campaigns.spark.replays --minutes 5 --seed 1`` runs it against both servers.
"""

import argparse
import json
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import MessageColumns, StreamConfig, sync
from jetspark.errors import BucketNotFound
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.stream.sink import epoch_ledger, markers
from jetspark.spark.stream.sink import plan as sink_plan
from jetspark.spark.stream.sink import writer as sink_writer
from jetspark.spark.stream.sink.epoch_ledger import EpochLedger, Superseded
from jetspark.spark.stream.sink.options import LEDGER_BUCKET
from jetspark.spark.stream.sink.sending import Sender
from jetspark.spark.stream.sink.writer import SinkCommit, StreamRowWriter
from jetspark.spark.stream.source import JetStreamDataSource

SCHEMA: Final = StructType().add("subject", "string").add("data", "string")
STRENGTHS: Final = {
    "fast": {"publishMode": "fast"},
    "async": {"publishMode": "async"},
    "chunk": {"publishMode": "atomic", "atomicScope": "chunk"},
    "partition": {"publishMode": "atomic", "atomicScope": "partition"},
    "epoch": {"publishMode": "atomic", "atomicScope": "epoch"},
}
# A task of a dead run that has asked the ledger just before may be held up by the machine for less
# than this before it sends: otherwise nothing but markers could keep its rows out.
ZOMBIE_ACK_MS: Final = 2_000
SHORT_WINDOW_S: Final = 2.0
FIGURES: Final = ("rows", "runs", "kills", "twins", "zombies", "superseded", "forgotten")


class Killed(Exception):
    """The process dies here."""


class Life:
    """One driver with its tasks: it dies after some chunks, or around the ledger's commit."""

    def __init__(self, dice: random.Random) -> None:
        self._left: int | None = dice.choice([None, *range(8)])
        self._after = dice.random() < 0.5
        self._commit = dice.choice(["", "", "", "before", "after"])
        self._lock = threading.Lock()
        self.dead = False

    def send(self, real: Any, whole: bool, sender: Sender, messages: MessageColumns) -> int:
        with self._lock:
            if self.dead:
                raise Killed
            dies = self._left == 0
            if self._left is not None:
                self._left -= 1
            self.dead = dies
        if dies and not self._after:
            # Of a chunk that is in progress some rows are stored, unless it is atomic.
            half = len(messages) // 2
            if half and not whole:
                real(sender, messages.part(0, half))
            raise Killed
        seq: int = real(sender, messages)
        if dies:
            raise Killed
        return seq

    def commit(self, real: Any, *arguments: Any) -> None:
        if self._commit == "before":
            raise Killed
        real(*arguments)
        if self._commit == "after":
            raise Killed


class Survivor:
    """A task that does not notice that its driver is dead, and is slow."""

    def __init__(self, seed: float) -> None:
        self._dice = random.Random(seed)

    def send(self, real: Any, _whole: bool, sender: Sender, messages: MessageColumns) -> int:
        time.sleep(self._dice.choice([0.05, 0.5, 1.0, 4.0]))
        seq: int = real(sender, messages)
        return seq


class Thread(threading.local):
    """What the code under test sees of the task, or driver, that this thread runs."""

    life: Life | Survivor | None = None
    epoch = 0
    partition = 0
    attempt = 0


HERE: Final = Thread()


class FakeContext:
    """The context that Spark gives to a task."""

    @classmethod
    def get(cls) -> "FakeContext":
        return cls()

    def partitionId(self) -> int:  # noqa: N802
        return HERE.partition

    def attemptNumber(self) -> int:  # noqa: N802
        return HERE.attempt

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return {"sql.streaming.queryId": "q1", "streaming.sql.batchId": str(HERE.epoch)}[name]


@contextmanager
def driven(strength: str) -> Iterator[None]:
    """Put tasks, kills and small chunks in place of Spark, the machine and large ones."""
    sends = {name: getattr(Sender, name) for name in ("send", "send_together")}
    commit = EpochLedger.commit

    def wrapped(name: str) -> Any:
        def send(sender: Sender, messages: MessageColumns) -> int:
            life = HERE.life
            if life is None:
                seq: int = sends[name](sender, messages)
                return seq
            return life.send(sends[name], name == "send_together", sender, messages)

        return send

    def committing(*arguments: Any) -> None:
        if isinstance(HERE.life, Life):
            HERE.life.commit(commit, *arguments)
        else:
            commit(*arguments)

    batch = 25 if strength == "chunk" else markers.ROWS_PER_BATCH
    with (
        patch.object(sink_writer, "TaskContext", FakeContext),
        patch.object(Sender, "send", wrapped("send")),
        patch.object(Sender, "send_together", wrapped("send_together")),
        patch.object(EpochLedger, "commit", committing),
        # Many chunks of few rows, so that a kill finds some stored and others not.
        patch.object(sink_writer, "CHUNK_ROWS", 40),
        patch.object(markers, "ROWS_PER_BATCH", batch),
        patch.object(epoch_ledger, "CHECK_INTERVAL_S", 0.0),
        patch.object(sink_plan, "MIN_DUPLICATE_WINDOW_NS", 0),
    ):
        yield


class Model:
    """One query: its stream, and runs of its epochs in any layout."""

    def __init__(
        self,
        url: str,
        jetstream: sync.JetStream,
        name: str,
        strength: str,
        *,
        window_s: float = 120.0,
        ack_ms: int = 150,
    ) -> None:
        self.name = name
        self.window_s = window_s
        self.stream = jetstream.create_stream(
            StreamConfig(
                name=name,
                subjects=(f"{name}.>",),
                allow_direct=True,
                allow_atomic=True,
                allow_batched=True,
                duplicate_window=window_s,
            )
        )
        self._jetstream = jetstream
        self.options = {"servers": url, "stream": name, "idPrefix": name}
        self.options |= {"ackTimeoutMs": str(ack_ms), "retries": "8", **STRENGTHS[strength]}
        if "atomicScope" in self.options:
            self.options["ledgerSubject"] = f"{name}.ledger"

    def run(self, **options: str) -> StreamRowWriter:
        """Return what Spark plans for one run of an epoch."""
        source = JetStreamDataSource(options=self.options | options)
        made: Any = source.streamWriter(SCHEMA, False)
        rows: StreamRowWriter = pickle.loads(pickle.dumps(made._rows))
        return rows

    def write(
        self,
        run: StreamRowWriter,
        epoch: int,
        partition: int,
        rows: Sequence[str],
        life: Life | Survivor | None = None,
        attempt: int = 0,
    ) -> SinkCommit:
        """Run a task in this thread."""
        HERE.epoch, HERE.partition, HERE.attempt, HERE.life = epoch, partition, attempt, life
        return run.write(batches(self.name, rows))

    def commit(self, messages: Sequence[SinkCommit], life: Life | None = None) -> None:
        """Spark plans the commit as a write of its own."""
        HERE.life = life
        self.run().commit(pickle.loads(pickle.dumps(messages)))

    def epoch(self, number: int, layout: Sequence[Sequence[str]]) -> None:
        """Run an epoch to its end."""
        run = self.run()
        self.commit([self.write(run, number, at, rows) for at, rows in enumerate(layout)])

    def forget(self) -> bool:
        """Delete what the ledger bucket has of the query; False where it has nothing."""
        if "atomicScope" in self.options:
            return False
        try:
            self._jetstream.key_value(LEDGER_BUCKET).purge(f"{self.name}.{self.name}")
        except BucketNotFound:
            return False
        return True

    def stored(self) -> Counter[str]:
        """Return the rows in the stream."""
        return Counter(
            one.decode()
            for chunk in self.stream.scan(filters=(f"{self.name}.rows",))
            for one in chunk.data
        )


def batches(name: str, rows: Sequence[str], size: int = 40) -> Iterator[pa.RecordBatch]:
    """Return rows as Spark hands them to a task."""
    for at in range(0, len(rows), size):
        some = list(rows[at : at + size])
        yield pa.RecordBatch.from_pydict({"subject": [f"{name}.rows"] * len(some), "data": some})


def spread(dice: random.Random, rows: Sequence[str]) -> list[list[str]]:
    """Put rows into some partitions, in any order; some may be empty."""
    parts: list[list[str]] = [[] for _ in range(dice.randint(1, 5))]
    for row in dice.sample(rows, len(rows)):
        dice.choice(parts).append(row)
    return parts


class Campaign:
    """Epochs of one query, run until each is committed."""

    def __init__(self, model: Model, dice: random.Random, *, zombies: bool) -> None:
        self.model = model
        self.runs = self.kills = self.twins = self.rows = self.zombies = self.superseded = 0
        self.forgotten = 0
        self._dice = dice
        self._with_zombies = zombies
        self._short_window = model.window_s < 60
        self._due: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(8)
        self._late: list[Future[SinkCommit]] = []

    def play(self, epochs: int) -> None:
        """Compare the stream with the rows after each epoch."""
        dice = self._dice
        with self._pool:
            for epoch in range(epochs):
                rows = [f"{epoch} {dice.randint(1, 40)}" for _ in range(dice.randint(0, 150))]
                self._due.update(rows)
                self.rows += len(rows)
                while not self._attempt(epoch, rows):
                    self.kills += 1
                    self._forget(epoch)
                    if self._short_window and dice.random() < 0.5:
                        time.sleep(self.model.window_s)
                self._compare(f"epoch {epoch}, run {self.runs}")
                self._forget(epoch)
                if dice.random() < 0.5:  # committed, and Spark's own commit was lost
                    self.model.epoch(epoch, spread(dice, rows))
                    self._compare(f"epoch {epoch} again")
                if dice.random() < 0.5:
                    self._bury()
                    self._compare(f"epoch {epoch}, after the last zombie")
            self._bury()
        self._compare("the end")

    def _forget(self, epoch: int) -> None:
        """Lose the ledger now and then: the ids in the stream say what is stored.

        Not in the first epoch, for which the stream is only searched as far as its window.
        """
        if epoch and self._dice.random() < 0.15:
            # A task that lives on would not be stopped by a ledger that knows nothing.
            self._bury()
            self.forgotten += self.model.forget()

    def _attempt(self, epoch: int, rows: Sequence[str]) -> bool:
        """Run an epoch in some layout; False when it was killed."""
        dice, model, life = self._dice, self.model, Life(self._dice)
        self.runs += 1
        run = model.run()
        layout = list(enumerate(spread(dice, rows)))
        dice.shuffle(layout)
        tasks: list[tuple[Future[SinkCommit], Future[SinkCommit] | None]] = []
        survivors: list[Future[SinkCommit]] = []
        for partition, part in layout:
            lives: list[Life | Survivor] = [life, life]
            if self._with_zombies and dice.random() < 0.3:
                lives[0] = Survivor(dice.random())
            first = self._pool.submit(model.write, run, epoch, partition, part, lives[0])
            if isinstance(lives[0], Survivor):
                survivors.append(first)
            second = None
            if dice.random() < 0.25:
                self.twins += 1
                # A stream that forgets ids within seconds cannot tell two attempts at once apart.
                if self._short_window or dice.random() < 0.5:
                    with suppress(Killed):
                        first.result()
                second = self._pool.submit(model.write, run, epoch, partition, part, life, 1)
            tasks.append((first, second))
        return self._commit(life, tasks, survivors)

    def _commit(
        self,
        life: Life,
        tasks: Sequence[tuple[Future[SinkCommit], Future[SinkCommit] | None]],
        survivors: Sequence[Future[SinkCommit]],
    ) -> bool:
        try:
            used = [second if second is not None else first for first, second in tasks]
            # A survivor is waited for last: a driver that dies meanwhile leaves it running.
            for task in used:
                if task not in survivors:
                    task.result()
            messages = [task.result() for task in used]
            if life.dead:
                raise Killed
            # Spark kills the slower of two attempts; here it may continue writing.
            self.model.commit(messages, life)
        except Killed:
            for task in [one for pair in tasks for one in pair if one is not None]:
                if task not in survivors:
                    # The slower of two attempts may come after the commit, which then died.
                    with suppress(Killed, Superseded):
                        task.result()
            living = [one for one in survivors if not one.done()]
            self.zombies += len(living)
            self._late += living
            return False
        self._late += [first for first, _ in tasks]
        return True

    def _bury(self) -> None:
        """Wait for the tasks of dead runs, each of which has ended or was configured to."""
        for task in self._late:
            try:
                task.result()
            except Superseded:
                self.superseded += 1
            except Killed:
                pass
        self._late.clear()

    def _compare(self, when: str) -> None:
        stored = self.model.stored()
        if stored != self._due:
            raise AssertionError(
                f"{self.model.name}, {when}: too often {stored - self._due}, "
                f"missing {self._due - stored}"
            )


def play(
    url: str, jetstream: sync.JetStream, strength: str, seed: int, *, epochs: int, zombies: bool
) -> Campaign:
    """Make a query of this strength and play its epochs."""
    dice = random.Random(f"{seed} {strength}")
    model = Model(
        url,
        jetstream,
        f"REPLAY_{strength}_{seed}",
        strength,
        window_s=dice.choice([120.0, SHORT_WINDOW_S]),
        ack_ms=ZOMBIE_ACK_MS if zombies else 150,
    )
    campaign = Campaign(model, dice, zombies=zombies)
    with driven(strength):
        campaign.play(epochs)
    jetstream.delete_stream(model.name)
    return campaign


def campaign(deadline: float, seed: int) -> str:
    """Play against both servers in turn until the time is over; return the figures."""
    totals: Counter[str] = Counter()
    with both_servers() as urls:
        while time.monotonic() < deadline or not totals:
            for server, url in urls.items():
                with sync.connect(url) as client:
                    for strength in STRENGTHS:
                        try:
                            played = play(
                                url, client.jetstream(), strength, seed, epochs=3, zombies=True
                            )
                        except Exception as error:
                            error.add_note(f"{server}, {strength}, seed {seed}")
                            raise
                        totals[f"queries on {server}"] += 1
                        for name in FIGURES:
                            totals[name] += getattr(played, name)
            seed += 1
        CONNECTIONS.close()
    figures = ", ".join(f"{count} {name}" for name, count in totals.items())
    return f"{figures}; every row exactly once"


@contextmanager
def both_servers() -> Iterator[dict[str, str]]:
    """Start jetspark, and nats-server where it is installed."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    with tempfile.TemporaryDirectory() as folder, sync.Server() as ours:
        urls = {"jetspark": ours.client_url}
        if found is None:
            yield urls
            return
        ports = Path(folder, "ports")
        ports.mkdir()
        command = [found, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", f"{folder}/store"]
        process = subprocess.Popen(
            [*command, "--ports_file_dir", str(ports)], stderr=subprocess.DEVNULL
        )
        try:
            urls["nats-server"] = _address(ports)
            yield urls
        finally:
            process.terminate()
            process.wait(timeout=20)


def _address(folder: Path) -> str:
    for _ in range(600):
        for file in folder.glob("*.ports"):
            with suppress(ValueError, LookupError):
                return str(json.loads(file.read_text())["nats"][0])
        time.sleep(0.1)
    raise TimeoutError("nats-server did not start")


def main() -> None:
    """Play from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)  # noqa: T201
    figures = campaign(time.monotonic() + 60 * arguments.minutes, arguments.seed)
    print(figures)  # noqa: T201


if __name__ == "__main__":
    main()
