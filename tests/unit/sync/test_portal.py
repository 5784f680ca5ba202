import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import pytest

from jetspark.errors import ConnectionClosed, InvalidState
from jetspark.sync.portal import CHUNK_SIZE, Portal, get_portal


class Numbers:
    """A chunked source that counts how often it is asked."""

    def __init__(self, count: int) -> None:
        self._left = list(range(count))
        self.calls = 0

    async def next_chunk(self, count: int) -> list[int]:
        self.calls += 1
        chunk, self._left = self._left[:count], self._left[count:]
        return chunk


async def value() -> int:
    await asyncio.sleep(0)
    return 42


async def fails() -> None:
    raise LookupError("on the loop")


def test_a_coroutine_runs_on_the_loops_thread_and_returns_its_result() -> None:
    portal = get_portal()

    assert portal.call(value()) == 42
    assert portal.run(threading.current_thread).name == "jetspark loop"


def test_what_it_raises_is_raised_here() -> None:
    with pytest.raises(LookupError, match="on the loop"):
        get_portal().call(fails())


def test_one_portal_serves_the_whole_process() -> None:
    found: list[Portal] = []
    threads = [threading.Thread(target=lambda: found.append(get_portal())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(found) == {get_portal()}


def test_many_threads_call_at_once() -> None:
    portal = get_portal()
    results: list[int] = []

    def work() -> None:
        results.extend(portal.call(value()) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [42] * 200


def test_an_iterator_crosses_threads_once_per_chunk() -> None:
    """Never per message."""
    source = Numbers(CHUNK_SIZE * 2 + 1)

    assert list(get_portal().items(source.next_chunk)) == list(range(CHUNK_SIZE * 2 + 1))
    assert source.calls == 4


def test_chunks_come_one_call_each_and_the_source_is_closed_when_given_up() -> None:
    closed = threading.Event()

    async def source() -> AsyncGenerator[int, None]:
        try:
            for n in range(100):
                yield n
        finally:
            closed.set()

    taken = []
    for n in get_portal().chunks(source()):
        taken.append(n)
        if n == 2:
            break

    assert taken == [0, 1, 2]
    assert closed.wait(5)


def test_a_blocking_call_on_the_loop_itself_is_refused() -> None:
    """It would deadlock for ever."""
    portal = get_portal()

    def block() -> int:
        return portal.call(value())

    with pytest.raises(InvalidState, match="would deadlock"):
        portal.run(block)


def test_an_interrupted_call_cancels_what_it_waited_for() -> None:
    portal = get_portal()
    cancelled = threading.Event()
    caller = threading.get_ident()

    async def interrupts() -> None:
        signal.pthread_kill(caller, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    # A process started in the background of a shell ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.call(interrupts())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(5)


def test_a_stopped_portal_says_that_connections_are_closed() -> None:
    portal = Portal()
    portal.stop()

    with pytest.raises(ConnectionClosed, match="process is exiting"):
        portal.call(value())
    portal.stop()


def test_stopping_cancels_what_is_running() -> None:
    portal = Portal()
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def start() -> "asyncio.Task[None]":
        return asyncio.ensure_future(forever())

    task: Coroutine[Any, Any, asyncio.Task[None]] = start()
    running = portal.call(task)
    portal.stop()

    assert cancelled.is_set()
    assert running.cancelled()


def test_a_forked_process_gets_a_portal_of_its_own() -> None:
    """A Spark worker is forked from a process that may have used the client."""
    parent = get_portal()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            parent.call(value())
        except ConnectionClosed as error:
            text = str(error)
        os.write(
            writer, f"{get_portal() is not parent} {get_portal().call(value())} {text}".encode()
        )
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()

    assert answer.startswith("True 42 this was opened in process ")
    assert "call jetspark.sync.connect() again" in answer
