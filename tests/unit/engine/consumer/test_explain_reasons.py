"""Why a consumer delivers a message, or does not: the reasons in their order."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.api.enums import Outcome
from jetspark.engine.consumer.explain import Facts, explain

NOW = 1_763_190_000_000_000_000


def facts(**more: Any) -> Facts:
    """A message that nothing keeps back, and what the test says of it."""
    plain: dict[str, Any] = {
        "seq": 5,
        "first_seq": 1,
        "last_seq": 9,
        "subject": b"s.a",
        "receivers": 1,
    }
    return Facts(**(plain | more))


@pytest.mark.parametrize(
    ("more", "outcome", "words"),
    [
        ({"subject": b"", "seq": 12}, Outcome.NOT_STORED, "ends at sequence 9"),
        ({"subject": b"", "first_seq": 7}, Outcome.NOT_STORED, "starts at sequence 7"),
        ({"subject": b""}, Outcome.NOT_STORED, "deleted"),
        ({"matches": False}, Outcome.FILTERED, "'s.a' matches none"),
        (
            {"spent": True, "deliveries": 3, "max_deliver": 3, "passed": True},
            Outcome.MAX_DELIVER,
            "max_deliver is 3",
        ),
        (
            {"passed": True, "before_start": True},
            Outcome.BEFORE_START,
            "the consumer's deliver policy",
        ),
        ({"passed": True}, Outcome.ACKNOWLEDGED, "acknowledged"),
        ({"passed": True, "acks": False}, Outcome.DELIVERED, "no acknowledgements"),
        ({"min_last_seq": 20}, Outcome.GATED, "min_last_seq 20; it is at 9"),
        ({"receivers": 0}, Outcome.NO_PULL, "no pull request"),
        ({"receivers": 0, "push": True}, Outcome.NO_INTEREST, "deliver subject"),
        (
            {"limited": True, "ack_pending": 7, "max_ack_pending": 7},
            Outcome.MAX_ACK_PENDING,
            "max_ack_pending is 7",
        ),
        ({"stalled": True}, Outcome.STALLED, "flow control"),
        ({}, Outcome.NEXT, "delivered next"),
        ({"ahead": 4}, Outcome.NEXT, "after 4 others"),
    ],
)
def test_each_reason_has_its_word_and_its_sentence(
    more: dict[str, Any], outcome: Outcome, words: str
) -> None:
    verdict = explain(facts(**more))

    assert verdict.outcome == outcome
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"pending": True, "passed": True, "deliveries": 2, "due_ns": NOW}, Outcome.ACK_PENDING),
        ({"paused_until": NOW}, Outcome.PAUSED),
        ({"paced_until": NOW}, Outcome.PACED),
    ],
)
def test_a_temporary_problem_says_when_it_ends(more: dict[str, Any], outcome: Outcome) -> None:
    verdict = explain(facts(**more))

    assert (verdict.outcome, verdict.until_ns) == (outcome, NOW)


def test_a_message_that_is_due_again_waits_for_the_same_as_a_new_one() -> None:
    due = {"pending": True, "passed": True, "deliveries": 1}

    assert explain(facts(**due, receivers=0)).outcome == Outcome.NO_PULL
    assert explain(facts(**due)).reason == "nothing blocks it: it is delivered again next"


def test_max_ack_pending_does_not_keep_back_what_is_delivered_again() -> None:
    """It counts already."""
    due = {"pending": True, "passed": True, "deliveries": 1, "limited": True}

    assert explain(facts(**due)).outcome == Outcome.NEXT


def test_the_gate_comes_before_the_pause_and_the_pause_before_the_receiver() -> None:
    shut = {"min_last_seq": 20, "paused_until": NOW, "receivers": 0}

    assert explain(facts(**shut)).outcome == Outcome.GATED
    assert explain(facts(**shut | {"min_last_seq": 0})).outcome == Outcome.PAUSED
    assert explain(facts(**shut | {"min_last_seq": 0, "paused_until": 0})).outcome == (
        Outcome.NO_PULL
    )
