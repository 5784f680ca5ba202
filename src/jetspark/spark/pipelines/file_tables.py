"""Streaming tables stored as files, and two ways in which Spark loses their rows.

In addition to the files, such a table has a log (``_spark_metadata``) of its micro-batches, by
number; a micro-batch whose number is in the log is considered written, and silently left out. So a
second flow into the table loses its rows to the first one, and a flow with a new checkpoint (it
was renamed, or ``storage`` was removed) loses as many micro-batches as the old one had. Both are
refused here, before anything runs; formats with transactions are not affected.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import PipelineRefused, Project

DEFAULT_FORMAT: Final = "parquet"
FILE_FORMATS: Final = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})

_LOG: Final = "_spark_metadata"
_NAME: Final = r"(?P<{}>(?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))*)"
# Keep quoted names, remove strings and comments: they may contain anything.
_NOISE: Final = re.compile(
    r"(?P<name>`[^`]*`)|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL
)
_SQL_TABLE: Final = re.compile(
    r"\s*CREATE\s+(?:OR\s+\w+\s+)?STREAMING\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    + _NAME.format("table"),
    re.IGNORECASE,
)
_SQL_TARGET: Final = re.compile(
    r"\s*CREATE\s+(?:OR\s+\w+\s+)?(?:STREAMING\s+TABLE|MATERIALIZED\s+VIEW)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?" + _NAME.format("target"),
    re.IGNORECASE,
)
_SQL_FLOW: Final = re.compile(
    r"\s*CREATE\s+FLOW\s+" + _NAME.format("flow") + r"\s+(?:COMMENT\s+)?AS\s+INSERT\s+INTO"
    r"\s+(?:TABLE\s+)?" + _NAME.format("table"),
    re.IGNORECASE,
)
_SQL_QUERY: Final = re.compile(r"\bAS\s*\(?\s*(?:SELECT|WITH|FROM|TABLE|VALUES)\b", re.IGNORECASE)
_SQL_FORMAT: Final = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)


def sql_targets(text: str) -> Iterator[str]:
    """Yield the tables and materialized views that a SQL file defines."""
    for statement in _statements(text):
        found = _SQL_TARGET.match(statement)
        if found:
            yield found["target"]


def _statements(text: str) -> list[str]:
    return _NOISE.sub(lambda found: found["name"] or " ", text).split(";")


class FileTables:
    """Collects tables and flows in any order; raises ``PipelineRefused``."""

    def __init__(
        self, project: Project, continues: Callable[[str], bool] = lambda _: True
    ) -> None:
        """``continues`` returns whether this run adds to a table: not if it is emptied first."""
        self._project = project
        self._goes_on = continues
        self._tables: set[str] = set()
        self._flows: dict[str, list[str]] = {}

    def add_table(self, name: str, table_format: str | None) -> None:
        """Add a streaming table; None is the default format."""
        if (table_format or DEFAULT_FORMAT).lower() in FILE_FORMATS:
            table = self._key(name)
            self._tables.add(table)
            self._check(table)

    def add_flow(self, name: str, target: str) -> None:
        """Add a flow into any target."""
        table = self._key(target)
        self._flows.setdefault(table, []).append(short_name(self._project, name))
        self._check(table)

    def add_sql(self, text: str) -> None:
        """Add the tables and flows of a SQL file, whose errors Spark will report."""
        for statement in _statements(text):
            table, flow = _SQL_TABLE.match(statement), _SQL_FLOW.match(statement)
            if table:
                query = _SQL_QUERY.search(statement, table.end())
                head = statement[table.end() : query.start() if query else None]
                named = _SQL_FORMAT.search(head)
                self.add_table(table["table"], named[1] if named else None)
                if query:
                    self.add_flow(table["table"], table["table"])
            elif flow:
                self.add_flow(flow["flow"], flow["table"])

    def _check(self, table: str) -> None:
        flows = self._flows.get(table, [])
        if table not in self._tables or not flows:
            return
        if len(flows) > 1:
            raise PipelineRefused(
                f"table {table!r} has {len(flows)} flows ({', '.join(flows)}): Spark counts the "
                "micro-batches of a table of files together, and would drop rows of all but one; "
                "give each flow its own table and combine them with UNION ALL, or give the "
                "table a format with transactions"
            )
        if self._goes_on(table):
            self._check_log(table, flows[0])

    def _check_log(self, table: str, flow: str) -> None:
        written = newest_number(place_of(self._project, table) / _LOG)
        checkpoints = self._project.checkpoints
        for part in (*full_name(self._project, table), flow):
            checkpoints = _child(checkpoints, part)
        planned = newest_number(checkpoints / str(newest_number(checkpoints) or 0) / "offsets")
        if written is not None and (planned is None or planned < written):
            raise PipelineRefused(
                f"table {table!r} has rows unknown to the checkpoint of its flow {flow!r} "
                "(the flow was renamed, or its checkpoint removed): Spark would drop as "
                "many micro-batches; start again with "
                f"jetspark pipeline run --full-refresh {table}, or restore the old name"
            )

    def _key(self, name: str) -> str:
        # Spark's catalogs are case-insensitive.
        return short_name(self._project, name).lower()


def short_name(project: Project, name: str) -> str:
    """Return a name without quotes, and without the catalog and database of the project."""
    parts = [part.strip().strip("`") for part in re.findall(r"`[^`]+`|[^.`]+", name)]
    for default in (project.catalog, project.database):
        if len(parts) > 1 and parts[0] == default:
            parts = parts[1:]
    return ".".join(parts)


def full_name(project: Project, name: str) -> list[str]:
    """Return catalog, database and table."""
    parts = short_name(project, name).split(".")
    return [project.catalog, project.database][: 3 - len(parts)] + parts


def place_of(project: Project, name: str) -> Path:
    """Return the folder where Spark's own catalogs store a table."""
    *_, database, table = (part.lower() for part in full_name(project, name))
    if database == "default":
        return project.warehouse / table
    return project.warehouse / f"{database}.db" / table


def _child(folder: Path, name: str) -> Path:
    """Return the entry of that name, ignoring case."""
    spelled = [path for path in folder.glob("*") if path.name.lower() == name.lower()]
    return spelled[0] if spelled else folder / name


def newest_number(folder: Path) -> int | None:
    """Return the highest number used as a name in the folder."""
    return max(_numbers(folder), default=None)


def _numbers(folder: Path) -> Iterator[int]:
    for path in folder.glob("*"):
        number = path.name.removesuffix(".compact")
        if number.isdecimal():
            yield int(number)
