"""Column helpers: headers as NATS blocks, message ids for one-to-one pipelines.

All are expressions evaluated by the JVM, so that Python only copies a finished block to the wire.
"""

from typing import TYPE_CHECKING, Final

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VERSION: Final = "NATS/1.0\r\n"


def encode_headers(headers: "Column | str", *, several: bool = True) -> "Column":
    """Return a binary column for the sink's ``headers``, from a map.

    ``several``: the map has names and arrays, as in the source; False: one value each. An empty or
    NULL map becomes an empty block. A name or value that would become another header fails the
    query: one with a line break, and a name that is empty or contains a colon.
    """
    with needs_spark():
        from pyspark.sql import functions as f

    entries = f.map_entries(_column(headers))
    if several:
        lines = f.flatten(
            f.transform(
                entries,
                lambda entry: f.transform(
                    f.filter(entry["value"], lambda value: value.isNotNull()),
                    lambda value: _line(entry["key"], value),
                ),
            )
        )
    else:
        lines = f.transform(
            f.filter(entries, lambda entry: entry["value"].isNotNull()),
            lambda entry: _line(entry["key"], entry["value"]),
        )
    block = f.concat(f.lit(_VERSION), f.array_join(lines, ""), f.lit("\r\n"))
    return f.when(f.size(lines) > 0, block).otherwise("").cast("binary")


def parse_headers(block: "Column | str") -> "Column":
    """Return a map of names to their values for a binary column of header blocks.

    The counterpart of the source's ``includeHeaders`` raw: for none an empty map, never NULL.
    """
    with needs_spark():
        from pyspark.sql import functions as f

    text = f.coalesce(_column(block).cast("string"), f.lit(""))
    # After the version line; the empty line at the end is skipped.
    every = f.split(text, "\r\n")
    lines = f.filter(f.slice(every, 2, f.size(every)), lambda line: line != "")
    names = f.array_distinct(f.transform(lines, lambda line: f.substring_index(line, ":", 1)))
    # As in `decode_headers`: only blanks before a value are skipped.
    values = f.transform(
        names,
        lambda name: f.transform(
            f.filter(lines, lambda line: f.substring_index(line, ":", 1) == name),
            lambda line: f.ltrim(f.substr(line, f.length(name) + 2), f.lit(" \t")),
        ),
    )
    return f.map_from_arrays(names, values)


_OF_ID: Final = ("stream", "seq", "subject", "data")


def with_msg_id(rows: "DataFrame") -> "DataFrame":
    """Return rows of a ``jetstream`` source with a column ``msg_id``, ``<stream>:<seq>:<digest>``.

    For pipelines in which every message becomes at most one: the id is the same in every run, even
    after a full refresh with a new checkpoint. The digest is of subject and data: another message
    with the same sequence, because the stream was deleted and created again, is not mistaken for
    this one.
    """
    from pyspark.sql import functions as f

    columns = known_columns(rows)
    missing = [] if columns is None else [name for name in _OF_ID if name not in columns]
    if missing:
        raise ValueError(
            f"with_msg_id needs the columns {', '.join(_OF_ID)} of the source, but "
            f"{', '.join(missing)} is missing: call it before they are dropped"
        )
    digest = f.lower(f.hex(f.xxhash64("subject", "data")))
    return rows.withColumn("msg_id", f.concat_ws(":", "stream", "seq", digest))


def known_columns(rows: "DataFrame") -> list[str] | None:
    """Return the names of the columns; None in a function of a declarative pipeline.

    Spark evaluates these functions before the tables exist that they read, and refuses questions
    about columns. What is wrong with them, Spark reports when it resolves the query.
    """
    from pyspark.errors import PySparkException

    try:
        return rows.columns
    except PySparkException:
        return None


def _column(given: "Column | str") -> "Column":
    from pyspark.sql import functions as f

    return f.col(given) if isinstance(given, str) else given


def _line(name: "Column", value: "Column") -> "Column":
    from pyspark.sql import functions as f

    text = f.concat(name, f.lit(": "), value)
    broken = f.raise_error(f.concat(f.lit("a header contains a line break: "), text))
    unnamed = f.raise_error(
        f.concat(f.lit("the name of a header is empty or contains a colon: "), text)
    )
    line = f.when(text.rlike("[\\r\\n]"), broken).when(name.rlike("^$|:"), unnamed)
    return line.otherwise(f.concat(text, f.lit("\r\n")))
