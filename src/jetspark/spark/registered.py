"""``registered_schema``: a schema of a registry, for the columns of a query."""

from typing import TYPE_CHECKING

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use

if TYPE_CHECKING:
    from jetspark.schemas.schema import Schema


def registered_schema(
    registry: str, name: str, *, version: int | None = None, **options: str
) -> "Schema":
    """Get the latest version of a registered schema, or the given one; it is read once, here.

    For the decoders and encoders of this package: tasks need no connection for it. A running query
    keeps the version it was planned with; the latest one is read when it is started again.
    ``options`` are the connection options of the sources.

    Raises SchemaNotFound.
    """
    with needs_spark():
        from jetspark.errors import SchemaNotFound
        from jetspark.spark.connections import jetstream_of
        from jetspark.spark.stream.view import lend_for_planning

    reader = OptionReader("registered_schema", options, Use.CALL, {Use.CALL: CONNECTION_OPTIONS})
    connection = parse_connection(reader)
    reader.finish()
    with lend_for_planning(
        connection,
        doing=f"registered_schema cannot read schema {name!r} of registry {registry!r}",
        missing=f"registered_schema: registry {registry!r} does not exist",
    ) as client:
        found = jetstream_of(client, connection).schema_registry(registry)
        try:
            return found.get(name, version)
        except SchemaNotFound as error:
            unknown = error
    raise unknown
