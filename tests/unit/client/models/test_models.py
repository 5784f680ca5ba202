"""Configurations as users write and read them: seconds, lists, texts; exact on the wire."""

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import jetspark
from jetspark import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    KeyValueConfig,
    ObjectStoreConfig,
    Placement,
    Retention,
    StreamConfig,
    StreamInfo,
    StreamSource,
)
from jetspark.api import consumer as consumer_wire
from jetspark.api import stream as stream_wire
from jetspark.api.base import Timestamp, decoder, encode
from jetspark.client.models.base import Model, check_applied, from_wire, to_wire
from jetspark.client.models.durations import to_wire_ns
from jetspark.client.models.stream import stream_config
from jetspark.errors import NotSupported


@pytest.mark.parametrize(
    ("given", "ns"),
    [
        (0, 0),
        (30, 30_000_000_000),
        (0.5, 500_000_000),
        (1e-9, 1),
        (3600.000000001, 3_600_000_000_001),
        (timedelta(milliseconds=1500), 1_500_000_000),
        (timedelta(days=10_000, microseconds=1), 864_000_000_000_001_000),
        (9_223_372_036, 9_223_372_036_000_000_000),
    ],
)
def test_a_duration_is_seconds_or_a_timedelta(given: float | timedelta, ns: int) -> None:
    assert to_wire(ConsumerConfig(ack_wait=given)).ack_wait == ns


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (-1, ValueError, "ack_wait=-1: expected seconds, 0 or more"),
        (timedelta(seconds=-1), ValueError, "expected seconds, 0 or more"),
        (float("nan"), ValueError, "ack_wait=nan: expected a finite number of seconds"),
        (float("inf"), ValueError, "expected a finite number of seconds"),
        (1e300, ValueError, "longer than 292 years"),
        (10**30, ValueError, "longer than 292 years"),
        (timedelta.max, ValueError, "longer than 292 years"),
        ("30s", TypeError, "ack_wait='30s': expected seconds (a number) or a timedelta"),
        (True, TypeError, "expected seconds (a number) or a timedelta"),
        (None, TypeError, "expected seconds (a number) or a timedelta"),
    ],
)
def test_what_is_no_duration_is_refused(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        ConsumerConfig(ack_wait=given)

    assert text in str(raised.value)


# Nanoseconds that a float of seconds cannot hold, the largest, and odd ones.
EXACT = [1, 999, 10**9 + 1, 200 * 86_400 * 10**9 + 1, 2**63 - 1]


@pytest.mark.parametrize("ns", EXACT)
def test_what_a_server_said_goes_back_unchanged(ns: int) -> None:
    text = (
        b'{"name":"S","max_age":%d,"duplicate_window":%d,"subject_delete_marker_ttl":%d,'
        b'"consumer_limits":{"inactive_threshold":%d},"retention":"of tomorrow",'
        b'"sources":[{"name":"A","opt_start_time":"2026-01-02T03:04:05.123456789Z"}]}'
    ) % (ns, ns, ns, ns)
    struct = decoder(stream_wire.StreamConfig).decode(text)
    read = from_wire(StreamConfig, struct)

    for again in (read.replace(max_msgs=5).replace(max_msgs=-1), pickle.loads(pickle.dumps(read))):
        assert encode(to_wire(again)) == encode(struct)
    by_value = StreamConfig(
        "S",
        max_age=read.max_age,
        duplicate_window=copy.deepcopy(read.duplicate_window),
        retention=read.retention,
        sources=read.sources,
    )
    assert to_wire(by_value).max_age == to_wire(by_value).duplicate_window == ns
    assert to_wire(by_value).sources == struct.sources
    assert read.max_age == pytest.approx(ns / 1e9)


def test_lists_texts_and_plain_numbers_are_taken() -> None:
    config = StreamConfig(
        "ORDERS",
        subjects=["a", "b"],
        retention="workqueue",
        max_bytes=1 << 20,
        sources=["A", StreamSource("B", filter_subject="b.>")],
        placement=Placement(tags=["ssd"]),
        metadata={"team": "a"},
    )

    assert config.subjects == ("a", "b")
    assert config.retention is Retention.WORKQUEUE
    assert [source.name for source in config.sources] == ["A", "B"]
    assert config.placement == Placement(tags=("ssd",))
    assert StreamConfig("S", subjects="one.>").subjects == ("one.>",)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"max_ag": 5}, TypeError, "StreamConfig has no 'max_ag'; did you mean 'max_age'?"),
        (
            {"retention": "forever"},
            ValueError,
            "retention='forever': expected one of 'limits', 'interest'",
        ),
        ({"max_msgs": "5"}, TypeError, "max_msgs='5': expected an int"),
        (
            {"max_msgs": 2**63},
            ValueError,
            "max_msgs=9223372036854775808: expected -9223372036854775808 to",
        ),
        (
            {"max_msg_size": 2**31},
            ValueError,
            "max_msg_size=2147483648: expected -2147483648 to 2147483647",
        ),
        ({"subjects": [5]}, TypeError, "subjects[0]=5: expected a str"),
        ({"sources": "A"}, TypeError, "sources='A': expected a list"),
        ({"placement": "here"}, TypeError, "placement='here': expected a Placement"),
        ({"no_ack": 1}, TypeError, "no_ack=1: expected True or False"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(
    options: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as raised:
        StreamConfig("S", **options)

    assert text in str(raised.value)


def test_times_are_datetimes_that_know_their_zone() -> None:
    berlin = timezone(timedelta(hours=1))
    config = ConsumerConfig(opt_start_time=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=berlin))

    assert to_wire(config).opt_start_time == 1_767_319_445_000_006_000
    assert config.opt_start_time == datetime(2026, 1, 2, 2, 4, 5, 6, tzinfo=UTC)
    with pytest.raises(ValueError, match="no time zone"):
        ConsumerConfig(opt_start_time=datetime(2026, 1, 2))  # noqa: DTZ001
    wrong: Any = 1_767_319_445
    with pytest.raises(TypeError, match="expected a datetime"):
        ConsumerConfig(opt_start_time=wrong)


def test_reports_have_seconds_and_datetimes() -> None:
    info = from_wire(
        ConsumerInfo,
        consumer_wire.ConsumerInfo(
            created=Timestamp(10**18), pause_remaining=to_wire_ns(1.5, ""), paused=True
        ),
    )

    assert (info.pause_remaining, info.created.year, info.time) == (1.5, 2001, None)
    assert from_wire(StreamInfo, stream_wire.StreamInfo()).state.first_time is None


def test_acks_are_explicit_unless_one_says_otherwise() -> None:
    assert ConsumerConfig().ack_policy is AckPolicy.EXPLICIT
    assert ConsumerConfig(ack_policy="none").ack_policy is AckPolicy.NONE
    assert to_wire(ConsumerConfig(durable="w")).ack_policy is AckPolicy.EXPLICIT


def test_configurations_compare_copy_and_cannot_be_changed() -> None:
    config = KeyValueConfig("b", history=5, ttl=60)

    assert config == KeyValueConfig("b", history=5, ttl=timedelta(minutes=1))
    assert config != config.replace(ttl=61)
    assert config != ObjectStoreConfig("b")
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    assert repr(config) == "KeyValueConfig(bucket='b', history=5, ttl=60.0)"
    with pytest.raises(AttributeError, match=r"replace\(history=\.\.\.\)"):
        config.history = 6


def models() -> list[type[Model[Any]]]:
    found = [getattr(jetspark, name) for name in jetspark.__all__]
    return [each for each in found if isinstance(each, type) and issubclass(each, Model)]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_field_of_the_wire_is_annotated_for_readers(model: type[Model[Any]]) -> None:
    """A setting that the wire gains is one that users can read, and write, with its type."""
    annotated = [name for name in model.__annotations__ if not name.startswith("_")]

    assert annotated == list(model._shape.fields)
    options = getattr(jetspark, model.__name__.replace("Config", "Options"), None)
    if options is not None and options is not model:
        assert [
            n for n in annotated if n not in {"name", "bucket"} or n in options.__annotations__
        ] == list(options.__annotations__)
    for name in annotated:
        getattr(from_wire(model, model._shape.plain()), name)


def test_a_server_that_ignores_a_setting_is_noticed() -> None:
    asked = StreamConfig("S", allow_atomic=True, max_msgs=0, metadata={"a": "b"})
    has = StreamConfig("S", max_msgs=-1, metadata={"a": "b", "_nats.level": "1"})

    check_applied(["max_msgs", "metadata"], asked, has, "Stream('S')")
    with pytest.raises(NotSupported, match=r"Stream\('S'\): the server answered allow_atomic=Fal"):
        check_applied(["allow_atomic"], asked, has, "Stream('S')")


def test_a_struct_of_the_wire_is_no_configuration() -> None:
    struct: Any = stream_wire.StreamConfig(name="S")

    with pytest.raises(TypeError, match=r"expected the name of a stream or a jetspark.StreamConf"):
        stream_config(struct, {})
