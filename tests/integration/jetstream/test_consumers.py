"""Consumers over sockets: what only the server around the engine can get wrong."""

from __future__ import annotations

import asyncio
import json

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from jetspark.server.server import Server


async def connected(server: Server) -> Client:
    return await nats.connect(server.client_url)


async def api(client: Client, verb: str, **body: object) -> dict[str, object]:
    reply = await client.request(f"$JS.API.{verb}", json.dumps(body).encode() if body else b"")
    answer: dict[str, object] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def filled(client: Client, count: int) -> None:
    await api(client, "STREAM.CREATE.S", name="S", subjects=["s.>"])
    for n in range(count):
        await client.request("s.a", b"%d" % n)


async def test_a_thousand_consumers_add_no_task_and_no_timer() -> None:
    async with Server() as server:
        client = await connected(server)
        await filled(client, 1)
        await api(client, "CONSUMER.CREATE.S.first", stream_name="S", config={"name": "first"})
        loop = asyncio.get_running_loop()
        tasks = len(asyncio.all_tasks())
        handles = timers(loop)

        for n in range(1000):
            config = {"name": f"c{n}", "ack_policy": "explicit", "inactive_threshold": 10**12}
            await api(client, f"CONSUMER.CREATE.S.c{n}", stream_name="S", config=config)

        assert len(asyncio.all_tasks()) <= tasks
        # The few timers that a server and a connection have on their own come and go.
        assert timers(loop) <= handles + 10
        await client.close()


def timers(loop: asyncio.AbstractEventLoop) -> int:
    """The timers of asyncio's own loop; other loops do not show them, and tasks must suffice."""
    return sum(not handle.cancelled() for handle in getattr(loop, "_scheduled", ()))


async def test_a_subscriber_to_everything_does_not_take_messages_away() -> None:
    async with Server() as server:
        watcher = await connected(server)
        seen: list[str] = []

        async def see(message: Msg) -> None:
            seen.append(message.subject)

        await watcher.subscribe(">", cb=see)
        await watcher.flush()
        client = await connected(server)
        await filled(client, 3)
        js = client.jetstream()

        pulled = await js.pull_subscribe("s.>", durable="d", stream="S")
        messages = await pulled.fetch(3, timeout=5)
        for message in messages:
            await message.ack_sync()
        await watcher.flush()

        assert [message.data for message in messages] == [b"0", b"1", b"2"]
        assert sum(subject.startswith("$JS.ACK.S.d.") for subject in seen) == 3
        assert (await pulled.consumer_info()).num_ack_pending == 0
        await client.close()
        await watcher.close()


async def test_a_request_for_no_consumer_has_no_responders() -> None:
    async with Server() as server:
        client = await connected(server)
        await filled(client, 1)

        for subject in ("$JS.API.CONSUMER.MSG.NEXT.S.none", "$JS.ACK.S.none.1.1.1.1.0"):
            try:
                await client.request(subject, b"", timeout=2)
            except nats.errors.NoRespondersError:
                continue
            raise AssertionError(f"{subject} was answered")
        await client.close()


async def test_a_slow_reader_stops_its_replay_and_gets_it_all() -> None:
    """A run waits for its receiver without turning in circles (hot-path.md, Loop and sockets)."""
    async with Server() as server:
        client = await connected(server)
        await api(client, "STREAM.CREATE.S", name="S", subjects=["s.>"])
        for _ in range(300):
            await client.publish("s.a", b"x" * 60_000)
        await client.flush()
        while (await api(client, "STREAM.INFO.S"))["state"]["messages"] < 300:  # type: ignore[index]
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        config = b'{"stream_name":"S","config":{"deliver_subject":"d","mem_storage":true}}'
        writer.write(
            b'CONNECT {"verbose":false}\r\nSUB d 1\r\n'
            b"PUB $JS.API.CONSUMER.CREATE.S %d\r\n%b\r\n" % (len(config), config)
        )
        await asyncio.sleep(0.3)

        got = b""
        while got.count(b"$JS.ACK.S.") < 300:
            data = await asyncio.wait_for(reader.read(1 << 20), 10)
            assert data, "the server closed the connection"
            got += data

        writer.close()
        await client.close()


async def test_a_watcher_that_stops_reading_delays_no_other_client() -> None:
    async with Server() as server:
        client = await connected(server)
        await api(client, "STREAM.CREATE.S", name="S", subjects=["s.>"])
        for _ in range(200):
            await client.publish("s.a", b"x" * 30_000)
        while (await api(client, "STREAM.INFO.S"))["state"]["messages"] < 200:  # type: ignore[index]
            await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b'CONNECT {"verbose":false}\r\nSUB _INBOX.> 1\r\n')
        await asyncio.sleep(0.1)

        pulled = await client.jetstream().pull_subscribe("s.>", durable="d", stream="S")
        got = 0
        while got < 200:
            for message in await pulled.fetch(50, timeout=5):
                await message.ack()
                got += 1

        writer.close()
        await client.close()


async def test_half_an_acknowledgement_is_a_message_like_any_other() -> None:
    """Compiled, a slice that ends before it begins is an error: none must come from a client."""
    async with Server() as server:
        client = await connected(server)
        await filled(client, 1)
        await api(client, "CONSUMER.CREATE.S.c", stream_name="S", config={"name": "c"})
        for subject in ("$JS.FC.x", "$JS.FC.S.c", "$JS.ACK.x", "$JS.ACK.S.c", "$JS.ACK.S.c.1.2"):
            await client.publish(subject, b"")
        await api(client, "STREAM.UPDATE.S", name="S", subjects=["s.>"], allow_direct=True)
        for body in (b'{"next_by_subj":"}', b'{"last_by_subj":"}', b'{"next_by_subj":"a'):
            reply = await client.request("$JS.API.DIRECT.GET.S", body, timeout=5)
            assert reply.headers is not None

        await client.flush(timeout=5)

        assert client.is_connected
        assert client.stats["reconnects"] == 0
        await client.close()
