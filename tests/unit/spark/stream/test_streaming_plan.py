"""Where micro-batches begin and end: offsets, limits, loss. No Spark, no server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.spark.stream.offsets import (
    BatchPlan,
    Offset,
    OffsetRefused,
    decode_offsets,
    encode_offsets,
    of_another_read,
)
from jetspark.spark.stream.options import OnRecreate, TriggerLimits
from jetspark.spark.stream.planner import (
    DataLoss,
    StreamBounds,
    StreamRecreated,
    Unread,
    admit,
    check_position,
    planned_ranges,
    share,
)

MADE = "2026-11-15T12:00:00Z"


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (Offset(1001, MADE), {}),
        (Offset(1001, MADE, BatchPlan(1)), {"from": 1}),
        (
            Offset(1001, MADE, BatchPlan(1, (251, 501), ("a.>", "b"))),
            {"from": 1, "cuts": [251, 501], "subjects": ["a.>", "b"]},
        ),
        (
            Offset(8, MADE, BatchPlan(0, (), ("$KV.B.a",), (4, 100))),
            {"from": 0, "subjects": ["$KV.B.a"], "split": [4, 100]},
        ),
    ],
)
def test_an_offset_survives_the_checkpoint(offset: Offset, place: dict[str, object]) -> None:
    kept = encode_offsets({"ORDERS": offset})

    expected = {"next": offset.next, "created": MADE, **place}
    assert kept == {"v": 2, "streams": {"ORDERS": expected}}
    assert decode_offsets(json.loads(json.dumps(kept)), lowest=0) == {"ORDERS": offset}


def test_an_offset_of_the_version_before_is_read_without_a_plan() -> None:
    kept = {"v": 1, "streams": {"ORDERS": {"next": 1001, "created": MADE}}}

    assert decode_offsets(kept) == {"ORDERS": Offset(1001, MADE, None, planned=False)}


def _place(**more: object) -> dict[str, object]:
    return {"v": 2, "streams": {"ORDERS": {"next": 100, "created": MADE, **more}}}


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ({"v": 3, "streams": {}}, "version 3, this jetspark reads versions 1 and 2. Continue"),
        ({"v": True}, "version True"),
        ({}, "version None"),
        ({"v": 1, "streams": 7}, "no streams"),
        ({"v": 1, "streams": {"ORDERS": 7}}, "no sequence in 'next'"),
        ({"v": 1, "streams": {"ORDERS": {"next": "x", "created": MADE}}}, "no sequence"),
        ({"v": 1, "streams": {"ORDERS": {"next": 1}}}, "no time"),
        (_place(**{"from": 101}), "in 'from'"),
        (_place(**{"from": True}), "in 'from'"),
        (_place(**{"from": 1, "cuts": [50, 50]}), "no rising sequences"),
        (_place(**{"from": 1, "cuts": [100]}), "no rising sequences"),
        (_place(**{"from": 1, "cuts": "x"}), "no list of sequences"),
        (_place(**{"from": 1, "subjects": [1]}), "no list of filters"),
        (_place(**{"from": 1, "split": [1]}), "no two numbers.*new checkpointLocation"),
    ],
)
def test_what_another_read_or_version_wrote_is_refused(kept: dict[str, object], text: str) -> None:
    with pytest.raises(OffsetRefused, match=text):
        decode_offsets(kept)


def test_a_checkpoint_of_another_read_is_refused_with_how_to_continue() -> None:
    one = of_another_read({"OTHER": Offset(7, MADE)}, "'ORDERS'")
    several = of_another_read({"A": Offset(7, MADE), "B": Offset(8, MADE)}, "'ORDERS'")

    assert "offsets of OTHER, this query reads 'ORDERS'" in str(one)
    assert 'startingOffsets", "7") there to continue after sequence 6' in str(one)
    assert "offsets of A, B, this query reads 'ORDERS'" in str(several)


def test_an_offset_has_a_place_for_each_stream_in_the_order_of_names() -> None:
    offsets = {
        "B": Offset(8, MADE, BatchPlan(5, (6,), ("b",))),
        "A": Offset(7, MADE, BatchPlan(1)).reached(),
        "C": Offset(1, MADE),
    }

    kept = encode_offsets(offsets)

    assert list(kept["streams"]) == ["A", "B", "C"]
    assert decode_offsets(json.loads(json.dumps(kept))) == offsets
    assert offsets["A"] == Offset(7, MADE, subjects=())


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
    assert admit([Unread(101, 501, 100.0)], limits, waited_s=0.0) == [end]


@pytest.mark.parametrize(("waited", "end"), [(0.0, 101), (9.9, 101), (10.0, 151), (None, 151)])
def test_few_messages_wait_for_more_but_not_for_ever(waited: float | None, end: int) -> None:
    limits = TriggerLimits(min_offsets=100, max_delay_s=10.0)

    assert admit([Unread(101, 151, 1.0)], limits, waited_s=waited) == [end]


def test_nothing_new_is_nothing_to_read() -> None:
    limits = TriggerLimits(max_bytes=1)

    assert admit([Unread(101, 101, 0.0)], limits, waited_s=None) == [101]
    assert admit([], limits, waited_s=None) == []


@pytest.mark.parametrize(
    ("limit", "wanted", "turn", "shares"),
    [
        (10, [3, 4], 0, [3, 4]),
        (10, [90, 10], 0, [9, 1]),
        (10, [1000, 1], 0, [9, 1]),
        (100, [1000, 500, 0], 0, [67, 33, 0]),
        (2, [5, 5, 5], 0, [1, 1, 0]),
        (2, [5, 5, 5], 2, [1, 0, 1]),
        (1, [5, 0, 5], 1, [0, 0, 1]),
        (2**62, [2**62, 2**62], 0, [2**61, 2**61]),
    ],
)
def test_streams_share_a_limit_by_what_they_have(
    limit: int, wanted: list[int], turn: int, shares: list[int]
) -> None:
    assert share(limit, wanted, turn=turn) == shares


@given(
    limit=st.integers(0, 100),
    wanted=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    turn=st.integers(0, 9),
)
def test_a_shared_limit_is_used_up_and_never_exceeded(
    limit: int, wanted: list[int], turn: int
) -> None:
    shares = share(limit, wanted, turn=turn)

    assert sum(shares) == min(limit, sum(wanted))
    assert all(0 <= have <= want for have, want in zip(shares, wanted, strict=True))


def test_streams_take_turns_if_the_limit_is_less_than_a_message_of_each() -> None:
    limits = TriggerLimits(max_bytes=1)
    unread = [Unread(1, 9, 500.0), Unread(1, 9, 500.0)]

    assert [admit(unread, limits, waited_s=None, turn=turn) for turn in (0, 1, 2)] == [
        [2, 1],
        [1, 2],
        [2, 1],
    ]


def test_bytes_are_shared_by_size() -> None:
    unread = [Unread(1, 101, 10.0), Unread(1, 101, 1000.0), Unread(7, 7, 0.0)]

    ends = admit(unread, TriggerLimits(max_bytes=10_200), waited_s=None)

    assert ends == [11, 11, 7]


def test_few_messages_of_all_streams_together_wait() -> None:
    limits = TriggerLimits(min_offsets=10, max_delay_s=60.0)

    assert admit([Unread(1, 5, 1.0), Unread(3, 8, 1.0)], limits, waited_s=1.0) == [1, 3]
    assert admit([Unread(1, 6, 1.0), Unread(3, 8, 1.0)], limits, waited_s=1.0) == [6, 8]


def test_a_read_continues_where_it_was() -> None:
    assert check_position("S", Offset(50, MADE), MADE, StreamBounds(1, 100)) == 50
    assert check_position("S", Offset(101, MADE), MADE, StreamBounds(101, 100)) == 101


@pytest.mark.parametrize(
    ("created", "bounds", "resume_at", "text"),
    [
        ("2026-11-15T13:00:00Z", StreamBounds(1, 100), 1, "was created again"),
        (MADE, StreamBounds(60, 100), 60, "starts at 60"),
        (MADE, StreamBounds(1, 20), 21, "ends at 20"),
    ],
)
def test_a_stream_that_lost_messages_is_noticed(
    created: str, bounds: StreamBounds, resume_at: int, text: str
) -> None:
    with pytest.raises(DataLoss, match=text) as caught:
        check_position("S", Offset(50, MADE), created, bounds)

    assert caught.value.resume_at == resume_at


NEW = "2026-11-15T13:00:00Z"


def test_a_stream_created_again_is_read_as_the_option_says() -> None:
    bounds, start = StreamBounds(3, 100), Offset(50, MADE)

    assert check_position("S", start, NEW, bounds, OnRecreate.EARLIEST) == 3
    assert check_position("S", start, NEW, bounds, OnRecreate.CONTINUE) == 50
    with pytest.raises(StreamRecreated, match=r"earliest.*continue at 50.*fail"):
        check_position("S", start, NEW, bounds, OnRecreate.FAIL)
    with pytest.raises(StreamRecreated, match="this one ends at 48: it is not a complete copy"):
        check_position("S", start, NEW, StreamBounds(1, 48), OnRecreate.CONTINUE)


def test_a_partition_that_lost_its_messages_keeps_its_number() -> None:
    plan = BatchPlan(1, (26, 51, 76))

    ranges = planned_ranges(plan, 101, StreamBounds(60, 90))

    assert ranges == [(26, 26), (51, 51), (60, 76), (76, 91)]
