"""``register_tables``: every stream, bucket and object store of a server as a view for SQL."""

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from jetspark.errors import InvalidSchema
from jetspark.spark.connection_settings import CONNECTION_OPTIONS, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from jetspark.schemas.schema import Schema

# The streams of buckets and object stores have these prefixes; so do the views, in lower case.
_KV: Final = "KV_"
_OBJECTS: Final = "OBJ_"
_PAYLOADS: Final = {"jetstream": "data", "nats_kv": "value"}


class Table(NamedTuple):
    """A view to create."""

    view: str
    format_name: str
    option: str
    """The option that names its stream or bucket."""
    name: str


def register_tables(
    spark: "SparkSession",
    *,
    like: str = "*",
    prefix: str = "",
    schemas: "Mapping[str, StructType | str | Schema] | None" = None,
    **options: str,
) -> list[str]:
    """Create a temporary view for each stream, bucket and object store; return their names.

    A stream's view has its name, a bucket's ``kv_<bucket>`` and an object store's
    ``obj_<store>``, each after ``prefix``; ``like`` is a pattern (``*``, ``?``) for these names
    without the prefix. ``schemas`` has schemas of payloads by the same names, of JSON or
    registered ones of any format: their fields become columns, and ``_rescued`` has what does not
    match (``decode_json``). ``options`` are
    the connection options.

    Spark plans a view once: to see newer messages, and new streams, call it again.
    """
    with needs_spark():
        from jetspark.spark.connections import jetstream_of
        from jetspark.spark.stream.view import lend_for_planning

    reader = OptionReader("register_tables", options, Use.CALL, {Use.CALL: CONNECTION_OPTIONS})
    connection = parse_connection(reader)
    reader.finish()
    with lend_for_planning(
        connection,
        doing="register_tables cannot list the streams",
        missing="register_tables: a stream was deleted while they were listed",
    ) as client:
        streams = sorted(jetstream_of(client, connection).stream_names())
    tables = [table for table in _tables(streams) if fnmatchcase(table.view, like)]
    _check_names(tables, schemas or {}, like)
    made: list[str] = []
    for table in tables:
        frame = spark.read.format(table.format_name).options(**options)
        schema = (schemas or {}).get(table.view)
        if schema is not None and _is_registered(schema) and table.format_name == "jetstream":
            frame = frame.option("includeHeaders", "map")  # they name versions of the schema
        rows = frame.option(table.option, table.name).load()
        if schema is not None:
            try:
                rows = _with_payload(rows, table, schema)
            except InvalidSchema as error:
                raise InvalidSchema(
                    f"register_tables: schemas has {table.view!r}: {error}"
                ) from None
        view = prefix + table.view
        rows.createOrReplaceTempView(f"`{view.replace('`', '``')}`")
        made.append(view)
    return made


def _tables(streams: list[str]) -> Iterator[Table]:
    for name in streams:
        if name.startswith(_KV):
            bucket = name.removeprefix(_KV)
            yield Table(f"kv_{bucket}", "nats_kv", "bucket", bucket)
        elif name.startswith(_OBJECTS):
            store = name.removeprefix(_OBJECTS)
            yield Table(f"obj_{store}", "nats_object", "bucket", store)
        else:
            yield Table(name, "jetstream", "stream", name)


def _check_names(tables: list[Table], schemas: "Mapping[str, object]", like: str) -> None:
    """Raise ``ValueError`` for names that SQL cannot tell apart, and for unknown ones."""
    folded = Counter(table.view.lower() for table in tables)
    same = [table.view for table in tables if folded[table.view.lower()] > 1]
    if same:
        raise ValueError(
            f"register_tables: SQL does not distinguish {', '.join(same)}: exclude all but one "
            "with like"
        )
    known = {table.view: table for table in tables}
    for name in schemas:
        if name not in known:
            raise ValueError(
                f"register_tables: schemas has {name!r}, but no such view is created (like is "
                f"{like!r}): expected one of {', '.join(known) or 'none'}"
            )
        if known[name].format_name not in _PAYLOADS:
            raise ValueError(
                f"register_tables: schemas has {name!r}, which is an object store: its content "
                "has no schema"
            )


def _is_registered(schema: object) -> bool:
    from jetspark.schemas.schema import Schema

    return isinstance(schema, Schema)


def _with_payload(
    rows: "DataFrame", table: Table, schema: "StructType | str | Schema"
) -> "DataFrame":
    from jetspark.schemas.schema import Schema
    from jetspark.spark.payloads.decode import decode_json, decode_registered

    data = _PAYLOADS[table.format_name]
    if isinstance(schema, Schema):
        named = "headers" if table.format_name == "jetstream" else None
        decoded = decode_registered(data, schema, headers=named)
    else:
        decoded = decode_json(data, schema)
    row = decoded.alias("_payload")
    wide = rows.select("*", row)
    fields = wide.select("_payload.*").columns
    shown = [name for name in rows.columns if name != "headers"]
    known = {name.lower() for name in shown}
    common = [name for name in fields if name.lower() in known]
    if common:
        raise ValueError(
            f"register_tables: the schema of {table.view!r} has {', '.join(common)}, which "
            f"the view already has (it has {', '.join(rows.columns)}): rename the fields, or use "
            "decode_json, which puts them into a struct"
        )
    return wide.select(*shown, "_payload.*")
