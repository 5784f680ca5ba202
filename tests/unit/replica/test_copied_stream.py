"""What a copy is like, and what is copied (docs/replicas.md)."""

from __future__ import annotations

import pytest

from jetspark.api.base import Timestamp
from jetspark.api.enums import Discard, Retention, Storage
from jetspark.api.stream import StreamConfig
from jetspark.replica.bridge import shown
from jetspark.replica.copied_stream import copied_settings, copy_config, problem, wanted
from jetspark.units import ByteCount, Nanoseconds

CREATED = Timestamp(1_700_000_000_000_000_001)


def test_names_are_chosen_as_in_a_shell() -> None:
    patterns = ("KV_*", "ORDERS", "A?")

    assert [name for name in ("KV_x", "kv_x", "ORDERS", "ORDERS2", "AB", "A") if
            wanted(name, patterns)] == ["KV_x", "ORDERS", "AB"]  # fmt: skip


def test_a_copy_has_the_limits_that_remove_the_same_messages() -> None:
    origin = StreamConfig(
        name="S", subjects=("s.>",), max_msgs=10, max_msgs_per_subject=2, max_age=Nanoseconds(5),
        max_bytes=ByteCount(100), allow_rollup_hdrs=True, allow_msg_ttl=True, num_replicas=3,
        subject_delete_marker_ttl=Nanoseconds(1), storage=Storage.MEMORY, deny_purge=False,
    )  # fmt: skip

    copy = copy_config(origin, "hub", CREATED, whole=False)

    assert copy.mirror is not None
    assert copy.mirror.external is not None
    assert (copy.mirror.name, copy.mirror.external.api) == ("S", "$JS.hub.API")
    assert (copy.max_msgs, copy.max_msgs_per_subject, copy.max_age) == (10, 2, 5)
    assert (copy.allow_rollup_hdrs, copy.allow_msg_ttl, copy.storage) == (True, True, "memory")
    # Counted differently elsewhere, or the origin's to write, or of no use here.
    assert (copy.max_bytes, copy.subject_delete_marker_ttl, copy.num_replicas) == (-1, 0, 1)
    assert copy.subjects == ()


def test_an_origin_that_refuses_when_full_has_a_copy_that_removes_nothing() -> None:
    origin = StreamConfig(name="S", max_msgs=10, discard=Discard.NEW)

    assert copy_config(origin, "hub", CREATED, whole=False).max_msgs == -1


def test_what_the_server_fills_in_is_no_change_of_the_origin() -> None:
    copy = copy_config(StreamConfig(name="S"), "hub", CREATED, whole=True)
    kept = StreamConfig(
        **{
            **{field: getattr(copy, field) for field in copy.__struct_fields__},
            "duplicate_window": Nanoseconds(120_000_000_000),
            "metadata": {**copy.metadata, "_nats.level": "0"},
        }
    )

    assert copied_settings(kept) == copied_settings(copy)
    assert copied_settings(copy_config(StreamConfig(name="S"), "hub", CREATED, whole=False)) != (
        copied_settings(copy)
    )


@pytest.mark.parametrize("retention", [Retention.INTEREST, Retention.WORKQUEUE])
def test_streams_that_lose_what_is_acknowledged_are_not_copied(retention: Retention) -> None:
    assert retention.value in problem(StreamConfig(name="S", retention=retention))
    assert problem(StreamConfig(name="S")) == ""


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"stream":"S","seq":12}', ("S", 12)),
        (b'{"stream":"S", "seq":12,"duplicate": true}', ("S", 12)),
        (b'{"stream":"S","domain":"d","seq":7}', ("S", 7)),
        (b'{"stream":"S"}', ("S", 0)),
        (b'{"stream":"', ("", 0)),
        (
            (
                b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"S",'
                b'"subjects":["a"]},"state":{"messages":1,"last_seq":9,"last_ts":""}}'
            ),
            ("S", 9),
        ),
        (b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{}}', ("", 0)),
        (
            (
                b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 253"},'
                b'"stream":"KV_cfg","seq":0}'
            ),
            ("KV_cfg", 253),
        ),
        (b'{"error":{"code":400,"err_code":10071,"description":"other"}}', ("", 0)),
    ],
)
def test_sequences_that_clients_are_shown_are_read(
    payload: bytes, expected: tuple[str, int]
) -> None:
    assert shown(payload) == expected
