"""Output of large messages: all clients together write a limited part of it per turn."""

from __future__ import annotations

from collections.abc import Callable

from jetspark.server.net.large_writes import ONE, PIECE, TOGETHER, LargeWrites


class Loop:
    """Callbacks of the next turn."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.writes = LargeWrites(self.soon.append)

    def turn(self) -> None:
        soon = self.soon[:]
        self.soon.clear()
        for callback in soon:
            callback()


class Client:
    """A client that takes all it gets."""

    def __init__(self, loop: Loop, size: int) -> None:
        self._writes = loop.writes
        self.left = size
        self.failed: list[Exception] = []
        self.write_on(loop.writes.share())

    def write_on(self, size: int) -> None:
        """Write pieces."""
        written = min(-(-size // PIECE) * PIECE, self.left)
        self.left -= written
        self._writes.count(written)
        if self.left:
            self._writes.add(self)

    def fail(self, error: Exception) -> None:
        """Note why it was closed."""
        self.failed.append(error)


class Broken(Client):
    """A client whose transport raises."""

    def write_on(self, size: int) -> None:
        """Raise, but not at first."""
        if not size:
            super().write_on(size)
            return
        raise RuntimeError("no transport")


def test_one_client_writes_its_share_in_every_turn() -> None:
    loop = Loop()
    client = Client(loop, 3 * ONE)
    assert client.left == 2 * ONE
    loop.turn()
    assert client.left == ONE
    loop.turn()
    assert client.left == 0
    loop.turn()
    assert loop.soon == []


def test_all_clients_together_write_a_limited_part_in_a_turn() -> None:
    loop = Loop()
    size = 4 * PIECE
    clients = [Client(loop, size) for _ in range(100)]
    left = 100 * size
    while left:
        now = sum(client.left for client in clients)
        assert 0 < left - now <= TOGETHER, "in one turn"
        left = now
        if left:
            loop.turn()


def test_clients_that_wait_are_served_in_order_and_before_new_ones() -> None:
    loop = Loop()
    clients = [Client(loop, ONE + 2 * PIECE) for _ in range(40)]
    for _ in range(3):
        loop.turn()
    late = Client(loop, PIECE)
    assert late.left == PIECE, "others wait"
    for _ in range(6):
        loop.turn()
    assert late.left == 0, "it did not wait until the others had everything"
    assert any(client.left for client in clients)


def test_a_client_that_fails_is_closed_and_the_others_continue() -> None:
    loop = Loop()
    first = Client(loop, 3 * ONE)
    broken = Broken(loop, PIECE)
    last = Client(loop, PIECE)
    loop.turn()
    assert [str(error) for error in broken.failed] == ["no transport"]
    assert last.left == 0
    assert first.left < 2 * ONE
