"""Control of a test's server, on the loop of the kit; servers.py has the forms for tests."""

import inspect
import math
import signal
import time
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from inspect import CORO_CLOSED, CORO_CREATED
from typing import Any, Final, TypeVar

from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import InvalidState
from jetspark.subjects.tokens import is_valid_subject
from jetspark.testing.clock import LATEST_NS
from jetspark.testing.kit import Account, Kit
from jetspark.testing.published import Expectation, PublishedMessage

TOO_FAR: Final = "the clock would pass the year 2223: advance it by less"


T = TypeVar("T")


class AwaitedCalls:
    """The calls of one test that are coroutines: it has to await each of them."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def add(self, name: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Keep a call until it is done, and return it."""
        self._calls = [
            each for each in self._calls if inspect.getcoroutinestate(each[1]) != CORO_CLOSED
        ]
        self._calls.append((name, call))
        return call

    def end(self, error: BaseException | None) -> None:
        """Raise AssertionError if the test did not await a call; not after another error."""
        left = [each for each in self._calls if inspect.getcoroutinestate(each[1]) == CORO_CREATED]
        self._calls.clear()
        for _, call in left:
            call.close()  # without Python's own warning
        if left and error is None:
            names = ", ".join(f"{name}()" for name, _ in left)
            raise AssertionError(
                f"the test did not await {names} of its server, which therefore did nothing: "
                f"write `await server.{left[0][0]}(...)`"
            )


class Controls:
    """The account of one test, and the server that has it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.calls: AwaitedCalls = AwaitedCalls()
        self._account: Account | None = None

    @property
    def account(self) -> Account:
        """The account, while it is open."""
        return self._need_open()

    def _need_open(self) -> Account:
        if self._account is None:
            raise InvalidState(
                "the test server is not open: use `with` or `async with`, or a fixture"
            )
        return self._account

    async def open(self) -> None:
        """Get an account."""
        if self._account is not None:
            raise InvalidState("the test server is already open")
        self._account = await self._kit.open_account()

    async def close(self) -> None:
        """Give it back."""
        account, self._account = self._account, None
        if account is not None:
            await self._kit.close_account(account)

    @property
    def ahead_ns(self) -> int:
        """How far the clock was moved."""
        self._need_open()
        return self._kit.backend.ahead_ns

    async def advance(self, duration: timedelta) -> None:
        """Move the clock."""
        self._need_running()
        nanoseconds = duration // timedelta(microseconds=1) * 1000
        if nanoseconds <= 0:
            raise ValueError(
                f"advance by {duration.total_seconds():g} seconds: expected a time greater than 0"
            )
        if time.time_ns() + self.ahead_ns + nanoseconds > LATEST_NS:
            raise ValueError(TOO_FAR)
        await self._kit.advance(nanoseconds)

    async def crash(self, *, start: bool) -> None:
        """Kill the server."""
        self._need_running()
        await self._kit.end(signal.SIGKILL)
        if start:
            await self._kit.start()

    async def restart(self) -> None:
        """Stop the server and start it."""
        await self.stop()
        await self._kit.start()

    async def stop(self) -> None:
        """Stop the server cleanly."""
        self._need_running()
        await self._kit.end(signal.SIGTERM)

    async def start(self) -> None:
        """Start the server."""
        self._need_open()
        await self._kit.start()

    async def drop_connections(self) -> int:
        """Abort the connections of this test."""
        return await self.account.gate.drop_noticed()

    async def lag(self, latency: Timeout, bandwidth: float) -> None:
        """Delay what the clients of this test send and receive."""
        delay = call_seconds(latency, 0, "latency")
        if not is_number(bandwidth):
            raise TypeError(
                f"bandwidth must be bytes per second, 0 for no limit, not {bandwidth!r}"
            )
        for name, value in (("latency", delay), ("bandwidth", bandwidth)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}={value!r}: expected a number, 0 or more")
        self.account.gate.delay(delay, bandwidth)

    async def fill_disk(self) -> None:
        """Let writes to streams on disk fail."""
        self._need_running()
        await self._kit.backend.fill_disk()

    async def free_disk(self) -> None:
        """Let them succeed."""
        self._need_running()
        await self._kit.backend.free_disk()

    async def published(
        self,
        subject: object,
        count: int | None,
        data: bytes | str | None,
        headers: Mapping[str, str] | None,
        timeout: Timeout,
    ) -> list[PublishedMessage]:
        """Wait for published messages."""
        if not isinstance(subject, str) or not is_valid_subject(subject.encode()):
            raise ValueError(
                f"published({subject!r}): expected a subject, in which * is one token and > the "
                "rest, such as 'orders.>'"
            )
        if count is not None and (type(count) is not int or count < 0):
            raise ValueError(
                f"count={count!r}: expected a number, 0 or more, or None for at least one"
            )
        _check_selection(data, headers)
        wanted = Expectation(subject, count, data, headers)
        patience = call_seconds(timeout, 0)
        if not patience >= 0:
            raise ValueError(f"timeout={timeout!r}: expected seconds, 0 or more")
        return await self.account.published.expect(wanted, patience)

    async def forget_published(self) -> None:
        """Forget what was published so far."""
        self.account.published.clear()

    def _need_running(self) -> None:
        self._need_open()
        if not self._kit.is_running:
            raise InvalidState("the server is stopped: call start() first")


def is_number(value: object) -> bool:
    """Return whether it is an int or a float; a bool is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_selection(data: object, headers: object) -> None:
    """Refuse what no message can equal: with ``count=0`` the assertion would always hold."""
    if data is not None and not isinstance(data, bytes | str):
        raise TypeError(
            f"data must be bytes or str, not {type(data).__name__}; to compare JSON, use json() "
            "of the messages that are returned"
        )
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of names to values, not {headers!r}")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"headers {{{name!r}: {value!r}}}: expected text for both")


def total(
    duration: Timeout, days: float, hours: float, minutes: float, seconds: float
) -> timedelta:
    """Add up the arguments of ``advance``."""
    parts = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    for name, value in parts.items():
        if not is_number(value):
            raise TypeError(f"{name} must be a number, not {value!r}")
        if math.isnan(value):
            raise ValueError(f"{name}=nan: expected a number")
    try:
        first = timedelta(seconds=call_seconds(duration, 0, "duration"))
        return first + timedelta(**parts)
    except OverflowError:
        raise ValueError(TOO_FAR) from None
