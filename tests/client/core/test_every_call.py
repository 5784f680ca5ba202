"""One timeout rule, and every call can be cancelled: all public methods, wherever they wait."""

import asyncio
import re
from collections.abc import Coroutine, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Connect
from tests.support.chaos_proxy import ChaosProxy
from tests.support.every_call import EveryCall, waiting_methods
from tests.support.waiting import until

from jetspark import Client, Timeout, client_options, connect, connect_with
from jetspark.errors import Error, RequestTimeout

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client" / "timeouts.md"
# They end what they are called on, and are tried by tests of their own.
ENDING = {
    "Client.drain",
    "Consumption.close",
    "Consumption.drain",
    "KeyValue.destroy",
    "Membership.close",
    "ObjectStore.seal",
    "PullSubscription.drain",
    "PullSubscription.unsubscribe",
    "PushSubscription.drain",
    "PushSubscription.unsubscribe",
    "Subscription.drain",
}
# What says by its result that time is over.
RESULTS: dict[str, Any] = {
    "Client.replicas": [],
    "Client.request_many": [],
    "Consumer.fetch": [],
    "OrderedConsumer.fetch": [],
    "PullSubscription.fetch": [],
    "KeyValueReplica.wait_for": False,
    "StreamReplica.wait_for": False,
}
# They ask no one here: there is nothing to release, the initial data is here.
ASK_NOBODY = {
    "Election.resign",
    "Election.wait_deposed",
    "JetStream.publish_async_complete",
    "Lock.release",
    "Lock.wait_lost",
    "Watcher.ready",
}


def test_every_call_takes_a_timeout_or_is_documented() -> None:
    exceptions = set(re.findall(r"`([A-Z]\w+\.\w+)`", PAGE.read_text(encoding="utf-8")))
    methods = dict(waiting_methods())

    assert {name for name, has_timeout in methods.items() if not has_timeout} <= exceptions
    assert exceptions <= methods.keys()


async def test_every_call_is_in_the_table(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc, EveryCall(nc, name, tmp_path) as every:
        with_timeout = {method for method, has_timeout in waiting_methods() if has_timeout}

        assert with_timeout == every.calls.keys() | ENDING


@pytest.mark.parametrize("timeout", [0.2, timedelta(seconds=0.2)], ids=["seconds", "timedelta"])
async def test_no_call_waits_longer_than_its_timeout(
    server: Any, name: str, tmp_path: Path, timeout: Timeout
) -> None:
    """Everything at once, to a server that does not answer any more."""
    async with ChaosProxy(server.url.removeprefix("nats://")) as proxy:
        nc = await connect(proxy.url)
        every = EveryCall(nc, name, tmp_path)
        await every.__aenter__()
        proxy.refusing = True
        proxy.black_hole()

        async def tried(method: str) -> object:
            try:
                return await every.calls[method](timeout)
            except Error as error:
                return error

        # It gives up the connection that the others wait on.
        last = "Client.force_reconnect"
        methods = [each for each in every.calls if each not in {last, *ASK_NOBODY}]
        async with asyncio.timeout(60):
            ends = dict(zip(methods, await asyncio.gather(*map(tried, methods)), strict=True))
        wrong = {method: end for method, end in ends.items() if not is_over(method, end)}
        assert wrong == {}
        assert isinstance(await tried(last), RequestTimeout)
        await nc.close()


async def test_every_call_takes_a_timedelta(client: Connect, name: str, tmp_path: Path) -> None:
    """Whatever it asks for, also what ends something."""
    async with client() as nc, EveryCall(nc, name, tmp_path) as every:
        wrong = {}
        for method, call in {**every.calls, **every.endings()}.items():
            short = method == "MessageIterator.close" or waits_in_vain(method)
            try:
                await call(timedelta(seconds=0.1 if short else 30))
            except Error:
                pass  # of the server, or because nothing came
            except Exception as error:  # noqa: BLE001 - all of them at once
                wrong[method] = error
        assert wrong == {}


async def test_what_ends_for_good_takes_a_timedelta(client: Connect, name: str) -> None:
    soon = timedelta(seconds=30)
    async with client() as nc:
        js = nc.jetstream(timeout=soon)
        await js.create_stream(name, subjects=[f"{name}.>"])
        await (await js.subscribe(f"{name}.>")).unsubscribe(timeout=soon)
        await (await js.pull_subscribe(f"{name}.>")).unsubscribe(timeout=soon)
        await (await js.create_object_store(name)).seal(timeout=soon)
        kv = await js.create_key_value(name)
        await (await kv.members("group").join("me")).close(timeout=soon)
        await kv.destroy(timeout=soon)
        await nc.drain(timeout=soon)
        assert nc.is_closed


async def test_a_client_is_connected_with_timedeltas(server: Any, name: str) -> None:
    options = client_options(
        server.url, timeout=timedelta(milliseconds=50), ping_interval=timedelta(minutes=1)
    )
    assert (options.timeout, options.ping_interval) == (0.05, 60.0)
    async with connect_with(options) as nc:
        subscription = await nc.subscribe(name)
        with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
            await subscription.next()


def is_over(method: str, end: object) -> bool:
    return end == RESULTS[method] if method in RESULTS else isinstance(end, RequestTimeout)


class CancelledAt:
    """Awaits a coroutine and cancels the task at its n-th await point."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], point: int) -> None:
        self._coroutine = coroutine
        self._point = point
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        task = asyncio.current_task()
        assert task is not None
        count = 0
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waited_for = steps.throw(thrown) if thrown is not None else steps.send(sent)
            except StopIteration as end:
                return end.value
            thrown = None
            if count == self._point:
                self.reached = True
                task.cancel()
            count += 1
            try:
                sent = yield waited_for
            except BaseException as error:  # noqa: BLE001 - it continues to the coroutine
                thrown = error


async def test_every_call_can_be_cancelled_wherever_it_waits(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with client() as nc, EveryCall(nc, name, tmp_path) as every:
        before = state_of(nc)
        for method, call in {**every.calls, **every.endings()}.items():
            for point in range(60):
                cancelled = CancelledAt(call(0.1 if waits_in_vain(method) else 30.0), point)
                task = asyncio.ensure_future(run(cancelled))
                await asyncio.wait([task], timeout=60)
                assert task.done(), f"{method} did not end when it was cancelled at {point}"
                if not task.cancelled() and task.exception() is not None:
                    assert isinstance(task.exception(), Error), (method, point, task.exception())
                await nc.flush(timeout=60)
                await until(
                    lambda: not leaked(nc, before), f"{method} at {point}: {leaked(nc, before)}"
                )
                if not cancelled.reached:
                    break


async def run(cancelled: CancelledAt) -> Any:
    return await cancelled


def waits_in_vain(method: str) -> bool:
    """Whether it waits for what does not come."""
    verb = method.partition(".")[2]
    return verb in {"next", "fetch", "wait_for", "wait_lost", "wait_deposed"} or (
        method in {"KeyValueReplica.get_at", "StreamReplica.get_last_at"}
    )


def leaked(nc: Client, before: dict[str, int]) -> dict[str, int]:
    """What there is more of than before; a watch that lost its connection has less."""
    return {key: count for key, count in state_of(nc).items() if count > before[key]}


def state_of(nc: Client) -> dict[str, int]:
    core = nc._core
    return {
        "subscriptions": nc.stats.subscriptions,
        "requests": nc.stats.requests_pending,
        "receivers": len(core.receiver.sinks),
        "up": len(core.up_listeners),
        "down": len(core.down_listeners),
    }
