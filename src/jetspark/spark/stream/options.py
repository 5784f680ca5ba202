"""Parsing of Spark's string options into a typed struct; all errors are reported at once.

Spark passes options as case-insensitive strings. An option that this version does not support is
refused, never ignored.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

import msgspec

from jetspark.spark.connection_settings import Connection, parse_connection
from jetspark.spark.option_reader import (
    OptionReader,
    Use,
    boolean,
    positive,
    shortened,
    text_of,
    whole_number,
)
from jetspark.spark.stream.option_names import OPTIONS
from jetspark.spark.times import SessionZone, TimeOptions
from jetspark.subjects.match import overlaps
from jetspark.subjects.tokens import (
    consumer_name_problem,
    is_valid_subject,
    key_problem,
    stream_name_problem,
)
from jetspark.units import parse_duration

FORMAT_NAME: Final = "jetstream"
_Word = TypeVar("_Word", bound=StrEnum)

# The planner of a source has no SparkContext and cannot count cores: `register` and `configure`
# put the default of minPartitions into this environment variable.
MIN_PARTITIONS_VARIABLE: Final = "JETSPARK_MIN_PARTITIONS"

# Spark 4.3 keeps one read of a DataFrame or view, with its filters, for all queries on it.
_NO_PUSH_DOWN: Final = (
    "is not supported: Spark keeps a filter that was pushed into a DataFrame or view and later "
    "queries on it would return too few rows. Use the options subject, startingOffsets, "
    "endingOffsets, startingTimestamp and endingTimestamp to read less"
)

MAX_RECORDS_PER_PARTITION: Final = 250_000
BATCH_SIZE: Final = 5_000  # batches of 5 to 10 thousand rows suit Spark
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
SEQ_MAX: Final = 2**63 - 1  # Spark's long; larger sequences do not occur in practice

# As in Spark's Kafka source: how long minOffsetsPerTrigger may delay messages.
MAX_TRIGGER_DELAY_S: Final = 15 * 60.0


class HeaderMode(StrEnum):
    """The contents of the column ``headers``."""

    NONE = "false"
    MAP = "map"
    RAW = "raw"


class ReadMode(StrEnum):
    """How messages are fetched."""

    AUTO = "auto"
    DIRECT = "direct"
    CONSUMER = "consumer"


class OnRecreate(StrEnum):
    """What a streaming read does if its stream was deleted and created again."""

    FAIL = "fail"
    EARLIEST = "earliest"
    CONTINUE = "continue"


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read. Ranges of sequences exclude their end."""

    connection: Connection
    stream: str = ""
    """Empty: the one stream that stores the subjects, looked up at planning time."""
    subjects: tuple[str, ...] = ()
    """Filters; none means every subject."""
    starting_seq: int | None = None
    """The first sequence to read; None is the earliest."""
    starting_time_ns: int | None = None
    """Read from the first message stored at or after this time; overrides the sequence."""
    from_latest: bool = False
    """A streaming read starts with the next message; only without the two above."""
    ending_seq: int | None = None
    """The first sequence not to read; None is the end of the stream."""
    committed_by: str = ""
    """Read up to the last commit of this query in ``ledger_bucket``; takes precedence."""
    ledger_bucket: str = ""
    ending_time_ns: int | None = None
    """Read up to the last message stored before this time."""
    open_ended: bool = False
    """Read the stream as it is when a task runs, not as it was when planned."""
    assumed_zone: SessionZone | None = None
    """The session's time zone, if one of the times had none; tasks verify that it is the same."""
    min_last_seq: int = 0
    """Do not start before the stream has reached this sequence (ADR-53)."""
    min_partitions: int = 1
    max_records_per_partition: int = MAX_RECORDS_PER_PARTITION
    fail_on_data_loss: bool = True
    on_recreate: OnRecreate | None = None
    """None: depends on ``fail_on_data_loss``, see ``when_recreated``."""
    headers: HeaderMode = HeaderMode.NONE
    batch_size: int = BATCH_SIZE
    max_batch_bytes: int = MAX_BATCH_BYTES
    on_commit: str = ""
    """What happens to committed messages: ``purge``, ``ack:<durable>``, or nothing."""
    read_mode: ReadMode = ReadMode.AUTO
    trigger: "TriggerLimits | None" = None
    """Limits of a micro-batch; None in a batch read."""

    @property
    def when_recreated(self) -> OnRecreate:
        """What to do if the stream was created again."""
        if self.on_recreate is not None:
            return self.on_recreate
        return OnRecreate.FAIL if self.fail_on_data_loss else OnRecreate.EARLIEST


class TriggerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one micro-batch of a streaming read. Offsets are sequences, not messages."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    """Estimated from the mean size of the stream's messages."""
    min_offsets: int = 1
    """Wait for this many, but not longer than ``max_delay_s`` after the first one."""
    max_delay_s: float = MAX_TRIGGER_DELAY_S


def parse_source_options(
    options: Mapping[str, str],
    *,
    default_min_partitions: int = 1,
    zone: SessionZone | None = None,
    streaming: bool = False,
) -> SourceOptions:
    """Parse the options of a read, or raise ``InvalidOptions`` with all errors.

    ``default_min`` applies without ``minPartitions``, ``zone`` to times without a zone.
    """
    times = TimeOptions(zone)
    use = Use.READ_STREAM if streaming else Use.READ
    instead = dict.fromkeys(("endingOffsets", "endingTimestamp"), "a stream has no end")
    reader = OptionReader(FORMAT_NAME, options, use, OPTIONS, instead)
    reader.take("pushDown", _push_down, None)
    stream = reader.take("stream", stream_name, "", required=not reader.has("subject"))
    start = reader.take(
        "startingOffsets",
        lambda text: _starting(text, stream, streaming),
        _LATEST if streaming else _EARLIEST,
    )
    for edge in ("starting", "ending"):
        if reader.has(f"{edge}Offsets") and reader.has(f"{edge}Timestamp"):
            reader.problems.append(f"{edge}Offsets and {edge}Timestamp are mutually exclusive")
    committed = reader.take("endingOffsets", _committed, "")
    if bool(committed) != reader.has("ledgerBucket"):
        reader.problems.append(
            "endingOffsets committed:<queryId> requires ledgerBucket, and the reverse"
        )
    open_ended = reader.take("endingOffsets", lambda text: _is_open(text, stream), default=False)
    fail_on_loss = reader.take("failOnDataLoss", boolean, default=not open_ended)
    if open_ended and fail_on_loss:
        reader.problems.append(
            "endingOffsets open reads the stream as it is when a task runs and cannot detect "
            "removed messages: leave out failOnDataLoss true"
        )
    parsed = SourceOptions(
        committed_by=committed,
        open_ended=open_ended,
        ledger_bucket=reader.take("ledgerBucket", text_of, ""),
        connection=parse_connection(reader),
        stream=stream,
        subjects=reader.take("subject", _subjects, ()),
        starting_seq=start if start > 0 else None,
        starting_time_ns=reader.take("startingTimestamp", times.parse, None),
        from_latest=start == _LATEST and not reader.has("startingTimestamp"),
        ending_seq=reader.take("endingOffsets", lambda text: _ending(text, stream), None),
        ending_time_ns=reader.take("endingTimestamp", times.parse, None),
        min_last_seq=reader.take("minLastSeq", parse_sequence, 0),
        min_partitions=reader.take("minPartitions", positive, default_min_partitions),
        max_records_per_partition=reader.take(
            "maxRecordsPerPartition", positive, MAX_RECORDS_PER_PARTITION
        ),
        fail_on_data_loss=fail_on_loss,
        headers=reader.take("includeHeaders", parse_header_mode, HeaderMode.NONE),
        batch_size=reader.take("batchSize", positive, BATCH_SIZE),
        max_batch_bytes=reader.take("maxBatchBytes", positive, MAX_BATCH_BYTES),
        on_commit=reader.take("onCommit", _on_commit, ""),
        on_recreate=reader.take("onRecreate", partial(word_of, OnRecreate), None),
        read_mode=reader.take("readMode", partial(word_of, ReadMode), ReadMode.AUTO),
        trigger=parse_trigger(reader) if streaming else None,
        # After the times have been parsed.
        assumed_zone=times.assumed,
    )
    _check_order(reader, parsed.starting_seq, parsed.ending_seq)
    reader.finish()
    return parsed


def _check_order(reader: OptionReader, first: int | None, end: int | None) -> None:
    if first is not None and end is not None and first > end:
        reader.problems.append(f"startingOffsets {first} is after endingOffsets {end}")


def parse_trigger(reader: OptionReader) -> TriggerLimits:
    """Parse the limits of a micro-batch."""
    limits = TriggerLimits(
        max_offsets=reader.take("maxOffsetsPerTrigger", parse_sequence, None),
        max_bytes=reader.take("maxBytesPerTrigger", parse_sequence, None),
        min_offsets=reader.take("minOffsetsPerTrigger", parse_sequence, 1),
        max_delay_s=reader.take("maxTriggerDelay", _seconds, MAX_TRIGGER_DELAY_S),
    )
    if limits.max_offsets is not None and limits.min_offsets > limits.max_offsets:
        reader.problems.append(
            f"minOffsetsPerTrigger {limits.min_offsets} is more than maxOffsetsPerTrigger "
            f"{limits.max_offsets}"
        )
    return limits


def header_mode(options: Mapping[str, str]) -> HeaderMode:
    """Return ``includeHeaders``, if it is valid; a read refuses it if it is not."""
    try:
        return HeaderMode({k.lower(): v for k, v in options.items()}["includeheaders"].lower())
    except (KeyError, ValueError):
        return HeaderMode.NONE


def default_min_partitions(environ: Mapping[str, str]) -> int:
    """Return the default of ``minPartitions`` that the driver set for this process."""
    text = environ.get(MIN_PARTITIONS_VARIABLE, "")
    return whole_number(text, 1, 2**31 - 1) or 1


def stream_name(text: str) -> str:
    """Parse a stream name."""
    problem = stream_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not a stream name: {problem}")
    return text


def _subjects(text: str) -> tuple[str, ...]:
    filters = tuple(part.strip() for part in text.split(","))
    for number, one in enumerate(filters):
        if not is_valid_subject(one.encode()):
            raise ValueError(
                f"{one!r} is not a subject: expected tokens separated by dots, with * and > as "
                "wildcards"
            )
        for other in filters[:number]:
            if overlaps(one.encode(), other.encode()):
                raise ValueError(f"{other!r} and {one!r} overlap: messages would be duplicated")
    return filters


# Words for the start of a read, in addition to sequences.
_EARLIEST: Final = 0
_LATEST: Final = -1
# The word for a read that ends at the end of the stream when it runs.
_OPEN: Final = "open"


def _starting(text: str, stream: str, streaming: bool) -> int:
    offset = _of_stream(text, stream)
    if offset.lower() == "earliest":
        return _EARLIEST
    if offset.lower() == "latest":
        if not streaming:
            raise ValueError("'latest' would read nothing: use earliest or a sequence")
        return _LATEST
    return _sequence_or(offset, "earliest, latest" if streaming else "earliest")


def _ending(text: str, stream: str) -> int | None:
    offset = _of_stream(text, stream)
    if offset.lower() in {"latest", _OPEN} or offset.startswith("committed:"):
        return None
    if offset.lower() == "earliest":
        raise ValueError("'earliest' would read nothing: use latest or a sequence")
    return _sequence_or(offset, "latest, open")


def _is_open(text: str, stream: str) -> bool:
    return _of_stream(text, stream).lower() == _OPEN


def _committed(text: str) -> str:
    """Return the query of ``committed:<queryId>``; empty for other text."""
    word, _, query = text.partition(":")
    if word != "committed":
        return ""
    problem = key_problem(query)
    if problem is not None:
        raise ValueError(f"{text!r} does not name a query: {problem}")
    return query


def _on_commit(text: str) -> str:
    """Parse what happens to committed messages; empty for nothing."""
    word, colon, durable = text.partition(":")
    if word.lower() == "ack" and consumer_name_problem(durable) is None:
        return f"ack:{durable}"
    if colon or word.lower() not in {"none", "purge"}:
        raise ValueError(f"{text!r} is not one of none, purge, ack:<durable>")
    return "" if word.lower() == "none" else "purge"


def word_of(words: type[_Word], text: str) -> _Word:
    """Parse a value of an enumeration."""
    try:
        return words(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is not one of {', '.join(words)}") from None


def _push_down(text: str) -> None:
    """Accept only false, which programs written for 0.1.0 may set."""
    if boolean(text):
        raise ValueError(_NO_PUSH_DOWN)


def _of_stream(text: str, stream: str) -> str:
    """The JSON value for the stream, as in ``{"ORDERS": 17}``; other text unchanged."""
    if not text.startswith("{"):
        return text
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if list(found) != [stream] or isinstance(found[stream], bool | float | list | dict):
        raise ValueError(f'{text!r} must have the form {{"{stream}": 17}}')
    return str(found[stream])


def _sequence_or(text: str, words: str) -> int:
    number = whole_number(text, 1, SEQ_MAX)
    if number is None:
        raise ValueError(f"{shortened(text)} is neither {words} nor a sequence (1 to {SEQ_MAX})")
    return number


def parse_sequence(text: str) -> int:
    """Parse a sequence."""
    number = whole_number(text, 1, SEQ_MAX)
    if number is None:
        raise ValueError(f"{shortened(text)} is not a whole number from 1 to {SEQ_MAX}")
    return number


def _seconds(text: str) -> float:
    try:
        delay = parse_duration(text) / 1e9
    except ValueError:
        raise ValueError(f"{text!r} is not a duration like 500ms, 30s or 15m") from None
    if delay < 0:
        raise ValueError(f"{text!r} is negative")
    return delay


def parse_header_mode(text: str) -> HeaderMode:
    """Parse the option for the column ``headers``."""
    return word_of(HeaderMode, text)
