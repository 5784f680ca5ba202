"""``infer_schema``: the columns of a stream's payloads, from a sample of its messages."""

from typing import TYPE_CHECKING, Final

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use

if TYPE_CHECKING:
    from jetspark import sync
    from jetspark.client.jetstream.stored import StreamMessage
    from jetspark.schemas.infer import InferredSchema, SelfDescribed

SAMPLES: Final = 1000


def _newest(stream: "sync.Stream", limit: int) -> list[bytes]:
    """Return the payloads of the newest messages."""

    def read(seq: int) -> "list[StreamMessage]":
        return list(stream.get_batch(seq=seq, limit=limit))

    state = stream.info().state
    low = max(state.first_seq, 1)
    high = max(state.last_seq - limit + 1, low)
    found = read(high)
    if len(found) < limit and high > low:
        # Deleted messages leave gaps: find the last sequence with enough messages after it.
        found = read(low)
        while len(found) == limit and high - low > 1:
            middle = (low + high) // 2
            fewer = read(middle)
            if len(fewer) < limit:
                high = middle
            else:
                low, found = fewer[0].seq, fewer
    return [message.data for message in found]


def infer_schema(
    stream: str, *, format: "SelfDescribed" = "json", limit: int = SAMPLES, **options: str
) -> "InferredSchema":
    """Return a schema for the payloads of a stream, from its last ``limit`` messages.

    Its ``ddl`` is for ``decode_json`` and ``decode_msgpack``; ``sampled`` and ``rescued`` say how
    many payloads were read, and how many of them do not fit. The rules are those of
    ``jetspark.infer_schema``. ``options`` are the connection options.
    """
    with needs_spark():
        from jetspark.client.arguments import whole
        from jetspark.errors import InvalidSchema
        from jetspark.schemas.infer import infer_schema as infer
        from jetspark.spark.connections import jetstream_of
        from jetspark.spark.stream.view import lend_for_planning

    whole(limit, "limit", least=1)
    reader = OptionReader("infer_schema", options, Use.CALL, {Use.CALL: CONNECTION_OPTIONS})
    connection = parse_connection(reader)
    reader.finish()
    with lend_for_planning(
        connection,
        doing=f"infer_schema cannot read stream {stream!r}",
        missing=f"infer_schema: stream {stream!r} does not exist",
    ) as client:
        found = jetstream_of(client, connection).stream(stream)
        samples = _newest(found, limit)
    if not samples:
        raise InvalidSchema(
            f"infer_schema: stream {stream!r} has no messages: publish some, or write the schema"
        )
    try:
        return infer(samples, format=format)
    except InvalidSchema as error:
        raise InvalidSchema(f"infer_schema: stream {stream!r}: {error}") from None
