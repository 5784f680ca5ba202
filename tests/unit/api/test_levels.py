"""API levels and server metadata."""

from typing import Any

import pytest

from jetspark.api.base import Timestamp, encode
from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import PersistMode, PriorityPolicy
from jetspark.api.levels import (
    answered_metadata,
    consumer_level,
    own_metadata,
    stored_metadata,
    stream_level,
)
from jetspark.api.stream import StreamConfig
from jetspark.units import seconds


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, 0),
        ({"allow_direct": True}, 0),
        ({"allow_msg_ttl": True}, 1),
        ({"subject_delete_marker_ttl": seconds(1)}, 1),
        ({"allow_msg_counter": True}, 2),
        ({"allow_atomic": True}, 2),
        ({"allow_msg_schedules": True}, 2),
        ({"persist_mode": PersistMode.ASYNC}, 2),
        ({"allow_batched": True}, 3),
        ({"allow_batched": True, "allow_msg_ttl": True}, 3),
    ],
)
def test_stream_level(fields: dict[str, Any], level: int) -> None:
    """wire.md, Streams; ``allow_batched`` is 3 (ADR-50, decisions.md)."""
    assert level == stream_level(StreamConfig(**fields))


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, 0),
        ({"pause_until": Timestamp(0)}, 0),
        ({"pause_until": Timestamp(1)}, 1),
        ({"priority_policy": PriorityPolicy.OVERFLOW}, 1),
        ({"priority_groups": ("g",)}, 1),
        ({"priority_timeout": seconds(1)}, 1),
        ({"min_last_seq": 1}, 2),
    ],
)
def test_consumer_level(fields: dict[str, Any], level: int) -> None:
    assert level == consumer_level(ConsumerConfig(**fields))


def test_answer_has_the_metadata_of_the_released_server() -> None:
    """Observed for ``{"z":"1","a":"2"}`` on a stream with ``allow_atomic``."""
    stored = stored_metadata({"z": "1", "a": "2"}, 2)

    assert encode(answered_metadata(stored)) == (
        b'{"_nats.level":"5","_nats.req.level":"2","_nats.ver":"2.15.1","a":"2","z":"1"}'
    )


def test_the_servers_metadata_wins_over_the_users() -> None:
    given = {
        "_nats.req.level": "99",
        "_nats.ver": "x",
        "_jetspark.durability": "none",
        "mine": "1",
    }

    assert stored_metadata(given, 0) == {"_nats.req.level": "0", "mine": "1"}


def test_comparing_ignores_what_servers_add() -> None:
    answered = answered_metadata(stored_metadata({"mine": "1"}, 3))

    assert own_metadata(answered) == {"mine": "1"}
