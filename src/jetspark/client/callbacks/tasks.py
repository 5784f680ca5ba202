"""The tasks that run callbacks, and which of them a caller may wait for.

A callback may close or drain its own client. Waiting for all callbacks would then deadlock, so
callers first check whether they run inside one of them.
"""

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar, runtime_checkable

from jetspark.client.callbacks.thread import Report, in_callback_thread

M = TypeVar("M")

_RUNNING: Final[weakref.WeakSet[asyncio.Task[None]]] = weakref.WeakSet()


@runtime_checkable
class Elsewhere(Protocol):
    """Runs a function on other threads or tasks: a ThreadCallback, or a CallbackPool."""

    @property
    def is_here(self) -> bool:
        """Whether the caller runs inside the function, on this thread or another."""


class CallbackTasks:
    """The running callbacks of one client, each with its thread if it has one."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], object] = {}

    def add(self, task: asyncio.Task[None], callback: object) -> None:
        """Register ``task``, which runs ``callback``, until it is done."""
        mark_callback(task)
        self._tasks[task] = callback
        task.add_done_callback(self._tasks.pop)

    async def wait(self) -> bool:
        """Wait until all callbacks have processed what they have."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        return True

    def cancel(self) -> None:
        """Cancel all of them, except the caller's."""
        for task, callback in self._tasks.items():
            if not is_calling(task, callback):
                task.cancel()

    async def finish(self, others: Iterable[asyncio.Future[None]], timeout: float) -> None:
        """Wait for the callbacks and ``others``, except the caller; cancel those that are late."""
        here = asyncio.current_task()
        waited_for: list[asyncio.Future[None]] = [
            task for task, callback in self._tasks.items() if not is_calling(task, callback)
        ]
        waited_for += [other for other in others if other is not here]
        if waited_for:
            _, late = await asyncio.wait(waited_for, timeout=timeout)
            for task in late:
                task.cancel()


def mark_callback(task: asyncio.Task[None]) -> None:
    """Mark ``task`` as one that runs a callback."""
    _RUNNING.add(task)


def is_inside_callback() -> bool:
    """Whether the caller runs inside a callback, on the loop or on its thread."""
    task = asyncio.current_task()
    return in_callback_thread() or (task is not None and task in _RUNNING)


def is_calling(task: asyncio.Task[None] | None, callback: object) -> bool:
    """Whether the caller runs inside ``callback``, run by ``task``, on this thread or another."""
    if isinstance(callback, Elsewhere) and callback.is_here:
        return True
    return task is not None and asyncio.current_task() is task


async def call_back(
    callback: Callable[[M], Awaitable[None] | None], item: M, label: str, report: Report
) -> None:
    """Call a plain or coroutine function; report whatever it raises."""
    try:
        result = callback(item)
        if result is not None and inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        if is_cancelled_here():
            raise
        report(callback_cancelled(label, error))
    except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
        report(error)


def is_cancelled_here() -> bool:
    """Whether the current task itself is being cancelled, not only what it awaited."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def callback_cancelled(label: str, error: asyncio.CancelledError) -> RuntimeError:
    """The error to report when a callback awaited something that was cancelled."""
    problem = RuntimeError(f"{label}: the callback awaited something that was cancelled")
    problem.__cause__ = error
    return problem
