"""Objects opened by ``await`` or ``async with``: clients, subscriptions, watches."""

import functools
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from jetspark.errors import InvalidState


class Openable(Protocol):
    """An asynchronous context manager."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Any: ...


P = ParamSpec("P")
T = TypeVar("T", bound=Openable)


class Opening(Coroutine[Any, Any, T], Generic[T]):
    """Not open yet: ``await`` it and close the result, or use it with ``async with``.

    It is a coroutine, so it also works where asyncio requires one: ``create_task``.
    """

    __slots__ = ("_begun", "_coroutine", "_opened")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._begun = False
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        self._begin()
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """As for a coroutine."""
        self._begun = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """As for a coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """As for a coroutine: discard it before it started."""
        self._coroutine.close()

    def __repr__(self) -> str:
        return f"Opening({self._name}: await it, or use it with async with)"

    @property
    def _name(self) -> str:
        return getattr(self._coroutine, "__qualname__", "")

    def _begin(self) -> None:
        if self._begun:
            raise InvalidState(f"{self._name} is already open: call it again to open another one")
        self._begun = True

    async def __aenter__(self) -> T:
        self._begin()
        opened = await self._coroutine
        self._opened = opened
        await opened.__aenter__()
        return opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened is None:
            raise InvalidState(f"{self._name} is not open: use async with")
        await self._opened.__aexit__(kind, error, traceback)


def opens(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Opening[T]]:
    """Decorate a coroutine function so that its result can be awaited or entered."""

    @functools.wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[T]:
        return Opening(function(*args, **kwargs))

    return opening
