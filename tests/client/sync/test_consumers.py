"""Consumers and subscriptions of streams, blocking."""

import threading
from collections.abc import Iterator
from typing import Protocol

import pytest
from tests.support.servers import ServerProcess

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
