"""How much a fast batch may send (ADR-50, client design and flow control), without a server."""

import pytest

from jetspark.client.jetstream.publishing.fast_window import FastWindow


@pytest.mark.parametrize(("flow", "acks"), [(10, 1), (10, 2), (1, 3)])
def test_no_more_than_the_outstanding_acks_allow_is_sent(flow: int, acks: int) -> None:
    window = FastWindow(flow, 0, acks)
    first = window.room()
    window.send_many(first)

    assert (first, window.room()) == (flow * acks, 0)


def test_an_ack_settles_all_earlier_ones_and_never_goes_back() -> None:
    """Acks for 10, 20, 30 and 40: the one for 40 stands for those that were lost."""
    window = FastWindow(10, 0, 4)
    window.send_many(40)
    window.on_ack(40, 10)
    room = window.room()
    window.on_ack(20, 10)

    assert (room, window.room(), window.acked) == (40, 40, 40)


def test_the_server_sets_the_pace() -> None:
    window = FastWindow(10, 0, 2)
    window.send_many(20)
    window.on_ack(10, 3)
    slower = window.room()
    window.on_ack(20, 3)
    slow = window.room()
    window.on_ack(20, 8)

    assert (slower, slow, window.room(), window.flow) == (0, 6, 16, 8)


def test_an_ack_for_what_was_not_sent_settles_only_what_was() -> None:
    window = FastWindow(10, 0, 2)
    window.send_many(5)
    window.on_ack(1000, 10)

    assert window.acked == 5


def test_bytes_are_counted_where_the_dialect_says_so() -> None:
    window = FastWindow(10, 1000, 2)
    for _ in range(4):
        assert window.room() == 1
        window.send(500)
    full = window.room()
    window.on_ack(1, 0, 1000)
    some = window.room()
    window.on_ack(4, 0, 100)
    window.send(200)

    assert (full, some, window.room(), window.flow) == (0, 1, 0, 0)
