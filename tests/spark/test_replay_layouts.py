"""Exactly once does not depend on how rows are spread over partitions.

A naive model drives the writers of tasks and the commit of the driver over real servers: random
epochs with many equal rows, another layout for each run, runs that die anywhere, also within the
commit, and tasks of dead runs that go on writing. In the end the stream has the rows, exactly.
"""

import pickle
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.api.stream import StreamConfig
from jetspark.spark import epoch_ledger, markers, sink_writer
from jetspark.spark.epoch_ledger import Superseded
from jetspark.spark.sending import Sender
from jetspark.spark.sink_writer import RowWriter, SinkCommit
from jetspark.spark.source import JetStreamDataSource

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask

SCHEMA = StructType().add("subject", "string").add("data", "string")
STRENGTHS = {
    "fast": {"publishMode": "fast"},
    "async": {"publishMode": "async"},
    "chunk": {"publishMode": "atomic", "atomicScope": "chunk"},
    "partition": {"publishMode": "atomic", "atomicScope": "partition"},
    "epoch": {"publishMode": "atomic", "atomicScope": "epoch"},
}


class Killed(Exception):
    """The process dies here."""


class Model:
    """One query: its stream, and runs of its epochs in any layout."""

    def __init__(
        self,
        url: str,
        jetstream: sync.JetStream,
        task: "type[FakeTask]",
        name: str,
        strength: str,
        window_ns: int | None = None,
    ) -> None:
        self.name = name
        self.task = task
        self.stream = jetstream.create_stream(
            StreamConfig(
                name=name,
                subjects=(f"{name}.>",),
                allow_direct=True,
                allow_atomic=True,
                allow_batched=True,
            )
        )
        self._window_ns = window_ns
        self.options = {"servers": url, "stream": name, "idPrefix": name, "ackTimeoutMs": "150"}
        self.options |= STRENGTHS[strength]
        if "atomicScope" in self.options:
            self.options["ledgerSubject"] = f"{name}.ledger"

    def run(self, **options: str) -> RowWriter:
        """What Spark plans for one run of an epoch."""
        source = JetStreamDataSource(options=self.options | options)
        made: Any = source.streamWriter(SCHEMA, False)
        rows: RowWriter = pickle.loads(pickle.dumps(made._rows))
        if self._window_ns is not None:
            # The tasks believe in this window: they read back what is older.
            plan = msgspec.structs.replace(rows._plan, duplicate_window_ns=self._window_ns)
            rows = RowWriter(plan, SCHEMA)
        return rows

    def write(self, run: RowWriter, epoch: int, partition: int, rows: Sequence[str]) -> SinkCommit:
        self.task.epoch, self.task.partition = str(epoch), partition
        return run.write(batches(self.name, rows))

    def commit(self, told: Sequence[SinkCommit]) -> None:
        """Spark plans the commit as a write of its own."""
        self.run().commit(pickle.loads(pickle.dumps(told)))

    def epoch(self, number: int, layout: Sequence[Sequence[str]], **options: str) -> None:
        """Run an epoch to its end."""
        run = self.run(**options)
        self.commit([self.write(run, number, at, rows) for at, rows in enumerate(layout)])

    def stored(self) -> Counter[str]:
        return Counter(
            one.decode()
            for chunk in self.stream.scan(filters=(f"{self.name}.rows",))
            for one in chunk.payloads
        )


def batches(name: str, rows: Sequence[str], size: int = 40) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), size):
        some = list(rows[at : at + size])
        yield pa.RecordBatch.from_pydict({"subject": [f"{name}.rows"] * len(some), "data": some})


def spread(dice: random.Random, rows: Sequence[str]) -> list[list[str]]:
    """Put rows into some partitions, in any order; some may be empty."""
    parts: list[list[str]] = [[] for _ in range(dice.randint(1, 5))]
    for row in dice.sample(rows, len(rows)):
        dice.choice(parts).append(row)
    return parts


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch, strength: str) -> None:
    """Many chunks and batches of few rows, so that a kill finds some stored and others not."""
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 40)
    if strength == "chunk":
        monkeypatch.setattr(markers, "ROWS_PER_BATCH", 25)
    monkeypatch.setattr(epoch_ledger, "CHECK_INTERVAL_S", 0.0)


class Fuse:
    """Kills whatever sends after so many chunks; before or after the chunk is stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        self.after = False
        for name in ("send", "send_together"):
            self._wrap(monkeypatch, name, getattr(Sender, name))

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str, real: Any) -> None:
        def send(sender: Sender, *columns: Any) -> int:
            dies = self.left == 0
            if self.left is not None:
                self.left -= 1
            if dies and not self.after:
                # Of a chunk that is under way some rows are stored, unless it is atomic.
                if name == "send":
                    half = len(columns[0]) // 2
                    real(sender, *(column[:half] for column in columns))
                raise Killed
            seq: int = real(sender, *columns)
            if dies:
                raise Killed
            return seq

        monkeypatch.setattr(Sender, name, send)


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    return Fuse(monkeypatch)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_are_exact_whatever_the_layouts_and_the_kills(
    url: str,
    jetstream: sync.JetStream,
    task: "type[FakeTask]",
    fuse: Fuse,
    strength: str,
    seed: int,
) -> None:
    campaign(url, jetstream, task, fuse, strength, seed, epochs=3)


def campaign(
    url: str,
    jetstream: sync.JetStream,
    task: "type[FakeTask]",
    fuse: Fuse,
    strength: str,
    seed: int,
    *,
    epochs: int,
) -> int:
    """Compare the stream with the rows after each epoch; return how many runs there were."""
    dice = random.Random(f"{seed} {strength}")
    # Now and then the duplicate window helps, now and then it has passed.
    window = dice.choice([None, 0])
    model = Model(url, jetstream, task, f"LAYOUT_{strength}_{seed}", strength, window)
    due: Counter[str] = Counter()
    runs = 0
    for epoch in range(epochs):
        rows = [f"{epoch} {dice.randint(1, 40)}" for _ in range(dice.randint(0, 150))]
        due.update(rows)
        while True:
            runs += 1
            fuse.left = dice.choice([None, *range(8)])
            fuse.after = dice.random() < 0.5
            if attempt(model, dice, epoch, rows):
                break
        fuse.left = None
        assert model.stored() == due, f"seed {seed}, {strength}, epoch {epoch}, run {runs}"
        if dice.random() < 0.5:  # committed, and Spark's own commit was lost
            model.epoch(epoch, spread(dice, rows))
            assert model.stored() == due
    return runs


def attempt(model: Model, dice: random.Random, epoch: int, rows: Sequence[str]) -> bool:
    """Run an epoch in some layout; False when it was killed."""
    run = model.run()
    told: list[SinkCommit] = []
    order = list(enumerate(spread(dice, rows)))
    dice.shuffle(order)
    try:
        for partition, part in order:
            if dice.random() < 0.2:
                # Spark repeats a task, or runs it twice for speed.
                model.write(run, epoch, partition, part)
                told.append(model.write(run, epoch, partition, part))
            else:
                told.append(model.write(run, epoch, partition, part))
        model.commit(told)
    except Killed:
        return False
    return True


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_task_of_a_dead_run_stops_when_a_later_run_has_begun(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]", strength: str
) -> None:
    model = Model(url, jetstream, task, f"ZOMBIE_{strength}", strength, 0)
    rows = [str(number % 70) for number in range(200)]
    dead, late = model.run(), model.run()
    model.write(dead, 0, 0, rows[:100])

    told = [model.write(late, 0, at, rows[at::3]) for at in range(3)]
    if strength != "epoch":  # there only the driver writes
        with pytest.raises(Superseded, match="another run of the same query has taken over"):
            model.write(dead, 0, 1, rows[100:])
    model.commit(told)
    assert model.stored() == Counter(rows)
