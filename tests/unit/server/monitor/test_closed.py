"""Closed connections are kept within bounds."""

from __future__ import annotations

from tests.support.monitor_fakes import START, FakeConnection, FakeSubscription

from jetspark.server.monitor.closed import ClosedConnections
from jetspark.server.monitor.traffic import Traffic


def with_subscriptions(cid: int, count: int) -> FakeConnection:
    return FakeConnection(cid=cid, subs=[FakeSubscription(b"s%d" % n) for n in range(count)])


def test_the_oldest_is_forgotten_when_there_is_no_room() -> None:
    closed = ClosedConnections(count_max=2)
    for cid in (1, 2, 3):
        closed.add(with_subscriptions(cid, 1), START, "Client Closed")

    assert [each.cid for each in closed] == [2, 3]
    assert len(closed) == 2


def test_old_connections_lose_their_lists_before_the_bound_is_passed() -> None:
    closed = ClosedConnections(subscriptions_max=5)
    for cid in (1, 2, 3):
        closed.add(with_subscriptions(cid, 2), START, "Client Closed")

    assert [len(each.subscriptions()) for each in closed] == [0, 2, 2]
    assert [each.subscription_count for each in closed] == [2, 2, 2]


def test_a_list_that_alone_is_too_long_is_not_kept() -> None:
    closed = ClosedConnections(subscriptions_max=5)
    closed.add(with_subscriptions(1, 3), START, "Client Closed")
    closed.add(with_subscriptions(2, 6), START, "Client Closed")

    assert [len(each.subscriptions()) for each in closed] == [3, 0]


def test_a_forgotten_list_makes_room_again() -> None:
    closed = ClosedConnections(count_max=1, subscriptions_max=4)
    for cid in range(1, 9):
        closed.add(with_subscriptions(cid, cid % 3), START, "Client Closed")

    assert [(each.cid, len(each.subscriptions())) for each in closed] == [(8, 2)]


def test_nothing_is_kept_when_nothing_may_be() -> None:
    """nats-server: max_closed_clients -1 keeps none."""
    closed = ClosedConnections(count_max=-1)
    closed.add(with_subscriptions(1, 1), START, "Client Closed")

    assert len(closed) == 0


def test_what_was_counted_stays_as_it_was() -> None:
    connection = FakeConnection(cid=1, traffic=Traffic(in_msgs=3))
    closed = ClosedConnections()
    closed.add(connection, START, "Client Closed")
    connection.traffic.in_msgs = 99

    assert next(iter(closed)).traffic.in_msgs == 3
