"""Tables of a pipeline, read as files."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.dataset


def rows_of(table: Path, *columns: str) -> list[dict[str, Any]]:
    """Rows of a table; of a streaming one those that are in its log, not what was interrupted."""
    files = [
        unquote(urlsplit(json.loads(line)["path"]).path)
        for log in _logs(table)
        for line in log.read_text().splitlines()[1:]
    ]
    found = pyarrow.dataset.dataset(files or table, format="parquet")
    rows: list[dict[str, Any]] = found.to_table(columns=list(columns) or None).to_pylist()
    return rows


def _logs(table: Path) -> list[Path]:
    """Return the files of its log; `9.compact` has what those up to 9 have, which remain."""
    found = sorted(table.glob("_spark_metadata/[0-9]*"), key=lambda log: int(log.stem))
    compact = [number for number, log in enumerate(found) if log.suffix == ".compact"]
    return found[compact[-1] :] if compact else found


def seqs_of(table: Path) -> list[int]:
    return sorted(row["seq"] for row in rows_of(table, "seq"))
