"""One ending: what waits when its client ends raises ConnectionClosed, with the cause.

Every call is closed at our server, and meets one of the five endings at each of both. With
JETSPARK_WHOLE_TABLE=1 (``make torture``) every call meets every ending at each.
"""

import asyncio
import contextlib
import gc
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import KINDS
from tests.support.servers import ServerProcess
from tests.support.waiting import PATIENCE_S
from tests.support.waiting_calls import (
    CALLS,
    PATIENCE,
    Call,
    Scene,
    Waiting,
    bucket,
    consumer,
    scene,
    stream,
)

from jetspark.errors import (
    AlreadyEnded,
    AuthorizationFailed,
    ConnectFailed,
    ConnectionClosed,
    RequestTimeout,
)

DRAIN_S = 0.2  # drains of a server that does not answer are given so long


@pytest.fixture
def call(request: pytest.FixtureRequest) -> Call:
    return CALLS[request.param]


def each_call(ending: int) -> pytest.MarkDecorator:
    """The calls that meet this ending, at which server."""
    whole = bool(os.environ.get("JETSPARK_WHOLE_TABLE"))
    chosen = [
        (kind, name)
        for k, kind in enumerate(KINDS)
        for i, name in enumerate(CALLS)
        if whole or (i + 2 * k) % 5 == ending or (ending == 0 and k == len(KINDS) - 1)
    ]
    return pytest.mark.parametrize(("server", "call"), chosen, indirect=True)


@contextlib.contextmanager
def nothing_unhandled() -> Iterator[None]:
    """Fail when a task ended with an error that no one looked at."""
    unhandled: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
    yield
    gc.collect()
    assert not unhandled


async def begin(waiting: Waiting) -> asyncio.Task[object]:
    """Start it, and let it get to where it waits; it need not have got there."""
    task = asyncio.get_running_loop().create_task(waiting)
    await asyncio.wait([task], timeout=0.05)
    assert not task.done(), task
    return task


async def outcome(task: asyncio.Task[object]) -> object:
    """What became of it: its result, or the error."""
    done, _ = await asyncio.wait([task], timeout=PATIENCE_S / 3)
    assert done, "it waits for ever"
    return task.exception() or task.result()


async def begun(call: Call, s: Scene) -> asyncio.Task[object]:
    return await begin(await call.setup(s))


@each_call(0)
async def test_closing_a_client_ends_what_waits(
    server: ServerProcess, call: Call, name: str, tmp_path: Path
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            task = await begun(call, s)
            await s.client.close()
            ended = await outcome(task)
            if call.returns:
                assert ended is True
                return
            assert type(ended) is ConnectionClosed
            assert ended.__cause__ is None
            assert "the client was closed" in str(ended)


@each_call(1)
async def test_a_connection_lost_for_good_ends_what_waits(
    server: ServerProcess, call: Call, name: str, tmp_path: Path
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            task = await begun(call, s)
            s.proxy.refusing = True
            s.proxy.cut()
            ended = await outcome(task)
            if call.returns:
                assert ended is True
                return
            assert isinstance(ended, ConnectionClosed)
            if not s.client.is_closed:
                return  # a flush ends with its connection, whatever comes after
            assert isinstance(ended.__cause__, ConnectFailed | ConnectionClosed | OSError)


@each_call(2)
async def test_credentials_that_are_refused_end_what_waits(
    server: ServerProcess, call: Call, name: str, tmp_path: Path
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            task = await begun(call, s)
            s.proxy.deny("Authorization Violation")
            ended = await outcome(task)
            if call.returns:
                assert ended is True
                return
            assert type(ended) is ConnectionClosed
            assert isinstance(ended.__cause__, AuthorizationFailed)


@each_call(3)
async def test_draining_a_client_ends_what_waits(
    server: ServerProcess, call: Call, name: str, tmp_path: Path
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            task = await begun(call, s)
            with contextlib.suppress(RequestTimeout):
                await s.client.drain(timeout=PATIENCE if call.iterates else DRAIN_S)
            ended = await outcome(task)
            if call.returns:
                assert ended is True
            elif call.iterates:
                # What passes messages to a callback returns nothing.
                assert ended == (None if "consume" in call.setup.__name__ else "ended")
            else:
                assert type(ended) is ConnectionClosed


@each_call(4)
async def test_calls_on_a_closed_client_raise_at_once(
    server: ServerProcess, call: Call, name: str, tmp_path: Path
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            waiting = await call.setup(s)
            await s.client.close()
            ended = await outcome(asyncio.get_running_loop().create_task(waiting))
            if call.returns:
                assert ended is True
            else:
                assert type(ended) is ConnectionClosed or (call.closes and ended is None)


# What ends a handle, by another task, and not the client.


async def unsubscribed(s: Scene) -> tuple[Waiting, Waiting]:
    subscription = await s.client.subscribe(s.name)
    return subscription.next(), subscription.unsubscribe()


async def drained(s: Scene) -> tuple[Waiting, Waiting]:
    subscription = await s.client.subscribe(s.name)
    return subscription.next(), subscription.drain()


async def push_unsubscribed(s: Scene) -> tuple[Waiting, Waiting]:
    await stream(s)
    subscription = await s.js.subscribe(f"{s.name}.>")
    return subscription.next(), subscription.unsubscribe()


async def pull_unsubscribed(s: Scene) -> tuple[Waiting, Waiting]:
    await stream(s)
    subscription = await s.js.pull_subscribe(f"{s.name}.>")
    return subscription.fetch(5), subscription.unsubscribe()


async def pull_drained(s: Scene) -> tuple[Waiting, Waiting]:
    await stream(s)
    subscription = await s.js.pull_subscribe(f"{s.name}.>")
    return subscription.next(), subscription.drain()


async def messages_closed(s: Scene) -> tuple[Waiting, Waiting]:
    messages = (await consumer(s)).messages()
    return messages.next(), messages.close()


async def ordered_closed(s: Scene) -> tuple[Waiting, Waiting]:
    made = (await stream(s)).ordered_consumer()
    return made.next(), made.close()


async def watch_closed(s: Scene) -> tuple[Waiting, Waiting]:
    watcher = await (await bucket(s)).watch()
    return watcher.next(), watcher.close()


async def bucket_closed(s: Scene) -> tuple[Waiting, Waiting]:
    made = await bucket(s)
    watcher = await made.watch()
    return watcher.next(), made.close()


async def lock_of_a_closed_bucket(s: Scene) -> tuple[Waiting, Waiting]:
    made = await bucket(s)
    await made.create("k", b"somebody else")

    async def close() -> None:
        # It asks for the lock first: a watch that begins after the end of the others continues.
        while not made._watches._running:
            await asyncio.sleep(0.001)
        await made.close()

    return made.lock("k", ttl=60).acquire(), close()


@pytest.mark.parametrize(
    "pair",
    [
        unsubscribed,
        drained,
        push_unsubscribed,
        pull_unsubscribed,
        pull_drained,
        messages_closed,
        ordered_closed,
        watch_closed,
        bucket_closed,
        lock_of_a_closed_bucket,
    ],
)
async def test_calls_that_wait_for_a_handle_are_notified_when_it_ends(
    server: ServerProcess,
    pair: Callable[[Scene], Awaitable[tuple[Waiting, Waiting]]],
    name: str,
    tmp_path: Path,
) -> None:
    async with scene(server.url, name, tmp_path) as s:
        with nothing_unhandled():
            waiting, ending = await pair(s)
            task = await begin(waiting)
            await ending
            assert type(await outcome(task)) is AlreadyEnded
