"""Where micro-batches begin and end (spark.md 6.2): offsets, limits, loss. No Spark, no server."""

import pytest

from jetspark.spark.offsets import Offset, OffsetRefused, decode_offset, encode_offset
from jetspark.spark.options import TriggerLimits
from jetspark.spark.planner import DataLoss, StreamBounds, admit, check_position

MADE = "2026-11-15T12:00:00Z"


def test_an_offset_survives_the_checkpoint() -> None:
    offset = Offset(1001, MADE)

    kept = encode_offset("ORDERS", offset)

    assert kept == {"v": 1, "streams": {"ORDERS": {"next": 1001, "created": MADE}}}
    assert decode_offset("ORDERS", kept) == offset


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ({"v": 2, "streams": {}}, "version 2"),
        ({}, "version None"),
        ({"v": 1, "streams": {"OTHER": {}}}, "offsets of OTHER, this query reads 'ORDERS'"),
        ({"v": 1, "streams": 7}, "another read"),
        ({"v": 1, "streams": {"ORDERS": {"next": "x", "created": MADE}}}, "no sequence"),
        ({"v": 1, "streams": {"ORDERS": {"next": 1}}}, "no time"),
    ],
)
def test_what_another_read_or_version_wrote_is_refused(kept: dict[str, object], text: str) -> None:
    with pytest.raises(OffsetRefused, match=text):
        decode_offset("ORDERS", kept)


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (TriggerLimits(), 501),
        (TriggerLimits(max_offsets=100), 201),
        (TriggerLimits(max_offsets=1000), 501),
        (TriggerLimits(max_bytes=2000), 121),
        (TriggerLimits(max_bytes=10), 102),
        (TriggerLimits(max_offsets=7, max_bytes=2000), 108),
    ],
)
def test_a_micro_batch_takes_what_all_limits_allow(limits: TriggerLimits, end: int) -> None:
    assert admit(101, 501, limits, mean_size=100.0, waited_s=0.0) == end


@pytest.mark.parametrize(("waited", "end"), [(0.0, 101), (9.9, 101), (10.0, 151), (None, 151)])
def test_few_messages_wait_for_more_but_not_for_ever(waited: float | None, end: int) -> None:
    limits = TriggerLimits(min_offsets=100, max_delay_s=10.0)

    assert admit(101, 151, limits, mean_size=1.0, waited_s=waited) == end


def test_nothing_new_is_nothing_to_read() -> None:
    assert admit(101, 101, TriggerLimits(max_bytes=1), mean_size=0.0, waited_s=None) == 101


def test_a_read_goes_on_where_it_was() -> None:
    assert check_position("S", Offset(50, MADE), MADE, StreamBounds(1, 100)) == 50
    assert check_position("S", Offset(101, MADE), MADE, StreamBounds(101, 100)) == 101


@pytest.mark.parametrize(
    ("created", "bounds", "resume_at", "text"),
    [
        ("2026-11-15T13:00:00Z", StreamBounds(1, 100), 1, "was made anew"),
        (MADE, StreamBounds(60, 100), 60, "begins at 60"),
        (MADE, StreamBounds(1, 20), 21, "ends at 20"),
    ],
)
def test_a_stream_that_lost_messages_is_noticed(
    created: str, bounds: StreamBounds, resume_at: int, text: str
) -> None:
    with pytest.raises(DataLoss, match=text) as caught:
        check_position("S", Offset(50, MADE), created, bounds)

    assert caught.value.resume_at == resume_at
