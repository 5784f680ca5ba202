"""One run of a project at a time: two would write the same checkpoints, tables and ledger.

The lock is the operating system's on a file in ``storage``: it is released when the process ends,
in any way, so it is never stale.

Spark's JVM may outlive the process that started it: it ends its tasks, and after the first run on
a machine it writes the class archive. Until then it has the catalog open, in which Derby locks a
file. A run waits for that.
"""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import PipelineRefused, Project

LOCK_NAME: Final = "run.lock"
# Derby locks this file of a database while it is open.
CATALOG_LOCK_NAME: Final = "dbex.lck"

_JVM_PATIENCE_S: Final = 120.0
_JVM_PAUSE_S: Final = 0.1


@contextmanager
def only_run(
    project: Project, say: Callable[[str], None], *, patience_s: float = _JVM_PATIENCE_S
) -> Iterator[None]:
    """Lock the project; raises ``PipelineRefused`` if it is in use, or not writable.

    ``say`` gets a line if the JVM of an earlier run is still running; it is waited for up to
    ``patience_s``.
    """
    _check_writable("'storage'", project.storage)
    _check_writable("the warehouse folder", project.warehouse)
    path = project.storage / LOCK_NAME
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise PipelineRefused(
                f"{project.name} is already running{f', as process {holder}' if holder else ''}: "
                "two runs would write the same checkpoints and tables; wait, or stop it"
            ) from None
        except OSError as error:
            raise PipelineRefused(
                f"{path} cannot be locked: {error.strerror}: 'storage' must be on a file system "
                "that supports locks"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            _await_catalog(project, say, patience_s)
            yield
        finally:
            file.truncate(0)


def _await_catalog(project: Project, say: Callable[[str], None], patience_s: float) -> None:
    """Wait until no JVM has the catalog open: two would write the same checkpoints."""
    if _has_jvm():
        return  # this process has the catalog open and keeps using it
    lock = project.metastore / CATALOG_LOCK_NAME
    deadline = time.monotonic() + patience_s
    reported = False
    while _is_locked(lock):
        if time.monotonic() >= deadline:
            raise PipelineRefused(
                f"the catalog of {project.name} is still open after {patience_s:.0f} s, in a java "
                f"process with {project.metastore} in its command line: Spark of an earlier "
                "run, or another program that reads it; wait until it ends, or stop it"
            )
        if not reported:
            say("Waiting for Spark of an earlier run to end.")
            reported = True
        time.sleep(_JVM_PAUSE_S)


def _has_jvm() -> bool:
    """Whether this process started a JVM before, which Spark uses for all its sessions."""
    pyspark = sys.modules.get("pyspark")
    return (
        pyspark is not None and pyspark.SparkContext._gateway is not None  # noqa: SLF001
    )


def _is_locked(path: Path) -> bool:
    """Whether another process has locked a file, which need not exist."""
    try:
        with path.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # Without a catalog, or if locks are not supported, Derby reports the problem.
        return False
    return False


def _check_writable(what: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineRefused(f"{what} {folder} cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PipelineRefused(f"{what} {folder} cannot be written to: Permission denied")
