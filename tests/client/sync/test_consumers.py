"""Consumers and subscriptions of streams, blocking."""

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from tests.support.servers import ServerProcess
from tests.support.waiting import wait_until

from jetspark import AckPolicy, ConsumerConfig, StreamConfig, sync


class Start(Protocol):
    """What conftest.py gives."""

    def __call__(self, config: str) -> ServerProcess:
        """Start a nats-server."""


@pytest.fixture
def js(nats_server: Start) -> Iterator[sync.JetStream]:
    """A server with JetStream."""
    server = nats_server("jetstream: enabled")
    with sync.connect(server.url) as nc:
        yield nc.jetstream()


@pytest.fixture
def stream(js: sync.JetStream) -> sync.Stream:
    """A stream with 500 messages."""
    made = js.create_stream(StreamConfig(name="S", subjects=("s.*",)))
    for n in range(500):
        js.publish_async(f"s.{n % 5}", b"%d" % n)
    js.publish_async_complete()
    return made


def test_fetch_next_and_acks(stream: sync.Stream) -> None:
    consumer = stream.create_consumer(ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT))
    fetched = consumer.fetch(10)
    for message in fetched:
        message.ack()
    one = consumer.next(timeout=5)
    one.ack_sync()

    assert [message.data for message in fetched] == [b"%d" % n for n in range(10)]
    assert (one.data, one.metadata.stream_seq, one.is_settled) == (b"10", 11, True)
    assert consumer.info().ack_floor.stream_seq == 11
    assert [info.name for info in stream.consumers()] == ["d"]


def test_iteration_without_end_is_stopped_by_with(stream: sync.Stream) -> None:
    consumer = stream.create_consumer(ConsumerConfig(durable="i", ack_policy=AckPolicy.EXPLICIT))
    received = []
    with consumer.messages() as messages:
        for message in messages:
            message.ack()
            received.append(message.data)
            if len(received) == 500:
                break

    assert received == [b"%d" % n for n in range(500)]


def test_a_callback_gets_messages_that_it_can_acknowledge_and_wait_for(
    stream: sync.Stream,
) -> None:
    consumer = stream.create_consumer(ConsumerConfig(durable="c", ack_policy=AckPolicy.EXPLICIT))
    done = threading.Event()
    seen: list[str] = []

    def callback(message: sync.JetStreamMessage) -> None:
        message.ack_sync()
        seen.append(threading.current_thread().name)
        if len(seen) == 20:
            done.set()

    with consumer.consume(callback, prefetch=20):
        assert done.wait(10)

    assert set(seen) == {"jetspark callback"}


def test_an_ordered_consumer(stream: sync.Stream) -> None:
    with stream.ordered_consumer() as ordered:
        assert [message.data for message in ordered.fetch(100)] == [b"%d" % n for n in range(100)]


@pytest.mark.usefixtures("stream")
def test_the_subscribe_workflow(js: sync.JetStream) -> None:
    with js.subscribe("s.1") as subscription:
        first = next(subscription)
        second = subscription.next()
    with js.pull_subscribe("s.2", durable="p") as pull:
        fetched = pull.fetch(3)

    assert [first.data, second.data] == [b"1", b"6"]
    assert [message.data for message in fetched] == [b"2", b"7", b"12"]


def test_ordering_and_callbacks_get_blocking_messages(
    js: sync.JetStream, stream: sync.Stream
) -> None:
    consumer = stream.create_consumer(durable="o")
    keys: set[type] = set()
    done: list[type] = []

    def key(message: sync.JetStreamMessage) -> str:
        keys.add(type(message))
        return message.subject

    def work(message: sync.JetStreamMessage) -> None:
        message.ack()
        done.append(type(message))

    with consumer.consume(work, concurrency=4, ordered_by=key):
        wait_until(lambda: len(done) == 500)
    with js.subscribe("s.*", callback=work, concurrency=4, ordered_by=key):
        wait_until(lambda: len(done) == 1000)
    assert keys == set(done) == {sync.JetStreamMessage}


def test_callbacks_that_cannot_be_called_are_refused(
    js: sync.JetStream, stream: sync.Stream
) -> None:
    consumer = stream.create_consumer(durable="o")
    kv = js.create_key_value("b")

    async def coroutine(_message: object) -> None:
        pass

    wrong: Any
    for wrong, reason in ((5, "not int"), ("", "not str"), (coroutine, "coroutine function")):
        for call in (
            consumer.consume,
            lambda bad: stream.ordered_consumer().consume(bad),
            lambda bad: js.subscribe("s.*", callback=bad),
            lambda bad: kv.watch(callback=bad),
        ):
            with pytest.raises(TypeError, match=reason):
                call(wrong)
    with pytest.raises(TypeError, match="ordered_by='colour': expected a function"):
        consumer.consume(print, concurrency=2, ordered_by="colour")  # type: ignore[arg-type]
    assert list(stream.consumer_names()) == ["o"]


def test_what_an_iteration_has_read_ahead_is_given_back_when_it_is_closed(
    stream: sync.Stream,
) -> None:
    consumer = stream.create_consumer(durable="d", ack_wait=3600)
    with consumer.messages() as messages:
        next(messages).ack_sync()
    assert list(messages) == []
    found = consumer.fetch(499, timeout=20)
    assert sorted(each.metadata.stream_seq for each in found) == list(range(2, 501))
    assert {each.metadata.num_delivered for each in found} == {2}
