"""One run of a project at a time: two would write the same checkpoints, tables and ledger.

The lock is the operating system's on a file in ``storage``: it ends with the process that has it,
however that ends, and so is never left behind.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import PipelineRefused, Project

LOCK_NAME: Final = "run.lock"


@contextmanager
def only_run(project: Project) -> Iterator[None]:
    """Hold the project; raises ``PipelineRefused`` when somebody has it, or it is not writable."""
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
            yield
        finally:
            file.truncate(0)


def _check_writable(what: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineRefused(f"{what} {folder} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PipelineRefused(f"{what} {folder} cannot be written to: Permission denied")
