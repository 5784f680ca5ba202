"""The Spark settings of a run, for both runners."""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import LEDGER_SETTING, Project
from jetspark.spark.session import log_settings

# Spark's own log: errors are reported as one line, once.
LOG_LEVEL: Final = "OFF"

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def prepare_workers(environ: MutableMapping[str, str]) -> None:
    """Set the environment of Spark's Python processes; before the JVM is started.

    Spark's runner changes to the project folder, which breaks relative paths. And its streaming
    sources time out after 15 s, which is less than a start takes on a busy machine.
    """
    path = environ.get("PYTHONPATH", "")
    if path:
        parts = [str(Path(part).resolve()) for part in path.split(os.pathsep) if part]
        environ["PYTHONPATH"] = os.pathsep.join(parts)
    environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "60")


def spark_settings(project: Project, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session; the spec's override ours, ``extra`` overrides both."""
    metastore = project.metastore
    java = log_settings(LOG_LEVEL, os.environ)
    ours = {
        **java,
        # Otherwise Derby writes one to the current folder.
        _JAVA_OPTIONS: f'{java[_JAVA_OPTIONS]} "-Dderby.stream.error.file={metastore}.log"',
        # So that the next run knows the tables: Spark's default catalog forgets them.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": project.warehouse.as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={metastore};create=true"
        ),
        "spark.ui.enabled": "false",
        # Its workers take long to answer on a busy machine.
        "spark.python.authenticate.socketTimeout": "60s",
        # They are read four times a second.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }
    if project.resources.ledger:
        ours[LEDGER_SETTING] = project.resources.ledger
    return {**ours, **project.configuration, **extra}
