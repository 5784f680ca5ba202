"""The options of a write to format ``jetstream``, checked all at once."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from jetspark.client.options import PUBLISH_ASYNC_MAX
from jetspark.spark.connection_settings import Connection, parse_connection
from jetspark.spark.connections import OUTAGE_S
from jetspark.spark.option_reader import (
    DIGITS,
    OptionReader,
    Use,
    boolean,
    positive,
)
from jetspark.spark.stream.option_names import KAFKA_SINK_OPTIONS, OPTIONS
from jetspark.spark.stream.options import FORMAT_NAME, SEQ_MAX, stream_name
from jetspark.subjects.tokens import is_valid_literal

ACK_TIMEOUT_MS: Final = 5_000
RETRIES: Final = 4
LEDGER_BUCKET: Final = "jetspark_ledger"

_Word = TypeVar("_Word", bound=StrEnum)


class PublishMode(StrEnum):
    """How messages are published."""

    AUTO = "auto"
    FAST = "fast"
    ASYNC = "async"
    ATOMIC = "atomic"


class Delivery(StrEnum):
    """What a replay does with rows that are already stored."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class IdSource(StrEnum):
    """The source of message ids."""

    COLUMN = "column"
    CONTENT = "content"


class AtomicScope(StrEnum):
    """The scope of an atomic batch."""

    CHUNK = "chunk"
    PARTITION = "partition"
    EPOCH = "epoch"


def outage_of(retries: int) -> float:
    """Return how long to wait for a server: fewer retries mean less waiting."""
    return OUTAGE_S if retries >= RETRIES else 0.0


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write; None means *decided at planning time*."""

    connection: Connection
    stream: str = ""
    """Empty: the one stream that stores ``subject``."""
    streams: tuple[str, ...] = ()
    """Several streams, of which a column names that of each row."""
    subject: str = ""
    """The subject of every row; empty: the column."""
    publish_mode: PublishMode = PublishMode.AUTO
    delivery: Delivery | None = None
    id_source: IdSource | None = None
    id_prefix: str = ""
    atomic_scope: AtomicScope = AtomicScope.CHUNK
    ledger_subject: str = ""
    """The subject of the markers of atomic exactly-once writes."""
    ledger_bucket: str = ""
    """The bucket with the committed epochs; empty: ``LEDGER_BUCKET`` if one is needed."""
    fail_on_replay_gaps: bool | None = None
    """Whether a replay is refused if messages among its rows were removed; None: not given, which
    is true."""
    keep_committed_epoch: int | None = None
    """An epoch whose stored rows are kept, although a replay of it has other rows."""
    max_in_flight: int = PUBLISH_ASYNC_MAX
    ack_timeout_s: float = ACK_TIMEOUT_MS / 1000
    retries: int = RETRIES
    allow_purge: bool = False
    txn_app_id: str = ""
    txn_version: int | None = None
    streaming: bool = False


def parse_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parse the options of a write, or raise ``InvalidOptions`` with all errors."""
    use = Use.WRITE_STREAM if streaming else Use.WRITE
    instead = dict.fromkeys(("txnAppId", "txnVersion"), "a query has its epochs")
    instead["idPrefix"] = "a batch has txnAppId"
    reader = OptionReader(FORMAT_NAME, options, use, OPTIONS, instead, KAFKA_SINK_OPTIONS)
    parsed = SinkOptions(
        connection=parse_connection(reader),
        stream=reader.take(
            "stream",
            stream_name,
            "",
            required=not (reader.has("subject") or reader.has("streams")),
            instead="streams, subject",
        ),
        streams=reader.take("streams", _stream_names, ()),
        subject=reader.take("subject", _literal, ""),
        publish_mode=reader.take("publishMode", _word(PublishMode), PublishMode.AUTO),
        delivery=reader.take("delivery", _word(Delivery), None),
        id_source=reader.take("idSource", _id_source, None),
        id_prefix=reader.take("idPrefix", _literal, ""),
        atomic_scope=reader.take("atomicScope", _word(AtomicScope), AtomicScope.CHUNK),
        ledger_subject=reader.take("ledgerSubject", _literal, ""),
        ledger_bucket=reader.take("ledgerBucket", _literal, ""),
        fail_on_replay_gaps=reader.take("failOnReplayGaps", boolean, None),
        keep_committed_epoch=reader.take("keepCommittedEpoch", parse_count, None),
        max_in_flight=reader.take("maxInFlight", positive, PUBLISH_ASYNC_MAX),
        ack_timeout_s=reader.take("ackTimeoutMs", positive, ACK_TIMEOUT_MS) / 1000,
        retries=reader.take("retries", parse_count, RETRIES),
        allow_purge=reader.take("allowPurge", boolean, default=False),
        txn_app_id=reader.take("txnAppId", _literal, ""),
        txn_version=reader.take("txnVersion", parse_count, None),
        streaming=streaming,
    )
    _check_together(reader, parsed)
    reader.finish()
    return parsed


def _check_together(reader: OptionReader, options: SinkOptions) -> None:
    """Record contradicting options."""
    atomic = options.publish_mode is PublishMode.ATOMIC
    if reader.has("streams"):
        others = ("stream", "subject", "ledgerBucket", "ledgerSubject")
        for name in others:
            if reader.has(name):
                reader.refuse(
                    f"{name} is for one stream: leave it out, or replace streams by stream"
                )
    if reader.has("txnAppId") != reader.has("txnVersion"):
        reader.refuse("txnAppId and txnVersion must be given together: one is missing")
    if reader.has("atomicScope") and not atomic:
        reader.refuse("atomicScope is for publishMode atomic")
    if options.ledger_subject and not atomic:
        reader.refuse("ledgerSubject is for publishMode atomic; others use a ledgerBucket")
    if options.ledger_bucket and atomic:
        reader.refuse("ledgerBucket is not for publishMode atomic, which uses a ledgerSubject")
    if options.atomic_scope is AtomicScope.EPOCH and reader.has("failOnReplayGaps"):
        reader.refuse(
            "failOnReplayGaps has no effect with atomicScope epoch: its rows are stored together "
            "with the commit, so a replay reads none back"
        )
    if options.delivery is Delivery.AT_LEAST_ONCE:
        for name in (
            "ledgerSubject",
            "ledgerBucket",
            "txnAppId",
            "failOnReplayGaps",
            "keepCommittedEpoch",
        ):
            if reader.has(name):
                reader.refuse(f"{name} is for delivery exactly-once, not at-least-once")
        if options.id_source is IdSource.CONTENT:
            reader.refuse("idSource content is for delivery exactly-once")


def _stream_names(text: str) -> tuple[str, ...]:
    names = tuple(stream_name(part.strip()) for part in text.split(","))
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names {name!r} twice")
    return names


def _word(kind: type[_Word]) -> Callable[[str], _Word]:
    """Create the parser of an enumeration."""

    def parse(text: str) -> _Word:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError(f"{text!r} is not one of {', '.join(kind)}") from None

    return parse


def _id_source(text: str) -> IdSource:
    if text.lower() == "position":
        raise ValueError(
            "'position' is no longer supported: the position of a row changes with the number of "
            "partitions and the order of a shuffle, so a replay would lose rows or store "
            "them twice. Leave it out (content), or give the rows a column 'msg_id'"
        )
    return _word(IdSource)(text)


def _literal(text: str) -> str:
    if not is_valid_literal(text.encode()):
        raise ValueError(f"{text!r} is not a subject without wildcards, spaces or empty tokens")
    return text


def parse_count(text: str) -> int:
    """Parse an integer of 0 or more."""
    if not DIGITS.fullmatch(text) or int(text) > SEQ_MAX:
        raise ValueError(f"{text!r} is not a whole number from 0 to {SEQ_MAX}")
    return int(text)
