"""A pipeline is run as a user would run it, and everything goes wrong; its rows are exact.

``jetspark pipeline run`` with ``--continuous``, ``--every``, ``--full-refresh`` and
``--keep-going``, on nats-server or jetspark, on local threads or on a standalone cluster: killed
with SIGKILL, started twice, with a server that is away at the start and dies in the middle,
stopped by signals. In the end each table and each stream has every row once.

    python -m tests.campaigns.spark.pipelines --server nats-server --master standalone
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
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.campaigns.spark.connect import standalone
from tests.support.processes import kill_all
from tests.support.servers import ServerProcess
from tests.support.warehouse import rows_of

from jetspark import StreamConfig, sync
from jetspark.errors import Error

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE_S: Final = 600.0
SPEC: Final = """
name: everything
storage: {storage}
configuration:
  spark.sql.shuffle.partitions: "2"
libraries:
  - glob:
      include: transformations/**
"""
RESOURCES: Final = """
streams:
  IN: {subjects: [in.>], allow_direct: true, allow_batched: true}
  OUT: {subjects: [out.>], allow_direct: true, allow_batched: true}
buckets:
  LEDGER: {}
  PROGRESS: {}
ledger: LEDGER
progress: PROGRESS
"""
FLOWS: Final = """
from pyspark import pipelines as dp
from jetspark.spark import connection_options, expect

SERVER = connection_options(spark)
RULES = {"even": "seq % 2 = 0", "short": "length(data) < 4"}


def rows(stream="IN"):
    source = spark.readStream.format("jetstream").options(**SERVER).option("stream", stream)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "97")
    return source.load().selectExpr("seq", "string(data) AS data")


@dp.table
def good():
    return expect(rows(), RULES).valid


@dp.table
def bad():
    return expect(rows(), RULES).quarantined


dp.create_sink("out", "jetstream", {**SERVER, "stream": "OUT", "ledgerBucket": "LEDGER"})


@dp.append_flow(target="out")
def publish():
    return rows().selectExpr("concat('out.', seq) AS subject", "data")
"""
DOOMED: Final = """
@dp.table
def doomed():
    return rows("DOOMED")
"""


class Pipelines:
    """One project, one server, and the commands."""

    def __init__(self, folder: Path, kind: str, master: str) -> None:
        self._folder = folder
        self._kind = kind
        self._master = master
        self._server = ServerProcess(kind, folder / "store", "-js")
        self.url = self._server.url
        self._published = 0
        self._logs = 0
        self.kills = 0
        self.compared = 0
        self.commands = 0
        self.root = folder / "everything"
        (self.root / "transformations").mkdir(parents=True)
        storage = (self.root / "storage").as_uri()
        (self.root / "spark-pipeline.yml").write_text(SPEC.format(storage=storage))
        (self.root / "jetspark.yml").write_text(RESOURCES)
        (self.root / "transformations" / "flows.py").write_text(FLOWS)

    def close(self) -> None:
        """Stop the server."""
        self._server.kill()

    def start(self, *arguments: str, server: str = "") -> "subprocess.Popen[bytes]":
        """Start a run."""
        self._logs += 1
        self.commands += 1
        command = [sys.executable, "-m", "jetspark", "pipeline", "run", "--project"]
        command += [str(self.root), "--server", server or self.url, *arguments]
        if "--continuous" in arguments:
            command += ["--master", self._master]
        else:
            command += ["--master", "local[2]"]
        with self._log().open("wb") as out:
            return subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT
            )

    def _log(self) -> Path:
        return self._folder / f"run{self._logs}.log"

    def said(self) -> str:
        """What the last command printed."""
        return self._log().read_text(errors="replace")

    def ended(self, run: "subprocess.Popen[bytes]", code: int, text: str = "") -> None:
        """Wait for the end of a run, and check how it ended."""
        try:
            found = run.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            kill_all(run.pid)
            raise AssertionError(f"did not end: {self.said()[-3000:]}") from None
        assert found == code, f"exit code {found}: {self.said()[-3000:]}"
        assert text in self.said(), self.said()[-3000:]
        assert "Traceback" not in self.said(), self.said()[-3000:]

    def kill(self, run: "subprocess.Popen[bytes]") -> None:
        """End a run, its JVM and its workers with SIGKILL."""
        kill_all(run.pid)
        run.wait()
        self.kills += 1

    def publish(self, count: int) -> None:
        """Store more rows; the payload is the number of the row."""
        with sync.connect(self.url) as client:
            jetstream = client.jetstream()
            with contextlib.suppress(Error):
                jetstream.create_stream(StreamConfig(name="IN", subjects=("in.>",)))
            for _ in range(count):
                self._published += 1
                jetstream.publish("in.x", b"%d" % self._published)

    def stored(self) -> int:
        """Return how many rows the sink has; -1: not known."""
        with contextlib.suppress(Error), sync.connect(self.url) as client:
            return client.jetstream().stream("OUT").info().state.messages
        return -1

    def wait(self, run: "subprocess.Popen[bytes]", reached: Callable[[], bool], what: str) -> None:
        """Wait until something is true while a run is in progress."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert run.poll() is None, f"{what}: the run has ended: {self.said()[-3000:]}"
            if time.monotonic() > deadline:
                kill_all(run.pid)
                raise AssertionError(f"{what}: {self.said()[-3000:]}")
            time.sleep(0.1)

    def restart_server(self, away_s: float) -> None:
        """Kill the server, and start it again on the same port."""
        port = self.url.rpartition(":")[2]
        self._server.kill()
        self.kills += 1
        time.sleep(away_s)
        self._server = ServerProcess(self._kind, self._folder / "store", "-js", port=port)

    def status(self) -> dict[str, int | None]:
        """Return the lag of each flow, from `jetspark pipeline status`."""
        self.commands += 1
        command = [sys.executable, "-m", "jetspark", "pipeline", "status", "--json"]
        command += ["--project", str(self.root), "--server", self.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        flows = json.loads(done.stdout)["flows"]
        return {flow["flow"]: flow["sources"][0]["lag"] for flow in flows}

    def reports(self) -> dict[str, str]:
        """Return the state of each flow, as the dashboard shows it."""
        with sync.connect(self.url) as client:
            bucket = client.jetstream().key_value("PROGRESS")
            found = [json.loads(bucket.get(key).value) for key in bucket.keys()]  # noqa: SIM118
        return {one["flow"]: one["state"] for one in found}

    def is_complete(self) -> bool:
        """Whether both tables and the sink have as many rows as were published."""
        tables = sum(len(self._table(name)) for name in ("good", "bad"))
        return tables >= self._published and self.stored() >= self._published

    def _table(self, name: str) -> list[dict[str, object]]:
        table = self.root / "warehouse" / name
        with contextlib.suppress(OSError, ValueError):
            return rows_of(table) if (table / "_spark_metadata").exists() else []
        return []

    def check(self, *, sink_runs: int = 1) -> None:
        """Compare everything with what was published."""
        due = {n: str(n) for n in range(1, self._published + 1)}
        good = {n for n in due if n % 2 == 0 and n < 1000}
        for name, wanted in (("good", good), ("bad", set(due) - good)):
            rows = self._table(name)
            found = Counter((row["seq"], row["data"]) for row in rows)
            self.compared += len(rows)
            assert found == Counter((n, due[n]) for n in wanted), (
                f"{name}: {len(rows)} rows instead of {len(wanted)}"
            )
        for row in self._table("bad"):
            rules = (("even", int(str(row["seq"])) % 2), ("short", int(str(row["seq"])) > 999))
            assert row["_violations"] == [rule for rule, broken in rules if broken], row
        with sync.connect(self.url) as client:
            out: Counter[tuple[str, bytes]] = Counter()
            for chunk in client.jetstream().stream("OUT").scan():
                out.update(zip(chunk.subjects, chunk.data, strict=True))
        self.compared += out.total()
        wanted_out = {(f"out.{n}", b"%d" % n): sink_runs for n in due}
        assert out == Counter(wanted_out), f"OUT has {out.total()} rows, not {len(due)}"


def campaign(folder: Path, kind: str, master: str, say: Callable[[str], object]) -> str:
    """Run the whole story once; what was done, in one line."""
    with contextlib.ExitStack() as stack:
        if master == "standalone":
            master = stack.enter_context(standalone(folder))
        run = Pipelines(folder, kind, master)
        stack.callback(run.close)
        for step in STEPS:
            begun = time.monotonic()
            step(run)
            say(f"{step.__name__}: as expected, {time.monotonic() - begun:.0f} s")
        return (
            f"{kind}, {master}: {run.commands} commands, {run.kills} kills, "
            f"{run.compared} rows compared, wrong: 0"
        )


def no_server_at_the_start(run: Pipelines) -> None:
    """One line, and exit code 1, in every mode."""
    for more in ((), ("--continuous",)):
        run.ended(run.start(*more, server="nats://127.0.0.1:1"), 1, "no server accepted")


def killed_in_the_middle(run: Pipelines) -> None:
    """A driver dies with its JVM; a second run at the same time was refused."""
    run.publish(600)
    first = run.start("--continuous")
    run.wait(first, lambda: run.stored() > 97, "rows are published")
    said = run.said()
    second = run.start("--continuous")
    run.ended(second, 1, "is already running, as process")
    assert "Traceback" not in said
    run.kill(first)


def server_dies_in_the_middle(run: Pipelines) -> None:
    """The flows wait or restart, and continue when it is back; SIGTERM ends the run."""
    running = run.start("--continuous", "--json")
    run.publish(300)
    before = run.stored()
    run.wait(running, lambda: run.stored() > before, "rows are published after a kill")
    run.restart_server(3.0)
    run.publish(300)
    run.wait(running, run.is_complete, "rows are published after the server was away")
    run.wait(running, lambda: set(run.status().values()) == {0}, "status shows no lag")
    running.send_signal(signal.SIGTERM)
    run.ended(running, 0, '"event":"stopped"')
    run.check()
    assert run.reports() == dict.fromkeys(("good", "bad", "publish"), "stopped"), run.reports()


def run_again_and_again(run: Pipelines) -> None:
    """A schedule: a run, a pause, another run with new rows; SIGINT to the command ends it."""
    run.publish(50)
    running = run.start("--every", "3s")
    run.wait(running, lambda: "Run 1 has ended" in run.said(), "the first run")
    run.publish(50)
    run.wait(running, lambda: "Run 2 has ended" in run.said(), "the second run")
    run.check()
    running.send_signal(signal.SIGINT)
    run.ended(running, 0, "Stopped by SIGINT")


def killed_between_two_runs(run: Pipelines) -> None:
    """The process of a run dies; the schedule says so, and the next run continues."""
    run.publish(200)
    running = run.start("--every", "2s")
    before = run.stored()
    run.wait(running, lambda: run.stored() > before, "a run has begun to write")
    (child,) = _children(running.pid)
    kill_all(child)
    run.kills += 1
    run.wait(running, lambda: "failed with exit code 137" in run.said(), "the kill is reported")
    run.wait(running, lambda: "has ended after" in run.said(), "the next run")
    running.send_signal(signal.SIGTERM)
    run.ended(running, 0)
    run.check()


def one_table_again(run: Pipelines) -> None:
    """A full refresh of one table leaves the others, and the sink, alone."""
    run.publish(30)
    run.ended(run.start("--refresh", "out"), 1, "'out', which is a sink")
    run.ended(run.start("--full-refresh", "good", "--refresh", "bad"), 0)
    again = run.start("--continuous", "--full-refresh", "bad", "--refresh", "out")
    run.wait(again, run.is_complete, "the table is complete again")
    again.send_signal(signal.SIGTERM)
    run.ended(again, 0)
    run.check()


def a_flow_that_fails(run: Pipelines) -> None:
    """With --keep-going the others continue; the exit code and the report say which failed."""
    with sync.connect(run.url) as client:
        client.jetstream().create_stream(StreamConfig(name="DOOMED", subjects=("doomed",)))
        client.jetstream().publish("doomed", b"1")
    flows = run.root / "transformations" / "flows.py"
    flows.write_text(FLOWS + DOOMED)
    running = run.start("--continuous", "--keep-going", "--restarts", "1", "--json")
    run.wait(running, lambda: run.reports().get("doomed") == "running", "all flows run")
    run.wait(running, lambda: '"flow":"doomed","time"' in run.said(), "it has read a row")
    with sync.connect(run.url) as client:
        client.jetstream().delete_stream("DOOMED")
    run.wait(running, lambda: run.reports().get("doomed") == "failed", "one has failed")
    run.publish(40)
    run.wait(running, run.is_complete, "the others continue")
    running.send_signal(signal.SIGTERM)
    run.ended(running, 1, "flow 'doomed' was stopped after 2 failures")
    assert "'DOOMED'" in run.said().strip().splitlines()[-1], run.said()[-1000:]
    states = run.reports()
    assert states.pop("doomed") == "failed", states
    assert set(states.values()) == {"stopped"}, states
    run.check()


STEPS: Final = (
    no_server_at_the_start,
    killed_in_the_middle,
    server_dies_in_the_middle,
    run_again_and_again,
    killed_between_two_runs,
    one_table_again,
    a_flow_that_fails,
)


def _children(pid: int) -> list[int]:
    """Return the runs that a schedule has started; not the process that multiprocessing needs."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = []
    for one in tasks:
        command = Path(f"/proc/{one}/cmdline").read_bytes()
        if b"spawn_main" in command:
            found.append(int(one))
    return found


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=("jetspark", "nats-server"), default="nats-server")
    parser.add_argument("--master", default="local[2]", help="of continuous runs; or standalone")
    given = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory() as name:
        result = campaign(
            Path(name),
            given.server,
            given.master,
            lambda line: (sys.stdout.write(f"{line}\n"), sys.stdout.flush()),
        )
    sys.stdout.write(f"{result}\n")


if __name__ == "__main__":
    main()
