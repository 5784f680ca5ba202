"""Password checks: bounded, fair by address, and none for clients that left."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from jetspark.server.auth import password_checks
from jetspark.server.auth.password_checks import DROPS_PER_TURN, PasswordChecks


class Clients:
    """Clients whose checks wait until `go` is set, and are written down in order."""

    def __init__(self, checks: PasswordChecks) -> None:
        self.go = threading.Event()
        self.done: list[str] = []
        self.left: set[str] = set()
        self._checks = checks

    def login(self, name: str, address: str, user: str = "") -> asyncio.Task[bool | None]:
        def check() -> bool:
            self.go.wait(20)
            self.done.append(name)
            return True

        return asyncio.create_task(
            self._checks.run(address, user, check, lambda: name in self.left), name=name
        )


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "THREADS", 1)


@pytest.mark.usefixtures("one_thread")
async def test_addresses_take_turns_and_the_newest_of_each_is_first() -> None:
    checks = PasswordChecks()
    clients = Clients(checks)
    tasks = [clients.login("running", "1.1.1.1")]
    tasks += [clients.login(f"flood {n}", "1.1.1.1") for n in range(3)]
    tasks += [clients.login("other", "2.2.2.2")]
    await asyncio.sleep(0)
    clients.go.set()

    assert await asyncio.gather(*tasks) == [True] * 5
    assert clients.done == ["running", "flood 2", "other", "flood 1", "flood 0"]
    checks.close()


@pytest.mark.usefixtures("one_thread")
async def test_who_left_costs_no_check_while_others_wait() -> None:
    """The last one may only have ended its sending, which no one can tell apart."""
    checks = PasswordChecks()
    clients = Clients(checks)
    running = clients.login("running", "a")
    left = [clients.login(f"left {n}", "a") for n in range(100)]
    stays = clients.login("stays", "a")
    await asyncio.sleep(0)
    clients.left = {task.get_name() for task in left}
    clients.go.set()

    assert (await running, await stays) == (True, True)
    assert await asyncio.gather(*left) == [True] + [None] * 99
    assert clients.done == ["running", "stays", "left 0"]
    checks.close()


@pytest.mark.usefixtures("one_thread")
async def test_very_many_who_left_are_dropped_in_steps() -> None:
    checks = PasswordChecks()
    clients = Clients(checks)
    running = clients.login("running", "a")
    left = [clients.login(f"left {n}", "a") for n in range(500)]
    stays = clients.login("stays", "b")
    await asyncio.sleep(0)
    clients.left = {task.get_name() for task in left}
    clients.go.set()

    dropped = [0]
    while not stays.done() or dropped[-1] < 499:
        await asyncio.sleep(0)
        dropped.append(sum(task.done() for task in left))

    assert max(after - before for before, after in itertools.pairwise(dropped)) <= DROPS_PER_TURN
    assert (await running, await stays) == (True, True)
    assert await asyncio.gather(*left) == [True] + [None] * 499
    checks.close()


@pytest.mark.usefixtures("one_thread")
async def test_the_busiest_address_makes_room() -> None:
    checks = PasswordChecks(waiting_max=3)
    clients = Clients(checks)
    running = clients.login("running", "a")
    quiet = clients.login("quiet", "b")
    flood = [clients.login(f"flood {n}", "a") for n in range(10)]
    await asyncio.sleep(0.01)

    assert [task.result() if task.done() else "waits" for task in flood] == [None] * 8 + [
        "waits"
    ] * 2
    clients.go.set()
    assert await asyncio.gather(running, quiet, *flood[8:]) == [True] * 4
    checks.close()


async def test_without_a_thread_the_client_is_refused_and_the_next_one_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = PasswordChecks()
    clients = Clients(checks)
    clients.go.set()

    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert await clients.login("first", "a") is None

    assert await clients.login("second", "a") is True
    checks.close()


@pytest.mark.usefixtures("one_thread")
async def test_guesses_of_one_user_delay_others_of_the_address_by_one_check() -> None:
    """Also if they do not end: each of them comes after the other user's login."""
    checks = PasswordChecks()
    clients = Clients(checks)
    tasks = [clients.login("running", "a", "ann")]
    tasks += [clients.login(f"bob {n}", "a", "bob") for n in range(2)]
    tasks += [clients.login("ann 1", "a", "ann"), clients.login("cas", "a", "cas")]
    await asyncio.sleep(0)
    tasks += [clients.login(f"ann {n}", "a", "ann") for n in range(2, 5)]
    await asyncio.sleep(0)
    clients.go.set()

    assert await asyncio.gather(*tasks) == [True] * 8
    assert clients.done[:4] == ["running", "cas", "ann 4", "bob 1"]
    assert clients.done[4:] == ["ann 3", "bob 0", "ann 2", "ann 1"]
    checks.close()


@pytest.mark.usefixtures("one_thread")
async def test_the_busiest_user_of_the_busiest_address_makes_room() -> None:
    checks = PasswordChecks(waiting_max=3)
    clients = Clients(checks)
    running = clients.login("running", "a", "ann")
    quiet = clients.login("quiet", "a", "bob")
    flood = [clients.login(f"flood {n}", "a", "ann") for n in range(10)]
    await asyncio.sleep(0.01)

    assert not quiet.done()
    clients.go.set()
    assert await asyncio.gather(running, quiet, *flood[8:]) == [True] * 4
    checks.close()
