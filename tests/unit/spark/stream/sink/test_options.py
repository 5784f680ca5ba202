"""Options, columns and promises of a write: refused before a task starts."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from jetspark import StreamConfig, StreamOptions, StreamSource
from jetspark.api.enums import PersistMode, Retention
from jetspark.errors import InvalidSchema
from jetspark.spark.connection_settings import Connection
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.sink.options import (
    Delivery,
    IdSource,
    PublishMode,
    SinkOptions,
    parse_sink_options,
)
from jetspark.spark.stream.sink.plan import (
    MIN_DUPLICATE_WINDOW_NS,
    SinkPlan,
    WriteRefused,
    check_stream,
    choose_mode,
    decide_delivery,
)
from jetspark.spark.stream.sink.rows import check_sink_schema

NEEDED = {"servers": "nats://localhost:4222", "stream": "ORDERS"}
CONNECTION = Connection(servers=("nats://localhost:4222",))
PLAIN = frozenset({"subject", "data"})
WITH_IDS = frozenset({"subject", "data", "msg_id"})
GOOD = StreamConfig(
    name="ORDERS", subjects=("orders.>",), duplicate_window=MIN_DUPLICATE_WINDOW_NS / 1e9
)


def _options(**changes: object) -> SinkOptions:
    return SinkOptions(connection=CONNECTION, stream="ORDERS", **changes)  # type: ignore[arg-type]


def _plan(options: SinkOptions, columns: frozenset[str] = PLAIN, **changes: object) -> SinkPlan:
    delivery, id_source = decide_delivery(options, columns, overwrite=False)
    given: dict[str, object] = {"mode": choose_mode(options, GOOD), **changes}
    return SinkPlan(
        options=options,
        stream="ORDERS",
        stream_subjects=("orders.>",),
        delivery=delivery,
        id_source=id_source,
        **given,  # type: ignore[arg-type]
    )


def test_defaults_are_those_of_the_table() -> None:
    assert parse_sink_options(NEEDED, streaming=False) == _options()
    assert parse_sink_options(NEEDED, streaming=True) == _options(streaming=True)


def test_what_spark_keeps_among_the_options_is_no_mistake() -> None:
    options = {**NEEDED, "checkpointlocation": "/somewhere", "queryname": "copy"}

    assert parse_sink_options(options, streaming=True) == _options(streaming=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"publishMode": "quick"}, "'quick' is not one of auto, fast, async, atomic"),
        ({"txnAppId": "job"}, "txnAppId and txnVersion must be given together"),
        ({"idPrefix": "x"}, "idPrefix is for writeStream"),
        ({"subject": "a.*"}, "is not a subject without wildcards"),
        ({"ledgerSubject": "x"}, "ledgerSubject is for publishMode atomic"),
        ({"atomicScope": "epoch"}, "atomicScope is for publishMode atomic"),
        (
            {"delivery": "at-least-once", "txnAppId": "a", "txnVersion": "1"},
            "txnAppId is for delivery exactly-once",
        ),
        (
            {"delivery": "at-least-once", "idSource": "content"},
            "idSource content is for delivery exactly-once",
        ),
        ({"idSource": "position"}, "'position' is no longer supported"),
        ({"retry": "3"}, "did you mean retries?"),
        ({"topic": "A"}, "Spark's Kafka sink: use stream, or streams with a column 'stream'"),
        ({"kafka.bootstrap.servers": "a:9092"}, "Spark's Kafka sink: use servers"),
    ],
)
def test_a_mistake_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptions, match=said.replace("?", r"\?")):
        parse_sink_options({**NEEDED, **given}, streaming=False)


def test_columns_are_checked_all_at_once() -> None:
    schema = StructType().add("subjekt", "string").add("data", "integer").add("seq", "long")

    with pytest.raises(InvalidSchema) as refusal:
        check_sink_schema(schema, "")

    assert "did you mean 'subject'?" in str(refusal.value)
    assert "column 'data' must be binary or string, not int" in str(refusal.value)
    assert "column 'seq' does not exist" in str(refusal.value)
    assert "no option subject" in str(refusal.value)


def test_columns_of_kafka_are_named_with_what_replaces_them() -> None:
    schema = StructType().add("key", "string").add("value", "string").add("Topic", "string")

    with pytest.raises(InvalidSchema) as refusal:
        check_sink_schema(schema.add("partition", "integer"), "orders.new")

    assert "column 'key' does not exist in a message: use 'subject'" in str(refusal.value)
    assert "'Topic' does not exist in a message: use option stream, or" in str(refusal.value)
    assert "'partition' does not exist in a message: a stream has no" in str(refusal.value)


def test_value_is_another_name_of_data() -> None:
    headers = MapType(StringType(), ArrayType(StringType()))
    schema = StructType().add("value", "string").add("headers", headers)

    assert check_sink_schema(schema, "orders.new") == {"data", "headers"}


def test_a_streaming_write_is_exactly_once_by_content() -> None:
    decided = decide_delivery(_options(streaming=True), PLAIN, overwrite=False)

    assert decided == (Delivery.EXACTLY_ONCE, IdSource.CONTENT)


def test_a_batch_write_is_exactly_once_when_it_has_a_name_or_ids() -> None:
    named = _options(txn_app_id="job", txn_version=1)

    assert decide_delivery(_options(), PLAIN, overwrite=False) == (Delivery.AT_LEAST_ONCE, None)
    assert decide_delivery(named, PLAIN, overwrite=False)[0] is Delivery.EXACTLY_ONCE
    assert decide_delivery(_options(), WITH_IDS, overwrite=False) == (
        Delivery.EXACTLY_ONCE,
        IdSource.COLUMN,
    )


@pytest.mark.parametrize(
    ("options", "columns", "overwrite", "said"),
    [
        (
            _options(delivery=Delivery.EXACTLY_ONCE),
            PLAIN,
            False,
            "requires txnAppId and txnVersion",
        ),
        (_options(id_source=IdSource.COLUMN), PLAIN, False, "column 'msg_id' is missing"),
        (_options(id_source=IdSource.CONTENT), WITH_IDS, False, "would be ignored"),
        (_options(), PLAIN, True, "allowPurge"),
        (_options(allow_purge=True), WITH_IDS, True, "publishes everything again"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(
    options: SinkOptions, columns: frozenset[str], overwrite: bool, said: str
) -> None:
    with pytest.raises(WriteRefused, match=said):
        decide_delivery(options, columns, overwrite=overwrite)


@pytest.mark.parametrize(
    ("changes", "columns", "said"),
    [
        ({"duplicate_window": 1}, PLAIN, "duplicate_window of 1s"),
        ({"retention": Retention.WORKQUEUE}, PLAIN, "deleted as soon as they are consumed"),
        ({"persist_mode": PersistMode.ASYNC}, PLAIN, "may be lost"),
        ({"no_ack": True}, PLAIN, "no_ack"),
        ({"sealed": True}, PLAIN, "sealed"),
        ({"mirror": StreamSource(name="UP")}, PLAIN, "write to 'UP'"),
        ({}, PLAIN | {"ttl"}, "allow_msg_ttl disabled"),
        ({"subjects": ("bills.>",)}, PLAIN, "does not store the subject 'orders.new'"),
    ],
)
def test_a_stream_that_cannot_keep_the_promise_is_refused(
    changes: StreamOptions, columns: frozenset[str], said: str
) -> None:
    plan = _plan(_options(streaming=True, subject="orders.new"), columns)
    config = GOOD.replace(**changes)

    check_stream(_plan(_options(streaming=True)), GOOD, PLAIN)
    with pytest.raises(WriteRefused, match=said):
        check_stream(plan, config, columns)


def test_modes_that_the_stream_does_not_allow_are_refused() -> None:
    for mode, said in ((PublishMode.FAST, "allow_batched"), (PublishMode.ATOMIC, "allow_atomic")):
        with pytest.raises(WriteRefused, match=said):
            check_stream(_plan(_options(), mode=mode), GOOD, PLAIN)


def test_auto_is_fast_ingest_where_the_stream_has_it() -> None:
    batched = StreamConfig(name="ORDERS", allow_batched=True)

    assert choose_mode(_options(), batched) is PublishMode.FAST
    assert choose_mode(_options(), GOOD) is PublishMode.ASYNC


def test_several_streams_exclude_what_is_for_one() -> None:
    given = {"servers": NEEDED["servers"], "streams": "ORDERS, BILLS"}

    assert parse_sink_options(given, streaming=True).streams == ("ORDERS", "BILLS")
    for name, value in (
        ("stream", "ORDERS"),
        ("subject", "orders.new"),
        ("ledgerBucket", "LEDGER"),
    ):
        with pytest.raises(InvalidOptions, match=f"{name} is for one stream"):
            parse_sink_options(given | {name: value}, streaming=True)
    with pytest.raises(InvalidOptions, match="streams names 'A' twice"):
        parse_sink_options(given | {"streams": "A,B,A"}, streaming=True)
    with pytest.raises(InvalidOptions, match="streams '' is not a stream name"):
        parse_sink_options(given | {"streams": "A,"}, streaming=True)


def test_the_column_stream_and_the_option_streams_belong_together() -> None:
    rows = StructType().add("subject", "string").add("data", "string")

    with pytest.raises(InvalidSchema, match="column 'stream', which option streams requires"):
        check_sink_schema(rows, "", several=True)
    rows = rows.add("stream", "string")
    assert "stream" in check_sink_schema(rows, "", several=True)
    with pytest.raises(InvalidSchema, match="column 'stream' is for option streams"):
        check_sink_schema(rows, "")


def test_a_schedule_needs_a_target_a_stream_that_allows_it_and_an_id() -> None:
    rows = StructType().add("subject", "string").add("data", "string").add("schedule", "string")

    with pytest.raises(InvalidSchema, match="column 'schedule_target' is missing"):
        check_sink_schema(rows, "")
    with pytest.raises(InvalidSchema, match="'schedule_ttl' requires a column 'schedule'"):
        check_sink_schema(StructType([*rows.fields[:2]]).add("schedule_ttl", "integer"), "")
    columns = check_sink_schema(rows.add("schedule_target", "string"), "")
    once = _options(streaming=True)
    with pytest.raises(WriteRefused, match=r"allow_msg_schedules disabled.*a column 'msg_id'"):
        check_stream(_plan(once, columns), GOOD, columns)
    scheduled = StreamConfig(
        name="ORDERS",
        subjects=("orders.>",),
        duplicate_window=120,
        allow_msg_schedules=True,
        allow_batched=True,
    )
    check_stream(_plan(once, columns | {"msg_id"}), scheduled, columns)
    assert choose_mode(once, scheduled, columns) is PublishMode.ASYNC


def test_two_columns_of_the_payload_are_named() -> None:
    rows = StructType().add("subject", "string").add("data", "string").add("value", "string")

    with pytest.raises(InvalidSchema, match="columns 'data' and 'value' are two names of the"):
        check_sink_schema(rows, "")
