"""A client of a Spark Connect server copies a stream; the server may run on a standalone cluster.

``tests/spark/campaigns/test_connect.py`` runs it on a local master, ``make torture`` on a master
and a worker of their own.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jetspark import StreamConfig, sync
from jetspark.spark.session import prepare_environment

SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_S: Final = 120.0
MASTER_SETTINGS: Final = (
    # Otherwise every master of a machine wants the same port for it.
    "spark.master.rest.enabled=false",
    # A master that is started again has otherwise forgotten its applications: those with dynamic
    # allocation whose executors end wait for new ones without end.
    "spark.deploy.recoveryMode=FILESYSTEM",
    "spark.deploy.recoveryDirectory=recovery",  # in the folder of the cluster
)
CLIENT: Final = """
import sys, time
from pyspark.sql import SparkSession, functions as f
from jetspark.spark import described, encode_headers, lag, observed, session, watch, with_msg_id

remote, url, folder = sys.argv[1:]
found = SparkSession.builder.remote(remote).getOrCreate()
source = {"servers": url, "stream": "IN"}
print(found.read.format("jetstream").options(**source).load().count())
found.stop()

spark = session(remote=remote)
frame = spark.read.format("jetstream").options(**source).load()
with described(spark, "IN, IN.0"):
    print(sorted(row.seq for row in frame.where("seq > 97 AND subject = 'IN.0'").collect()))
    print(sorted(spark.getTags()))
print(sorted(spark.getTags()))
reports = []
listener = watch(spark, reports.append)
rows = with_msg_id(spark.readStream.format("jetstream").options(
    **source, startingOffsets="earliest", maxOffsetsPerTrigger="60").load())
rows = observed(rows, "in").select(
    f.concat(f.lit("OUT."), f.col("seq")).alias("subject"), "data", "msg_id",
    encode_headers(f.create_map(f.lit("Origin"), f.col("stream")), several=False).alias("headers"),
)
writer = rows.writeStream.format("jetstream").options(servers=url, stream="OUT")
query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
query.awaitTermination()
print(query.exception())
deadline = time.monotonic() + 60
while all(each["event"] != "terminated" for each in reports) and time.monotonic() < deadline:
    time.sleep(0.05)
spark.streams.removeListener(listener)
progress = [each for each in reports if each["event"] == "progress"]
counted = [sum(each[name] or 0 for each in progress) for name in ("rows", "bytes")]
print([each["event"] for each in (reports[0], reports[-1])], *counted, progress[-1]["lag"])
print(lag(query))
try:
    spark.read.format("jetstream").options(servers=url, stream="NONE").load().count()
except Exception as error:
    print([line for line in str(error).splitlines() if "does not exist" in line][0])
spark.stop()
"""


@contextlib.contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """Start a Connect server and yield its address."""
    port = _unused_port()
    command = [_program("spark-submit"), "--class", SERVER, "--master", master]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}"]
    command += ["--conf", "spark.ui.enabled=false"]
    # A client of Connect cannot set it, and without it DataFrame.checkpoint() fails.
    command += ["--conf", f"spark.checkpoint.dir={folder / 'checkpoints'}"]
    with _running(folder / "connect.log", command):
        _await_port(port)
        yield f"sc://127.0.0.1:{port}"


class StandaloneCluster:
    """A master and its workers, which can be killed and started again.

    Spark from pip has no scripts for them, only the classes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _unused_port()
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.address = f"spark://127.0.0.1:{self._port}"

    def start_master(self) -> None:
        """Start the master; one that is started again continues with what is in its folder."""
        self._master = self._start("master.Master", "--port", str(self._port), host="127.0.0.1")
        _await_port(self._port)

    def start_worker(self, cores: int = 2) -> None:
        """Start a worker, which registers some seconds later.

        Each has an address of its own: Spark never runs a task twice on the same host.
        """
        given = ["--cores", str(cores), "--memory", "1g"]
        given += ["--work-dir", str(self._folder / "work"), self.address]
        host = f"127.0.0.{len(self._workers) + 1}"
        self._workers.append(self._start("worker.Worker", *given, host=host))

    def kill_master(self) -> None:
        """Kill the master; its workers and applications notice."""
        assert self._master is not None
        _end(self._master)
        self._master = None

    def kill_worker(self) -> None:
        """Kill a worker; its executors notice, and end."""
        _end(self._workers.pop())

    def close(self) -> None:
        """Kill everything; raise if something had ended before."""
        running = [*self._workers, *([self._master] if self._master is not None else [])]
        ended = [process.args for process in running if process.poll() is not None]
        for process in running:
            _end(process)
        assert not ended, f"{ended}: see the logs in {self._folder}"

    def _start(self, name: str, *given: str, host: str) -> "subprocess.Popen[bytes]":
        command = [_program("spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0", *given]
        log = self._folder / f"{name.lower()}-{time.monotonic_ns()}.log"
        return _started(log, command)


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and a worker, and yield the address of the master."""
    with standalone_cluster(folder) as cluster:
        yield cluster.address


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 1) -> Iterator[StandaloneCluster]:
    """Start a master and workers of two cores each."""
    with contextlib.closing(StandaloneCluster(folder)) as cluster:
        cluster.start_master()
        for _ in range(workers):
            cluster.start_worker()
        yield cluster


def copy_stream(folder: Path, remote: str) -> list[str]:
    """Let a client copy a stream through a server; its output, and what is wrong with the copy."""
    with sync.Server() as server, sync.connect(server.client_url) as client:
        js = client.jetstream()
        for name in ("IN", "OUT"):
            js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True))
        for number in range(1, 101):
            js.publish(f"IN.{number % 2}", b"%d" % number)
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, remote, server.client_url, str(folder / "checkpoint")],
            env=os.environ | {"PYTHONPATH": _path()},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        log = (folder / "connect.log").read_text(errors="replace")
        assert done.returncode == 0, f"{done.stderr[-3000:]}\n{log[-3000:]}"
        copied = list(js.stream("OUT").get_batch(seq=1))
        assert sorted((message.subject, message.data) for message in copied) == sorted(
            (f"OUT.{number}", b"%d" % number) for number in range(1, 101)
        )
        assert {message.headers["Origin"] for message in copied} == {"IN"}
        ids = [message.headers["Nats-Msg-Id"] for message in copied]
        assert [one for one in ids if one.startswith("IN:7:")]
        return done.stdout.splitlines()


@contextlib.contextmanager
def _running(log: Path, command: list[str]) -> Iterator[None]:
    process = _started(log, command)
    try:
        yield
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
    finally:
        _end(process)


def _started(log: Path, command: list[str]) -> "subprocess.Popen[bytes]":
    environ = dict(os.environ)
    prepare_environment(environ, master="local[2]", parallelism=None)
    # The formats are looked for in the Python of the server and of the executors.
    environ["PYTHONPATH"] = _path()
    environ["SPARK_MASTER_OPTS"] = " ".join(f"-D{setting}" for setting in MASTER_SETTINGS)
    with log.open("wb") as out:
        return subprocess.Popen(command, env=environ, stdout=out, stderr=out, cwd=log.parent)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _program(name: str) -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


def _path() -> str:
    return os.pathsep.join(path for path in sys.path if path and not re.search(r"\.zip$", path))


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on port {port}"
            time.sleep(0.1)
        else:
            return
