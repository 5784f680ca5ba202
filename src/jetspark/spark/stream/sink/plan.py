"""The plan of a write, decided on the driver before a task starts.

A guarantee that the options, the columns or the stream cannot provide is refused here, in one
line.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, TypeVar

import msgspec

from jetspark import sync
from jetspark.api.enums import PersistMode, Retention
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamConfig
from jetspark.spark.connections import jetstream_of
from jetspark.spark.stream.options import FORMAT_NAME
from jetspark.spark.stream.sink.ledger_bucket import LedgerUnusable, ensure_ledger
from jetspark.spark.stream.sink.options import (
    LEDGER_BUCKET,
    Delivery,
    IdSource,
    PublishMode,
    SinkOptions,
    outage_of,
)
from jetspark.spark.stream.view import PlanningFailed, ServerUnreachable, lend_for_planning
from jetspark.subjects.match import matches
from jetspark.sync.retry import Retries
from jetspark.units import format_duration

# The time for a repetition: Spark restarts a task within seconds, a driver within a minute. A
# shorter duplicate window does not provide the guarantee.
MIN_DUPLICATE_WINDOW_NS: Final = 60 * 1_000_000_000


_Result = TypeVar("_Result")


class WriteRefused(PlanningFailed):
    """A write whose guarantee cannot be provided; the text says what to change."""


class SinkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a task needs; pickled."""

    options: SinkOptions
    stream: str
    stream_subjects: tuple[str, ...]
    transformed: bool = False
    """Whether the stream stores messages under other subjects than they are sent to."""
    mode: PublishMode
    delivery: Delivery
    id_source: IdSource | None
    """None: no message ids."""
    run: str = ""
    """Names this run of the write, for all its tasks and their repetitions."""
    ledger_bucket: str = ""
    """The bucket with the committed epochs; empty: none."""
    duplicate_window_ns: int = 0
    overwrite_below: int = 0
    """At commit, messages below this sequence are removed; 0: none."""

    @property
    def marked(self) -> bool:
        """Whether markers in the stream provide the guarantee."""
        return self.mode is PublishMode.ATOMIC and self.delivery is Delivery.EXACTLY_ONCE


def plan_write(options: SinkOptions, columns: frozenset[str], *, overwrite: bool) -> SinkPlan:
    """Look up the stream and decide; raises ``WriteRefused`` or ``PlanningFailed``."""
    delivery, id_source = decide_delivery(options, columns, overwrite=overwrite)
    _check_replay_options(options, delivery, id_source)
    return through_outages(
        lambda: _plan(options, columns, delivery, id_source, overwrite=overwrite),
        options.retries if options.streaming else 0,
    )


def through_outages(attempt: Callable[[], _Result], again: int) -> _Result:
    """Return the result of ``attempt``, waiting out an outage with ``again`` retries.

    Spark plans each epoch again: a server restart meanwhile must not end the query. A batch has
    no retries: its plan is its first contact with the server.
    """
    return Retries(again, outage_s=outage_of(again)).call(attempt, ServerUnreachable)


def _plan(
    options: SinkOptions,
    columns: frozenset[str],
    delivery: Delivery,
    id_source: IdSource | None,
    *,
    overwrite: bool,
) -> SinkPlan:
    with sink_planning(options) as client:
        jetstream = jetstream_of(client, options.connection)
        name = options.stream or jetstream.stream_name_by_subject(options.subject)
        info = jetstream.stream(name).cached_info
        plan = SinkPlan(
            options=options,
            stream=name,
            stream_subjects=info.config.subjects,
            transformed=info.config.subject_transform is not None,
            mode=choose_mode(options, info.config, columns),
            delivery=delivery,
            id_source=id_source,
            # Spark plans each epoch, and each batch, once.
            run=secrets.token_hex(6),
            ledger_bucket=choose_ledger(options, delivery, id_source),
            duplicate_window_ns=to_wire(info.config).duplicate_window,
            overwrite_below=info.state.last_seq + 1 if overwrite else 0,
        )
        check_stream(plan, info.config, columns)
        if plan.ledger_bucket:
            _find_ledger(jetstream, plan, info.config.num_replicas)
    return plan


def choose_ledger(options: SinkOptions, delivery: Delivery, id_source: IdSource | None) -> str:
    """Return the bucket of the ledger; empty if the write needs none.

    Ids from a column do not depend on partitioning: the duplicate window is enough.
    """
    needed = delivery is Delivery.EXACTLY_ONCE and id_source is IdSource.CONTENT
    return options.ledger_bucket or (LEDGER_BUCKET if needed else "")


def _find_ledger(jetstream: sync.JetStream, plan: SinkPlan, replicas: int) -> None:
    """Ensure that the ledger exists; the default one is created."""
    bucket = plan.ledger_bucket
    try:
        ensure_ledger(jetstream, bucket, named=bool(plan.options.ledger_bucket), replicas=replicas)
    except LedgerUnusable as error:
        raise _refused(
            f"{error}: create the bucket {bucket!r} (history 1, no ttl), name another with "
            "ledgerBucket, give the rows their own column 'msg_id' (with_msg_id), or set delivery "
            "at-least-once"
        ) from None


def decide_delivery(
    options: SinkOptions, columns: frozenset[str], *, overwrite: bool
) -> tuple[Delivery, IdSource | None]:
    """Return the guarantee and the source of ids, as far as the options determine them."""
    delivery, id_source = options.delivery, options.id_source
    has_ids = "msg_id" in columns
    if overwrite:
        return _decide_overwrite(options, has_ids=has_ids)
    if id_source is IdSource.COLUMN and not has_ids:
        raise _refused("idSource is column, but column 'msg_id' is missing")
    if id_source is IdSource.CONTENT and has_ids:
        raise _refused(
            "idSource is content, but there is a column 'msg_id' which would be ignored: "
            "drop one of the two"
        )
    if delivery is None:
        promised = options.streaming or options.txn_app_id or has_ids
        delivery = Delivery.EXACTLY_ONCE if promised else Delivery.AT_LEAST_ONCE
    if has_ids:
        id_source = IdSource.COLUMN
    elif delivery is Delivery.EXACTLY_ONCE:
        id_source = id_source or IdSource.CONTENT
        if not options.streaming and not options.txn_app_id:
            raise _refused(
                "delivery exactly-once of a batch write requires txnAppId and txnVersion, which "
                "name the job and the run (or a column 'msg_id'): Spark gives a batch no name"
            )
    else:
        id_source = None
    if options.publish_mode is PublishMode.ATOMIC:
        return _decide_atomic(options, delivery, id_source)
    if options.ledger_bucket:
        _check_ledger(options, delivery)
    return delivery, id_source


def _check_ledger(options: SinkOptions, delivery: Delivery) -> None:
    if delivery is not Delivery.EXACTLY_ONCE or not (options.streaming or options.txn_app_id):
        raise _refused(
            "ledgerBucket applies to delivery exactly-once only: leave it out, or set delivery "
            "exactly-once (for a batch write with txnAppId and txnVersion)"
        )


def _check_replay_options(
    options: SinkOptions, delivery: Delivery, id_source: IdSource | None
) -> None:
    """Refuse options for replays if they would have no effect."""
    once = delivery is Delivery.EXACTLY_ONCE
    by_column = id_source is IdSource.COLUMN
    if options.fail_on_replay_gaps is not None and (not once or by_column):
        raise _refused(
            "failOnReplayGaps is for delivery exactly-once by the ledger or by markers, which "
            "read back the rows of earlier runs"
            + (": the stream knows the ids of a column 'msg_id'" if by_column else "")
            + ". Leave it out"
        )
    ledgered = once and (not by_column or bool(options.ledger_bucket))
    if options.keep_committed_epoch is not None and not ledgered:
        raise _refused(
            "keepCommittedEpoch is for delivery exactly-once with a ledger or markers, which "
            "record what is committed"
            + (": a column 'msg_id' needs none, unless ledgerBucket is set" if once else "")
            + ". Leave it out"
        )


def _decide_overwrite(options: SinkOptions, *, has_ids: bool) -> tuple[Delivery, IdSource | None]:
    if not options.allow_purge:
        raise _refused(
            "overwrite (complete mode) removes every older message of the stream: set "
            'option("allowPurge", "true") if that is intended, else use append'
        )
    if options.delivery is Delivery.EXACTLY_ONCE or options.txn_app_id or has_ids:
        raise _refused(
            "overwrite publishes everything again and then removes older messages: with message "
            "ids the stream would drop rows it knows, which are then removed. Leave delivery at "
            "at-least-once, without txnAppId and a column 'msg_id'"
        )
    return Delivery.AT_LEAST_ONCE, None


def _decide_atomic(
    options: SinkOptions, delivery: Delivery, id_source: IdSource | None
) -> tuple[Delivery, IdSource | None]:
    if delivery is not Delivery.EXACTLY_ONCE:
        return delivery, id_source
    if id_source is IdSource.COLUMN or options.id_source is not None:
        raise _refused(
            "publishMode atomic provides exactly-once by markers, not by message ids: leave "
            "out idSource and the column 'msg_id', or choose another publishMode"
        )
    if not options.ledger_subject:
        raise _refused(
            "publishMode atomic with delivery exactly-once requires ledgerSubject: a subject "
            "of the stream, without wildcards, for its markers"
        )
    if not options.streaming and not options.txn_app_id:
        raise _refused(
            "delivery exactly-once of a batch write requires txnAppId and txnVersion: set both or "
            "use delivery at-least-once"
        )
    return delivery, None


def choose_mode(
    options: SinkOptions, config: StreamConfig, columns: frozenset[str] = frozenset()
) -> PublishMode:
    """Return how to publish; ``auto`` is fast ingest if the stream supports it."""
    if options.publish_mode is not PublishMode.AUTO:
        return options.publish_mode
    # A schedule that the server refuses would end a fast batch without naming the reason.
    fast = config.allow_batched and "schedule" not in columns
    return PublishMode.FAST if fast else PublishMode.ASYNC


def check_stream(plan: SinkPlan, config: StreamConfig, columns: frozenset[str]) -> None:
    """Raise ``WriteRefused`` with everything that the stream does not support."""
    problems = [*_cannot_take(plan, config, columns)]
    if plan.delivery is Delivery.EXACTLY_ONCE:
        problems += _cannot_promise(plan, config)
    if problems:
        raise _refused(f"stream {config.name!r} {'; '.join(problems)}")


def _cannot_take(plan: SinkPlan, config: StreamConfig, columns: frozenset[str]) -> Iterator[str]:
    if config.mirror is not None:
        yield f"is a mirror and accepts no messages: write to {config.mirror.name!r}"
    if config.sealed:
        yield "is sealed and accepts no messages"
    if config.no_ack:
        yield "has no_ack, so it is unknown whether a row was stored"
    if plan.mode is PublishMode.FAST and not config.allow_batched:
        yield "has allow_batched disabled, which publishMode fast requires"
    if plan.mode is PublishMode.ATOMIC and not config.allow_atomic:
        yield "has allow_atomic disabled, which publishMode atomic requires"
    if plan.mode is PublishMode.ATOMIC and config.persist_mode is PersistMode.ASYNC:
        yield "has persist_mode async, which does not support atomic batches"
    if "ttl" in columns and not config.allow_msg_ttl:
        yield "has allow_msg_ttl disabled, which the column 'ttl' requires"
    if "schedule" in columns:
        if not config.allow_msg_schedules:
            yield "has allow_msg_schedules disabled, which the column 'schedule' requires"
        if plan.delivery is Delivery.EXACTLY_ONCE and plan.id_source is not IdSource.COLUMN:
            yield (
                "removes a schedule once it has fired, or when another of its subject arrives, so "
                "that a replay would not find its row: give rows with a schedule a column "
                "'msg_id', or choose at-least-once"
            )
    if plan.overwrite_below and config.deny_purge:
        yield "has deny_purge, so it cannot be overwritten"
    subject = plan.options.subject
    if subject and not takes(config.subjects, subject):
        yield f"does not store the subject {subject!r} (it has {', '.join(config.subjects)})"


def _cannot_promise(plan: SinkPlan, config: StreamConfig) -> Iterator[str]:
    if config.persist_mode is PersistMode.ASYNC:
        yield (
            "has persist_mode async, so an acknowledged row may be lost: neither exactly-once nor "
            "at-least-once can be guaranteed; set it to default"
        )
    window = to_wire(config).duplicate_window
    if plan.id_source is not None and window < MIN_DUPLICATE_WINDOW_NS:
        yield (
            f"has a duplicate_window of {format_duration(window)}, less than the "
            f"{format_duration(MIN_DUPLICATE_WINDOW_NS)} that delivery exactly-once requires for "
            "a replay: raise it, or choose at-least-once"
        )
    if plan.id_source is IdSource.CONTENT and config.retention is not Retention.LIMITS:
        yield (
            f"has retention {config.retention}, so rows are deleted as soon as they are "
            "consumed: a replay could not know which rows an earlier run stored. Give the rows "
            "their own column 'msg_id' (with_msg_id), or choose at-least-once"
        )
    marker = f"{plan.options.ledger_subject}.query.0"
    if plan.id_source is None and not takes(config.subjects, marker):
        yield (
            f"does not store the markers below ledgerSubject, such as {marker!r} (it has "
            f"{', '.join(config.subjects)})"
        )
    transform = config.subject_transform
    if plan.id_source is None and transform is not None and takes((transform.src or ">",), marker):
        yield (
            f"stores messages below ledgerSubject, such as {marker!r}, under other subjects "
            f"(subject_transform of {transform.src!r}), where the markers are not found: "
            "choose a ledgerSubject without transform"
        )
    if plan.id_source is None and config.retention is not Retention.LIMITS:
        yield (
            f"has retention {config.retention}, which removes the markers that atomic "
            "exactly-once writes rely on: use limits"
        )


def takes(stream_subjects: tuple[str, ...], subject: str) -> bool:
    """Whether a stream stores messages of ``subject``."""
    name = subject.encode("utf-8", "surrogateescape")
    return any(matches(name, pattern.encode()) for pattern in stream_subjects)


def sink_planning(options: SinkOptions) -> AbstractContextManager[sync.Client]:
    """Lend a connection for planning a write."""
    target = f"stream {options.stream!r}" if options.stream else f"subject {options.subject!r}"
    what = target if options.stream else f"a stream that stores {options.subject!r}"
    return lend_for_planning(
        options.connection,
        doing=f"format {FORMAT_NAME!r} cannot write to {target}",
        missing=f"format {FORMAT_NAME!r}: {what} does not exist",
    )


def _refused(text: str) -> WriteRefused:
    return WriteRefused(f"format {FORMAT_NAME!r}: {text}")
