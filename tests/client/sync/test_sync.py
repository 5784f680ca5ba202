"""The blocking client over a real server."""

import asyncio
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from jetspark import Message, StreamConfig, client_options, sync
from jetspark.errors import ConnectFailed, ConnectionClosed, MessageNotFound, RequestTimeout
from jetspark.sync.client import connect_with
from jetspark.sync.portal import get_portal


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
    first = subscription.next()
    rest = [next(subscription) for _ in range(599)]

    assert [m.data for m in (first, *rest)] == [b"%d" % n for n in range(600)]
    with pytest.raises(RequestTimeout):
        subscription.next(timeout=0.01)


def test_next_takes_what_iteration_has_fetched(nc: sync.Client, name: str) -> None:
    """Iteration crosses threads by chunks: the rest of a chunk must not be skipped."""
    subscription = nc.subscribe(name)
    for n in range(10):
        nc.publish(name, b"%d" % n)
    nc.flush()
    received = [next(subscription), subscription.next(), next(subscription)]

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

    def forward(message: Message) -> None:
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

    def callback(message: Message) -> None:
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

    assert sorted(m.data for m in nc.request_many(name, limit=3)) == [b"0", b"1", b"2"]


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
        subscription.next(timeout=30)
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


def test_it_works_where_a_loop_is_running(server: RunningServer, name: str) -> None:
    """A notebook has a running loop in the thread that executes the cells."""

    async def cell() -> bytes:
        with sync.connect(server.url) as nc:
            subscription = nc.subscribe(name)
            nc.publish(name, b"from a cell")
            return subscription.next().data

    assert asyncio.run(cell()) == b"from a cell"


def test_many_threads_share_a_client_and_a_subscription(nc: sync.Client, name: str) -> None:
    received: list[bytes] = []
    subscription = nc.subscribe(name)

    def take() -> None:
        received.extend(message.data for message in subscription)

    def send(worker: int) -> None:
        for n in range(200):
            nc.publish(name, b"%d-%d" % (worker, n))
        nc.flush()

    takers = [threading.Thread(target=take) for _ in range(3)]
    senders = [threading.Thread(target=send, args=(worker,)) for worker in range(4)]
    for thread in (*takers, *senders):
        thread.start()
    for thread in senders:
        thread.join()
    subscription.unsubscribe()
    for thread in takers:
        thread.join(10)

    assert sorted(received) == sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(200))


def test_requests_from_many_threads_get_their_own_answers(nc: sync.Client, name: str) -> None:
    nc.subscribe(name, callback=lambda message: message.respond(message.data))
    nc.flush()
    wrong: list[bytes] = []

    def ask(worker: int) -> None:
        for n in range(50):
            question = b"%d-%d" % (worker, n)
            if nc.request(name, question).data != question:
                wrong.append(question)

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert wrong == []
    assert nc.stats.requests_pending == 0


def test_options_travel_by_pickle(server: RunningServer, name: str) -> None:
    """A Spark worker connects as the driver did."""
    sent = pickle.dumps(client_options(server.url, name="worker", timeout=3.0))
    with connect_with(pickle.loads(sent)) as nc:
        nc.publish(name)
        nc.flush()

        assert nc.is_connected


def test_a_closed_client_leaves_no_task(server: RunningServer, name: str) -> None:
    def tasks() -> set[str]:
        async def count() -> set[str]:
            return {task.get_name() for task in asyncio.all_tasks()}

        return {task for task in get_portal().call(count()) if "jetspark" in task}

    before = tasks()
    for _ in range(5):
        with sync.connect(server.url) as nc:
            nc.subscribe(name, callback=lambda _: None)
            nc.publish(name)
            nc.flush()
    threads = [t.name for t in threading.enumerate() if t.name == "jetspark loop"]

    assert tasks() == before
    assert len(threads) == 1


def test_a_blocking_client_survives_a_restart(
    tmp_path: Path, server_process: Callable[..., Any], name: str
) -> None:
    first = server_process("nats-server", tmp_path)
    found = threading.Event()
    with sync.connect(
        first.url, reconnected_callback=lambda _: found.set(), reconnect_wait=0.01
    ) as nc:
        subscription = nc.subscribe(name)
        first.kill()
        server_process("nats-server", tmp_path, port=first.address.rpartition(":")[2])
        assert found.wait(20)
        nc.publish(name, b"again")

        assert subscription.next().data == b"again"
        assert nc.stats.reconnects == 1
