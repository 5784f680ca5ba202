"""Durations, sizes and numbers of the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.cli.quantities import parse_duration, parse_size, show_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1h", 3600 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("1d3h5m2s", (86_400 + 3 * 3600 + 302) * SECOND),
        ("2w", 14 * 86_400 * SECOND),
        ("1M", 30 * 86_400 * SECOND),
        ("1y", 365 * 86_400 * SECOND),
        ("3us", 3_000),
    ],
)
def test_durations_have_natsclis_units(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "h", "10", "1 h", "-1h", "1x", "1h x", "9" * 30 + "y"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("512", 512), ("1K", 1024), ("10MB", 10 << 20), ("1GiB", 1 << 30), ("2t", 2 << 40)],
)
def test_sizes_count_in_1024s(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [(text, "size") for text in ("", "MB", "1.5MB", "-3", "1XB")] + [("9" * 30, "64 bits")],
)
def test_what_is_no_size_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_size(text)


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (12_340_000, "12.34ms"),
        (SECOND, "1s"),
        (120 * SECOND, "2m0s"),
        (93_784 * SECOND, "1d2h3m4s"),
        (400 * 86_400 * SECOND, "1y35d0h0m0s"),
        (-SECOND, "-1s"),
    ],
)
def test_durations_are_shown_in_the_units_they_are_given_in(ns: int, expected: str) -> None:
    assert show_duration(ns) == expected


@given(st.integers(0, 10**9))
def test_a_shown_duration_can_be_given(seconds: int) -> None:
    assert parse_duration(show_duration(seconds * SECOND)) == seconds * SECOND
