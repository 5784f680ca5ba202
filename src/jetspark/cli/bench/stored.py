"""Measurements of streams and their consumers."""

import asyncio
from typing import Any, Final

import click

from jetspark.cli.bench.command import CONSUMER, STREAM
from jetspark.cli.bench.running import Plan, Tally, measure
from jetspark.cli.confirm import confirm
from jetspark.cli.session import Session
from jetspark.client.client import Client
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.errors import StreamNotFound

_SECOND: Final = 1.0


async def _prepare(
    session: Session, stream: str, *, purge: bool, force: bool, msgs: int = 0
) -> None:
    """Check that the stream exists, and has the messages that will be read."""
    found = await _found(session, stream)
    state = (await found.info()).state
    if purge:
        if state.messages:
            question = f"Really purge the {state.messages:,} messages of stream {stream}?"
            confirm(question, force=force or stream == STREAM)
            await found.purge()
        return  # readers wait for messages that are stored meanwhile
    if msgs > state.messages:
        raise click.ClickException(
            f"stream {stream} has {state.messages:,} messages, and --msgs is {msgs:,}: store them "
            f"with `jetspark bench js pub async ... --stream {stream}`"
        )


async def _found(session: Session, stream: str) -> Any:
    try:
        return await session.jetstream.stream(stream)
    except StreamNotFound:
        raise click.ClickException(
            f"stream {stream} does not exist: create it with --create of `jetspark bench js pub`, "
            "or name another one with --stream"
        ) from None


async def _create(
    session: Session, subject: str, *, stream: str, create: bool, purge: bool, force: bool,
    storage: str, replicas: int, maxbytes: int,
) -> None:  # fmt: skip
    """Create the stream to publish to, if requested.

    One of another name that exists stays as it is: other limits could remove its messages.
    """
    known = [one async for one in session.jetstream.stream_names()]
    if create and (stream not in known or stream == STREAM):
        options: Any = {"storage": storage}
        await session.jetstream.create_or_update_stream(
            stream, subjects=[subject], num_replicas=replicas, max_bytes=maxbytes,
            allow_direct=True, allow_atomic=True, allow_batched=True, **options,
        )  # fmt: skip
    await _prepare(session, stream, purge=purge, force=force)
    if stream not in [one async for one in session.jetstream.stream_names(subject=subject)]:
        raise click.ClickException(
            f"stream {stream} does not store {subject}: publish to one of its subjects, or name "
            "another stream with --stream"
        )


async def publish_sync(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float, **making: Any,
) -> None:  # fmt: skip
    """Wait for each acknowledgement."""
    await _create(session, subject, **making)
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        jetstream = client.jetstream()
        while tally.done < tally.wanted:
            await jetstream.publish(subject, data)
            tally.add()
            if sleep:
                await asyncio.sleep(sleep)

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream synchronous publisher", plan, work)


async def publish_async(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float, batch: int, **making: Any,
) -> None:  # fmt: skip
    """Wait for the acknowledgements of many messages at a time."""
    await _create(session, subject, **making)
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        jetstream = client.jetstream()
        while tally.done < tally.wanted:
            count = min(batch, tally.wanted - tally.done)
            for _ in range(count):
                await jetstream.publish_async(subject, data)
            await jetstream.publish_async_complete(timeout=60)
            tally.add(count)
            if sleep:
                await asyncio.sleep(sleep)

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream asynchronous publisher", plan, work)


async def publish_atomic(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float, batch: int, **making: Any,
) -> None:  # fmt: skip
    """Store atomic batches."""
    await _create(session, subject, **making)
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        jetstream = client.jetstream()
        while tally.done < tally.wanted:
            count = min(batch, tally.wanted - tally.done)
            async with jetstream.atomic_batch() as together:
                together.extend([subject] * count, [data] * count)
            tally.add(count)
            if sleep:
                await asyncio.sleep(sleep)

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream atomic batch publisher", plan, work)


async def publish_fast(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float, **making: Any,
) -> None:  # fmt: skip
    """Store fast batches."""
    await _create(session, subject, **making)
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        async with client.jetstream().fast_publisher() as publisher:
            while tally.done < tally.wanted:
                await publisher.publish(subject, data)
                tally.add()
                if sleep:
                    await asyncio.sleep(sleep)

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream fast batch publisher", plan, work)


async def consume_ordered(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, stream: str,
    purge: bool, force: bool,
) -> None:  # fmt: skip
    """Read a stream in order."""
    await _prepare(session, stream, purge=purge, force=force, msgs=msgs)

    async def work(client: Client, tally: Tally) -> None:
        found = await client.jetstream().stream(stream)
        async with found.ordered_consumer().messages() as messages:
            async for _ in messages:
                tally.add()
                if tally.done == tally.wanted:
                    return

    plan = Plan(clients, msgs, size, progress)
    title = "JetStream ordered consumer"
    await measure(session, title, plan, work, every_client=True, waits=True)


async def _durable(session: Session, stream: str, consumer: str, acks: str) -> None:
    """The consumer that the clients share, from the start of the stream."""
    found = await _found(session, stream)
    policy: Any = acks
    names = [one async for one in found.consumer_names()]
    if consumer in names:
        if consumer != CONSUMER:
            raise click.ClickException(
                f"stream {stream} has a consumer {consumer}, whose position would be lost: name "
                "another with --consumer"
            )
        await found.delete_consumer(consumer)
    await found.create_consumer(durable=consumer, ack_policy=policy, max_ack_pending=100_000)


async def consume(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, stream: str,
    purge: bool, force: bool, consumer: str, acks: str, batch: int,
) -> None:  # fmt: skip
    """Process the messages of a durable consumer."""
    await _prepare(session, stream, purge=purge, force=force, msgs=msgs)
    await _durable(session, stream, consumer, acks)
    remaining = msgs

    async def work(client: Client, tally: Tally) -> None:
        def on_message(message: JetStreamMessage) -> None:
            nonlocal remaining
            message.ack()
            tally.add()
            remaining -= 1
            if remaining == 0:
                everything.set()

        found = await client.jetstream().consumer(stream, consumer)
        async with found.consume(on_message, prefetch=batch):
            await everything.wait()
        await client.flush()

    everything = asyncio.Event()
    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream consumer", plan, work, waits=True)


async def fetch(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, stream: str,
    purge: bool, force: bool, consumer: str, acks: str, batch: int,
) -> None:  # fmt: skip
    """Fetch the messages of a durable consumer in batches."""
    await _prepare(session, stream, purge=purge, force=force, msgs=msgs)
    await _durable(session, stream, consumer, acks)

    async def work(client: Client, tally: Tally) -> None:
        found = await client.jetstream().consumer(stream, consumer)
        # Each takes its share: no client waits for messages that another one has.
        while tally.done < tally.wanted:
            messages = await found.fetch(min(batch, tally.wanted - tally.done), timeout=_SECOND)
            for message in messages:
                message.ack()
            tally.add(len(messages))
        await client.flush()

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream fetch", plan, work)


async def get(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, stream: str,
    purge: bool, force: bool, batch: int,
) -> None:  # fmt: skip
    """Read a stream with batched direct gets; each client reads all messages."""
    await _prepare(session, stream, purge=purge, force=force, msgs=msgs)

    async def work(client: Client, tally: Tally) -> None:
        found = await client.jetstream().stream(stream)
        async for _ in found.get_batch(seq=1, batch=batch, limit=tally.wanted):
            tally.add()

    plan = Plan(clients, msgs, size, progress)
    await measure(session, "JetStream batched direct get", plan, work, every_client=True)
