"""The sinks of ``batch_kills``: written with ``exactly_once`` by the recipes of the guide.

Each needs something that is no part of jetspark; ``missing`` says what, and such a sink is
skipped. Derby comes with Spark.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from tests.support.scripted import unused_port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jetspark.spark import Batch

# How often a reader sees a text, with the micro-batch that has it.
Rows = Counter[tuple[int, str]]

POSTGRESQL_JAR: Final = Path("/usr/share/java/postgresql.jar")
POSTGRESQL_USER: Final = "postgres"


class Sink(Protocol):
    """A table in one place."""

    def write(self, rows: "DataFrame", batch: "Batch") -> None:
        """Write a micro-batch."""

    def undo(self, batch: "Batch") -> None:
        """Remove what an earlier run has written of it."""

    def rows(self) -> Rows:
        """Return what a reader sees."""


class Kind(NamedTuple):
    """A kind of sink: how to open one, and what it needs."""

    opened: Callable[["SparkSession", str], Sink]
    missing: Callable[[], str]
    """Why it cannot be run here; empty: it can."""
    settings: Callable[[], Mapping[str, str]]
    """Spark settings."""


def _nothing() -> str:
    return ""


def _no_settings() -> Mapping[str, str]:
    return {}


def _counted(pairs: Iterator[tuple[Any, Any]]) -> Rows:
    return Counter((int(batch), str(data)) for batch, data in pairs)


def _columns(table: Any) -> Rows:
    columns = [table.column(name).to_pylist() for name in ("batch", "data")]
    return _counted(zip(*columns, strict=True))


def _numbered(rows: "DataFrame", batch: "Batch") -> "DataFrame":
    return rows.selectExpr("cast(data AS string) AS data", f"cast({batch.id} AS int) AS batch")


def rows_of(table: Path) -> Rows:
    """Return the rows of a table of files as a reader without Spark and jetspark sees them."""
    import pyarrow.parquet as pq

    found = pq.read_table(table, columns=["batch_id", "data"])
    pairs = zip(found["batch_id"].to_pylist(), found["data"].to_pylist(), strict=True)
    return _counted(
        (batch, data if isinstance(data, str) else data.decode()) for batch, data in pairs
    )


class Files:
    """``file_table``, which needs no undo."""

    def __init__(self, _spark: "SparkSession", place: str) -> None:
        from jetspark.spark import file_table

        self._place = Path(place)
        self.write = file_table(place)

    def undo(self, batch: "Batch") -> None:
        """Never called."""
        raise AssertionError(batch.id)

    def rows(self) -> Rows:
        """Return what a reader sees."""
        return rows_of(self._place)


class Jdbc:
    """Rows with the number of their micro-batch; those of a run that was killed are deleted."""

    def __init__(self, spark: "SparkSession", url: str) -> None:
        self._spark = spark
        self._url = url

    def write(self, rows: "DataFrame", batch: "Batch") -> None:
        """Append; each task commits its own rows."""
        _numbered(rows, batch).write.jdbc(self._url, "copied", mode="append")

    def undo(self, batch: "Batch") -> None:
        """Delete the rows of the micro-batch."""
        jvm = cast("Any", self._spark)._jvm
        connection = jvm.java.sql.DriverManager.getConnection(self._url)
        try:
            # A run that was killed early may not have created the table.
            found = connection.getMetaData().getTables(None, None, "%", None)
            names = []
            while found.next():
                names.append(found.getString("TABLE_NAME").lower())
            if "copied" in names:
                statement = f'DELETE FROM copied WHERE "batch" = {batch.id}'
                connection.createStatement().execute(statement)
        finally:
            connection.close()

    def rows(self) -> Rows:
        """Return what a reader sees."""
        found = self._spark.read.jdbc(self._url, "copied").collect()
        return _counted((row["batch"], row["data"]) for row in found)


def _derby(spark: "SparkSession", place: str) -> Jdbc:
    return Jdbc(spark, f"jdbc:derby:{place};create=true")


class Delta:
    """Append as a transaction of the writer, which the table records with its version."""

    def __init__(self, _spark: "SparkSession", place: str) -> None:
        self._place = place

    def write(self, rows: "DataFrame", batch: "Batch") -> None:
        """Append, unless the table has this transaction."""
        deltalake = import_module("deltalake")
        if deltalake.DeltaTable.is_deltatable(self._place):
            done = deltalake.DeltaTable(self._place).transaction_version(batch.name)
            if done is not None and done >= batch.id:
                return
        transaction = deltalake.Transaction(batch.name, batch.id)
        deltalake.write_deltalake(
            self._place,
            _numbered(rows, batch).toArrow(),
            mode="append",
            commit_properties=deltalake.CommitProperties(app_transactions=[transaction]),
        )

    def undo(self, batch: "Batch") -> None:
        """Do nothing: the transaction is written as a whole or not at all."""

    def rows(self) -> Rows:
        """Return what a reader sees."""
        deltalake = import_module("deltalake")
        return _columns(deltalake.DeltaTable(self._place).to_pyarrow_table())


class Iceberg:
    """Replace the rows of the micro-batch in one commit."""

    def __init__(self, _spark: "SparkSession", place: str) -> None:
        self._place = Path(place)

    def write(self, rows: "DataFrame", batch: "Batch") -> None:
        """Replace them; the first time nothing."""
        table = _numbered(rows, batch).toArrow()
        target = self._catalog().create_table_if_not_exists("default.copied", schema=table.schema)
        target.overwrite(table, overwrite_filter=f"batch = {batch.id}")

    def undo(self, batch: "Batch") -> None:
        """Do nothing: the write replaces them."""

    def rows(self) -> Rows:
        """Return what a reader sees."""
        return _columns(self._catalog().load_table("default.copied").scan().to_arrow())

    def _catalog(self) -> Any:
        self._place.mkdir(parents=True, exist_ok=True)
        uri = {"uri": f"sqlite:///{self._place}/catalog.db", "warehouse": f"file://{self._place}"}
        found = import_module("pyiceberg.catalog").load_catalog("campaign", type="sql", **uri)
        found.create_namespace_if_not_exists("default")
        return found


def _no_package(name: str) -> Callable[[], str]:
    def missing() -> str:
        return "" if find_spec(name) else f"{name} is not installed (pip install {name})"

    return missing


def _no_postgresql() -> str:
    if shutil.which("initdb") is None:
        return "PostgreSQL is not installed (initdb is not on the PATH)"
    if not POSTGRESQL_JAR.exists():
        return f"{POSTGRESQL_JAR} is missing (apt install libpostgresql-jdbc-java)"
    return ""


KINDS: Final[Mapping[str, Kind]] = {
    "files": Kind(Files, _nothing, _no_settings),
    "derby": Kind(_derby, _nothing, _no_settings),
    "postgresql": Kind(
        Jdbc, _no_postgresql, lambda: {"spark.driver.extraClassPath": str(POSTGRESQL_JAR)}
    ),
    "deltalake": Kind(Delta, _no_package("deltalake"), _no_settings),
    "pyiceberg": Kind(Iceberg, _no_package("pyiceberg"), _no_settings),
}


class PostgreSQL:
    """A PostgreSQL server of its own, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._port = unused_port()
        # It refuses to run as root.
        self._user = POSTGRESQL_USER if os.geteuid() == 0 else None
        if self._user is not None:
            folder.mkdir()
            shutil.chown(folder, self._user)
        self._data = folder / "data"
        self._run("initdb", "--auth=trust", f"--username={POSTGRESQL_USER}")
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "--wait", f"--log={folder / 'log'}", f"--options={options}", "start")

    def database(self, name: str) -> str:
        """Create a database; return its URL."""
        where = ("--host=127.0.0.1", f"--port={self._port}", f"--username={POSTGRESQL_USER}")
        self._call("createdb", *where, name)
        return f"jdbc:postgresql://127.0.0.1:{self._port}/{name}?user={POSTGRESQL_USER}"

    def close(self) -> None:
        """Stop the server."""
        self._run("pg_ctl", "--mode=fast", "--wait", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        self._call(program, f"--pgdata={self._data}", *arguments)

    def _call(self, *command: str) -> None:
        # Its folder must be readable for its user; a daemon keeps the pipe of a captured output.
        subprocess.run(
            command, check=True, user=self._user, cwd="/", stdout=subprocess.DEVNULL, timeout=120
        )


@contextmanager
def places(kind: str, folder: Path) -> Iterator[Callable[[str], str]]:
    """Yield a function that returns a new place for a table."""
    if kind != "postgresql":
        yield lambda name: str(folder / name / "table")
        return
    server = PostgreSQL(folder / "postgresql")
    try:
        yield server.database
    finally:
        server.close()
