"""Permissions against an evaluator that was written differently, and what must never happen."""

from __future__ import annotations

from tests.campaigns.permissions import Maker, judge_decisions, members

DECISIONS = 5_000


def test_decisions_equal_those_of_a_naive_evaluator() -> None:
    accepted = judge_decisions(DECISIONS, seed=20260815)

    assert DECISIONS // 10 < accepted < DECISIONS // 2, "the cases are neither all yes nor all no"


def test_no_subscription_ever_gets_what_is_not_allowed_or_what_is_denied() -> None:
    """Each subject that comes through is allowed by an entry and denied by none.

    This is what the lists are for; nats-server 2.15.1 does not hold it for ``>`` below ``*``.
    """
    maker = Maker(7)
    seen = 0
    while seen < 300:
        naive, ours = maker.pair()
        pattern, queue = maker.pattern(), maker.queue()
        if not ours.may_subscribe(pattern.encode(), queue.encode()):
            continue
        seen += 1
        allowed = frozenset[tuple[str, ...]]().union(
            *(members(entry) for entry, _ in naive.subscribe_allow or [(">", "")])
        )
        denied = frozenset[tuple[str, ...]]().union(
            *(members(entry) for entry, named in naive.subscribe_deny if not named)
        )
        got = {
            words
            for words in members(pattern)
            if not ours.needs_delivery_check
            or ours.may_deliver(".".join(words).encode(), queue.encode())
        }

        assert got <= allowed, (naive, pattern, queue)
        assert not got & denied, (naive, pattern, queue)
