"""Fast batches whose connection, server or messages are lost on the way (ADR-50)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.support.chaos_proxy import ChaosProxy
from tests.support.fast_ingest import Ingest

from jetspark import Client, JetStream, Stream, StreamConfig, connect
from jetspark.errors import BatchIncomplete, ConnectionClosed, RequestTimeout

Connect = Callable[..., AbstractAsyncContextManager[Client]]

QUICK: Any = {
    "reconnect_wait": 0.01,
    "reconnect_wait_max": 0.05,
    "reconnect_jitter": 0.0,
    "max_reconnects": -1,
}


async def made(js: JetStream, name: str) -> Stream:
    return await js.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), allow_batched=True, allow_direct=True)
    )


@pytest.mark.parametrize("gap", ["fail", "ok"])
async def test_cuts_of_the_connection_lose_nothing_unnoticed(
    server: Any, name: str, gap: str
) -> None:
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(server.url) as plain,
        await connect(proxy.url, **QUICK) as nc,
    ):
        await made(plain.jetstream(), name)
        mine = await nc.jetstream().stream(name)
        ingest = Ingest(nc.jetstream(), mine, f"{name}.a", 8000)
        going_on = asyncio.ensure_future(ingest.run(gap))
        await ingest.well_begun.wait()
        for cut in range(4):
            proxy.cut()
            while nc.stats.reconnects <= cut and not going_on.done():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
        await going_on

        assert nc.stats.reconnects >= 1
        await ingest.check(exact=gap == "fail")


async def test_a_batch_continues_when_a_cut_lost_nothing(server: Any, name: str) -> None:
    """The server is asked what it has: all of it, so there is no gap."""
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(proxy.url, **QUICK) as nc,
    ):
        js = nc.jetstream()
        stream = await made(js, name)
        async with js.fast_publisher() as fast:
            for n in range(10):
                await fast.publish(f"{name}.a", b"%d" % n)
            await nc.flush()
            proxy.cut()
            while not nc.stats.reconnects:
                await asyncio.sleep(0.001)
            await fast.publish(f"{name}.a", b"10")

        assert fast.ack.count == 11
        assert (await stream.info()).state.messages == 11


async def test_the_header_dialect_cannot_ask_after_a_cut(server: Any, name: str) -> None:
    if server.kind == "nats-server":
        pytest.skip("released servers do not speak the header dialect")
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(proxy.url, **QUICK) as nc,
    ):
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(dialect="headers")
        await fast.publish(f"{name}.a", b"1")
        proxy.cut()
        while not nc.stats.reconnects:
            await asyncio.sleep(0.001)

        with pytest.raises(BatchIncomplete, match="at least 1 of 1 messages are stored"):
            await fast.publish(f"{name}.a", b"2")
        assert fast.is_closed


async def test_an_end_that_was_lost_is_said_again(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(ack_timeout=0.1)
        await fast.publish(f"{name}.a", b"1")
        said: list[tuple[int, int]] = []
        say = fast._send_control

        def lose_the_first(operation: int, seq: int) -> None:
            said.append((operation, seq))
            if len(said) > 1:
                say(operation, seq)

        monkeypatch.setattr(fast, "_send_control", lose_the_first)
        ack = await fast.commit()

        assert ack.count == 1
        assert said == [(3, 2), (4, 1), (3, 2)]  # end, ping, end


async def test_an_end_that_never_arrives_is_an_error(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(ack_timeout=0.05)
        await fast.publish(f"{name}.a", b"1")
        say = fast._send_control
        monkeypatch.setattr(
            fast, "_send_control", lambda operation, seq: operation == 3 or say(4, seq)
        )

        with pytest.raises(RequestTimeout, match="was not answered in 5 attempts"):
            await fast.commit()


async def test_a_stream_that_goes_away_ends_the_batch(client: Connect, name: str) -> None:
    """No one takes its messages any more, and no one comes back."""
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(ack_timeout=0.1)
        await fast.publish(f"{name}.a", b"1")
        await js.delete_stream(name)

        async def go_on() -> None:
            for _ in range(2000):
                await fast.publish(f"{name}.a", b"2")
                await asyncio.sleep(0)

        with pytest.raises(RequestTimeout, match=r"at least 0 of \d+ messages are stored"):
            await asyncio.wait_for(go_on(), 30)


async def test_a_stream_that_goes_away_ends_a_batch_whose_window_is_full(
    client: Connect, name: str
) -> None:
    """Everything that may be sent is in flight when the first word comes that no one takes it."""
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(ack_timeout=0.1)
        await fast.publish(f"{name}.a", b"1")
        await js.delete_stream(name)
        rows = 100_000

        with pytest.raises(RequestTimeout, match=r"0 of \d+ messages are"):
            await asyncio.wait_for(fast.extend([f"{name}.a"] * rows, [b""] * rows), 30)


@pytest.mark.parametrize("kind", ["nats-server", "jetspark"])
async def test_a_restarted_server_forgets_nothing_that_was_acknowledged(
    tmp_path: Path, name: str, kind: str, server_process: Callable[..., Any]
) -> None:
    """Resumed where the server remembers the batch, else an error that says so."""
    running = server_process(kind, tmp_path, "-js")
    async with await connect(running.url, **QUICK) as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        rows = [b"%d" % n for n in range(5000)]
        fast = js.fast_publisher(ack_timeout=5.0)
        await fast.extend([f"{name}.a"] * 2000, rows[:2000])
        await asyncio.to_thread(running.kill)
        await asyncio.to_thread(
            server_process, kind, tmp_path, "-js", port=running.url.rpartition(":")[2]
        )
        try:
            await fast.extend([f"{name}.a"] * 3000, rows[2000:])
            await fast.commit()
        except BatchIncomplete as error:
            told = "\n".join([str(error), *getattr(error, "__notes__", [])])
        else:
            told = "complete"
        found = [message.data async for message in stream.get_batch()]

        assert told == "complete" or f"{fast.acked} of {fast.sent} messages" in told
        assert found == rows[: len(found)]
        assert len(found) == fast.acked if fast.is_exact else len(found) >= fast.acked >= 1000
        assert fast.is_exact == (kind == "jetspark")


async def test_silence_ends_the_batch_once_and_for_all(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is called after the error gets it again, at once."""
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(flow=2, max_outstanding_acks=1, ack_timeout=0.05)
        await fast.publish(f"{name}.a", b"1")
        monkeypatch.setattr(nc._core, "send_message", lambda *_args: None)

        async def go_on() -> None:
            for _ in range(10):
                await fast.publish(f"{name}.a", b"2")

        for call in (go_on, go_on, fast.commit):
            async with asyncio.timeout(5):
                with pytest.raises(RequestTimeout, match="no answer within"):
                    await call()
        assert fast.is_closed
        assert nc.stats.subscriptions == 0


async def test_a_closed_connection_ends_the_batch(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        fast = js.fast_publisher(flow=1, max_outstanding_acks=1)
        await fast.publish(f"{name}.a", b"1")
        await nc.close()

        async with asyncio.timeout(5):
            for _ in range(2):
                with pytest.raises(ConnectionClosed):
                    await fast.extend([f"{name}.a"] * 10, [b""] * 10)
            with pytest.raises(ConnectionClosed):
                await fast.commit()
