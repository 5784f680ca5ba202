"""Output of a chunk: written once per client, by the shortest way."""

from collections.abc import Callable

import pytest

from jetspark.server.routing.flusher import Flusher
from jetspark.server.routing.receiver import Pending, Receiver
from jetspark.server.routing.router import Router


class FakeTransport:
    """Collects what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False
        self.error: Exception | None = None
        self.on_write: Callable[[], None] | None = None

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(data)
        if self.on_write is not None:
            self.on_write()


class FakeConnection:
    """Flushes what the receiver does not write on its own."""

    def __init__(self) -> None:
        self.flushes = 0
        self.behind = False
        self.failed: Exception | None = None

    def flush(self) -> bool:
        self.flushes += 1
        return self.behind

    def fail(self, error: Exception) -> None:
        self.failed = error


def receiver_of(pending: Pending) -> tuple[Receiver, FakeTransport, FakeConnection]:
    receiver, transport, connection = Receiver(pending), FakeTransport(), FakeConnection()
    receiver.write_to(transport)
    receiver.connection = connection
    return receiver, transport, connection


@pytest.fixture
def pending() -> Pending:
    return Pending()


@pytest.fixture
def flusher(pending: Pending) -> Flusher:
    return Flusher(pending, lambda _router: None)


def test_output_goes_to_the_transport_in_one_write(flusher: Flusher, pending: Pending) -> None:
    receiver, transport, connection = receiver_of(pending)
    receiver.queue(b"one")
    receiver.queue(b"two")

    assert not flusher.flush(Router())
    assert not flusher.flush(None)

    assert (transport.written, connection.flushes) == ([b"onetwo"], 0)
    assert receiver.given == 6
    receiver.queue(b"three")
    flusher.flush(None)
    assert transport.written == [b"onetwo", b"three"]


@pytest.mark.parametrize("state", ["no transport", "paused", "overflowed", "large"])
def test_the_connection_writes_what_needs_more_than_that(
    flusher: Flusher, pending: Pending, state: str
) -> None:
    receiver, transport, connection = receiver_of(pending)
    connection.behind = True
    receiver.queue(b"one")
    if state == "no transport":
        receiver.write_to(None)
    elif state == "paused":
        receiver.pause()
    elif state == "overflowed":
        receiver.overflow()
    else:
        receiver.write_large(b"payload", 0, 7)

    assert flusher.flush(None)
    assert (transport.written, connection.flushes) == ([], 1)


def test_the_connection_is_asked_when_a_write_fills_the_transport(
    flusher: Flusher, pending: Pending
) -> None:
    """It disconnects a client that cannot keep up, and pauses those that publish to it."""
    receiver, transport, connection = receiver_of(pending)
    connection.behind = True
    transport.on_write = lambda: setattr(receiver, "paused", True)
    receiver.queue(b"one")

    assert flusher.flush(None)
    assert (transport.written, connection.flushes) == ([b"one"], 1)


def test_a_closing_transport_gets_nothing(flusher: Flusher, pending: Pending) -> None:
    receiver, transport, _ = receiver_of(pending)
    transport.closing = True
    receiver.queue(b"one")
    flusher.flush(None)
    transport.closing = False
    flusher.flush(None)

    assert (transport.written, receiver.given) == ([], 0)


def test_a_connection_that_fails_does_not_stop_the_others(
    flusher: Flusher, pending: Pending
) -> None:
    receivers = [receiver_of(pending) for _ in range(3)]
    error = RuntimeError("the handler is closed")
    receivers[1][1].error = error
    for receiver, _, _ in receivers:
        receiver.queue(b"x")

    assert not flusher.flush(None)

    assert [transport.written for _, transport, _ in receivers] == [[b"x"], [], [b"x"]]
    assert [connection.failed for _, _, connection in receivers] == [None, error, None]


@pytest.mark.parametrize(("size", "kept"), [(1000, 1000), (600, 1000), (400, 400)])
def test_a_part_keeps_the_data_around_it_only_if_it_is_most_of_it(
    pending: Pending, size: int, kept: int
) -> None:
    receiver, _, _ = receiver_of(pending)

    receiver.write_large(bytes(1000), 0, size)

    part = receiver.take_parts()[1]
    assert part == bytes(size)
    assert len(bytes(part.obj) if isinstance(part, memoryview) else part) == kept
