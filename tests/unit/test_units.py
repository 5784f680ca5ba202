"""Texts of times, durations and sizes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.units import (
    ZERO_TIME_NS,
    ZERO_TIME_TEXT,
    format_bytes,
    format_duration,
    format_rfc3339,
    gib,
    hours,
    kib,
    mib,
    milliseconds,
    minutes,
    parse_duration,
    parse_rfc3339,
    parse_size,
    parse_storage_size,
    seconds,
)

SECOND = 1_000_000_000
LAST_TIME_NS = 253_402_300_799_999_999_999

int64 = st.integers(-(2**63), 2**63 - 1)


def test_units_are_nanoseconds_and_bytes() -> None:
    assert (seconds(1.5), milliseconds(5)) == (1_500_000_000, 5_000_000)
    assert (minutes(2), hours(0.5)) == (120 * SECOND, 1800 * SECOND)
    assert (kib(2), mib(3), gib(1)) == (2048, 3 << 20, 1 << 30)


def test_whole_seconds_are_exact_beyond_the_precision_of_floats() -> None:
    assert seconds(9_223_372_036) == 9_223_372_036 * SECOND
    assert seconds(2**60 + 1) == (2**60 + 1) * SECOND


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_duration_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number"):
        seconds(value)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_659_745_767_587_861_324, "2022-08-06T00:29:27.587861324Z"),
        (1_659_745_767_500_000_000, "2022-08-06T00:29:27.5Z"),
        (951_782_400 * SECOND, "2000-02-29T00:00:00Z"),
        (ZERO_TIME_NS, ZERO_TIME_TEXT),
        (LAST_TIME_NS, "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_times_are_utc_with_up_to_nine_digits(ns: int, text: str) -> None:
    """wire.md, API requests, last point."""
    assert format_rfc3339(ns) == text
    assert parse_rfc3339(text) == ns


@pytest.mark.parametrize("ns", [ZERO_TIME_NS - 1, LAST_TIME_NS + 1, 10**30])
def test_a_time_outside_the_years_1_to_9999_has_no_text(ns: int) -> None:
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        format_rfc3339(ns)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2022-08-06T02:29:27.5+02:00", "2022-08-06T00:29:27.5Z"),
        ("2022-08-05T19:59:27.5-04:30", "2022-08-06T00:29:27.5Z"),
        ("2022-08-06T00:29:27.5+00:00", "2022-08-06T00:29:27.5Z"),
        ("2022-08-06T00:29:27.1234567899Z", "2022-08-06T00:29:27.123456789Z"),
        ("2022-08-06 00:29:27.587861324 +0000 UTC", "2022-08-06T00:29:27.587861324Z"),
        ("2022-08-06 02:29:27 +0200 CEST", "2022-08-06T00:29:27Z"),
        ("2022-08-05 19:59:27 -0430 -0430", "2022-08-06T00:29:27Z"),
    ],
    ids=["east", "west", "zero offset", "ten digits", "go", "go zone", "go nameless zone"],
)
def test_other_spellings_of_a_time_are_read(text: str, same: str) -> None:
    assert parse_rfc3339(text) == parse_rfc3339(same)


def test_an_offset_may_lead_beyond_the_first_and_the_last_year() -> None:
    assert parse_rfc3339("0001-01-01T00:00:00+01:00") == ZERO_TIME_NS - 3600 * SECOND
    assert parse_rfc3339("9999-12-31T23:59:59.999999999-23:59") == LAST_TIME_NS + 86_340 * SECOND


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a form like"),
        ("yesterday", "expected a form like"),
        ("2022-08-06", "expected a form like"),
        ("2022-08-06T00:29:27", "expected a form like"),
        ("2022-08-06t00:29:27z", "expected a form like"),
        ("2022-08-06T00:29:27,5Z", "expected a form like"),
        ("2022-08-06T00:29:27.Z", "expected a form like"),
        ("2022-8-6T00:29:27Z", "expected a form like"),
        ("2022-08-06T00:29:27Z\n", "expected a form like"),
        ("٢022-08-06T00:29:27Z", "expected a form like"),
        ("2022-08-06T00:29:27+0200", "expected a form like"),
        ("2022-13-06T00:29:27Z", "month must be in 1..12"),
        ("2023-02-29T00:29:27Z", "day is out of range for month"),
        ("0000-01-01T00:00:00Z", "year 0 is out of range"),
        ("2022-08-06T24:00:00Z", "latest time of a day is 23:59:59"),
        ("2022-08-06T23:60:00Z", "latest time of a day is 23:59:59"),
        ("2022-06-30T23:59:60Z", "latest time of a day is 23:59:59"),
        ("2022-08-06T00:00:00+24:00", r"offset \+24:00 is outside"),
        ("2022-08-06T00:00:00-01:60", "offset -01:60 is outside"),
    ],
)
def test_a_bad_time_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"bad time .*{reason}"):
        parse_rfc3339(text)


@given(st.integers(ZERO_TIME_NS, LAST_TIME_NS))
def test_every_time_survives_its_text(ns: int) -> None:
    assert parse_rfc3339(format_rfc3339(ns)) == ns


@given(st.integers(ZERO_TIME_NS, LAST_TIME_NS), st.integers(-1439, 1439))
def test_times_agree_with_the_standard_library(ns: int, offset: int) -> None:
    """Microseconds are all that ``datetime`` knows, so the rest is left off."""
    ns -= ns % 1000
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    sign, size = ("-" if offset < 0 else "+"), abs(offset)
    text = moment.replace(tzinfo=None).isoformat() + f"{sign}{size // 60:02}:{size % 60:02}"

    assert datetime.fromisoformat(format_rfc3339(ns)) == moment
    assert parse_rfc3339(text) == ns - offset * 60 * SECOND


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1_000, "1\N{MICRO SIGN}s"),
        (1_100, "1.1\N{MICRO SIGN}s"),
        (2_200_000, "2.2ms"),
        (999_999_999, "999.999999ms"),
        (SECOND, "1s"),
        (3_300_000_000, "3.3s"),
        (59_999_999_999, "59.999999999s"),
        (60 * SECOND, "1m0s"),
        (245 * SECOND, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (5 * 3600 * SECOND + 6 * 60 * SECOND + 7_001_000_000, "5h6m7.001s"),
        (8 * 60 * SECOND + 1, "8m0.000000001s"),
        (3600 * SECOND, "1h0m0s"),
        (-90 * SECOND, "-1m30s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_written_as_go_writes_them(ns: int, text: str) -> None:
    assert format_duration(ns) == text
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("100ms", 100_000_000),
        ("2us", 2_000),
        ("2\N{GREEK SMALL LETTER MU}s", 2_000),
        ("1h15m30.918273645s", 4_530_918_273_645),
        ("1m1m", 120 * SECOND),
        ("0.9ns", 0),
        ("0.3333333333333333333h", 1_199_999_999_999),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a form like"),
        ("-", "expected a form like"),
        ("+-1s", "expected a number before"),
        ("3", "a number without unit"),
        ("1m30", "a number without unit"),
        ("s", "expected a number before 's'"),
        (".s", "expected a number before"),
        ("1d", "unknown unit 'd'"),
        ("1 s", "unknown unit ' s'"),
        ("1S", "unknown unit 'S'"),
        ("1..5s", "a number without unit"),
        ("1.5.5s", "a number without unit"),
        ("٣s", "expected a number before"),
        ("9223372036854775808ns", "64 bits"),
        ("-9223372036854775809ns", "64 bits"),
        ("3000000h", "64 bits"),
    ],
)
def test_a_bad_duration_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"bad duration .*{reason}"):
        parse_duration(text)


@given(int64)
def test_every_duration_survives_its_text(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("-1", -1),
        ("1024", 1024),
        ("1k", 1000),
        ("1K", 1000),
        ("1KB", 1024),
        ("1kb", 1024),
        ("1Ki", 1024),
        ("1KiB", 1024),
        ("3M", 3_000_000),
        ("64MB", 64 << 20),
        ("64 MB", 64 << 20),
        ("1g", 10**9),
        ("1GiB", 1 << 30),
        ("2T", 2 * 10**12),
        ("2tb", 2 << 40),
        ("1P", 10**15),
        ("1PiB", 1 << 50),
        ("1E", 10**18),
        ("7EiB", 7 << 60),
        ("-1MB", -(1 << 20)),
    ],
)
def test_sizes_are_read_as_the_configuration_of_nats_server_is(text: str, size: int) -> None:
    """A letter alone counts in thousands, with B, i or iB in 1024s."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a number and a unit"),
        ("MB", "expected a number and a unit"),
        ("1.5MB", "expected a number and a unit"),
        ("1 M B", "expected a number and a unit"),
        ("٣MB", "expected a number and a unit"),
        ("1B", "unknown unit 'B'"),
        ("1kbit", "unknown unit 'kbit'"),
        ("1X", "unknown unit 'X'"),
        ("8EiB", "does not fit 64 bits"),
        ("10E", "does not fit 64 bits"),
    ],
)
def test_a_bad_size_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"bad size .*{reason}"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1K", 1024), ("2M", 2 << 20), ("1G", 1 << 30), ("-1T", -(1 << 40))]
)
def test_a_quoted_size_of_the_jetstream_block_counts_in_1024s(text: str, size: int) -> None:
    assert parse_storage_size(text) == size


@pytest.mark.parametrize("text", ["", "1", "1k", "1GB", "G", "1 G", "9000000T"])
def test_another_quoted_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bad size"):
        parse_storage_size(text)


@given(
    st.integers(-(2**33), 2**33 - 1),
    st.sampled_from(["", "K", "M", "G"]),
    st.sampled_from(["", "B", "i", "iB"]),
)
def test_sizes_scale_with_their_unit(number: int, letter: str, tail: str) -> None:
    unit = letter + (tail if letter else "")
    factor = (1024 if len(unit) > 1 else 1000) ** ("KMG".find(letter) + 1 if letter else 0)
    if abs(number * factor) >= 2**63:
        return

    assert parse_size(f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (64 << 20, "64 MiB"),
        ((1 << 20) - 1, "1 MiB"),
        ((1 << 20) - 52, "1023.9 KiB"),
        (5 << 60, "5 EiB"),
        (2**80, "1048576 EiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 2**70))
def test_a_size_for_people_is_right_to_a_tenth_of_its_unit(count: int) -> None:
    number, unit = format_bytes(count).split(" ")
    factor = 1024 ** " KMGTPE".index(unit[0]) if unit != "B" else 1

    assert abs(float(number) * factor - count) <= factor * 0.0501 + abs(count) * 1e-12
    assert float(number) < 1024 or unit == "EiB"


def test_a_duration_of_thousands_of_parts_is_refused_before_it_is_read() -> None:
    assert parse_duration("1s" * 400) == 400 * 10**9
    with pytest.raises(ValueError, match="it has 40000 characters"):
        parse_duration("1s" * 20_000)
