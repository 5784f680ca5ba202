"""The server of a test: `Server` for coroutines, `SyncServer` for everything else."""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from jetspark.client.opening import opens
from jetspark.client.timeouts import Timeout
from jetspark.testing.controls import Controls, total
from jetspark.testing.kit import get_kit
from jetspark.testing.published import PublishedMessage

if TYPE_CHECKING:
    from jetspark.client.client import Client
    from jetspark.client.connect_arguments import ConnectArguments
    from jetspark.sync.client import Client as SyncClient

P = ParamSpec("P")
T = TypeVar("T")
# A client that is disconnected repeatedly waits longer each time, soon longer than the timeout of
# a call.
RECONNECT_WAIT_MAX: Final = 0.1
NO_LIMIT: Final = -1


def _quick_reconnects(options: "ConnectArguments") -> "ConnectArguments":
    """Return the options, with short waits where they say nothing about reconnecting."""
    if any(name.startswith(("reconnect_wait", "max_reconnects")) for name in options):
        return options
    return {
        "reconnect_wait_max": RECONNECT_WAIT_MAX,
        "max_reconnects": NO_LIMIT,
        **options,
    }


def _awaited(
    method: "Callable[Concatenate[Server, P], Coroutine[Any, Any, T]]",
) -> "Callable[Concatenate[Server, P], Coroutine[Any, Any, T]]":
    """Let the test fail at its end if it has not awaited the call.

    Otherwise an assertion without ``await`` would hold, whatever was published.
    """

    @functools.wraps(method)
    def called(self: "Server", /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._controls.calls.add(method.__name__, method(self, *args, **kwargs))

    return called


class Server:
    """A server for one test, or for the tests that share it: ``async with Server() as server``.

    All of them share one process, and each has an account of its own: no stream, bucket, message
    or advisory is visible in another. It belongs to no event loop. `SyncServer.to_async` passes
    ``controls``.
    """

    __test__ = False  # for pytest: not a class of tests

    def __init__(self, controls: Controls | None = None) -> None:
        self._kit = get_kit()
        self._controls = controls or Controls(self._kit)

    @property
    def url(self) -> str:
        """The address for the program under test, with the credentials of this account."""
        return self._controls.account.url

    @property
    def now(self) -> datetime:
        """The date and time of the server: that of the machine, plus what `advance` added."""
        return datetime.fromtimestamp((time.time_ns() + self._controls.ahead_ns) / 1e9, UTC)

    @opens
    async def connect(self, **options: "Unpack[ConnectArguments]") -> "Client":
        """Connect a client; the options are those of `jetspark.connect`.

        Unless you set how it reconnects, it waits 0.2 s at most and does not give up.
        """
        from jetspark.client.client import connect

        return await connect(self.url, **_quick_reconnects(options))

    @_awaited
    async def advance(
        self,
        duration: Timeout = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Move the server's clock forward, by seconds, a ``timedelta`` or the sum of the parts.

        Everything that is due in between happens, in order and at its time: TTLs, ``max_age``,
        ``ack_wait``, schedules, duplicate windows, inactive thresholds. Connected clients can
        answer in between. Timeouts of clients are not affected. nats-server: skipped.
        """
        await self._run(self._controls.advance(total(duration, days, hours, minutes, seconds)))

    @_awaited
    async def crash(self, *, start: bool = True) -> None:
        """Kill the server process, and start it again unless ``start`` is False.

        What was acknowledged is still stored; streams in memory are lost.
        """
        await self._run(self._controls.crash(start=start))

    @_awaited
    async def restart(self) -> None:
        """Stop the server cleanly and start it again."""
        await self._run(self._controls.restart())

    @_awaited
    async def stop(self) -> None:
        """Stop the server cleanly: connections are refused until `start`."""
        await self._run(self._controls.stop())

    @_awaited
    async def start(self) -> None:
        """Start the server after `stop` or ``crash(start=False)``, on the same address."""
        await self._run(self._controls.start())

    @_awaited
    async def drop_connections(self) -> int:
        """Abort the connections of this account's clients; return how many there were."""
        return await self._run(self._controls.drop_connections())

    @_awaited
    async def lag(self, latency: Timeout = 0, *, bandwidth: float = 0) -> None:
        """Delay every byte by ``latency`` seconds, and pass ``bandwidth`` bytes per second.

        For this account's clients, in each direction; 0 is no limit, so ``lag()`` ends it.
        """
        await self._run(self._controls.lag(latency, bandwidth))

    @_awaited
    async def fill_disk(self) -> None:
        """Let the server find its disk full, until `free_disk`. nats-server: skipped."""
        await self._run(self._controls.fill_disk())

    @_awaited
    async def free_disk(self) -> None:
        """Give the server's disk space again; messages are accepted again."""
        await self._run(self._controls.free_disk())

    @_awaited
    async def published(
        self,
        subject: str = ">",
        *,
        count: int | None = None,
        data: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Timeout = 2.0,
    ) -> list[PublishedMessage]:
        """Assert that clients published ``count`` messages (None: at least one); return them.

        Waits up to ``timeout`` seconds. ``subject`` may have wildcards, which in front do not
        match ``$`` and ``_INBOX``; ``data`` and ``headers`` select. The AssertionError lists what
        was published.
        """
        return await self._run(self._controls.published(subject, count, data, headers, timeout))

    @_awaited
    async def forget_published(self) -> None:
        """Forget what was published so far, so that `published` reports only what follows."""
        await self._run(self._controls.forget_published())

    async def close(self) -> None:
        """Disconnect clients, delete the streams, and undo what was done to the server."""
        await self._run(self._controls.close())

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        # A test that is cancelled meanwhile leaves no server that is half started.
        return await asyncio.shield(asyncio.wrap_future(self._kit.portal.submit(work)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kit.kind!r})"

    async def __aenter__(self) -> Self:
        await self._run(self._controls.open())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
        self._controls.calls.end(error)


class SyncServer:
    """`Server` without ``await``: ``with SyncServer() as server``."""

    __test__ = False

    def __init__(self) -> None:
        self._kit = get_kit()
        self._controls = Controls(self._kit)

    @property
    def url(self) -> str:
        """The address for the program under test, with the credentials of this account."""
        return self._controls.account.url

    @property
    def now(self) -> datetime:
        """The date and time of the server: that of the machine, plus what `advance` added."""
        return datetime.fromtimestamp((time.time_ns() + self._controls.ahead_ns) / 1e9, UTC)

    def to_async(self) -> Server:
        """The same server for coroutines; this one still closes it."""
        return Server(self._controls)

    def connect(self, **options: "Unpack[ConnectArguments]") -> "SyncClient":
        """Connect a client; the options are those of `jetspark.sync.connect`.

        Unless you set how it reconnects, it waits 0.2 s at most and does not give up.
        """
        from jetspark.sync.client import connect

        return connect(self.url, **_quick_reconnects(options))

    def advance(
        self,
        duration: Timeout = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Move the server's clock forward; see `Server.advance`."""
        self._run(self._controls.advance(total(duration, days, hours, minutes, seconds)))

    def crash(self, *, start: bool = True) -> None:
        """Kill the server process, and start it again unless ``start`` is False."""
        self._run(self._controls.crash(start=start))

    def restart(self) -> None:
        """Stop the server cleanly and start it again."""
        self._run(self._controls.restart())

    def stop(self) -> None:
        """Stop the server cleanly: connections are refused until `start`."""
        self._run(self._controls.stop())

    def start(self) -> None:
        """Start the server after `stop` or ``crash(start=False)``, on the same address."""
        self._run(self._controls.start())

    def drop_connections(self) -> int:
        """Abort the connections of this account's clients; return how many there were."""
        return self._run(self._controls.drop_connections())

    def lag(self, latency: Timeout = 0, *, bandwidth: float = 0) -> None:
        """Delay every byte by ``latency`` seconds, and pass ``bandwidth`` bytes per second."""
        self._run(self._controls.lag(latency, bandwidth))

    def fill_disk(self) -> None:
        """Let the server find its disk full, until `free_disk`. nats-server: skipped."""
        self._run(self._controls.fill_disk())

    def free_disk(self) -> None:
        """Give the server's disk space again; messages are accepted again."""
        self._run(self._controls.free_disk())

    def published(
        self,
        subject: str = ">",
        *,
        count: int | None = None,
        data: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Timeout = 2.0,
    ) -> list[PublishedMessage]:
        """Assert that clients published ``count`` messages (None: at least one); return them.

        See `Server.published`.
        """
        return self._run(self._controls.published(subject, count, data, headers, timeout))

    def forget_published(self) -> None:
        """Forget what was published so far, so that `published` reports only what follows."""
        self._run(self._controls.forget_published())

    def close(self) -> None:
        """Disconnect clients, delete the streams, and undo what was done to the server."""
        self._run(self._controls.close())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._kit.portal.call(work)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kit.kind!r})"

    def __enter__(self) -> Self:
        self._run(self._controls.open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._controls.calls.end(error)  # of the server that `to_async` returned
