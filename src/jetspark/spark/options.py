"""Spark's string options turned into one typed struct; every mistake is reported at once.

Spark hands options over as case-insensitive strings. An option that this version does not honour
is refused, never ignored (spark.md 6.2 has the table).
"""

import difflib
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from jetspark.client.server_pool import parse_servers
from jetspark.errors import Error
from jetspark.subjects.tokens import is_valid_subject, stream_name_problem

FORMAT_NAME: Final = "jetstream"

# The planner of a source has no SparkContext and cannot count cores (spark.md 6.2): `register` and
# `configure` put the default of minPartitions into this variable of its process.
MIN_PARTITIONS_VARIABLE: Final = "JETSPARK_MIN_PARTITIONS"

MAX_RECORDS_PER_PARTITION: Final = 250_000  # spark.md 6.2
BATCH_SIZE: Final = 5_000  # spark.md 6.2; 4.1: batches of 5 to 10 thousand rows are right
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024  # spark.md 6.2
SEQ_MAX: Final = 2**63 - 1  # Spark's long; a stream's own numbers go further and never get there

_DIGITS = re.compile(r"[0-9]+")

_Value = TypeVar("_Value")


class HeaderMode(StrEnum):
    """What the column ``headers`` holds."""

    NONE = "false"
    MAP = "map"
    RAW = "raw"


class InvalidOptions(Error, ValueError):
    """Options that cannot be used; the text names every mistake."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the server, as it travels to the tasks; also the key of a kept connection."""

    servers: tuple[str, ...]
    name: str = "jetspark-spark"
    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        """Name the servers only: Spark prints objects into logs and plans."""
        return f"Connection({self.display_servers})"

    @property
    def display_servers(self) -> str:
        """The servers without the passwords their addresses may carry, for messages."""
        return ", ".join(address.label for address in parse_servers(self.servers))


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch read was asked for."""

    connection: Connection
    stream: str
    subject: str | None = None
    starting_seq: int | None = None
    """The first sequence to read; None is the earliest there is."""
    ending_seq: int | None = None
    """The first sequence not to read; None is the one after the latest."""
    min_partitions: int = 1
    max_records_per_partition: int = MAX_RECORDS_PER_PARTITION
    fail_on_data_loss: bool = True
    headers: HeaderMode = HeaderMode.NONE
    batch_size: int = BATCH_SIZE
    max_batch_bytes: int = MAX_BATCH_BYTES


# Lower case, as Spark hands them over, to the spelling of the documentation.
_KNOWN: Final = {
    name.lower(): name
    for name in (
        "servers",
        "nats.user",
        "nats.password",
        "nats.token",
        "nats.name",
        "stream",
        "subject",
        "startingOffsets",
        "endingOffsets",
        "minPartitions",
        "maxRecordsPerPartition",
        "failOnDataLoss",
        "includeHeaders",
        "batchSize",
        "maxBatchBytes",
    )
}

_LATER: Final = {
    name.lower(): name
    for name in (
        "domain",
        "apiPrefix",
        "credentialsFile",
        "credentialsEnv",
        "nats.inboxPrefix",
        "nats.tls",
        "nats.tlsCa",
        "nats.tlsCert",
        "nats.tlsKey",
        "nats.credentials",
        "nats.nkeySeed",
        "startingTimestamp",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "readMode",
        "minLastSeq",
        "onCommit",
        "pushDown",
    )
}


def parse_source_options(
    options: Mapping[str, str], *, default_min_partitions: int = 1
) -> SourceOptions:
    """Turn the options of a batch read into a struct, or raise ``InvalidOptions`` with all errors.

    ``default_min_partitions`` stands in when the user gave no ``minPartitions``.
    """
    reader = _OptionReader(options)
    reader.refuse_names()
    parsed = SourceOptions(
        connection=_parse_connection(reader),
        stream=reader.take("stream", _stream, "", required=True),
        subject=reader.take("subject", _subject, None),
        starting_seq=reader.take("startingOffsets", _starting, None),
        ending_seq=reader.take("endingOffsets", _ending, None),
        min_partitions=reader.take("minPartitions", _positive, default_min_partitions),
        max_records_per_partition=reader.take(
            "maxRecordsPerPartition", _positive, MAX_RECORDS_PER_PARTITION
        ),
        fail_on_data_loss=reader.take("failOnDataLoss", _boolean, default=True),
        headers=reader.take("includeHeaders", _header_mode, HeaderMode.NONE),
        batch_size=reader.take("batchSize", _positive, BATCH_SIZE),
        max_batch_bytes=reader.take("maxBatchBytes", _positive, MAX_BATCH_BYTES),
    )
    start, end = parsed.starting_seq, parsed.ending_seq
    if start is not None and end is not None and start > end:
        reader.problems.append(f"startingOffsets {start} lies after endingOffsets {end}")
    if reader.problems:
        raise InvalidOptions(_problem_text(reader.problems))
    return parsed


def default_min_partitions(environ: Mapping[str, str]) -> int:
    """Return the default of ``minPartitions`` that the driver left for this process."""
    text = environ.get(MIN_PARTITIONS_VARIABLE, "")
    return max(1, int(text)) if _DIGITS.fullmatch(text) else 1


class _OptionReader:
    """Takes options one by one and remembers what was wrong with each."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self.problems: list[str] = []

    def refuse_names(self) -> None:
        """Note every option that this version does not honour."""
        for name in sorted(self._options.keys() - _KNOWN.keys()):
            self.problems.append(_name_problem(name))

    def has(self, name: str) -> bool:
        return name.lower() in self._options

    def take(
        self,
        name: str,
        parse: Callable[[str], _Value],
        default: _Value,
        *,
        required: bool = False,
    ) -> _Value:
        """Return the parsed value of ``name``; note a mistake and return ``default`` instead."""
        text = self._options.get(name.lower())
        if text is None:
            if required:
                self.problems.append(f"{name} is missing")
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return default


def _parse_connection(reader: _OptionReader) -> Connection:
    connection = Connection(
        servers=reader.take("servers", _servers, (), required=True),
        name=reader.take("nats.name", _text, "jetspark-spark"),
        user=reader.take("nats.user", _text, ""),
        password=reader.take("nats.password", _text, ""),
        token=reader.take("nats.token", _text, ""),
    )
    if reader.has("nats.user") != reader.has("nats.password"):
        reader.problems.append("nats.user and nats.password go together: only one is given")
    if reader.has("nats.token") and reader.has("nats.user"):
        reader.problems.append("nats.token and nats.user exclude each other: give one of them")
    return connection


def _name_problem(name: str) -> str:
    later = _LATER.get(name)
    if later is not None:
        return f"{later} is not supported yet"
    if name == "path":
        return 'load() takes no path: name the stream with option("stream", ...)'
    near = difflib.get_close_matches(name, list(_KNOWN), n=1)
    hint = f": did you mean {_KNOWN[near[0]]}?" if near else f" (there are {_all_names()})"
    return f"unknown option {name!r}{hint}"


def _all_names() -> str:
    return ", ".join(_KNOWN.values())


def _problem_text(problems: list[str]) -> str:
    if len(problems) == 1:
        return f"format {FORMAT_NAME!r}: {problems[0]}"
    return f"format {FORMAT_NAME!r}: {len(problems)} options are wrong: {'; '.join(problems)}"


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _servers(text: str) -> tuple[str, ...]:
    try:
        parse_servers(text)
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from error
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _stream(text: str) -> str:
    problem = stream_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not the name of a stream: {problem}")
    return text


def _subject(text: str) -> str:
    if "," in text:
        raise ValueError(f"{text!r} has several filters: one is supported yet")
    if not is_valid_subject(text.encode()):
        raise ValueError(f"{text!r} is not a subject: tokens between dots, * and > as wildcards")
    return text


def _starting(text: str) -> int | None:
    if text.lower() == "earliest":
        return None
    if text.lower() == "latest":
        raise ValueError("'latest' would read nothing: give earliest or a sequence")
    return _sequence(text, "earliest")


def _ending(text: str) -> int | None:
    if text.lower() == "latest":
        return None
    if text.lower() == "earliest":
        raise ValueError("'earliest' would read nothing: give latest or a sequence")
    return _sequence(text, "latest")


def _sequence(text: str, word: str) -> int:
    if text.startswith("{"):
        raise ValueError("as JSON by stream is not supported yet")
    if text.startswith("committed:"):
        raise ValueError("up to a query's last commit is not supported yet")
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= SEQ_MAX:
        raise ValueError(f"{text!r} is neither {word} nor a sequence (1 to {SEQ_MAX})")
    return int(text)


def _positive(text: str) -> int:
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= 2**31 - 1:
        raise ValueError(f"{text!r} is not a whole number from 1 to {2**31 - 1}")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _header_mode(text: str) -> HeaderMode:
    try:
        return HeaderMode(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of false, map, raw") from None
