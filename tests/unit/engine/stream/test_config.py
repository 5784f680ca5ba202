"""Stream configurations: the rows of decisions.md, and what this version refuses by name.

Defaults, bounds and texts of every field are compared with nats-server itself in
tests/interop/api/test_differential.py.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.config import checked, decode_config, prepared


def made(**fields: Any) -> StreamConfig:
    return checked(StreamConfig(name="S", **fields), pedantic=False, find=lambda _name: None)


def refused(**fields: Any) -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        prepared(StreamConfig(name="S", **fields))
    answer: dict[str, Any] = msgspec.json.decode(caught.value.body)
    return answer


@pytest.mark.parametrize("given", [False, True])
def test_a_limit_per_subject_allows_direct_get(*, given: bool) -> None:
    """ADR-31, decisions.md: set to true by the server, also over an explicit false."""
    assert made(max_msgs_per_subject=1, allow_direct=given).allow_direct is True
    assert made(allow_direct=given).allow_direct is given


def test_the_level_a_stream_needs_is_kept_with_it() -> None:
    """Allow_atomic 2, allow_batched 3 (ADR-50)."""
    levels = [
        made().metadata["_nats.req.level"],
        made(allow_msg_ttl=True).metadata["_nats.req.level"],
        made(allow_atomic=True).metadata["_nats.req.level"],
        made(allow_batched=True, allow_atomic=True).metadata["_nats.req.level"],
    ]

    assert levels == ["0", "1", "2", "3"]


def test_metadata_of_servers_is_not_the_users() -> None:
    """`_nats.*` and `_jetspark.*` are ignored when configurations are compared."""
    ours = {"_nats.ver": "1", "_nats.level": "9", "_jetspark.durability": "none"}

    assert made(metadata={"a": "b"} | ours) == made(metadata={"a": "b"})
    assert made(metadata=ours).metadata == {"_nats.req.level": "0"}


def test_a_configuration_is_found_as_it_was_stored() -> None:
    config = made(subjects=("a", "b.>"), description="x", metadata={"k": "v"})

    assert decode_config(msgspec.json.encode(config)) == config


def test_the_first_of_two_mistakes_is_named() -> None:
    """The order of the released server: limits before subjects, subjects before replicas."""
    assert "max age" in refused(max_age=1, subjects=("a..b",))["description"]
    assert refused(num_replicas=3, subjects=("a..b",))["description"] == "invalid subject"
    assert refused(num_replicas=3)["err_code"] == 10074
