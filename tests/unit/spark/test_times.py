"""Times among the options: with a zone, without one, and far away."""

import pytest

from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.options import parse_source_options
from jetspark.spark.times import (
    TIME_MAX,
    TIME_MIN,
    ZONE_VARIABLE,
    SessionZone,
    TimeOptions,
    ZoneChanged,
    check_zone,
    session_zone,
)

NOON = 1_794_744_000_000_000_000  # 2026-11-15T12:00:00Z
BASE = {"servers": "nats://localhost", "stream": "S"}


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-11-15 12:00:00", "UTC", NOON),
        ("2026-11-15T12:00", "UTC", NOON),
        ("2026-11-15 12:00:00.000000001", "UTC", NOON + 1),
        ("2026-11-15 21:00:00", "Asia/Tokyo", NOON),
        ("2026-11-15 17:30:00", "+05:30", NOON),
        ("2026-11-15 09:00:00", "UTC-3", NOON),
        ("2026-11-16", "Etc/GMT-12", NOON),
        # Spark takes the earlier of two, and moves a time that does not exist forward.
        ("2026-10-25 02:30:00", "Europe/Rome", 1_792_888_200_000_000_000),
        ("2026-03-29 02:30:00", "Europe/Rome", 1_774_747_800_000_000_000),
    ],
)
def test_a_time_without_a_zone_is_in_the_sessions(text: str, zone: str, expected: int) -> None:
    times = TimeOptions(SessionZone(zone, "UTC"))

    assert times.parse(text) == expected
    assert times.assumed == (zone, "UTC")


def test_a_time_with_a_zone_depends_on_nothing() -> None:
    times = TimeOptions(None)

    assert times.parse("2026-11-15T12:00:00Z") == NOON
    assert times.parse("2026-11-15T13:00:00+01:00") == NOON
    assert times.parse("1794744000000") == NOON
    assert times.assumed is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9999-12-31", TIME_MAX),
        ("2262-04-12T00:00:00Z", TIME_MAX),
        ("253402300799999", TIME_MAX),
        ("0001-01-01", TIME_MIN),
        ("1677-01-01T00:00:00Z", TIME_MIN),
        ("0", 0),
    ],
)
def test_far_times_are_before_or_after_every_message(text: str, expected: int) -> None:
    assert TimeOptions(SessionZone("UTC", "UTC")).parse(text) == expected


@pytest.mark.parametrize(
    "zone", [None, SessionZone("Mars/Base", "UTC"), SessionZone("+99:00", "")]
)
def test_without_a_known_zone_a_time_must_name_one(zone: SessionZone | None) -> None:
    with pytest.raises(ValueError, match="append Z for UTC or an offset"):
        TimeOptions(zone).parse("2026-11-15 12:00:00")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-1", "2026-02-30", "2026-11-15 24:00:00", "0000-01-01", "10000-01-01",
     "-0001-01-01T00:00:00Z", "9" * 5000, str(2**63), str(2**64), "2026-11-15 12:00:00.1234567890",
     "٢٠٢٦-11-15"],
)  # fmt: skip
def test_other_text_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(InvalidOptions) as refused:
        parse_source_options({**BASE, "startingTimestamp": text}, zone=SessionZone("UTC", "UTC"))

    assert str(refused.value).startswith("format 'jetstream': startingTimestamp ")
    assert len(str(refused.value)) < 400


def test_the_zone_travels_in_a_variable() -> None:
    zone = SessionZone("Asia/Tokyo", "Etc/UTC")

    assert session_zone({ZONE_VARIABLE: zone.text()}) == zone
    assert session_zone({}) is None


def test_tasks_notice_that_the_session_has_another_zone() -> None:
    set_by_user, left_alone = SessionZone("Asia/Tokyo", "UTC"), SessionZone("UTC", "UTC")

    check_zone(set_by_user, "Asia/Tokyo")
    check_zone(left_alone, None)
    for zone, now in ((set_by_user, None), (set_by_user, "UTC"), (left_alone, "Asia/Tokyo")):
        with pytest.raises(ZoneChanged, match="append Z or an offset"):
            check_zone(zone, now)


@pytest.mark.parametrize(
    "value", ["", " ", "-1", "0", "1.5", "x", str(2**63), str(2**64), "9" * 5000, "१"]
)
def test_every_number_out_of_range_is_listed(value: str) -> None:
    names = ("minPartitions", "maxRecordsPerPartition", "batchSize", "maxBatchBytes", "minLastSeq",
             "startingOffsets", "endingOffsets")  # fmt: skip

    with pytest.raises(InvalidOptions) as refused:
        parse_source_options({**BASE, **dict.fromkeys(names, value)})

    text = str(refused.value)
    assert text.startswith(f"format 'jetstream': {len(names)} options are invalid: ")
    assert all(f"{name} " in text for name in names)
    assert "Exceeds the limit" not in text
    assert len(text) < 2000


def test_an_open_end_cannot_promise_that_nothing_is_lost() -> None:
    assert parse_source_options({**BASE, "endingOffsets": "open"}).open_ended
    assert not parse_source_options({**BASE, "endingOffsets": "open"}).fail_on_data_loss
    with pytest.raises(InvalidOptions, match="leave out failOnDataLoss true"):
        parse_source_options({**BASE, "endingOffsets": "open", "failOnDataLoss": "true"})
