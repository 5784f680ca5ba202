"""Column helpers: headers as NATS blocks, message ids for pipelines of one row to one message.

All of them are expressions that the JVM works out, so that Python copies a finished block to the
wire.
"""

from typing import TYPE_CHECKING, Final

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VERSION: Final = "NATS/1.0\r\n"


def encode_headers(headers: "Column | str", *, several: bool = True) -> "Column":
    """Return a binary column for the sink's ``headers``, made of a map.

    ``several``: the map is one of names to arrays, as the source has it; False: to one value each.
    A map that is empty or NULL becomes an empty block. A name or value with a line break in it
    fails the query: it would become a header of its own.
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

    The counterpart of the source's ``includeHeaders`` raw: an empty map, never NULL, for none.
    """
    with needs_spark():
        from pyspark.sql import functions as f

    text = f.coalesce(_column(block).cast("string"), f.lit(""))
    # Behind the line of the version; the empty line at the end is none.
    every = f.split(text, "\r\n")
    lines = f.filter(f.slice(every, 2, f.size(every)), lambda line: f.instr(line, ":") > 1)
    names = f.array_distinct(f.transform(lines, lambda line: f.substring_index(line, ":", 1)))
    values = f.transform(
        names,
        lambda name: f.transform(
            f.filter(lines, lambda line: f.substring_index(line, ":", 1) == name),
            lambda line: f.trim(f.substr(line, f.length(name) + 2)),
        ),
    )
    return f.map_from_arrays(names, values)


_OF_ID: Final = ("stream", "seq", "subject", "data")


def with_msg_id(rows: "DataFrame") -> "DataFrame":
    """Return rows of a ``jetstream`` source with a column ``msg_id``, ``<stream>:<seq>:<digest>``.

    For pipelines in which every message becomes at most one: the id is the same in every run, even
    after a full refresh with a new checkpoint. The digest is of subject and data: another message
    that has the sequence because the stream was deleted and created again is not taken for this
    one.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        columns = rows.columns
    except PySparkException:
        # A declarative pipeline does not let its functions look: it will say so itself.
        columns = list(_OF_ID)
    missing = [name for name in _OF_ID if name not in columns]
    if missing:
        raise ValueError(
            f"with_msg_id needs the columns {', '.join(_OF_ID)} of the source, and "
            f"{', '.join(missing)} is gone: call it before they are dropped"
        )
    digest = f.lower(f.hex(f.xxhash64("subject", "data")))
    return rows.withColumn("msg_id", f.concat_ws(":", "stream", "seq", digest))


def _column(given: "Column | str") -> "Column":
    from pyspark.sql import functions as f

    return f.col(given) if isinstance(given, str) else given


def _line(name: "Column", value: "Column") -> "Column":
    from pyspark.sql import functions as f

    text = f.concat(name, f.lit(": "), value)
    broken = f.raise_error(f.concat(f.lit("a header with a line break in it: "), text))
    return f.when(text.rlike("[\\r\\n]"), broken).otherwise(f.concat(text, f.lit("\r\n")))
