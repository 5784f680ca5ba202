"""The options of format ``nats_kv``, checked all at once."""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from jetspark.client.jetstream.kv.config import stream_name
from jetspark.client.options import PUBLISH_ASYNC_MAX
from jetspark.spark.connection_settings import CONNECTION_OPTIONS, Connection, parse_connection
from jetspark.spark.option_reader import (
    STREAMING_WRITE_OPTIONS,
    OptionReader,
    Use,
    boolean,
    positive,
    text_of,
)
from jetspark.spark.stream.options import (
    HeaderMode,
    OnRecreate,
    SourceOptions,
    durable_name,
    parse_header_mode,
    parse_sequence,
    parse_trigger,
    word_of,
)
from jetspark.spark.stream.sink.options import ACK_TIMEOUT_MS, RETRIES, SinkOptions, parse_count
from jetspark.spark.times import SessionZone, TimeOptions
from jetspark.subjects.match import overlaps
from jetspark.subjects.tokens import bucket_name_problem, key_filter_problem

KV_FORMAT: Final = "nats_kv"
KEYS_PER_PARTITION: Final = 50_000


class Consistency(StrEnum):
    """What a snapshot does if the value of a key at that revision no longer exists."""

    STRICT = "strict"
    BEST_EFFORT = "best-effort"


class KvOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a snapshot read."""

    connection: Connection
    bucket: str
    keys: tuple[str, ...] = ()
    """Patterns; none means every key."""
    version_as_of: int | None = None
    timestamp_as_of_ns: int | None = None
    assumed_zone: SessionZone | None = None
    """The session's time zone, if the time had none; tasks verify that it is the same."""
    consistency: Consistency = Consistency.STRICT
    include_deleted: bool = False
    headers: HeaderMode = HeaderMode.NONE
    keys_per_partition: int = KEYS_PER_PARTITION
    min_partitions: int = 1

    @property
    def stream(self) -> str:
        """The stream that holds the bucket."""
        return stream_name(self.bucket)


class KvFeedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a change feed."""

    snapshot: KvOptions
    source: SourceOptions
    initial_snapshot: bool = False
    include_previous: bool = False


class KvSinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write."""

    bucket: str
    order_by: str = ""
    publishing: SinkOptions


_READ: Final = (*CONNECTION_OPTIONS, "bucket", "keys", "includeHeaders", "minPartitions")
_SNAPSHOT_ONLY: Final = (
    "versionAsOf",
    "timestampAsOf",
    "consistency",
    "includeDeleted",
    "maxRecordsPerPartition",
)
_FEED_ONLY: Final = (
    "initialSnapshot",
    "includePrevious",
    "startingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "onRecreate",
    "progressConsumer",
)
_WRITE: Final = (
    *CONNECTION_OPTIONS,
    "bucket",
    "orderBy",
    "maxInFlight",
    "ackTimeoutMs",
    "retries",
)
_OPTIONS: Final[Mapping[Use, tuple[str, ...]]] = {
    Use.READ: (*_READ, *_SNAPSHOT_ONLY),
    Use.READ_STREAM: (*_READ, *_FEED_ONLY),
    Use.WRITE: _WRITE,
    Use.WRITE_STREAM: (*_WRITE, *STREAMING_WRITE_OPTIONS),
}


# Options of Delta, in lower case.
DELTA_OPTIONS: Final[Mapping[str, str]] = {
    "readchangefeed": "readStream, which reads the changes of a bucket",
    "readchangedata": "readStream, which reads the changes of a bucket",
    "startingversion": "startingOffsets",
    "endingversion": "nothing: a feed has no end (trigger availableNow reads up to now)",
    "endingtimestamp": "nothing: a feed has no end (trigger availableNow reads up to now)",
    "ignoredeletes": "nothing: deletions are rows of a feed, with the operation DEL or PURGE",
    "ignorechanges": "nothing: a feed has every change as a row",
    "skipchangecommits": "nothing: a feed has every change as a row",
    "maxfilespertrigger": "maxOffsetsPerTrigger",
    "mergeschema": "nothing: values are bytes, whose schema may change (registered_schema)",
    "overwriteschema": "nothing: values are bytes, whose schema may change (registered_schema)",
    "txnappid": "nothing: writing the same keys again changes nothing",
    "txnversion": "nothing: writing the same keys again changes nothing",
}


def parse_kv_options(
    options: Mapping[str, str],
    *,
    default_min_partitions: int = 1,
    zone: SessionZone | None = None,
) -> KvOptions:
    """Parse the options of a snapshot read, or raise ``InvalidOptions``."""
    reader = OptionReader(KV_FORMAT, options, Use.READ, _OPTIONS, delta=DELTA_OPTIONS)
    parsed = _snapshot_options(reader, default_min_partitions, zone)
    if reader.has("versionAsOf") and reader.has("timestampAsOf"):
        reader.refuse("versionAsOf and timestampAsOf are mutually exclusive")
    reader.finish()
    return parsed


def parse_kv_feed_options(
    options: Mapping[str, str],
    *,
    default_min_partitions: int = 1,
    zone: SessionZone | None = None,
) -> KvFeedOptions:
    """Parse the options of a change feed, or raise ``InvalidOptions``."""
    reader = OptionReader(KV_FORMAT, options, Use.READ_STREAM, _OPTIONS, delta=DELTA_OPTIONS)
    snapshot = _snapshot_options(reader, default_min_partitions, None)
    initial = reader.take("initialSnapshot", boolean, default=False)
    previous = reader.take("includePrevious", boolean, default=False)
    start = reader.take("startingOffsets", _start, -1)
    times = TimeOptions(zone)
    since = reader.take("startingTimestamp", times.parse, None)
    starts = [name for name in ("startingOffsets", "startingTimestamp") if reader.has(name)]
    if len(starts) > 1:
        reader.refuse(f"{' and '.join(starts)} are mutually exclusive")
    if initial and starts:
        reader.refuse(f"initialSnapshot excludes {starts[0]}: leave one out")
    source = SourceOptions(
        connection=snapshot.connection,
        stream=snapshot.stream if snapshot.bucket else "KV_",
        subjects=tuple(f"$KV.{snapshot.bucket}.{key}" for key in snapshot.keys),
        starting_seq=start if start > 0 else None,
        starting_time_ns=since,
        assumed_zone=times.assumed,
        from_latest=start < 0 and since is None,
        min_partitions=snapshot.min_partitions,
        max_records_per_partition=snapshot.keys_per_partition,
        fail_on_data_loss=reader.take("failOnDataLoss", boolean, default=True),
        on_recreate=reader.take("onRecreate", partial(word_of, OnRecreate), None),
        headers=snapshot.headers,
        progress_consumer=reader.take("progressConsumer", durable_name, ""),
        trigger=parse_trigger(reader),
    )
    reader.finish()
    # Values too new for the snapshot follow as changes anyway.
    snapshot = msgspec.structs.replace(snapshot, consistency=Consistency.BEST_EFFORT)
    return KvFeedOptions(
        snapshot=snapshot,
        source=source,
        initial_snapshot=initial,
        include_previous=previous,
    )


def wants_previous(options: Mapping[str, str]) -> bool:
    """Whether a feed has the columns of previous revisions; an invalid value is reported later."""
    given = {name.lower(): value for name, value in options.items()}
    return given.get("includeprevious", "").strip().lower() == "true"


def parse_kv_sink_options(options: Mapping[str, str], *, streaming: bool) -> KvSinkOptions:
    """Parse the options of a write, or raise ``InvalidOptions``."""
    use = Use.WRITE_STREAM if streaming else Use.WRITE
    reader = OptionReader(KV_FORMAT, options, use, _OPTIONS, delta=DELTA_OPTIONS)
    bucket = reader.take("bucket", _bucket, "", required=True)
    parsed = KvSinkOptions(
        bucket=bucket,
        order_by=reader.take("orderBy", text_of, ""),
        publishing=SinkOptions(
            connection=parse_connection(reader),
            stream=stream_name(bucket) if bucket else "",
            max_in_flight=reader.take("maxInFlight", positive, PUBLISH_ASYNC_MAX),
            ack_timeout_s=reader.take("ackTimeoutMs", positive, ACK_TIMEOUT_MS) / 1000,
            retries=reader.take("retries", parse_count, RETRIES),
            streaming=streaming,
        ),
    )
    reader.finish()
    return parsed


def _snapshot_options(
    reader: OptionReader, default_min_partitions: int, zone: SessionZone | None
) -> KvOptions:
    times = TimeOptions(zone)
    return KvOptions(
        connection=parse_connection(reader),
        bucket=reader.take("bucket", _bucket, "", required=True),
        keys=reader.take("keys", _keys, ()),
        version_as_of=reader.take("versionAsOf", parse_sequence, None),
        timestamp_as_of_ns=reader.take("timestampAsOf", times.parse, None),
        assumed_zone=times.assumed,
        consistency=reader.take("consistency", _consistency, Consistency.STRICT),
        include_deleted=reader.take("includeDeleted", boolean, default=False),
        headers=reader.take("includeHeaders", parse_header_mode, HeaderMode.NONE),
        keys_per_partition=reader.take("maxRecordsPerPartition", positive, KEYS_PER_PARTITION),
        min_partitions=reader.take("minPartitions", positive, default_min_partitions),
    )


def _bucket(text: str) -> str:
    problem = bucket_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not a bucket name: {problem}")
    return text


def _keys(text: str) -> tuple[str, ...]:
    patterns = tuple(part.strip() for part in text.split(","))
    for number, one in enumerate(patterns):
        problem = key_filter_problem(one)
        if problem is not None:
            raise ValueError(f"{one!r} is not a key or a pattern: {problem}")
        for other in patterns[:number]:
            if overlaps(one.encode(), other.encode()):
                raise ValueError(f"{other!r} and {one!r} overlap: their keys would be duplicated")
    return patterns


def _consistency(text: str) -> Consistency:
    try:
        return Consistency(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is neither strict nor best-effort") from None


def _start(text: str) -> int:
    """Where a feed starts: -1 latest, 0 earliest, or a revision."""
    words = {"latest": -1, "earliest": 0}
    return words[text.lower()] if text.lower() in words else parse_sequence(text)
