"""A query writes to a sink with ``exactly_once``, and is killed between all its steps.

The sinks are a table of files, and what ``batch_sinks`` has: databases by JDBC, tables of Delta
and Iceberg by their Python packages. The steps of a micro-batch are those that change something
outside of the driver: the entries of the ledger, the files of a table, the writes and what undoes
them, and for all but files a task in the middle of a write, after another has stored its rows. A
life of the driver ends before step number n, for every n until one ends on its own; each n has a
table, a ledger entry and a checkpoint of its own, and a second life that finishes. The rows of
each table must then be those of the stream, each once, in the micro-batches of the checkpoint.

``tests/spark/batches/test_exactly_once.py`` enumerates the same steps within one session, ``make
torture`` kills real drivers with SIGKILL; ``python -m tests.campaigns.spark.batch_kills --sink
derby`` runs it alone.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.campaigns.spark.batch_sinks import KINDS, Rows, places
from tests.support.processes import kill_all

from jetspark import StreamConfig, sync
from jetspark.spark.batches.file_table import LocalFiles
from jetspark.spark.batches.ledger import BatchLedger

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from jetspark.spark import Batch

ROOT: Final = Path(__file__).resolve().parents[3]
LIFE_S: Final = 300.0
FILES: Final = "files"
# Rows of a micro-batch.
BATCH: Final = 700


def steps() -> list[tuple[type, str]]:
    """Return everything that changes something outside of the driver."""
    from pyspark.sql.readwriter import DataFrameWriter

    return [
        (BatchLedger, "begin"),
        (LocalFiles, "write"),
        (DataFrameWriter, "save"),
        (LocalFiles, "rename"),
        (LocalFiles, "remove"),
        (BatchLedger, "commit"),
    ]


@contextlib.contextmanager
def stopped_before(
    number: int, stop: Callable[[str], None], *more: tuple[type, str]
) -> Iterator[list[str]]:
    """Call ``stop`` before step ``number``, counted from 0; yields the names of steps done.

    ``more`` are further steps.
    """
    done: list[str] = []

    def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            if len(done) == number:
                stop(name)
            done.append(name)
            return original(*args, **more)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (*steps(), *more):
            patch.setattr(owner, name, wrapped(name, getattr(owner, name)))
        yield done


def die_in_second_task(
    group: int, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Pass on the rows of the first task, and end the driver with all others in the second."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        if context.partitionId() == 1:
            os.killpg(group, signal.SIGKILL)
        yield batch


def job(url: str, folder: Path, at: int, kind: str, place: str) -> None:
    """Run the query from its checkpoint to the end of the stream; dies before step ``at``."""
    from jetspark.spark import exactly_once, session

    # With one slot, the first task of a write has stored its rows when the second one starts.
    master = "local[2]" if kind == FILES else "local[1]"
    spark = session("batch-kills", master=master, config=KINDS[kind].settings(), log_level="ERROR")
    sink = KINDS[kind].opened(spark, place)
    rows = spark.readStream.format("jetstream").options(servers=url, stream=f"ORIGIN-{kind}")
    rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(BATCH))

    def die(step: str) -> None:
        (folder / "died").write_text(step)
        os.killpg(0, signal.SIGKILL)

    more = [] if kind == FILES else [(type(sink), "write"), (type(sink), "undo")]
    with stopped_before(at, die, *more) as done:

        def write(rows: "DataFrame", batch: "Batch") -> None:
            rows = rows.repartition(2)
            if len(done) == at:
                (folder / "died").write_text("the second task")
                rows = rows.mapInArrow(partial(die_in_second_task, os.getpgrp()), rows.schema)
            done.append("the second task")
            sink.write(rows, batch)

        each = exactly_once(
            folder.name,
            sink.write if kind == FILES else write,
            undo=None if kind == FILES else sink.undo,
            servers=url,
        )
        writer = rows.load().select("data").writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    found = [[batch, data, count] for (batch, data), count in sink.rows().items()]
    (folder / "rows.json").write_text(json.dumps(found))
    spark.stop()


def live(url: str, folder: Path, at: int, kind: str, place: str) -> int:
    """Run the job in a process group of its own, all of which dies with it."""
    command = [sys.executable, "-m", "tests.campaigns.spark.batch_kills", "--sink", kind, "--job"]
    with (folder / f"life{at}.log").open("wb") as out:
        process = subprocess.Popen(
            [*command, url, str(folder), str(at), place],
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        return process.wait(timeout=LIFE_S)
    finally:
        kill_all(process.pid)
        process.wait()


def campaign(
    url: str,
    folder: Path,
    *,
    deadline: float,
    kind: str = FILES,
    rows: int = 1500,
    steps: Sequence[int] = range(100),
) -> str:
    """Kill before every step of three micro-batches in turn, as long as there is time."""
    missing = KINDS[kind].missing()
    if missing:
        return f"{kind}: skipped: {missing}"
    stream = f"ORIGIN-{kind}"
    with sync.connect(url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream(
            StreamConfig(name=stream, subjects=(f"{stream}.>",), allow_direct=True)
        )
        for row in range(rows):
            client.publish(f"{stream}.row", b"%d" % row)
        client.flush()
    due = Counter((row // BATCH, str(row)) for row in range(rows))
    died: list[str] = []
    with places(kind, folder) as place_of:
        for at in steps:
            if died and time.monotonic() > deadline:
                break
            killed = _die_and_finish(url, folder / f"{kind}{at}", at, kind, place_of, due)
            if not killed:
                break
            died.append(killed)
    return f"{kind}: {len(died)} drivers killed before: {', '.join(died)}; 0 rows lost, 0 too many"


def _die_and_finish(
    url: str, folder: Path, at: int, kind: str, place_of: Callable[[str], str], due: Rows
) -> str:
    """Run one table to its end; return before which step a driver died, empty if none did."""
    folder.mkdir()
    place = place_of(folder.name)
    code = live(url, folder, at, kind, place)
    killed = folder / "died"
    if killed.exists():
        code = live(url, folder, -1, kind, place)
    log = (folder / f"life{-1 if killed.exists() else at}.log").read_text()[-3000:]
    assert code == 0, log
    step = killed.read_text() if killed.exists() else ""
    found: Rows = Counter()
    for batch, data, count in json.loads((folder / "rows.json").read_text()):
        found[batch, data] = count
    lost, more = (due - found).total(), (found - due).total()
    assert found == due, f"{kind}, killed before step {at} {step}: {lost} rows lost, {more} more"
    return step


def main() -> None:
    """Run the campaign, or one life of its job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sink", choices=list(KINDS), default=FILES)
    parser.add_argument("--job", nargs=4, help="URL FOLDER STEP PLACE")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument(
        "--steps", type=int, nargs="+", default=range(100), help="kill before these only, from 0"
    )
    given = parser.parse_args()
    if given.job:
        url, folder, at, place = given.job
        job(url, Path(folder), int(at), given.sink, place)
        return
    with (
        tempfile.TemporaryDirectory() as name,
        sync.Server(store_dir=f"{name}/store") as server,
    ):
        # PostgreSQL runs as a user of its own, below this folder.
        Path(name).chmod(0o755)
        deadline = time.monotonic() + given.minutes * 60
        result = campaign(
            server.client_url,
            Path(name),
            deadline=deadline,
            kind=given.sink,
            steps=given.steps,
        )
        sys.stdout.write(f"{result}\n")


if __name__ == "__main__":
    main()
