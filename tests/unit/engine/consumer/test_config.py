"""Consumer configurations: limits of the server and the account, levels, what is compared.

Defaults, refusals and texts of every field are compared with nats-server itself in
tests/interop/consumers/test_config_differential.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from jetspark.api.base import encode
from jetspark.api.consumer import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.enums import AckPolicy, ConsumerAction
from jetspark.api.stream import ConsumerLimits, StreamConfig
from jetspark.engine.consumer.admission import admitted
from jetspark.engine.consumer.config import (
    INACTIVE_THRESHOLD,
    Ceilings,
    decode_consumer_config,
    prepare_config,
    with_threshold,
)
from jetspark.engine.refusal import Refusal

STREAM = StreamConfig(name="S", subjects=("s.>",))


@dataclass
class There:
    """A consumer that exists."""

    config: ConsumerConfig
    is_bound: bool = False

    def bound(self) -> bool:
        return self.is_bound


def explicit(**fields: Any) -> ConsumerConfig:
    return ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, **fields)


def code(refused: pytest.ExceptionInfo[Refusal]) -> tuple[int, str]:
    body = json.loads(refused.value.body)
    return body["err_code"], body["description"]


def test_the_smallest_limit_of_server_and_account_is_the_default_of_max_ack_pending() -> None:
    ceilings = Ceilings(server_max_ack_pending=500, account_max_ack_pending=300)

    assert prepare_config(explicit(), STREAM, ceilings).max_ack_pending == 300
    assert prepare_config(explicit(), STREAM).max_ack_pending == 1000
    assert prepare_config(ConsumerConfig(), STREAM, ceilings).max_ack_pending == 0


@pytest.mark.parametrize(
    ("ceilings", "limit"),
    [
        (Ceilings(server_max_ack_pending=500), 500),
        (Ceilings(account_max_ack_pending=300), 300),
        (Ceilings(server_max_ack_pending=500, account_max_ack_pending=300), 500),
    ],
)
def test_more_than_the_limit_is_refused_by_its_number(ceilings: Ceilings, limit: int) -> None:
    with pytest.raises(Refusal) as refused:
        prepare_config(explicit(max_ack_pending=501), STREAM, ceilings)

    assert code(refused) == (10121, f"consumer max ack pending exceeds system limit of {limit}")


def test_the_servers_batch_limit_is_a_default_and_a_bound_of_pull_consumers() -> None:
    ceilings = Ceilings(server_max_batch=50)

    assert prepare_config(explicit(), STREAM, ceilings).max_batch == 50
    assert prepare_config(explicit(deliver_subject="d"), STREAM, ceilings).max_batch == 0
    with pytest.raises(Refusal) as refused:
        prepare_config(explicit(max_batch=51), STREAM, ceilings)
    assert code(refused)[0] == 10125
    with pytest.raises(Refusal) as refused:
        prepare_config(explicit(), STREAM, ceilings, pedantic=True)
    assert code(refused)[0] == 10157


@pytest.mark.parametrize(
    ("of_stream", "of_account", "allowed"),
    [(2, 0, 2), (0, 1, 1), (2, 1, 1), (1, 2, 1), (-1, 0, 9)],
)
def test_the_smaller_number_of_consumers_counts(
    of_stream: int, of_account: int, allowed: int
) -> None:
    stream = StreamConfig(name="S", subjects=("s.>",), max_consumers=of_stream)
    there: dict[str, There] = {}
    for n in range(allowed):
        wanted = ConsumerCreateRequest(config=explicit(name=f"c{n}"))
        made = admitted(wanted, stream, there, Ceilings(account_max_consumers=of_account))
        there[made.name] = There(made)
    if allowed == 9:
        return

    with pytest.raises(Refusal) as refused:
        admitted(
            ConsumerCreateRequest(config=explicit(name="more")),
            stream,
            there,
            Ceilings(account_max_consumers=of_account),
        )

    assert code(refused)[0] == 10026


def test_the_limit_of_the_stream_is_named_as_go_writes_durations() -> None:
    limits = ConsumerLimits(inactive_threshold=90_000_000_000)  # type: ignore[arg-type]
    stream = StreamConfig(name="S", subjects=("s.>",), consumer_limits=limits)

    with pytest.raises(Refusal) as refused:
        prepare_config(explicit(inactive_threshold=91_000_000_000), stream)

    assert code(refused) == (10153, "consumer inactive threshold exceeds system limit of 1m30s")


def test_min_last_seq_is_kept_and_needs_level_2() -> None:
    """ADR-53; the level is that of the withdrawn code."""
    made = prepare_config(explicit(min_last_seq=7), STREAM)

    assert made.min_last_seq == 7
    assert made.metadata["_nats.req.level"] == "2"


def test_metadata_of_servers_does_not_count_when_configurations_are_compared() -> None:
    there = There(with_threshold(prepare_config(explicit(durable_name="c", name="c"), STREAM)))
    again = ConsumerCreateRequest(
        config=explicit(
            durable_name="c", name="c", metadata={"_nats.ver": "1", "_jetspark.x": "y"}
        ),
        action=ConsumerAction.CREATE,
    )

    assert admitted(again, STREAM, {"c": there}) == there.config


def test_only_a_consumer_that_is_not_durable_gets_a_threshold() -> None:
    assert with_threshold(explicit()).inactive_threshold == INACTIVE_THRESHOLD
    assert with_threshold(explicit(durable_name="c")).inactive_threshold == 0


def test_a_bound_deliver_subject_is_not_taken_away() -> None:
    """Bound 10013, unbound: the subject is changed."""
    config = prepare_config(explicit(durable_name="c", name="c", deliver_subject="d"), STREAM)
    wanted = ConsumerCreateRequest(
        config=explicit(durable_name="c", name="c", deliver_subject="e")
    )

    assert admitted(wanted, STREAM, {"c": There(config)}).deliver_subject == "e"
    with pytest.raises(Refusal) as refused:
        admitted(wanted, STREAM, {"c": There(config, is_bound=True)})
    assert code(refused)[0] == 10013


def test_a_configuration_is_found_as_it_was_stored() -> None:
    config = prepare_config(
        explicit(name="c", filter_subjects=("s.a", "s.b"), backoff=(1, 2), metadata={"k": "v"}),
        STREAM,
    )

    assert decode_consumer_config(encode(config)) == config
