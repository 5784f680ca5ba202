import asyncio
import sys
import threading

import pytest

from jetspark.client.callbacks.thread import ThreadCallback
from jetspark.client.message import Message


def messages(count: int) -> list[Message]:
    return [Message("a", b"%d" % n) for n in range(count)]


async def test_a_chunk_is_done_on_another_thread_before_run_returns() -> None:
    seen: list[tuple[bytes, bool]] = []
    main = threading.current_thread()
    callback = ThreadCallback[Message](
        lambda message: seen.append((message.data, threading.current_thread() is main))
    )
    await callback.run(messages(3), report=lambda _: None)
    await callback.run(messages(1), report=lambda _: None)
    callback.close()

    assert seen == [(b"0", False), (b"1", False), (b"2", False), (b"0", False)]


async def test_the_loop_continues_while_the_function_blocks() -> None:
    released = threading.Event()
    callback = ThreadCallback[Message](lambda _: released.wait(5))
    running = asyncio.ensure_future(callback.run(messages(1), report=lambda _: None))
    await asyncio.sleep(0)
    assert not running.done()

    released.set()
    await running
    callback.close()


async def test_a_failure_is_reported_on_the_loop_and_the_rest_continues() -> None:
    errors: list[tuple[str, bool]] = []
    seen: list[bytes] = []
    loop_thread = threading.current_thread()

    def work(message: Message) -> None:
        seen.append(message.data)
        if message.data == b"1":
            raise LookupError("one")

    def report(error: Exception) -> None:
        errors.append((str(error), threading.current_thread() is loop_thread))

    callback = ThreadCallback[Message](work)
    await callback.run(messages(3), report)
    callback.close()

    assert seen == [b"0", b"1", b"2"]
    assert errors == [("one", True)]


async def test_the_thread_ends_with_the_subscription() -> None:
    before = set(threading.enumerate())
    callback = ThreadCallback[Message](lambda _: None)
    callback.close()
    await callback.run(messages(1), report=lambda _: None)

    # Threads of other tests may end meanwhile; the one that is new is ours.
    (thread,) = set(threading.enumerate()) - before
    assert thread.name == "jetspark callback"
    callback.close()
    thread.join(5)
    assert not thread.is_alive()


async def test_a_coroutine_function_is_refused() -> None:
    async def wrong(_message: Message) -> None:
        """No one would await it."""

    with pytest.raises(TypeError, match="pass a plain function"):
        ThreadCallback[Message](wrong)


async def test_a_coroutine_that_comes_out_is_reported_and_not_left_lying() -> None:
    async def wrong() -> None:
        """No one would await it."""

    errors: list[Exception] = []
    callback = ThreadCallback[Message](lambda _: wrong())
    await callback.run(messages(1), errors.append)
    callback.close()

    assert [type(error) for error in errors] == [TypeError]


async def test_an_exit_inside_the_function_ends_nothing() -> None:
    """A thread that died of it would leave the subscription waiting for ever."""
    errors: list[Exception] = []
    callback = ThreadCallback[Message](lambda _: sys.exit(3))
    await asyncio.wait_for(callback.run(messages(2), errors.append), 2)
    callback.close()

    assert [str(error) for error in errors] == ["the callback raised SystemExit(3)"] * 2


def test_a_loop_that_has_ended_is_not_notified() -> None:
    """The process is ending: a traceback of a daemon thread would help no one."""
    begun, released = threading.Event(), threading.Event()
    problems: list[object] = []
    hook, threading.excepthook = threading.excepthook, problems.append

    def work(_message: Message) -> None:
        begun.set()
        released.wait(5)

    async def main() -> None:
        running = asyncio.ensure_future(callback.run(messages(1), report=lambda _: None))
        await asyncio.to_thread(begun.wait, 5)
        running.cancel()

    callback = ThreadCallback[Message](work)
    try:
        asyncio.run(main())
        callback.close()
        released.set()
        for thread in threading.enumerate():
            if thread.name == "jetspark callback":
                thread.join(5)
    finally:
        threading.excepthook = hook

    assert problems == []
