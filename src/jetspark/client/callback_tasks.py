"""The tasks that run callbacks, and who may wait for whom.

A callback may close or drain its own client. Waiting for all callbacks would then be waiting for
itself, so whoever waits asks first whether it was called from inside one of them.
"""

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar, runtime_checkable

from jetspark.client.thread_callback import Report, in_callback_thread

M = TypeVar("M")

_RUNNING: Final[weakref.WeakSet[asyncio.Task[None]]] = weakref.WeakSet()


@runtime_checkable
class Elsewhere(Protocol):
    """What calls a function on other threads or tasks: a ThreadCallback, or a CallbackPool."""

    @property
    def is_here(self) -> bool:
        """Whether this was called, across threads or not, from inside the function."""


class CallbackTasks:
    """The running callbacks of one client, each with the thread it works on if it has one."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], object] = {}

    def add(self, task: asyncio.Task[None], callback: object) -> None:
        """``task`` runs ``callback`` from now on, until it is done."""
        mark_callback(task)
        self._tasks[task] = callback
        task.add_done_callback(self._tasks.pop)

    async def wait(self) -> bool:
        """Wait until all callbacks are done with what they have."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        return True

    def cancel(self) -> None:
        """Wait for none of them any more, the caller excepted."""
        for task, callback in self._tasks.items():
            if not is_calling(task, callback):
                task.cancel()

    async def finish(self, others: Iterable[asyncio.Future[None]], timeout: float) -> None:
        """Wait for the callbacks and ``others``, but not for the caller; cancel who is late."""
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
    """Remember that ``task`` runs a callback."""
    _RUNNING.add(task)


def is_inside_callback() -> bool:
    """Whether the caller is a callback, on the loop or on a thread of its own."""
    task = asyncio.current_task()
    return in_callback_thread() or (task is not None and task in _RUNNING)


def is_calling(task: asyncio.Task[None] | None, callback: object) -> bool:
    """Whether the caller is ``callback``, which ``task`` runs, on this thread or on others."""
    if isinstance(callback, Elsewhere) and callback.is_here:
        return True
    return task is not None and asyncio.current_task() is task


async def call_back(
    callback: Callable[[M], Awaitable[None] | None], item: M, label: str, report: Report
) -> None:
    """Call a plain or coroutine function; whatever it raises is reported and goes no further."""
    try:
        result = callback(item)
        if result is not None and inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        if is_cancelled_here():
            raise
        report(callback_cancelled(label, error))
    except Exception as error:  # noqa: BLE001 - whatever a user's callback raises
        report(error)


def is_cancelled_here() -> bool:
    """Whether the current task is to be cancelled, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def callback_cancelled(label: str, error: asyncio.CancelledError) -> RuntimeError:
    """What to report of a callback that ended with somebody else's cancellation."""
    problem = RuntimeError(f"{label}: the callback waited for something that was cancelled")
    problem.__cause__ = error
    return problem
