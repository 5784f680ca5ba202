"""Parsing of Spark's string options into a typed struct; all errors are reported at once.

Spark passes options as case-insensitive strings. An option that this version does not support is
refused, never ignored.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec

from jetspark.spark.connection_settings import Connection, parse_connection
from jetspark.spark.option_reader import (
    DIGITS,
    OptionReader,
    Use,
    boolean,
    positive,
    shortened,
    text_of,
    whole_number,
)
from jetspark.spark.stream.option_names import KAFKA_OPTIONS, OPTIONS
from jetspark.spark.times import SessionZone, TimeOptions
from jetspark.subjects.match import overlaps
from jetspark.subjects.tokens import (
    consumer_name_problem,
    is_valid_subject,
    key_problem,
    stream_name_problem,
)
from jetspark.units import format_rfc3339, parse_duration

FORMAT_NAME: Final = "jetstream"
_Word = TypeVar("_Word", bound=StrEnum)
_Value = TypeVar("_Value")

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


class StreamStart(NamedTuple):
    """Where the read of one stream starts; without any of these at its first message."""

    seq: int | None = None
    latest: bool = False
    time_ns: int | None = None


class StreamEnd(NamedTuple):
    """Where the read of one stream ends; without any of these at its last message."""

    seq: int | None = None
    time_ns: int | None = None


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read. Ranges of sequences exclude their end.

    ``for_stream`` returns those of one stream of a read of several.
    """

    connection: Connection
    stream: str = ""
    """Empty: ``streams``, ``stream_pattern``, or the one stream that stores the subjects."""
    streams: tuple[str, ...] = ()
    stream_pattern: str = ""
    """A regular expression that matches the whole name of a stream."""
    starts: Mapping[str, StreamStart] = {}
    """By stream; others start as the fields below say."""
    ends: Mapping[str, StreamEnd] = {}
    min_last_seqs: Mapping[str, int] = {}
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
    progress_consumer: str = ""
    """The durable consumer of each stream that shows the position of the query."""
    read_mode: ReadMode = ReadMode.AUTO
    trigger: "TriggerLimits | None" = None
    """Limits of a micro-batch; None in a batch read."""

    @property
    def when_recreated(self) -> OnRecreate:
        """What to do if the stream was created again."""
        if self.on_recreate is not None:
            return self.on_recreate
        return OnRecreate.FAIL if self.fail_on_data_loss else OnRecreate.EARLIEST

    @property
    def reads_several(self) -> bool:
        """Whether streams may be added to the read, or removed from it."""
        return bool(self.streams or self.stream_pattern)

    def for_stream(self, name: str) -> "SourceOptions":
        """Return the options of one stream of the read."""
        start = self.starts.get(
            name, StreamStart(self.starting_seq, self.from_latest, self.starting_time_ns)
        )
        end = self.ends.get(name, StreamEnd(self.ending_seq, self.ending_time_ns))
        return msgspec.structs.replace(
            self,
            stream=name,
            streams=(),
            stream_pattern="",
            starts={},
            ends={},
            min_last_seqs={},
            starting_seq=start.seq,
            from_latest=start.latest,
            starting_time_ns=start.time_ns,
            ending_seq=end.seq,
            ending_time_ns=end.time_ns,
            min_last_seq=self.min_last_seqs.get(name, self.min_last_seq),
        )


class TriggerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one micro-batch of a streaming read. Offsets are sequences, not messages."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    """Estimated from the mean size of the stream's messages."""
    min_offsets: int = 1
    """Wait for this many, but not longer than ``max_delay_s`` after the first one."""
    max_delay_s: float = MAX_TRIGGER_DELAY_S

    @property
    def are_set(self) -> bool:
        """Whether a micro-batch may end before the stream does."""
        return self.max_offsets is not None or self.max_bytes is not None


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
    instead = dict.fromkeys(
        ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"), "a stream has no end"
    )
    reader = OptionReader(FORMAT_NAME, options, use, OPTIONS, instead, KAFKA_OPTIONS)
    reader.take("pushDown", _push_down, None)
    selected = _selection(reader)
    starts = _starts(reader, selected, times, streaming=streaming)
    ends = _ends(reader, selected, times)
    committed = reader.take("endingOffsets", _committed, "")
    if bool(committed) != reader.has("ledgerBucket"):
        reader.refuse("endingOffsets committed:<queryId> requires ledgerBucket, and the reverse")
    open_ended = reader.take("endingOffsets", partial(_is_open, selected=selected), default=False)
    fail_on_loss = reader.take("failOnDataLoss", boolean, default=not open_ended)
    if open_ended and fail_on_loss:
        reader.refuse(
            "endingOffsets open reads the stream as it is when a task runs and cannot detect "
            "removed messages: leave out failOnDataLoss true"
        )
    waited_for: dict[str, int] = {}
    waited_for = reader.take(
        "minLastSeq", lambda text: _by_stream(text, selected, parse_sequence), waited_for
    )
    start = starts.pop(_EVERY, StreamStart(latest=streaming))
    end = ends.pop(_EVERY, StreamEnd())
    parsed = SourceOptions(
        committed_by=committed,
        open_ended=open_ended,
        ledger_bucket=reader.take("ledgerBucket", text_of, ""),
        connection=parse_connection(reader),
        stream=selected.stream,
        streams=selected.streams,
        stream_pattern=selected.pattern,
        starts=starts,
        ends=ends,
        min_last_seq=waited_for.pop(_EVERY, 0),
        min_last_seqs=waited_for,
        subjects=reader.take("subject", _subjects, ()),
        starting_seq=start.seq,
        starting_time_ns=start.time_ns,
        from_latest=start.latest,
        ending_seq=end.seq,
        ending_time_ns=end.time_ns,
        min_partitions=reader.take("minPartitions", positive, default_min_partitions),
        max_records_per_partition=reader.take(
            "maxRecordsPerPartition", positive, MAX_RECORDS_PER_PARTITION
        ),
        fail_on_data_loss=fail_on_loss,
        headers=reader.take("includeHeaders", parse_header_mode, HeaderMode.NONE),
        batch_size=reader.take("batchSize", positive, BATCH_SIZE),
        max_batch_bytes=reader.take("maxBatchBytes", positive, MAX_BATCH_BYTES),
        on_commit=reader.take("onCommit", _on_commit, ""),
        progress_consumer=reader.take("progressConsumer", durable_name, ""),
        on_recreate=reader.take("onRecreate", partial(word_of, OnRecreate), None),
        read_mode=reader.take("readMode", partial(word_of, ReadMode), ReadMode.AUTO),
        trigger=parse_trigger(reader) if streaming else None,
        # After the times have been parsed.
        assumed_zone=times.assumed,
    )
    if parsed.progress_consumer and parsed.on_commit == f"ack:{parsed.progress_consumer}":
        reader.refuse(
            "progressConsumer and onCommit name the same consumer, which cannot do both: an "
            "acknowledging consumer shows the position already"
        )
    for name in sorted(starts.keys() | ends.keys() | {parsed.stream}):
        _check_order(reader, parsed.for_stream(name))
    reader.finish()
    return parsed.for_stream(parsed.stream) if parsed.stream else parsed


# The name for every stream that has no value of its own.
_EVERY: Final = ""


class _Selection(NamedTuple):
    """The streams of a read, as given by its options."""

    stream: str = ""
    streams: tuple[str, ...] = ()
    pattern: str = ""

    def form(self, example: str = "17") -> str:
        """How an option with a value for each stream is written."""
        names = self.streams or (self.stream or "ORDERS",)
        return "{" + ", ".join(f'"{name}": {example}' for name in names) + "}"


def _selection(reader: OptionReader) -> _Selection:
    given = [name for name in ("stream", "streams", "streamPattern") if reader.has(name)]
    if len(given) > 1:
        reader.refuse(f"{' and '.join(given)} are mutually exclusive: give one of them")
    required = not given and not reader.has("subject")
    return _Selection(
        reader.take(
            "stream",
            stream_name,
            "",
            required=required,
            instead="streams, streamPattern, subject",
        ),
        reader.take("streams", _stream_names, ()),
        reader.take("streamPattern", _pattern, ""),
    )


def _by_stream(
    text: str, selected: _Selection, parse: Callable[[str], _Value], example: str = "17"
) -> dict[str, _Value]:
    """Parse one value for every stream, or JSON with values by stream, such as ``example``.

    A sequence means something in one stream only, so several streams need JSON for sequences.
    """
    if not text.startswith("{"):
        several = bool(selected.streams or selected.pattern)
        if several and DIGITS.fullmatch(text):
            raise ValueError(f"{text!r} is a sequence of one stream: use {selected.form(example)}")
        return {_EVERY: parse(text)}
    form = f"{shortened(text)} must have the form {selected.form(example)}"
    try:
        # Of two values with one name, JSON takes the last.
        pairs: list[tuple[str, object]] = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise ValueError(f"{form}: it is not JSON: {error}") from None
    found = dict(pairs)
    twice = sorted({name for name, _ in pairs if [one for one, _ in pairs].count(name) > 1})
    if twice:
        raise ValueError(f"{form}: it names {', '.join(twice)} twice")
    _check_json(form, found, selected)
    parsed: dict[str, _Value] = {}
    for name, value in found.items():
        try:
            parsed[name] = parse(str(value))
        except ValueError as error:
            raise ValueError(f"for {name}: {error}") from None
    return parsed


def _check_json(form: str, found: dict[str, object], selected: _Selection) -> None:
    if any(
        not isinstance(value, int | str) or isinstance(value, bool) for value in found.values()
    ):
        raise ValueError(form)
    if selected.pattern:
        other = [name for name in found if not re.fullmatch(selected.pattern, name)]
        if other:
            raise ValueError(f"names {', '.join(other)}, which streamPattern does not match")
        return
    if not selected.stream and not selected.streams:
        raise ValueError("as JSON requires the option stream or streams")
    expected = set(selected.streams or (selected.stream,))
    if set(found) != expected:
        missing, other = sorted(expected - set(found)), sorted(set(found) - expected)
        what = f"has no value for {', '.join(missing)}" if missing else ""
        more = f"names {', '.join(other)}, which the query does not read" if other else ""
        raise ValueError(f"{form}: it {' and '.join(part for part in (what, more) if part)}")


def _starts(
    reader: OptionReader, selected: _Selection, times: TimeOptions, *, streaming: bool
) -> dict[str, StreamStart]:
    """Parse where the streams start; ``_EVERY`` is the value for those without their own."""
    _refuse_several(reader, "starting")
    starts: dict[str, StreamStart] = {}
    starts = reader.take(
        "startingOffsets",
        lambda text: _by_stream(text, selected, partial(_starting, streaming=streaming)),
        starts,
    )
    times_of = _times(reader, "starting", selected, times)
    return starts | {name: StreamStart(time_ns=at) for name, at in times_of.items()}


def _ends(reader: OptionReader, selected: _Selection, times: TimeOptions) -> dict[str, StreamEnd]:
    _refuse_several(reader, "ending")
    ends: dict[str, StreamEnd] = {}
    ends = reader.take("endingOffsets", lambda text: _by_stream(text, selected, _ending), ends)
    times_of = _times(reader, "ending", selected, times)
    return ends | {name: StreamEnd(time_ns=at) for name, at in times_of.items()}


def _times(
    reader: OptionReader, edge: str, selected: _Selection, times: TimeOptions
) -> dict[str, int]:
    name = f"{edge}OffsetsByTimestamp"

    def parse(text: str) -> dict[str, int]:
        if not text.startswith("{"):
            raise ValueError(f"is JSON with a time by stream; for all streams use {edge}Timestamp")
        return _by_stream(text, selected, times.parse, '"2026-11-15T12:00:00Z"')

    every: dict[str, int] = {}
    every = reader.take(f"{edge}Timestamp", lambda text: {_EVERY: times.parse(text)}, every)
    return reader.take(name, parse, every)


def _refuse_several(reader: OptionReader, edge: str) -> None:
    names = (f"{edge}Offsets", f"{edge}Timestamp", f"{edge}OffsetsByTimestamp")
    given = [name for name in names if reader.has(name)]
    if len(given) > 1:
        reader.refuse(f"{' and '.join(given)} are mutually exclusive")


def _check_order(reader: OptionReader, options: SourceOptions) -> None:
    """Record a start after the end, which would read nothing."""
    first, end = options.starting_seq, options.ending_seq
    of = f" (of {options.stream})" if options.stream else ""
    if first is not None and end is not None and first > end:
        reader.refuse(f"startingOffsets {first} is after endingOffsets {end}{of}")
    since, until = options.starting_time_ns, options.ending_time_ns
    if since is not None and until is not None and since > until:
        reader.refuse(
            f"the starting time {format_rfc3339(since)} is after the ending time "
            f"{format_rfc3339(until)}{of}"
        )


def parse_trigger(reader: OptionReader) -> TriggerLimits:
    """Parse the limits of a micro-batch."""
    limits = TriggerLimits(
        max_offsets=reader.take("maxOffsetsPerTrigger", parse_sequence, None),
        max_bytes=reader.take("maxBytesPerTrigger", parse_sequence, None),
        min_offsets=reader.take("minOffsetsPerTrigger", parse_sequence, 1),
        max_delay_s=reader.take("maxTriggerDelay", _seconds, MAX_TRIGGER_DELAY_S),
    )
    if limits.max_offsets is not None and limits.min_offsets > limits.max_offsets:
        reader.refuse(
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


def _stream_names(text: str) -> tuple[str, ...]:
    names = tuple(stream_name(part.strip()) for part in text.split(","))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names {', '.join(twice)} twice: messages would be duplicated")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{shortened(text)} is not a regular expression: {error}") from None
    return text_of(text)


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


# The word for a read that ends at the end of the stream when it runs.
_OPEN: Final = "open"


def _starting(text: str, *, streaming: bool) -> StreamStart:
    if text.lower() == "earliest":
        return StreamStart()
    if text.lower() == "latest":
        if not streaming:
            raise ValueError("'latest' would read nothing: use earliest or a sequence")
        return StreamStart(latest=True)
    return StreamStart(_sequence_or(text, "earliest, latest" if streaming else "earliest"))


def _ending(text: str) -> StreamEnd:
    if text.lower() in {"latest", _OPEN} or text.startswith("committed:"):
        return StreamEnd()
    if text.lower() == "earliest":
        raise ValueError("'earliest' would read nothing: use latest or a sequence")
    return StreamEnd(_sequence_or(text, "latest, open"))


def _is_open(text: str, *, selected: _Selection) -> bool:
    """Whether a read is open-ended: all of its streams, or none."""
    words = {value.lower() for value in _by_stream(text, selected, str).values()}
    if _OPEN in words and len(words) > 1:
        raise ValueError("open must apply to every stream or to none")
    return words == {_OPEN}


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


def durable_name(text: str) -> str:
    """Parse the name of a durable consumer."""
    problem = consumer_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not a name of a consumer: {problem}")
    return text


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
