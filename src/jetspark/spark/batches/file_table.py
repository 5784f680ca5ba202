"""A table of files that gets each micro-batch as one folder, by one rename.

The files of a micro-batch are written to a folder of this run that readers ignore, and appear with
the rename of that folder to ``batch_id=<n>``. A folder of that name is therefore complete: a later
run of the micro-batch finds it and writes nothing.
"""

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from jetspark.errors import Error
from jetspark.spark.batches.once import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark, and most other readers of a table of files, ignore names with a leading underscore.
STAGING: Final = "_jetspark_staging"
OWNER: Final = "_jetspark_writer.json"

_COLUMN: Final = re.compile(r"[^._/=\x00-\x1f][^/=\x00-\x1f]*")

# File systems that rename a folder atomically, and never onto one that exists.
_LOCAL: Final = "file"
_ATOMIC: Final = (_LOCAL, "hdfs", "viewfs")


class TableRefused(Error, ValueError):
    """A table that cannot be written exactly once; the text says what to do."""


class TableFiles(Protocol):
    """The files of one table."""

    def exists(self, name: str) -> bool:
        """Whether a file or folder of the table exists."""

    def read(self, name: str) -> str:
        """Return a small file."""

    def write(self, name: str, text: str) -> None:
        """Write a small file as a whole."""

    def rename(self, old: str, new: str) -> bool:
        """Rename a folder; False if one of the new name exists, which stays as it is."""

    def remove(self, name: str) -> None:
        """Remove a folder, if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""


class LocalFiles:
    """A table on a local or mounted disk."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def exists(self, name: str) -> bool:
        """Whether a file or folder of the table exists."""
        return (self._root / name).exists()

    def read(self, name: str) -> str:
        """Return a small file."""
        return (self._root / name).read_text()

    def write(self, name: str, text: str) -> None:
        """Write a small file as a whole."""
        self._root.mkdir(parents=True, exist_ok=True)
        temporary = self._root / f"{name}.{os.getpid()}.tmp"
        temporary.write_text(text)
        _sync(temporary)
        temporary.replace(self._root / name)
        _sync(self._root)

    def rename(self, old: str, new: str) -> bool:
        """Rename a folder; False if one of the new name exists, which stays as it is."""
        # Spark does not sync what it writes, and the ledger must not be ahead of the table.
        for folder, _, files in os.walk(self._root / old):
            for file in files:
                _sync(Path(folder) / file)
            _sync(Path(folder))
        # Not by Hadoop, which copies into the other folder if the rename fails.
        try:
            (self._root / old).rename(self._root / new)
        except OSError:
            if (self._root / new).exists():
                return False
            raise
        _sync(self._root)
        return True

    def remove(self, name: str) -> None:
        """Remove a folder, if it exists."""
        shutil.rmtree(self._root / name, ignore_errors=True)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        where = self._root / folder
        return sorted(one.name for one in where.iterdir()) if where.is_dir() else []


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopFiles:
    """A table on a file system that Spark knows through Hadoop."""

    def __init__(self, jvm: Any, files: Any, root: Any) -> None:
        self._jvm = jvm
        self._files = files
        self._root = root

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def exists(self, name: str) -> bool:
        """Whether a file or folder of the table exists."""
        return bool(self._files.exists(self._path(name)))

    def read(self, name: str) -> str:
        """Return a small file."""
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a small file as a whole."""
        temporary = self._path(f"{name}.{os.getpid()}.tmp")
        stream = self._files.create(temporary, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        if not self._files.rename(temporary, self._path(name)):
            raise TableRefused(f"the file {name!r} of the table could not be written")

    def rename(self, old: str, new: str) -> bool:
        """Rename a folder; False if one of the new name exists, which stays as it is."""
        # Onto an existing folder Hadoop moves *into* it: checked first. A run that was paused
        # exactly between the two is fenced by the ledger before that.
        if self.exists(new):
            return False
        if not self._files.rename(self._path(old), self._path(new)):
            raise TableRefused(f"the folder {new!r} of the table could not be renamed")
        return True

    def remove(self, name: str) -> None:
        """Remove a folder, if it exists."""
        self._files.delete(self._path(name), True)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(one.getPath().getName()) for one in self._files.listStatus(path))


class Owner(msgspec.Struct, frozen=True):
    """Who writes a table: the folders of another query would pass for its own."""

    name: str
    query: str


class FileTable:
    """Writes micro-batches to a table of files; for ``exactly_once``."""

    def __init__(self, path: str, file_format: str, column: str, options: dict[str, str]) -> None:
        self._path = path.rstrip("/")
        self._format = file_format
        self._column = column
        self._options = options

    def __call__(self, rows: "DataFrame", batch: Batch) -> None:
        """Write one micro-batch, unless an earlier run has completed it."""
        if self._column.lower() in {name.lower() for name in rows.columns}:
            raise TableRefused(
                f"the rows have a column {self._column!r}, which the table {self._path!r} has for "
                "the micro-batch: rename it, or choose another with batch_column"
            )
        files = files_of(rows.sparkSession, self._path)
        self._check_owner(files, batch)
        folder = f"{self._column}={batch.id}"
        if not files.exists(folder):
            staged = f"{STAGING}/{batch.id}-{batch.run}"
            writer = rows.write.format(self._format).options(**self._options)
            writer.mode("overwrite").save(f"{self._path}/{staged}")
            batch.check()
            files.rename(staged, folder)
        # What earlier runs of this micro-batch left, or this one if another was faster.
        for name in files.names(STAGING):
            if name.startswith(f"{batch.id}-"):
                files.remove(f"{STAGING}/{name}")

    def _check_owner(self, files: TableFiles, batch: Batch) -> None:
        """Refuse a table that another query writes: its folders would pass for this one's."""
        this = Owner(batch.name, batch.query)
        if not files.exists(OWNER):
            if any(name.startswith(f"{self._column}=") for name in files.names("")):
                raise TableRefused(
                    f"the table {self._path!r} has folders {self._column}=..., but no file "
                    f"{OWNER!r}: another program writes it. Choose another path"
                )
            files.write(OWNER, msgspec.json.encode(this).decode())
            return
        found = msgspec.json.decode(files.read(OWNER), type=Owner)
        if found.name != this.name or (found.query and this.query and found.query != this.query):
            raise TableRefused(
                f"the table {self._path!r} is written by {found.name!r} of query "
                f"{found.query or 'unknown'}, and its micro-batches would pass for those of "
                f"{this.name!r} of query {this.query or 'unknown'}: choose another path (a "
                "new checkpoint needs a new table), and read both with spark.read"
            )


def file_table(
    path: str,
    file_format: str = "parquet",
    *,
    batch_column: str = "batch_id",
    **options: str,
) -> FileTable:
    """Return the writer of a table of files, for ``exactly_once``.

    Each micro-batch becomes one folder ``<batch_column>=<n>`` of ``path``, complete or not at all;
    ``spark.read`` and other readers of partitioned tables see it as a partition column.
    ``options`` are those of Spark's writer for ``file_format``.
    """
    if not str(path).strip("/"):
        raise TableRefused(f"file_table: the path is {path!r}: expected a folder of its own")
    if not _COLUMN.fullmatch(batch_column):
        raise TableRefused(
            f"file_table: batch_column is {batch_column!r}: expected a name that folders "
            f"{batch_column}=<n> can have; readers ignore names that begin with a dot or an "
            "underscore"
        )
    return FileTable(str(path), file_format, batch_column, options)


def files_of(spark: "SparkSession", path: str) -> TableFiles:
    """Return the files of a table; raises ``TableRefused`` if it cannot rename atomically."""
    session = cast("Any", spark)
    if not hasattr(session, "_jsparkSession"):
        raise TableRefused(
            f"the table {path!r}: file_table needs a session of its own, and Spark Connect does "
            "not give access to the file system. Write your own function for exactly_once"
        )
    jvm = session._jvm  # noqa: SLF001 - the way to Hadoop's file systems
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    scheme = str(files.getUri().getScheme())
    if scheme not in _ATOMIC:
        raise TableRefused(
            f"the table {path!r}: file system {scheme!r} is not known to rename a folder "
            f"atomically (expected one of {', '.join(_ATOMIC)}). Use a table format with "
            "transactions (Delta, Iceberg), or your own function for exactly_once"
        )
    if scheme == _LOCAL:
        return LocalFiles(str(root.toUri().getPath()))
    return HadoopFiles(jvm, files, root)
