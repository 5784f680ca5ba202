"""The Spark settings with which a project is run, in both ways of running it."""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import LEDGER_SETTING, Project
from jetspark.spark.session import log_settings

# Spark's own log: what goes wrong reaches people as one line, and is reported once.
LOG_LEVEL: Final = "OFF"

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def prepare_workers(environ: MutableMapping[str, str]) -> None:
    """Set what Spark's Python processes inherit; before the JVM is started.

    Spark's runner changes into the project, where a relative path finds nothing. And its streaming
    sources give up after 15 s, which on a busy machine is less than a start takes.
    """
    path = environ.get("PYTHONPATH", "")
    if path:
        parts = [str(Path(part).resolve()) for part in path.split(os.pathsep) if part]
        environ["PYTHONPATH"] = os.pathsep.join(parts)
    environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "60")


def spark_settings(project: Project, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session; those of the spec win over ours, ``extra`` over both."""
    metastore = project.metastore
    java = log_settings(LOG_LEVEL, os.environ)
    ours = {
        **java,
        # Derby writes one into the current folder otherwise.
        _JAVA_OPTIONS: f'{java[_JAVA_OPTIONS]} "-Dderby.stream.error.file={metastore}.log"',
        # So that tables are known to the next run: Spark's default catalog forgets them.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": project.warehouse.as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={metastore};create=true"
        ),
        "spark.ui.enabled": "false",
        # Its workers take long to answer on a machine that is busy with much else.
        "spark.python.authenticate.socketTimeout": "60s",
        # They are looked at four times a second.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }
    if project.resources.ledger:
        ours[LEDGER_SETTING] = project.resources.ledger
    return {**ours, **project.configuration, **extra}
