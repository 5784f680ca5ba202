"""One run of a project at a time: two would write the same checkpoints, tables and ledger.

The lock is the operating system's on a file in ``storage``: it ends with the process that has it,
however that ends, and so is never left behind.

Spark's JVM may live longer than the process that started it: it ends its tasks, and after the
first run on a machine it writes the archive of classes. Until it is gone it has the catalog, in
which Derby locks a file of its own. A run waits for that.
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
# Derby holds a lock on this file of a database for as long as it has the database open.
CATALOG_LOCK_NAME: Final = "dbex.lck"

_JVM_PATIENCE_S: Final = 120.0
_JVM_PAUSE_S: Final = 0.1


@contextmanager
def only_run(
    project: Project, say: Callable[[str], None], *, patience_s: float = _JVM_PATIENCE_S
) -> Iterator[None]:
    """Hold the project; raises ``PipelineRefused`` when somebody has it, or it is not writable.

    ``say`` gets a line when the JVM of an earlier run has to be waited for, which is done for
    ``patience_s``.
    """
    _check_writable("'storage'", project.storage)
    _check_writable("the folder of tables", project.warehouse)
    path = project.storage / LOCK_NAME
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise PipelineRefused(
                f"{project.name} is running already{f', as process {holder}' if holder else ''}: "
                "two runs would write the same checkpoints and tables; let it end, or stop it"
            ) from None
        except OSError as error:
            raise PipelineRefused(
                f"{path} cannot be locked: {error.strerror}: 'storage' has to be on a file system "
                "that has locks"
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
    """Wait until no JVM has the catalog: two would write the same checkpoints."""
    if _has_jvm():
        return  # it is this process that has the catalog open, and goes on using it
    lock = project.metastore / CATALOG_LOCK_NAME
    deadline = time.monotonic() + patience_s
    told = False
    while _is_locked(lock):
        if time.monotonic() >= deadline:
            raise PipelineRefused(
                f"the catalog of {project.name} is still open after {patience_s:.0f} s, in a java "
                f"process that has {project.metastore} in its command line: Spark of an earlier "
                "run, or another program that reads it; let it end, or stop it"
            )
        if not told:
            say("Waiting until Spark of an earlier run has ended.")
            told = True
        time.sleep(_JVM_PAUSE_S)


def _has_jvm() -> bool:
    """Say whether this process started a JVM before, which Spark uses for all its sessions."""
    pyspark = sys.modules.get("pyspark")
    return (
        pyspark is not None and pyspark.SparkContext._gateway is not None  # noqa: SLF001 - nothing public tells
    )


def _is_locked(path: Path) -> bool:
    """Say whether another process holds a lock on a file, which need not exist."""
    try:
        with path.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # Without a catalog, or where nothing can be locked, Derby says what there is to say.
        return False
    return False


def _check_writable(what: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineRefused(f"{what} {folder} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PipelineRefused(f"{what} {folder} cannot be written to: Permission denied")
