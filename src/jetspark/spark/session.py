"""A Spark session that works out of the box: Java, Python workers, addresses, settings.

Without it, workers run whichever ``python3`` is on PATH, the Java from PyPI does not start, Spark
binds to the machine's external address, and every start logs warnings that users cannot act on.
"""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from jetspark.errors.extras import check_extra
from jetspark.spark.jvm.archive import archive_options
from jetspark.spark.jvm.cache import cache_directory, content_digest, write_cached
from jetspark.spark.jvm.java import Java, ensure_java
from jetspark.spark.needs import needs_spark
from jetspark.spark.stream.options import MIN_PARTITIONS_VARIABLE
from jetspark.spark.times import ZONE_SETTING, ZONE_VARIABLE, SessionZone

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

# Partitions per task slot of the machine: two, so that a slot whose partition was short has
# another one.
PARTITIONS_PER_SLOT: Final = 2

# The executors of a session are waited for once: as many as were requested, or until none has
# registered for a while.
EXECUTORS_WAIT_S: Final = 15.0
EXECUTORS_SETTLED_S: Final = 1.0
EXECUTORS_POLL_S: Final = 0.05

SPARK_SETTINGS: Final[Mapping[str, str]] = {
    # createDataFrame and toPandas use Arrow, like the connector itself.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

# Spark replaces what this matches in plans. A view's plan has the options of its read, so the
# credentials in the URL of a server would be in Spark's UI and event log.
REDACTION: Final = "spark.sql.redaction.string.regex"
URL_CREDENTIALS: Final = (
    r"(?:(?<=nats://)|(?<=tls://)|(?<=wss://)|(?<=ws://)|(?<=servers=)|(?<=servers -> ))\S*(?=@)"
)

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

LOG_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")

_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*(?:\*|\d+))?\])?")
# Executors, cores of each, memory of each: separate processes on this machine.
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")

_LOG4J = """\
# Written by jetspark: Spark's own layout, at one level from the first line.
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
# Without its own level the gateway counts as a shell, which sets WARN and logs that.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
# Two warnings of every start that users cannot act on: Hadoop's native library is not in the pip
# package, and a format that is found by name and also registered replaces itself.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = {quieter}
logger.sources.name = org.apache.spark.sql.execution.datasources.DataSourceManager
logger.sources.level = {quieter}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def configure(builder: "SparkSession.Builder") -> "SparkSession.Builder":
    """Prepare this process for Spark and return ``builder`` with the settings of the formats.

    Call it first: settings made on the builder afterwards override these, and the user's
    environment variables (``PYSPARK_PYTHON``, ``PYSPARK_DRIVER_PYTHON``, ``SPARK_LOCAL_IP``, a
    suitable ``JAVA_HOME``) are kept. Raises ``JavaNotFound`` if there is no Java to run Spark on.
    For a Spark Connect server (``builder.remote(...)``) Spark runs elsewhere: only the settings of
    the session are made.

    The first start writes an archive of Spark's classes (150 MB) to the user's cache directory,
    which saves CPU time in later starts; ``JETSPARK_CLASS_ARCHIVE=off`` in the environment
    prevents that.
    """
    # Spark has no public API for the settings of a builder.
    chosen: Mapping[str, object] = builder._options  # noqa: SLF001
    if "spark.remote" not in chosen and "SPARK_REMOTE" not in os.environ:
        java = prepare_environment(
            os.environ,
            master=_as_text(chosen.get("spark.master")),
            parallelism=_as_text(chosen.get("spark.default.parallelism")),
        )
        # An entry before Spark's jars would make every archive useless.
        if java is not None and "spark.driver.extraClassPath" not in chosen:
            options = archive_options(os.environ, java, _spark_home())
            builder = _with_java_options(builder, " ".join(options))
    for key, value in SPARK_SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config(REDACTION, redaction_with(_as_text(chosen.get(REDACTION)) or ""))
    if find_spec("pandas") is None:
        # Otherwise Spark would do the same for each function, with a warning every time.
        builder = builder.config("spark.sql.execution.pythonUDF.arrow.enabled", "false")
    return builder


def session(
    app_name: str = "jetspark",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    log_level: str | None = "WARN",
) -> "SparkSession":
    """Start Spark, or use the running session, with the formats of jetspark registered.

    ``remote`` is the address of a Spark Connect server (``sc://host:15002``), which needs jetspark
    installed, too: the formats run there.

    Without ``master`` Spark decides: ``local[*]`` unless configured otherwise. ``config`` has
    further Spark settings. A JVM started here logs at ``log_level`` from its first line, and shows
    no progress bars above ``"WARN"``, nor where standard error is no terminal, as in a notebook;
    None leaves both to Spark's configuration.
    """
    with needs_spark():
        from pyspark.sql import SparkSession

    if master is not None and remote is not None:
        raise ValueError(f"master {master!r} and remote {remote!r} exclude each other: give one")
    if remote is not None:
        check_extra("pipelines", "Spark Connect needs", "pandas", "grpc", "grpc_status")
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    if remote is not None:
        builder = builder.remote(remote)
    builder = configure(builder)
    if log_level is not None and remote is None:
        settings = log_settings(log_level, os.environ)
        builder = _with_java_options(builder, settings.pop(JAVA_OPTIONS))
        for key, value in settings.items():
            builder = builder.config(key, value)
    for key, value in (config or {}).items():
        if key == JAVA_OPTIONS:
            builder = _with_java_options(builder, value)
        else:
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: "SparkSession") -> None:
    """Register the formats of jetspark with ``spark``.

    Needed if Spark cannot find the modules ``pyspark_*`` automatically, as in zips passed with
    ``--py-files``; harmless otherwise. It also passes on the number of parallel tasks, which
    determines the default of ``minPartitions``, and the session's time zone: call it again after
    changing that. The first call for a session on a cluster waits up to 15 seconds for its
    executors, until no more register, and logs a warning if none does; later calls count those
    that have registered, as do all with dynamic allocation. In the plans that the session shows,
    credentials in URLs are hidden.
    """
    with needs_spark():
        from jetspark.spark.kv.source import KvDataSource
        from jetspark.spark.objects.source import ObjectDataSource
        from jetspark.spark.stream.source import JetStreamDataSource

    # A client of Spark Connect has no context: these values are set where the server runs.
    if not type(spark).__module__.startswith("pyspark.sql.connect"):
        context = spark.sparkContext
        jvm = cast("Any", context)._jvm  # noqa: SLF001 - no public API for the JVM's zone
        zone = SessionZone(
            spark.conf.get(ZONE_SETTING) or "", jvm.java.util.TimeZone.getDefault().getID()
        )
        context.environment[ZONE_VARIABLE] = zone.text()
        context.environment[MIN_PARTITIONS_VARIABLE] = str(PARTITIONS_PER_SLOT * slots_of(context))
    given = spark.conf.get(REDACTION, "") or ""
    spark.conf.set(REDACTION, redaction_with(given))
    for format_class in (JetStreamDataSource, KvDataSource, ObjectDataSource):
        spark.dataSource.register(format_class)


def redaction_with(given: str) -> str:
    """Add the credentials in URLs to what the setting ``REDACTION`` already hides."""
    if URL_CREDENTIALS in given:
        return given
    return f"(?:{given})|{URL_CREDENTIALS}" if given else URL_CREDENTIALS


def slots_of(context: "SparkContext") -> int:
    """Return the number of parallel tasks; the first call for a session waits for its executors.

    Otherwise, Spark knows none when a session on a cluster has just started. Its age says little:
    on a busy machine the start itself takes longer than executors need to register.
    """
    settings = context.getConf()
    if settings.contains("spark.default.parallelism"):
        return context.defaultParallelism
    master = context.master or ""
    slots = task_slots(master)
    if slots is not None:
        cluster = _LOCAL_CLUSTER.fullmatch(master) is not None
        return slots if cluster else context.defaultParallelism
    elastic = settings.get("spark.dynamicAllocation.enabled", "false") == "true"
    if not elastic and MIN_PARTITIONS_VARIABLE not in context.environment:
        # A standalone cluster starts as many as its workers have cores for.
        standalone = master.startswith("spark://")
        requested = "0" if standalone else settings.get("spark.executor.instances", "0")
        _await_executors(
            lambda: cast("Any", context)._jsc.sc().getExecutorMemoryStatus().size() - 1,  # noqa: SLF001
            int(requested) if requested.isdecimal() else 0,
        )
    return context.defaultParallelism


def _await_executors(count: Callable[[], int], requested: int) -> None:
    """Wait for executors: as many as ``requested``, or if 0, until no more register.

    ``count`` returns how many have registered, without the driver.
    """
    now = time.monotonic()
    deadline, settled, known = now + EXECUTORS_WAIT_S, 0.0, 0
    while now < deadline:
        found = count()
        if found != known:
            known, settled = found, now + EXECUTORS_SETTLED_S
        if known and (known >= requested if requested else now >= settled):
            return
        time.sleep(EXECUTORS_POLL_S)
        now = time.monotonic()
    if requested or not known:
        _log.warning(
            "%s registered with Spark within %.0f s: reads are split for the cores known so far. "
            "Call jetspark.spark.register(spark) when more have registered, or set minPartitions",
            f"{known} of {requested} executors" if known else "no executor",
            EXECUTORS_WAIT_S,
        )


def prepare_environment(
    environ: MutableMapping[str, str],
    *,
    master: str | None,
    parallelism: str | None,
) -> Java | None:
    """Set the environment variables that Spark's JVM reads at its start; return its Java.

    Under ``spark-submit`` the JVM is already running and nothing is changed: None.
    """
    if "PYSPARK_GATEWAY_PORT" in environ:
        return None
    java = ensure_java(environ)
    # Otherwise the workers run whichever `python3` is on PATH, not this virtual environment.
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    slots = task_slots(master or _ambient_master(environ))
    if slots is None:
        return java
    # Only if all of Spark is on this machine: others could not reach a loopback address.
    environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # For a source that Spark found by its module name; `register` has a better figure.
    if parallelism is not None and parallelism.isdecimal():
        slots = int(parallelism)
    environ[MIN_PARTITIONS_VARIABLE] = str(PARTITIONS_PER_SLOT * slots)
    return java


def jvm_process() -> "subprocess.Popen[bytes] | None":
    """Return the JVM that pyspark has started for this process, or None."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(
        SparkContext._gateway,  # noqa: SLF001 - no public API
        "proc",
        None,
    )
    return process


def jvm_has_ended() -> bool:
    """Whether the JVM started by this process has ended: killed, or out of memory."""
    process = jvm_process() if "pyspark" in sys.modules else None
    if process is None:
        return False
    # It may take a while to exit after its last output.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.2)
    return process.poll() is not None


def task_slots(master: str) -> int | None:
    """Return the number of parallel tasks of a local ``master``; None if it is not local."""
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster is not None:
        return int(cluster[1]) * int(cluster[2])
    parsed = _LOCAL_MASTER.fullmatch(master)
    if parsed is None:
        return None
    if parsed[1] == "*":
        return os.cpu_count() or 1
    return int(parsed[1] or 1)


def log_settings(log_level: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings for a new JVM to log at ``log_level``.

    ``spark.log.level`` alone is applied too late for the lines of the start.
    """
    level = log_level.upper()
    if level not in LOG_LEVELS:
        raise ValueError(f"log_level {log_level!r} is not one of {', '.join(LOG_LEVELS)}")
    quieter = max(level, "ERROR", key=LOG_LEVELS.index)
    content = _LOG4J.format(level=level, quieter=quieter)
    file = cache_directory(environ) / f"log4j2-{content_digest(content)}.properties"
    write_cached(file, content, executable=False)
    settings = {JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file.as_uri()}"}
    # Bars overwrite their line, which only a terminal can show: a notebook shows every state.
    if LOG_LEVELS.index(level) > LOG_LEVELS.index("WARN") or not sys.stderr.isatty():
        settings["spark.ui.showConsoleProgress"] = "false"
    return settings


def _ambient_master(environ: Mapping[str, str]) -> str:
    """Return the master that Spark uses if the builder has none, as far as known."""
    if "PYSPARK_SUBMIT_ARGS" in environ or "SPARK_CONF_DIR" in environ:
        return "unknown"
    return environ.get("MASTER", "local[*]")


def _spark_home() -> Path:
    """Return the home of the Spark that pyspark starts."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _with_java_options(builder: "SparkSession.Builder", options: str) -> "SparkSession.Builder":
    """Add JVM options after those of the builder: Java uses the last of two."""
    before = builder._options.get(JAVA_OPTIONS)  # noqa: SLF001
    joined = " ".join(part for part in (_as_text(before), options) if part)
    return builder.config(JAVA_OPTIONS, joined) if joined else builder


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)
