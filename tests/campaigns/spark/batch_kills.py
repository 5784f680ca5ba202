"""A query writes to a table of files with ``exactly_once``, and is killed between all its steps.

The steps of a micro-batch are those that change something outside of the driver: the entries of
the ledger, the files of the table, the jobs that write them. A life of the driver ends before step
number n, for every n until one ends on its own; each n has a table, a ledger entry and a
checkpoint of its own, and a second life that finishes. The rows of each table must then be those
of the stream, each once, in the micro-batches of the checkpoint.

``tests/spark/batches/test_exactly_once.py`` enumerates the same steps within one session, ``make
torture`` kills real drivers with SIGKILL; ``python -m tests.campaigns.spark.batch_kills`` runs it
alone.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from tests.support.processes import kill_all

from jetspark import StreamConfig, sync
from jetspark.spark.batches.file_table import LocalFiles
from jetspark.spark.batches.ledger import BatchLedger

ROOT: Final = Path(__file__).resolve().parents[3]
LIFE_S: Final = 300.0


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
def stopped_before(number: int, stop: Callable[[str], None]) -> Iterator[list[str]]:
    """Call ``stop`` before step ``number``, counted from 0; yields the names of steps done."""
    done: list[str] = []

    def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            if len(done) == number:
                stop(name)
            done.append(name)
            return original(*args, **more)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in steps():
            patch.setattr(owner, name, wrapped(name, getattr(owner, name)))
        yield done


def rows_of(table: Path) -> Counter[tuple[int, str]]:
    """Return the rows of a table as a reader without Spark and jetspark sees them."""
    found = pq.read_table(table, columns=["batch_id", "data"])
    return Counter(
        (int(batch), data if isinstance(data, str) else data.decode())
        for batch, data in zip(
            found["batch_id"].to_pylist(), found["data"].to_pylist(), strict=True
        )
    )


def job(url: str, folder: Path, at: int) -> None:
    """Run the query from its checkpoint to the end of the stream; dies before step ``at``."""
    from jetspark.spark import exactly_once, file_table, session

    spark = session("batch-kills", master="local[2]", log_level="ERROR")
    rows = spark.readStream.format("jetstream").options(servers=url, stream="ORIGIN")
    rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger="700")
    table = file_table(str(folder / "table"))
    each = exactly_once(folder.name, table, servers=url)

    def die(step: str) -> None:
        (folder / "died").write_text(step)
        os.killpg(0, signal.SIGKILL)

    with stopped_before(at, die):
        writer = rows.load().select("data").writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def live(url: str, folder: Path, at: int) -> int:
    """Run the job in a process group of its own, all of which dies with it."""
    command = [sys.executable, "-m", "tests.campaigns.spark.batch_kills", "--job"]
    with (folder / f"life{at}.log").open("wb") as out:
        process = subprocess.Popen(
            [*command, url, str(folder), str(at)],
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


def campaign(url: str, folder: Path, *, deadline: float, rows: int = 1500) -> str:
    """Kill before every step of three micro-batches in turn, as long as there is time."""
    with sync.connect(url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream(
            StreamConfig(name="ORIGIN", subjects=("ORIGIN.>",), allow_direct=True)
        )
        for row in range(rows):
            client.publish("ORIGIN.row", b"%d" % row)
        client.flush()
    due = Counter((row // 700, str(row)) for row in range(rows))
    died: list[str] = []
    for at in range(100):
        if died and time.monotonic() > deadline:
            break
        place = folder / f"before{at}"
        place.mkdir()
        code = live(url, place, at)
        killed = (place / "died").exists()
        if killed:
            died.append((place / "died").read_text())
            code = live(url, place, -1)
        log = (place / f"life{-1 if killed else at}.log").read_text()[-3000:]
        assert code == 0, log
        found = rows_of(place / "table")
        lost, more = (due - found).total(), (found - due).total()
        assert found == due, f"killed before step {at} {died[-1:]}: {lost} rows lost, {more} more"
        if not killed:
            break
    return f"{len(died)} drivers killed before: {', '.join(died)}; 0 rows lost, 0 too many"


def main() -> None:
    """Run the campaign, or one life of its job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", nargs=3, help="URL FOLDER STEP")
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    if given.job:
        url, folder, at = given.job
        job(url, Path(folder), int(at))
        return
    with (
        tempfile.TemporaryDirectory() as name,
        sync.Server(store_dir=f"{name}/store") as server,
    ):
        deadline = time.monotonic() + given.minutes * 60
        sys.stdout.write(f"{campaign(server.client_url, Path(name), deadline=deadline)}\n")


if __name__ == "__main__":
    main()
