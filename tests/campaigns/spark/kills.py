"""Executors and drivers of Spark are killed in the middle of three queries.

A stream is copied into three others by one job, one query for each strength of exactly once: with
all defaults, with a ledger that is named, with markers. Executors and whole drivers are ended with
SIGKILL while they write, and the job starts again from its checkpoints, on another number of cores
or executors than before: nothing is pinned. Rows carry their origin: in the end the multiset of
(origin, payload) in each copy must be that of the stream.

``tests/spark/campaigns/test_kills.py`` is the short form, ``make torture`` the long one;
``python -m tests.campaigns.spark.kills --lives 5 --url nats://...`` runs it on any server, with
``--standalone`` on a cluster whose executors outlive the driver for a while, and whose worker and
master are killed and started again as well. ``--conf`` passes settings to Spark, and ``--like``
sets of them, on a standalone cluster of two workers: with ``speculation`` tasks run twice at the
same time, with ``dynamic`` executors come and go.
"""

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.campaigns.spark.connect import StandaloneCluster, standalone_cluster
from tests.support.processes import command_of, descendants, kill_all

from jetspark import KeyValueConfig, StreamConfig, sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[3]
LEDGER: Final = "LEDGER"
WRITES: Final = {
    "IDS": {},
    "LEDGERED": {"ledgerBucket": LEDGER},
    "MARKED": {"publishMode": "atomic", "ledgerSubject": "MARKED.ledger"},
}
CLUSTER: Final = "local-cluster[2,1,1024]"
MASTERS: Final = (CLUSTER, "local-cluster[3,1,1024]", "local[1]", "local[3]", "local[5]")
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker that starts late on a busy machine is not a failure that this looks for.
    "spark.python.authenticate.socketTimeout": "60s",
}
# What happened in the jobs is read from Spark's event log: its lines of this kind are counted.
EVENTS: Final = {
    "speculation": re.compile(r'"Event":"SparkListenerTaskStart".*"Speculative":true'),
    "dynamic": re.compile(r'"Event":"SparkListenerExecutorRemoved"'),
}
EVENT_LOG: Final = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
# Eager enough to happen in a job of a minute.
LIKE: Final = {
    "speculation": {
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.multiplier": "1.05",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "5ms",
    },
    "dynamic": {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.executor.cores": "1",
    },
}
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
# A job that neither stores nor ends for so long is stuck, which is a failure as well.
PATIENCE_S: Final = 600.0


class SparkKills:
    """One stream, its copies, and the lives of the job that copies."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        rows: int,
        per_trigger: int,
        targets: Sequence[str] = tuple(WRITES),
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._config = dict(config or {})
        self._targets = tuple(targets)
        self._folder = folder
        self._rows = rows
        self._per_trigger = per_trigger
        self._client = sync.connect(url)
        self._jetstream = self._client.jetstream()
        self.lives = 0
        self.executors_killed = 0
        self.drivers_killed = 0
        self.workers_killed = 0
        self.masters_killed = 0

    def fill(self) -> None:
        """Make the streams and the rows; equal payloads must not be taken for one row."""
        self._jetstream.create_key_value(KeyValueConfig(bucket=LEDGER))
        for name in ("ORIGIN", *self._targets):
            self._jetstream.create_stream(
                StreamConfig(
                    name=name,
                    subjects=(f"{name}.>",),
                    allow_direct=True,
                    allow_batched=True,
                    allow_atomic=True,
                )
            )
        with self._jetstream.fast_publisher() as publisher:
            publisher.extend(
                ["ORIGIN.row"] * self._rows, [_payload(row) for row in range(1, self._rows + 1)]
            )

    def live(
        self,
        *,
        executor_at: float | None = None,
        driver_at: float | None = None,
        master: str = CLUSTER,
        cluster_at: float | None = None,
        restart: Callable[[], None] = lambda: None,
    ) -> int:
        """Run the job once; kill when these shares of all rows are stored. Its exit code.

        ``restart`` kills a part of a standalone cluster and starts it again, at ``cluster_at``.
        """
        self.lives += 1
        with self._job(master) as job:
            if executor_at is not None and self._reached(job, executor_at):
                self._kill_executor(job.pid)
            if cluster_at is not None and self._reached(job, cluster_at):
                restart()
            if driver_at is not None and self._reached(job, driver_at):
                kill_all(job.pid)
                self.drivers_killed += 1
            return job.wait(timeout=3 * PATIENCE_S)

    def restart_worker(self, cluster: StandaloneCluster) -> None:
        """Kill the worker, and start it again."""
        cluster.kill_worker()
        self.workers_killed += 1
        cluster.start_worker()

    def restart_master(self, cluster: StandaloneCluster) -> None:
        """Kill the master, and start it again on the same port."""
        cluster.kill_master()
        self.masters_killed += 1
        cluster.start_master()

    def live_in(self, spark: "SparkSession") -> None:
        """Run the job to its end in a session that runs, on whatever cores that has."""
        self.lives += 1
        copy_all(spark, self._url, self._folder, str(self._per_trigger), self._targets)

    def stored(self) -> int:
        """How many messages the copies hold, markers included."""
        return sum(
            self._jetstream.stream(name).cached_info.state.messages for name in self._targets
        )

    def differences(self) -> dict[str, tuple[int, int]]:
        """For each copy: how many rows are lost, and how many are too many."""
        due = Counter((row, _payload(row)) for row in range(1, self._rows + 1))
        found: dict[str, tuple[int, int]] = {}
        for target in self._targets:
            copied: Counter[tuple[int, bytes]] = Counter()
            for chunk in self._jetstream.stream(target).scan(filters=(f"{target}.row.*",)):
                for subject, payload in zip(chunk.subjects, chunk.data, strict=True):
                    copied[int(subject.rpartition(".")[2]), payload] += 1
            found[target] = ((due - copied).total(), (copied - due).total())
        return found

    def close(self) -> None:
        """Close the connection that looks at the streams."""
        self._client.close()

    @contextlib.contextmanager
    def _job(self, master: str) -> Iterator["subprocess.Popen[bytes]"]:
        log = self._folder / f"life{self.lives}.log"
        command = [sys.executable, "-m", "tests.campaigns.spark.kills", "--job"]
        command += [self._url, str(self._folder), master, str(self._per_trigger)]
        command += self._targets
        for name, value in self._config.items():
            command += ["--conf", f"{name}={value}"]
        # Executors run in folders of their own, where a relative path leads nowhere, and they
        # would take the jetspark that is installed for the one that is tested.
        path = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
        with log.open("wb") as out:
            job = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=ROOT,
                # Its own processes, so that all of them are killed with it.
                env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            )
        try:
            yield job
        finally:
            kill_all(job.pid)
            job.wait()

    def _reached(self, job: "subprocess.Popen[bytes]", share: float) -> bool:
        """Wait until this much is stored; False if the job ended before."""
        wanted = share * self._rows * len(self._targets)
        stored, deadline = -1, 0.0
        while job.poll() is None:
            now = self.stored()
            if now >= wanted:
                return True
            if now > stored:
                stored, deadline = now, time.monotonic() + PATIENCE_S
            assert time.monotonic() < deadline, f"life {self.lives} stores nothing any more"
            # Nothing to miss while Spark starts; then a kill must not come late.
            time.sleep(0.02 if now else 0.2)
        return False

    def _kill_executor(self, job: int) -> None:
        # Those of a standalone cluster are not the job's but its worker's.
        ours = {*descendants(job), *descendants(os.getpid())}
        executors = [pid for pid in sorted(ours) if EXECUTOR in command_of(pid)]
        if executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executors[0], signal.SIGKILL)
                self.executors_killed += 1


def copy(job: Sequence[str], config: Mapping[str, str]) -> None:
    """The job, in a session of its own."""
    from jetspark.spark import session

    url, folder, master, per_trigger, *targets = job
    spark = session("kills", master=master, config={**SETTINGS, **config})
    copy_all(spark, url, Path(folder), per_trigger, targets)
    spark.stop()


def copy_all(
    spark: "SparkSession", url: str, folder: Path, per_trigger: str, targets: Sequence[str]
) -> None:
    """Run one query for each target from its checkpoint to the end of the stream."""
    from pyspark.sql import functions as f

    from jetspark.spark import wait_for_source

    source = spark.readStream.format("jetstream").options(servers=url, stream="ORIGIN")
    source = source.option("startingOffsets", "earliest")
    queries = []
    for target in targets:
        rows = source.option("maxOffsetsPerTrigger", per_trigger).load()
        subject = f.concat(f.lit(f"{target}.row."), f.col("seq")).alias("subject")
        writer = rows.select(subject, "data").writeStream.format("jetstream")
        writer = writer.options(servers=url, stream=target, **WRITES[target])
        writer = writer.option("checkpointLocation", str(folder / target))
        query = writer.trigger(availableNow=True).start()
        wait_for_source(query)
        queries.append(query)
    for query in queries:
        query.awaitTermination()


def campaign(
    url: str,
    folder: Path,
    *,
    seed: int,
    lives: int,
    deadline: float,
    masters: Sequence[str] = MASTERS,
    cluster: StandaloneCluster | None = None,
    rows: int = 20_000,
    config: Mapping[str, str] | None = None,
    like: Sequence[str] = (),
) -> str:
    """Kill at random places, within limits of lives and time; the last life ends on its own.

    On a ``cluster``, its worker or its master is killed in some lives, too. With ``like`` (names
    of ``LIKE``) it must have happened that a task ran twice, or that an executor was dismissed.
    """
    config = dict(config or {})
    for kind in like:
        events = folder / "events"
        events.mkdir(exist_ok=True)
        config |= {**LIKE[kind], **EVENT_LOG, "spark.eventLog.dir": events.as_uri()}
    dice = random.Random(seed)
    kills = SparkKills(url, folder, rows=rows, per_trigger=rows // 10, config=config)
    try:
        kills.fill()
        while kills.lives < lives or time.monotonic() < deadline:
            share = kills.stored() / (kills._rows * len(WRITES))
            if share > 0.9:
                break
            at = share + dice.uniform(0.02, 0.2)
            executor_at = at if dice.random() < 0.7 else None
            master = dice.choice(masters)
            if cluster is None or master != cluster.address:
                kills.live(executor_at=executor_at, driver_at=at + 0.1, master=master)
                continue
            restart = dice.choice((kills.restart_worker, kills.restart_master))
            kills.live(
                executor_at=executor_at,
                driver_at=at + 0.15 if dice.random() < 0.5 else None,
                master=master,
                cluster_at=at + 0.05,
                restart=partial(restart, cluster),
            )
        code = kills.live(master=dice.choice(masters))
        assert code == 0, (folder / f"life{kills.lives}.log").read_text()[-3000:]
        found = kills.differences()
        assert set(found.values()) == {(0, 0)}, f"rows lost and too many: {found}"
    finally:
        kills.close()
    happened = {kind: _count(folder / "events", EVENTS[kind]) for kind in like}
    assert all(happened.values()), f"it did not happen: {happened}"
    return "".join(f"{kind}: {times} times; " for kind, times in happened.items()) + (
        f"{kills.lives} lives; killed: {kills.executors_killed} executors, "
        f"{kills.drivers_killed} drivers, {kills.workers_killed} workers, "
        f"{kills.masters_killed} masters; "
        f"{kills._rows} rows in each of {', '.join(WRITES)}, 0 lost, 0 too many"
    )


def _count(folder: Path, wanted: re.Pattern[str]) -> int:
    """Count lines of event logs; the log of a driver that was killed may end in a half line."""
    return sum(
        len(wanted.findall(path.read_text(errors="replace")))
        for path in folder.iterdir()
        if path.is_file()
    )


def _payload(row: int) -> bytes:
    return b"%d" % (row % 1000)


def main() -> None:
    """Run the campaign on a server of its own, or on the one that ``--url`` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--url", default="")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--job", nargs="+", help="URL FOLDER MASTER PER_TRIGGER TARGET...")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--like", action="append", default=[], choices=sorted(LIKE))
    given = parser.parse_args()
    config = dict(one.split("=", 1) for one in given.conf)
    if given.job:
        copy(given.job, config)
        return
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        url, folder = given.url, Path(name)
        masters: Sequence[str] = MASTERS
        if not url:
            server = sync.Server(store_dir=f"{name}/store")
            url = stack.enter_context(server).client_url
        cluster: StandaloneCluster | None = None
        if given.like:
            # A local master never runs a task twice, and has no executors of its own.
            cluster = stack.enter_context(standalone_cluster(folder, workers=2))
            masters = (cluster.address,)
        elif given.standalone:
            cluster = stack.enter_context(standalone_cluster(folder))
            masters = (cluster.address, cluster.address, "local[3]")
        result = campaign(
            url,
            folder,
            seed=given.seed,
            lives=given.lives,
            deadline=0.0,
            masters=masters,
            cluster=cluster,
            rows=given.rows,
            config=config,
            like=given.like,
        )
        sys.stdout.write(f"seed {given.seed}: {result}\n")


if __name__ == "__main__":
    main()
