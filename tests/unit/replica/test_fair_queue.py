"""Clients of a replica take turns on its one connection to the leader."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetspark.replica.fair_queue import (
    LANE_BYTES,
    UNREAD_BYTES,
    WAIT_SECONDS,
    WINDOW_FIRST,
    WINDOW_MOST,
    FairQueue,
    LinkState,
    cost,
)
from jetspark.server.routing.client import ConnectedClient


class FakeClient:
    """A client, as far as the queue knows it."""

    def __init__(self) -> None:
        self.closing = False
        self.pongs = 0
        self.held = 0
        self.unread = 0
        self.receiver = SimpleNamespace(connection=self, out_max=64 * 1024 * 1024)

    def answer_ping(self) -> None:
        self.pongs += 1

    def pause_reading(self) -> None:
        self.held += 1

    def resume_reading(self) -> None:
        self.held -= 1

    def waiting_bytes(self) -> int:
        return self.unread


class FakeLeader:
    """Keeps what it is sent, and confirms it when it is asked to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.state = LinkState.OPEN
        self.sent: list[bytes] = []
        self.refused: list[bytes] = []
        self.pings: list[asyncio.Future[None]] = []

    def link_state(self) -> LinkState:
        return self.state

    def carry(self, frames: list[bytes]) -> None:
        self.sent += frames

    def ping_leader(self) -> asyncio.Future[None]:
        self.pings.append(asyncio.get_running_loop().create_future())
        return self.pings[-1]

    def refuse(self, client: ConnectedClient, frame: bytes) -> None:  # noqa: ARG002
        self.refused.append(frame)

    def flush_clients(self) -> None:
        pass

    async def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that is due."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    async def confirm(self, seconds: float = 0.001) -> None:
        """Answer the PINGs that have come."""
        self.now += seconds
        pings, self.pings = self.pings, []
        for ping in pings:
            ping.set_result(None)
        await self.settle()


def made() -> tuple[FakeLeader, FairQueue]:
    leader = FakeLeader()
    loop = asyncio.get_running_loop()
    return leader, FairQueue(leader, loop, lambda: leader.now)


def client() -> Any:
    return cast("Any", FakeClient())


def message(name: str, n: int, size: int = 0) -> bytes:
    return b"PUB %s.%d %d\r\n%s\r\n" % (name.encode(), n, size, b"x" * size)


async def test_a_second_client_waits_for_what_is_in_progress_and_not_for_what_waits() -> None:
    leader, queue = made()
    flooder, other = client(), client()
    for n in range(10_000):
        queue.put(flooder, message("a", n))
    await leader.settle()
    before = len(leader.sent)
    queue.put(other, message("b", 0))
    await leader.confirm()

    assert before <= WINDOW_FIRST
    assert leader.sent.index(message("b", 0)) < 3 * WINDOW_FIRST


async def test_requests_to_the_api_count_for_more_than_messages() -> None:
    leader, queue = made()
    flooder = client()
    request = b"PUB $JS.API.STREAM.LIST _INBOX.1 0\r\n\r\n"
    for _ in range(1000):
        queue.put(flooder, request)
    await leader.settle()

    assert len(leader.sent) <= WINDOW_FIRST // cost(request) + 1


async def test_clients_with_large_messages_get_no_more_than_others() -> None:
    leader, queue = made()
    large, small = client(), client()
    for n in range(100):
        queue.put(large, message("a", n, 100_000))
    for n in range(3000):
        queue.put(small, message("b", n))
    while len(leader.sent) < 3100:
        await leader.settle()
        await leader.confirm()
    before = leader.sent[: leader.sent.index(message("b", 2999))]
    carried = sum(frame.startswith(b"PUB a") for frame in before)

    # 100 units each, as much as a hundred small ones.
    assert 10 <= carried <= 50


async def test_everything_a_client_does_keeps_its_order() -> None:
    leader, queue = made()
    busy = client()
    done: list[int] = []
    for n in range(2000):
        queue.put(busy, message("a", n))
        if n % 500 == 499:
            queue.in_order(busy, lambda: done.append(len(leader.sent)))
            queue.put_ping(busy)
    pongs = []
    while len(leader.sent) < 2000:
        await leader.settle()
        pongs.append((busy.pongs, len(leader.sent)))
        await leader.confirm()
    await leader.settle()
    await leader.confirm()

    assert leader.sent == [message("a", n) for n in range(2000)]
    assert done == [500, 1000, 1500, 2000]
    assert all(count * 500 <= sent for count, sent in pongs)
    assert busy.pongs == 4


async def test_a_leader_that_is_quick_has_more_in_progress_and_one_that_is_slow_less() -> None:
    async def under_way(seconds: float) -> int:
        leader, queue = made()
        busy = client()
        for n in range(60_000):
            queue.put(busy, message("a", n))
        await leader.settle()
        before = 0
        for _ in range(5):
            before = len(leader.sent)
            await leader.confirm(seconds)
        return len(leader.sent) - before

    quick = await under_way(0.0005)
    slow = await under_way(0.2)

    assert 1000 < quick <= WINDOW_MOST
    assert slow < WINDOW_FIRST * 2


async def test_a_far_leader_has_a_round_trip_of_work_in_progress() -> None:
    leader, queue = made()
    busy = client()
    queue.put(busy, message("a", 0))
    for _ in range(3):  # an idle connection is measured
        await leader.confirm(0.05)
        await leader.settle(2.0)
        queue.put(busy, message("a", 0))
        await leader.settle()
    for n in range(60_000):
        queue.put(busy, message("a", n))
    rounds = 0
    while len(leader.sent) < 30_000:
        rounds += 1
        await leader.settle()
        await leader.confirm(0.05)

    assert rounds < 30


async def test_a_client_whose_lane_is_full_is_not_read_until_there_is_room() -> None:
    leader, queue = made()
    flooder, other = client(), client()
    size = 0
    n = 0
    while not flooder.held:
        frame = message("a", n, 1000)
        size += len(frame)
        queue.put(flooder, frame)
        n += 1
    queue.put(other, message("b", 0))

    assert size <= LANE_BYTES + 2000
    assert not other.held
    while len(leader.sent) < n + 1:
        await leader.settle()
        await leader.confirm()
    assert not flooder.held


async def test_a_client_that_reads_no_answers_asks_for_no_more_and_is_not_cut() -> None:
    leader, queue = made()
    lazy, other = client(), client()
    lazy.unread = lazy.receiver.out_max // 2 + 1
    for n in range(100):
        queue.put(lazy, message("a", n))
    queue.put(other, message("b", 0))
    await leader.settle()
    assert leader.sent == [message("b", 0)]

    lazy.unread = UNREAD_BYTES - 1
    async with asyncio.timeout(10):
        while len(leader.sent) < 101:
            await asyncio.sleep(0.01)
    assert leader.sent[1:] == [message("a", n) for n in range(100)]


async def test_without_a_leader_what_waits_is_refused_in_order_and_pings_are_answered() -> None:
    leader, queue = made()
    busy = client()
    done: list[int] = []
    for n in range(5000):
        queue.put(busy, message("a", n))
    queue.in_order(busy, lambda: done.append(len(leader.refused)))
    queue.put_ping(busy)
    await leader.settle()
    sent = len(leader.sent)
    leader.state = LinkState.NONE
    queue.lost()
    for _ in range(10):
        await leader.settle()

    assert leader.refused == [message("a", n) for n in range(sent, 5000)]
    assert done == [5000 - sent]
    assert busy.pongs == 1
    assert busy.held == 0


async def test_pings_of_an_unreachable_or_silent_leader_are_answered() -> None:
    leader, queue = made()
    asking = client()
    queue.put_ping(asking)
    await leader.settle()
    assert asking.pongs == 0
    queue.lost()
    assert asking.pongs == 1


async def test_a_connection_that_is_being_made_is_waited_for_but_not_for_ever() -> None:
    leader, queue = made()
    leader.state = LinkState.WAIT
    early, late = client(), client()
    queue.put(early, message("a", 0))
    await leader.settle()
    assert (leader.sent, leader.refused) == ([], [])
    leader.state = LinkState.OPEN
    queue.work()
    assert leader.sent == [message("a", 0)]

    leader.state = LinkState.WAIT
    queue.put(late, message("b", 0))
    await leader.settle()
    await leader.settle(WAIT_SECONDS + 1)
    queue.work()
    assert leader.refused == [message("b", 0)]


async def test_what_a_client_sent_before_it_left_goes_its_way() -> None:
    leader, queue = made()
    gone = client()
    for n in range(1000):
        queue.put(gone, message("a", n))
    queue.forget(gone)
    while len(leader.sent) < 1000:
        await leader.settle()
        await leader.confirm()

    assert leader.sent[-1] == message("a", 999)
    assert queue.clients == 0


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_failure_for_one_client_does_not_stop_the_others(failing: int) -> None:
    leader, queue = made()
    clients = [client(), client()]

    def fail() -> None:
        raise ValueError

    for n, one in enumerate(clients):
        queue.put(one, message("a", n))
        if n == failing:
            queue.in_order(one, fail)
        queue.put(one, message("b", n))
    await leader.settle()

    assert sorted(leader.sent) == sorted(message(name, n) for n in range(2) for name in "ab")
