"""The blocking client over a real server."""

import threading
import time
from collections.abc import Iterator
from typing import Protocol

import pytest

from jetspark import sync
from jetspark.api.stream import StreamConfig
from jetspark.errors import ConnectFailed, ConnectionClosed, MessageNotFound, RequestTimeout


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str

    def kill(self) -> None:
        """End it, whatever it is doing."""


@pytest.fixture
def nc(server: RunningServer) -> Iterator[sync.Client]:
    with sync.connect(server.url) as client:
        yield client


def test_publish_subscribe_and_request(nc: sync.Client, name: str) -> None:
    subscription = nc.subscribe(name)
    for n in range(600):
        nc.publish(name, b"%d" % n)
    first = subscription.next_msg()
    rest = [next(subscription) for _ in range(599)]

    assert [m.data for m in (first, *rest)] == [b"%d" % n for n in range(600)]
    with pytest.raises(RequestTimeout):
        subscription.next_msg(timeout=0.01)


def test_next_msg_takes_what_iteration_has_fetched(nc: sync.Client, name: str) -> None:
    """Iteration crosses threads by chunks: the rest of a chunk must not be skipped."""
    subscription = nc.subscribe(name)
    for n in range(10):
        nc.publish(name, b"%d" % n)
    nc.flush()
    received = [next(subscription), subscription.next_msg(), next(subscription)]

    assert [message.data for message in received] == [b"0", b"1", b"2"]


def test_iteration_ends_with_the_subscription(nc: sync.Client, name: str) -> None:
    with nc.subscribe(name) as subscription:
        nc.publish(name)
        nc.flush()
        subscription.unsubscribe()

        assert len(list(subscription)) == 1


def test_a_callback_may_block_and_call_back(nc: sync.Client, name: str) -> None:
    """It runs on a thread of its own, so it may use the blocking client."""
    answered: list[bytes] = []
    done = threading.Event()

    def forward(message: sync.Message) -> None:
        answered.append(nc.request(f"{name}.upper", message.data).data)
        if len(answered) == 3:
            done.set()

    nc.subscribe(f"{name}.upper", callback=lambda m: m.respond(m.data.upper()))
    nc.subscribe(name, callback=forward)
    nc.flush()
    for payload in (b"a", b"b", b"c"):
        nc.publish(name, payload)

    assert done.wait(5)
    assert answered == [b"A", b"B", b"C"]


def test_a_failing_callback_is_reported(server: RunningServer, name: str) -> None:
    errors: list[Exception] = []
    reported = threading.Event()

    def report(error: Exception) -> None:
        errors.append(error)
        reported.set()

    def callback(message: sync.Message) -> None:
        raise LookupError(message.subject)

    with sync.connect(server.url, error_callback=report) as nc:
        nc.subscribe(name, callback=callback)
        nc.publish(name)
        assert reported.wait(5)

    assert [repr(error) for error in errors] == [f"LookupError('{name}')"]


def test_drain_waits_for_the_callbacks(nc: sync.Client, name: str) -> None:
    received: list[bytes] = []
    subscription = nc.subscribe(name, callback=lambda m: received.append(m.data))
    for n in range(2000):
        nc.publish(name, b"%d" % n)
    subscription.drain()

    assert received == [b"%d" % n for n in range(2000)]


def test_many_replies(nc: sync.Client, name: str) -> None:
    for n in range(3):
        nc.subscribe(name, callback=lambda m, n=n: m.respond(b"%d" % n))  # type: ignore[misc]
    nc.flush()

    assert sorted(m.data for m in nc.request_many(name, max_msgs=3)) == [b"0", b"1", b"2"]


def test_streams_end_to_end(nc: sync.Client, name: str) -> None:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True))
    acks = [js.publish_async(f"{name}.a", b"%d" % n) for n in range(100)]
    js.publish_async_complete()

    assert [ack.result().seq for ack in acks] == list(range(1, 101))
    assert acks[0].wait().seq == 1
    assert js.publish(f"{name}.b", b"last").seq == 101
    assert stream.info().state.messages == 101
    assert stream.get_msg(last_by_subject=f"{name}.b").data == b"last"
    assert sum(len(chunk) for chunk in stream.scan(batch=30)) == 101
    assert [m.seq for m in stream.get_batch(seq=99)] == [99, 100, 101]
    assert name in list(js.stream_names())
    assert js.stream(name).name == name
    with pytest.raises(MessageNotFound):
        stream.get_msg(seq=1000)
    js.delete_stream(name)


def test_a_scan_may_be_given_up(nc: sync.Client, name: str) -> None:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig(name=name, subjects=(name,), allow_direct=True))
    for _ in range(50):
        js.publish_async(name)
    js.publish_async_complete()
    for _chunk in stream.scan(batch=5):
        break

    assert stream.info().state.messages == 50
    assert nc.stats.requests_pending == 0


def test_a_lost_connection_ends_waiting_calls(own_server: RunningServer, name: str) -> None:
    nc = sync.connect(own_server.url, allow_reconnect=False)
    subscription = nc.subscribe(name)
    killer = threading.Timer(0.05, own_server.kill)
    killer.start()
    started = time.monotonic()
    with pytest.raises(ConnectionClosed):
        subscription.next_msg(timeout=30)
    killer.join()

    assert time.monotonic() - started < 10
    with pytest.raises(ConnectionClosed):
        nc.publish(name)
    nc.close()


def test_failing_to_connect_raises_here() -> None:
    with pytest.raises(ConnectFailed, match="connection refused"):
        sync.connect("127.0.0.1:1")
    with pytest.raises(ValueError, match="scheme"):
        sync.connect("http://127.0.0.1")
