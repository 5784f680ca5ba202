"""Streaming queries are killed inside an epoch and start again with something changed.

Between two lives of a query a user may change cores, executors, options and the layout of rows;
the source may lose rows, be made again or move to another server; the checkpoint may come from an
older version. ``CASES`` has one row for each: the queries end with exactly the rows that were
published, or they refuse to start before a row is written, and what the error advises leads on.

A case begins with a copy of a server and of checkpoints whose driver was killed inside the second
of three epochs (``BEGINNINGS``), so that one such life serves many cases.

``tests/spark/campaigns/test_restarts.py`` is the short form, ``make torture`` the long one;
``python -m tests.campaigns.spark.restarts --case NAME`` runs one case, ``--list`` names them.
Cases that need another version of jetspark or Spark take its Python from ``--old-python`` (with
jetspark 0.1.0) and ``--spark42-python`` (with pyspark 4.2), or from the variables
``JETSPARK_OLD_PYTHON`` and ``JETSPARK_SPARK42_PYTHON``; without it they are left out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.spark.restart_world import (
    BY_NAME,
    LEDGER,
    MORE_ROUTES,
    ORIGIN,
    PER_EPOCH,
    QUERIES,
    ROWS,
    SECOND,
    Query,
    World,
    text_of,
)
from tests.support.processes import command_of, descendants, kill_all
from tests.support.spark_home import find_spark_home

from jetspark.spark.jvm.archive import ARCHIVE_VARIABLE

ROOT: Final = Path(__file__).resolve().parents[3]
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker that starts late on a busy machine is not a failure that this looks for.
    "spark.python.authenticate.socketTimeout": "60s",
}
PATIENCE_S: Final = 600.0
# Nothing more is stored for so long: all tasks but the held ones have written.
SETTLED_S: Final = 1.5
HELD_EPOCH: Final = 1

EVERY: Final = tuple(BY_NAME)
OF_STREAM: Final = tuple(query.name for query in QUERIES if query.format == "jetstream")
MARKED: Final = ("CHUNKS", "PARTS", "EPOCHS")
STREAM_SINKS: Final = tuple(q.name for q in QUERIES if q.kind == "stream")
"""Those whose exactly-once is the sink's own, without ids of the user."""


@dataclass(frozen=True)
class Life:
    """How the job is started once."""

    master: str = "local[1]"
    source: dict[str, str] = field(default_factory=dict)
    """Options of the reads of the stream, besides those that say where it is."""
    sink: dict[str, str | None] = field(default_factory=dict)
    """Options of the writes besides those of the query, whose name is ``{name}``; None: none."""
    ids: bool = False
    """Whether the rows have a column ``msg_id``, whatever the query says."""
    layout: dict[str, int] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    python: str = "this"
    killed: bool = False
    """Killed inside an epoch: partition ``hold`` of it never ends."""
    hold: int = 1
    kill_executor: bool = False


Change = Callable[[World], str | None]
"""Something that happens between two lives; returns the address of the source if it moved."""


class Step(NamedTuple):
    """A life, what happens before it, and how it must end."""

    life: Life
    change: Change | None = None
    refused: str = ""
    """A part of the error of every query; empty: they end with the exact rows."""
    refused_for: tuple[str, ...] = ()
    """The queries that refuse; empty: all of the case."""


class Case(NamedTuple):
    """One row of the table."""

    name: str
    steps: tuple[Step, ...]
    queries: tuple[str, ...] = EVERY
    beginning: str = "base"
    due: Callable[[int], bool] | None = None
    """Which rows of the stream must arrive; None: all that are not lost."""


class Beginning(NamedTuple):
    """A first life that is killed, and the queries in it."""

    life: Life
    queries: tuple[str, ...]


FEW: Final = ("DEFAULT", "LEDGERED", "CHUNKS")
# Sinks that jetspark 0.1.0 did not have.
NEW: Final = ("ROUTED", "ONCE", "MERGED")
OLD: Final = tuple(name for name in EVERY if name not in NEW)
MAIN: Final = (*FEW, "IDS", "FED", "FILED", *NEW)
MAIN_OF_STREAM: Final = (*FEW, "IDS", "TABLE", *NEW)
LIMIT: Final = {"maxOffsetsPerTrigger": str(PER_EPOCH)}
# Each query holds one slot, and the last one needs two more. To Spark these are two cores, so that
# rows are spread as on such a machine: over four partitions.
SLOTS: Final = f"local[{len(QUERIES) + 2}]"
TWO_CORES: Final = {"spark.default.parallelism": "2"}
BEGINNINGS: Final = {
    "base": Beginning(Life(SLOTS, LIMIT, config=TWO_CORES, killed=True), EVERY),
    "executors": Beginning(
        Life("local-cluster[2,2,1024]", LIMIT, killed=True, kill_executor=True), FEW
    ),
    "0.1.0": Beginning(Life(SLOTS, LIMIT, config=TWO_CORES, python="old", killed=True), OLD),
    "spark 4.2": Beginning(
        Life(SLOTS, LIMIT, config=TWO_CORES, python="spark42", killed=True), EVERY
    ),
}


def reading(master: str = "local[1]", **options: str) -> Life:
    """Return a life whose reads have these options besides the limit of an epoch."""
    return Life(master, LIMIT | options)


def writing(**options: str | None) -> Life:
    """Return a life whose writes have these options besides those of the query."""
    return Life(source=LIMIT, sink=options)


def more_rows(world: World) -> None:
    """Append rows, for an epoch that begins after a change."""
    world.append(range(20_001, 20_051))


def shuffled(partitions: int, *, killed: bool = False) -> Life:
    """Return a life that shuffles rows into this many partitions."""
    return Life(
        SLOTS if killed else "local[1]",
        LIMIT,
        layout={"shuffle": 1},
        config={"spark.sql.shuffle.partitions": str(partitions)},
        killed=killed,
    )


def made_again_with_other_rows(world: World) -> None:
    """Put another stream of the same name in place of the first."""
    world.make_again(range(10_001, 10_001 + PER_EPOCH * 2))


def imported(kind: str) -> Change:
    """Return the move of the source to a server of another kind, by export and import."""
    return lambda world: world.import_elsewhere(kind)


def older_checkpoints(world: World) -> None:
    """Bring back checkpoints as of the kill, which the targets are ahead of by now."""
    world.save("done")
    world.load_checkpoints("begun")


def newer_checkpoints(world: World) -> None:
    """Bring back the checkpoints that were replaced by older ones."""
    world.load_checkpoints("done")


def forget(world: World) -> None:
    """Let the duplicate window pass."""
    world.forget_ids()


GONE: Final = 'set option("failOnDataLoss", "false")'
PLAIN: Final = reading()
LOSSY: Final = reading(failOnDataLoss="false")
LOSSY_SAME_CORES: Final = reading("local[2]", failOnDataLoss="false")

BOTH: Final = reading(stream="", streams=f"{ORIGIN},{SECOND}")
BOTH_LOSSY: Final = reading(stream="", streams=f"{SECOND},{ORIGIN}", failOnDataLoss="false")
BY_PATTERN: Final = reading("local[3]", stream="", streamPattern=f"({ORIGIN}|{SECOND})")

# With atomicScope epoch nothing is stored or registered before the commit: it just continues.
BEGUN: Final = tuple(name for name in EVERY if name != "EPOCHS")
TO_ATOMIC: Final = writing(publishMode="atomic", ledgerSubject="{name}.ledger")
FROM_ATOMIC: Final = writing(publishMode="fast", ledgerSubject=None, atomicScope=None)
OTHER_SUBJECT: Final = writing(ledgerSubject="{name}.a.longer.one.than.any.guess")
OTHER_BUCKET: Final = writing(ledgerBucket=LEDGER)
OTHER_PREFIX: Final = writing(idPrefix="{name}-other")
AT_LEAST_ONCE: Final = writing(
    delivery="at-least-once", ledgerBucket=None, ledgerSubject=None, atomicScope=None
)

CASES: Final = (
    # What a user changes.
    Case("fewer cores", (Step(PLAIN),)),
    Case("more cores", (Step(reading("local[5]")),), MAIN),
    Case("executors instead of threads", (Step(reading("local-cluster[2,1,1024]")),), MAIN),
    Case("an executor killed, then the driver", (Step(PLAIN),), FEW, "executors"),
    Case(
        "other partitions", (Step(reading(minPartitions="5", maxRecordsPerPartition="77")),), MAIN
    ),
    Case("smaller epochs", (Step(Life("local[1]", {"maxOffsetsPerTrigger": "100"})),), MAIN),
    Case(
        "epochs limited by bytes, and delayed",
        (
            Step(
                Life(
                    "local[1]",
                    {
                        "maxBytesPerTrigger": "4000",
                        "minOffsetsPerTrigger": "200",
                        "maxTriggerDelay": "1s",
                    },
                )
            ),
            Step(reading(minOffsetsPerTrigger="500", maxTriggerDelay="1h"), more_rows),
        ),
        MAIN_OF_STREAM,
    ),
    Case(
        "a consumer that shows the position, then another one",
        (
            Step(reading(progressConsumer="{name}-one")),
            Step(reading(progressConsumer="{name}-two"), more_rows),
            Step(PLAIN, lambda world: world.check_consumers("-two")),
        ),
        MAIN_OF_STREAM,
    ),
    Case("no limit of an epoch", (Step(Life("local[1]")),), MAIN),
    Case(
        "reads by consumers, in small requests, with headers",
        (Step(reading(readMode="consumer", batchSize="50", includeHeaders="map")),),
        MAIN_OF_STREAM,
    ),
    Case("repartition(3)", (Step(Life(source=LIMIT, layout={"repartition": 3})),)),
    Case("coalesce(1)", (Step(Life(source=LIMIT, layout={"coalesce": 1})),), MAIN),
    Case(
        "spark.sql.shuffle.partitions",
        (Step(shuffled(5, killed=True)), Step(shuffled(2))),
        # A merge sees its rows by key already.
        tuple(name for name in MAIN if name not in {"FILED", "MERGED"}),
    ),
    Case(
        "another startingOffsets",
        (
            Step(reading(startingOffsets="latest")),
            Step(reading(startingOffsets="5"), more_rows),
        ),
        MAIN_OF_STREAM,
    ),
    Case(
        "another startingTimestamp",
        (Step(reading(startingOffsets="", startingTimestamp="2030-01-01T00:00:00Z")),),
        MAIN_OF_STREAM,
    ),
    Case(
        "another filter",
        (Step(reading(subject=f"{ORIGIN}.1")),),
        MAIN_OF_STREAM,
        due=lambda row: row <= (HELD_EPOCH + 1) * PER_EPOCH or row % 3 == 1,
    ),
    Case(
        "a second stream joins, is left out, and comes back by a pattern",
        (
            Step(BOTH, lambda world: world.add_second(range(30_001, 30_051))),
            Step(PLAIN, more_rows),
            Step(BY_PATTERN, lambda world: world.add_second(range(30_051, 30_101))),
        ),
        MAIN_OF_STREAM,
    ),
    Case(
        "the second of two streams is deleted",
        (
            Step(BOTH, lambda world: world.add_second(range(30_001, 30_051))),
            Step(BOTH, lambda world: world.delete_second(), refused="was deleted"),
            Step(BOTH_LOSSY, more_rows),
        ),
        MAIN_OF_STREAM,
    ),
    Case(
        "killed in the same epoch again, and once more",
        (
            Step(Life(SLOTS, LIMIT, layout={"repartition": 5}, killed=True, hold=0)),
            Step(Life(SLOTS, LIMIT, layout={"repartition": 4}, killed=True, hold=3)),
            Step(PLAIN),
        ),
        tuple(name for name in EVERY if name != "FILED"),
    ),
    Case(
        "the last commit was not noted",
        (Step(PLAIN), Step(reading("local[3]"), lambda world: world.lose_commits())),
    ),
    Case(
        "checkpoints older than the rows",
        (
            Step(PLAIN),
            Step(PLAIN, older_checkpoints, refused="older than the rows in the stream"),
            Step(PLAIN, newer_checkpoints),
        ),
        (*FEW, "PARTS"),
    ),
    # How rows are written.
    Case(
        "publishMode async, with other limits",
        (Step(writing(publishMode="async", maxInFlight="50", ackTimeoutMs="9000", retries="9")),),
        ("DEFAULT", "LEDGERED", "IDS", "BATCHES", "FILED"),
    ),
    Case("atomicScope partition", (Step(writing(atomicScope="partition")),), MARKED),
    Case("atomicScope chunk", (Step(writing(atomicScope="chunk")),), MARKED),
    Case(
        "publishMode to atomic",
        (
            Step(TO_ATOMIC, None, "was started with another", BEGUN),
            Step(PLAIN),
            Step(TO_ATOMIC, more_rows),
        ),
        ("DEFAULT",),
    ),
    Case(
        "publishMode from atomic",
        (
            Step(FROM_ATOMIC, None, "was started with another", BEGUN),
            Step(PLAIN),
            Step(FROM_ATOMIC, more_rows),
        ),
        MARKED,
    ),
    Case(
        "another ledgerSubject",
        (
            Step(OTHER_SUBJECT, None, "was started with another", BEGUN),
            Step(PLAIN),
            Step(OTHER_SUBJECT, more_rows),
        ),
        MARKED,
    ),
    Case(
        "another ledgerBucket",
        (
            Step(OTHER_BUCKET, None, "was started with another", BEGUN),
            Step(PLAIN),
            Step(OTHER_BUCKET, more_rows),
        ),
        ("DEFAULT", "FILED"),
    ),
    Case(
        "another idPrefix",
        (
            Step(OTHER_PREFIX, None, "was started with another", BEGUN),
            Step(PLAIN),
            Step(OTHER_PREFIX, more_rows),
        ),
        STREAM_SINKS,
    ),
    Case(
        "at-least-once for a while",
        (
            Step(PLAIN),
            Step(AT_LEAST_ONCE, more_rows),
            Step(PLAIN, lambda world: world.append(range(20_051, 20_101))),
        ),
        STREAM_SINKS,
    ),
    Case(
        "a column msg_id",
        (Step(PLAIN), Step(Life(source=LIMIT, ids=True), more_rows)),
        ("DEFAULT", "LEDGERED"),
    ),
    Case(
        "one more stream for the rows",
        (Step(PLAIN), Step(writing(streams=",".join(MORE_ROUTES)), more_rows)),
        ("ROUTED",),
    ),
    # What time does.
    Case(
        "later than the duplicate window",
        (Step(PLAIN, forget),),
        # Ids of the user's own are remembered for the duplicate window only.
        tuple(name for name in EVERY if name != "IDS"),
    ),
    # What happens to the source.
    Case(
        "another stream",
        (Step(reading(stream="DEFAULT"), refused="belongs to another read"), Step(PLAIN)),
        tuple(name for name in MAIN_OF_STREAM if name != "DEFAULT"),
    ),
    Case(
        "rows expired, accepted",
        (Step(LOSSY_SAME_CORES, lambda world: world.expire()),),
        MAIN_OF_STREAM,
    ),
    Case("rows purged, accepted", (Step(LOSSY, lambda world: world.purge()),), MAIN_OF_STREAM),
    Case(
        "rows purged",
        (Step(PLAIN, lambda world: world.purge(), refused="failOnDataLoss"), Step(LOSSY)),
        MAIN_OF_STREAM,
    ),
    Case(
        "single rows deleted, accepted",
        (Step(LOSSY, lambda world: world.delete_some()),),
        MAIN_OF_STREAM,
    ),
    Case(
        "made again with other rows",
        (
            Step(PLAIN, made_again_with_other_rows, refused="onRecreate"),
            Step(reading(onRecreate="earliest")),
        ),
        MAIN_OF_STREAM,
    ),
    Case(
        "made again with other rows, accepted",
        (Step(LOSSY, made_again_with_other_rows),),
        MAIN_OF_STREAM,
    ),
    Case(
        "made again, empty",
        (
            Step(PLAIN, lambda world: world.make_again(), refused="onRecreate"),
            Step(reading(onRecreate="earliest")),
        ),
        MAIN_OF_STREAM,
    ),
    # Where the source lives.
    *(
        Case(
            f"imported into {kind}",
            (
                Step(PLAIN, imported(kind), "onRecreate"),
                Step(reading(onRecreate="continue")),
            ),
            MAIN_OF_STREAM,
        )
        for kind in ("jetspark", "nats-server", "cluster")
    ),
    Case(
        "restored from a backup on another server",
        (Step(reading(onRecreate="continue"), lambda world: world.restore_elsewhere()),),
        MAIN_OF_STREAM,
    ),
    # Which version wrote the checkpoint.
    Case("from 0.1.0", (Step(reading("local[2]")),), OLD, "0.1.0"),
    Case("from 0.1.0, fewer cores", (Step(PLAIN),), OLD, "0.1.0"),
    Case("from 0.1.0, repartition(3)", (Step(Life(layout={"repartition": 3})),), FEW, "0.1.0"),
    Case("from Spark 4.2", (Step(PLAIN),), beginning="spark 4.2"),
    Case(
        "Spark 4.2, fewer cores",
        (Step(Life("local[1]", LIMIT, python="spark42")),),
        beginning="spark 4.2",
    ),
)


@dataclass
class Figures:
    """What was done."""

    cases: int = 0
    lives: int = 0
    kills: int = 0
    restarts: int = 0
    compared: int = 0
    wrong: int = 0
    refusals: int = 0
    problems: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{self.cases} cases, {self.lives} lives, {self.kills} kills, {self.restarts} "
            f"restarts, {self.refusals} refusals, {self.compared} rows compared, "
            f"{self.wrong} wrong"
        )
        return f"{text}; left out: {', '.join(self.left_out)}" if self.left_out else text


class Restarts:
    """Runs cases, each from a copy of its beginning."""

    def __init__(
        self, folder: Path, kind: str, pythons: dict[str, str], queries: Iterable[str] = EVERY
    ) -> None:
        self.figures = Figures()
        self._folder = folder
        self._kind = kind
        self._pythons = pythons
        self._queries = frozenset(queries)
        self._worlds: dict[str, World] = {}
        self._held: dict[str, dict[str, Counter[str]]] = {}

    def run(self, case: Case) -> list[str]:
        """Run one case; what was wrong, in lines."""
        beginning = BEGINNINGS[case.beginning]
        pythons = {beginning.life.python, *(step.life.python for step in case.steps)}
        if not pythons <= set(self._pythons) or not self._chosen(case.queries):
            self.figures.left_out.append(case.name)
            return []
        world = self._begin(case.beginning)
        world.load("begun")
        self.figures.cases += 1
        problems: list[str] = []
        url = ""
        queries = self._chosen(case.queries)
        held = self._held[case.beginning]
        for step in case.steps:
            if step.change is not None:
                url = step.change(world) or url
            before = {query.name: world.contents(query) for query in queries}
            self.figures.restarts += 1
            errors = self.live(world, step.life, queries, url)
            if step.life.killed:
                held = {query.name: world.contents(query) for query in queries}
                continue
            for query in queries:
                error = errors.get(query.name, "the job did not say how it ended")
                refusing = step.refused and query.name in (step.refused_for or case.queries)
                if refusing:
                    problems += self._refused(world, query, step.refused, error, before)
                elif error is not None:
                    problems.append(f"{query.name} failed: {_last_lines(error)}")
                else:
                    problems += self._exact(world, case, query, held)
            if problems:
                break
        problems = [f"{case.name}: {problem}" for problem in problems]
        self.figures.problems += problems
        return problems

    def close(self) -> None:
        """Stop the servers."""
        for world in self._worlds.values():
            world.close()

    def live(
        self, world: World, life: Life, queries: Iterable[Query], url: str = ""
    ) -> dict[str, str | None]:
        """Run the job once: the errors of its queries, or nothing when it was killed."""
        self.figures.lives += 1
        folder = self._folder / f"life{self.figures.lives}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        spec = folder / "spec.json"
        flows = [flow_of(world, life, query, url) for query in queries]
        config = SETTINGS | life.config
        spec.write_text(
            json.dumps({"master": life.master, "config": config, "flows": flows}, indent=1)
        )
        command = [
            self._pythons[life.python],
            "-m",
            "tests.campaigns.spark.restart_job",
            str(spec),
        ]
        with (folder / "log").open("wb") as log:
            job = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=ROOT,
                env=self._environment(life.python),
            )
        try:
            self._watch(job, folder, life, world, list(queries))
        finally:
            kill_all(job.pid)
            job.wait()
        results = folder / "results.json"
        if results.exists():
            found: dict[str, str | None] = json.loads(results.read_text())
            return found
        assert life.killed, (folder / "log").read_text()[-3000:]
        return {}

    def _chosen(self, names: Iterable[str]) -> list[Query]:
        return [BY_NAME[name] for name in names if name in self._queries]

    def _environment(self, python: str) -> dict[str, str]:
        """Return the variables of a job: which jetspark and Spark it and its workers use."""
        path = [str(ROOT)]
        if python != "old":
            # Executors run in folders of their own, where a relative path leads nowhere.
            path += [
                str(Path(one).resolve()) for one in sys.path if one and "-packages" not in one
            ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        if python == "this":
            kept = find_spark_home(train=True)
            return environment | (kept.environment if kept else {})
        home = self._folder / f"spark-home-{python}"
        if not home.exists():
            make = "import sys, pathlib; from tests.support.linked_spark import make_spark_home; "
            make += "make_spark_home(pathlib.Path(sys.argv[1]))"
            command = [self._pythons[python], "-c", make, str(home)]
            subprocess.run(command, check=True, cwd=ROOT, env=environment)
        return environment | {"SPARK_HOME": str(home), ARCHIVE_VARIABLE: "off"}

    def _begin(self, name: str) -> World:
        """Return the world of a killed first life, made once."""
        if name in self._worlds:
            return self._worlds[name]
        folder = self._folder / name.replace(" ", "-")
        world = self._worlds[name] = World(folder, self._kind)
        beginning = BEGINNINGS[name]
        queries = self._chosen(beginning.queries)
        if world.has("begun"):
            # Kept by an earlier campaign (``--keep``).
            world.load("begun")
        else:
            world.fill()
            self.live(world, beginning.life, queries)
        self._held[name] = {query.name: world.contents(query) for query in queries}
        for query in queries:
            assert not (world.checkpoint(query) / "commits" / str(HELD_EPOCH)).exists(), (
                f"the epoch of {query.name} was committed before the kill"
            )
        if not world.has("begun"):
            world.save("begun")
        return world

    def _watch(
        self,
        job: "subprocess.Popen[bytes]",
        folder: Path,
        life: Life,
        world: World,
        queries: list[Query],
    ) -> None:
        """Wait for the end of a life, or bring it about."""
        deadline = time.monotonic() + PATIENCE_S
        while job.poll() is None and not (folder / "all-held").exists():
            assert time.monotonic() < deadline, (folder / "log").read_text()[-3000:]
            time.sleep(0.1)
        if not life.killed:
            return
        assert job.poll() is None, (folder / "log").read_text()[-3000:]
        wait_until_settled(world, queries)
        if life.kill_executor:
            kill_all(next(pid for pid in descendants(job.pid) if EXECUTOR in command_of(pid)))
            self.figures.kills += 1
            wait_until_settled(world, queries)
        kill_all(job.pid)
        self.figures.kills += 1

    def _refused(
        self,
        world: World,
        query: Query,
        text: str,
        error: str | None,
        before: dict[str, Counter[str]],
    ) -> list[str]:
        """Check that a query said no before it wrote."""
        self.figures.refusals += 1
        if error is None:
            return [f"{query.name} was not refused"]
        problems = []
        if text not in error:
            problems.append(f"{query.name} was refused without {text!r}: {_last_lines(error)}")
        now = world.contents(query)
        self.figures.compared += now.total()
        if now != before[query.name]:
            wrong = (now - before[query.name]).total()
            self.figures.wrong += wrong
            problems.append(f"{query.name} wrote {wrong} rows before it was refused")
        return problems

    def _exact(
        self, world: World, case: Case, query: Query, held: dict[str, Counter[str]]
    ) -> list[str]:
        """Compare a target with what was published."""
        due = world.due(query, held[query.name])
        if case.due is not None:
            due = Counter(text_of(row) for row in range(1, ROWS + 1) if case.due(row))
            due = Counter(set(due)) if query.kind in {"kv", "merge"} else due
        found = world.contents(query)
        self.figures.compared += max(due.total(), found.total())
        missing, extra = due - found, found - due
        if not missing and not extra:
            return []
        self.figures.wrong += missing.total() + extra.total()
        lacking = f"{missing.total()} of {due.total()} rows missing {sorted(missing)[:3]}"
        return [f"{query.name}: {lacking}, {extra.total()} too many {sorted(extra)[:3]}"]


def flow_of(world: World, life: Life, query: Query, url: str = "") -> dict[str, object]:
    """Describe one query for the job."""
    source = world.source_options(query, url if query.format == "jetstream" else "")
    if query.format == "jetstream":
        source |= {
            option: text.format(name=query.name) if option == "progressConsumer" else text
            for option, text in life.source.items()
        }
    elif query.format == "nats_kv":
        limits = ("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition")
        source |= {name: life.source[name] for name in limits if name in life.source}
    sink = world.sink_options(query) | life.sink
    return {
        "name": query.name,
        "kind": "ids" if life.ids else query.kind,
        "format": query.format,
        "source": {name: value for name, value in source.items() if value},
        "sink": {name: value.format(name=query.name) for name, value in sink.items() if value},
        "layout": life.layout,
        "checkpoint": str(world.checkpoint(query)),
        "hold": [life.hold] if life.killed else [],
        "hold_epoch": HELD_EPOCH,
    }


def wait_until_settled(world: World, queries: list[Query]) -> None:
    """Wait until the targets do not grow any more."""
    stored, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        now = sum(world.size(query) for query in queries)
        if now != stored:
            stored, since = now, time.monotonic()
        time.sleep(0.1)


def _last_lines(error: str) -> str:
    """Return the part of Spark's error that says what is wrong."""
    lines = [line for line in error.splitlines() if line.strip() and not line.startswith("\tat ")]
    told = [line for line in lines if "jetspark" in line or "Error" in line]
    return " / ".join((told or lines)[-3:])[:1000]


def campaign(
    folder: Path,
    *,
    names: Iterable[str] = (),
    kind: str = "jetspark",
    pythons: dict[str, str] | None = None,
    say: Callable[[str], object] = lambda _line: None,
    go_on: Callable[[], bool] = lambda: True,
    queries: Iterable[str] = EVERY,
) -> Figures:
    """Run the named cases in this order, or all: one, and more while ``go_on`` says so."""
    by_name = {case.name: case for case in CASES}
    wanted = list(names) or list(by_name)
    unknown = set(wanted) - set(by_name)
    assert not unknown, f"no such case: {', '.join(sorted(unknown))}"
    restarts = Restarts(folder, kind, {"this": sys.executable, **(pythons or {})}, queries)
    try:
        for case in map(by_name.__getitem__, wanted):
            if restarts.figures.cases and not go_on():
                break
            begun = time.monotonic()
            problems = restarts.run(case)
            outcome = "left out" if case.name in restarts.figures.left_out else "as expected"
            outcome = "WRONG" if problems else outcome
            say(f"{case.name}: {outcome}, {time.monotonic() - begun:.0f} s")
            for problem in problems:
                say(f"  {problem}")
    finally:
        restarts.close()
    return restarts.figures


def other_pythons(old: str = "", spark42: str = "") -> dict[str, str]:
    """Return the Pythons with other versions: those given, or those of two variables."""
    found = {
        "old": old or os.environ.get("JETSPARK_OLD_PYTHON", ""),
        "spark42": spark42 or os.environ.get("JETSPARK_SPARK42_PYTHON", ""),
    }
    return {key: value for key, value in found.items() if value}


def main() -> None:
    """Run cases on servers of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", default=[], help="several times; or all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--server", choices=("jetspark", "nats-server"), default="jetspark")
    parser.add_argument("--old-python", default="")
    parser.add_argument("--spark42-python", default="")
    parser.add_argument(
        "--keep",
        default="",
        help="a folder that stays: logs, and beginnings that the next campaign uses",
    )
    parser.add_argument("--query", action="append", help="only this one; several times")
    given = parser.parse_args()
    if given.list:
        sys.stdout.write("".join(f"{case.name}\n" for case in CASES))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(given.keep or name)
        folder.mkdir(parents=True, exist_ok=True)
        figures = campaign(
            folder,
            names=[each for each in given.case if each != "all"],
            kind=given.server,
            pythons=other_pythons(given.old_python, given.spark42_python),
            queries=given.query or EVERY,
            say=lambda line: (sys.stdout.write(f"{line}\n"), sys.stdout.flush()),
        )
    sys.stdout.write(f"{figures}\n")
    sys.exit(1 if figures.problems else 0)


if __name__ == "__main__":
    main()
