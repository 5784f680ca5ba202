"""Measurements of core messages, requests and replies."""

import asyncio
from typing import Final

from jetspark.cli.bench.running import Plan, Tally, measure
from jetspark.cli.output import visible
from jetspark.cli.session import Session
from jetspark.client.client import Client
from jetspark.client.message import Message

_BUFFERED: Final = 1_000_000  # bytes between two flushes, about
_ENDLESS_PENDING: Final = 2**30


class _Announcement:
    """A line that is written once all clients have subscribed: publishers may start then."""

    def __init__(self, session: Session, clients: int, text: str) -> None:
        self._output = session.output
        self._waiting = clients
        self._text = text

    def ready(self) -> None:
        """Count a client that has subscribed."""
        self._waiting -= 1
        if self._waiting == 0:
            self._output.say(visible(self._text))


async def publish(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float,
) -> None:  # fmt: skip
    """Publish core messages."""
    data = bytes(size)
    every = max(1, _BUFFERED // (size + 64)) if not sleep else 1

    async def work(client: Client, tally: Tally) -> None:
        while tally.done < tally.wanted:
            count = min(every, tally.wanted - tally.done)
            for _ in range(count):
                client.publish(subject, data)
            await client.flush()
            tally.add(count)
            if sleep:
                await asyncio.sleep(sleep)

    await measure(session, "Core NATS publisher", Plan(clients, msgs, size, progress), work)


async def subscribe(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool
) -> None:
    """Receive core messages."""

    async def work(client: Client, tally: Tally) -> None:
        ended = asyncio.Event()

        def on_message(_message: Message) -> None:
            tally.add()
            if tally.done == tally.wanted:
                ended.set()

        await client.subscribe(
            subject,
            callback=on_message,
            pending_msgs=_ENDLESS_PENDING,
            pending_bytes=_ENDLESS_PENDING,
        )
        await client.flush()
        announce.ready()
        await ended.wait()

    announce = _Announcement(session, clients, f"Waiting for {msgs:,} messages on {subject}")
    plan = Plan(clients, msgs, size, progress)
    title = "Core NATS subscriber"
    await measure(session, title, plan, work, every_client=True, waits=True)


async def request(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float,
) -> None:  # fmt: skip
    """Send requests, one after the other."""
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        while tally.done < tally.wanted:
            await client.request(subject, data)
            tally.add()
            if sleep:
                await asyncio.sleep(sleep)

    await measure(session, "Request-reply", Plan(clients, msgs, size, progress), work)


async def serve(
    session: Session, *, subject: str, clients: int, msgs: int, size: int, progress: bool,
    sleep: float,
) -> None:  # fmt: skip
    """Answer requests, until interrupted."""
    del msgs
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        async def on_request(message: Message) -> None:
            if sleep:
                await asyncio.sleep(sleep)
            message.respond(data)
            tally.add()

        await client.subscribe(subject, queue="bench-reply", callback=on_request)
        await client.flush()
        announce.ready()
        await asyncio.Event().wait()

    announce = _Announcement(session, clients, f"Answering requests on {subject}")
    await measure(session, "Service", Plan(clients, 1, size, progress), work)
