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
        for log in table.glob("_spark_metadata/[0-9]*")
        for line in log.read_text().splitlines()[1:]
    ]
    found = pyarrow.dataset.dataset(files or table, format="parquet")
    rows: list[dict[str, Any]] = found.to_table(columns=list(columns)).to_pylist()
    return rows


def seqs_of(table: Path) -> list[int]:
    return sorted(row["seq"] for row in rows_of(table, "seq"))
