"""What one client of a replica does to the others, which share its connection to the leader."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from tests.support import replicas
from tests.support.replicas import PATIENT, ask
from tests.support.waiting import until

import jetspark
from jetspark import KeyValueConfig, StreamConfig
from jetspark.errors import KeyNotFound
from jetspark.protocol.limits import PAYLOAD_MAX
from jetspark.replica import ReplicaServer
from jetspark.replica.fair_queue import LANE_BYTES, REQUEST_UNITS, WINDOW_MOST

# A machine may be slow: what must come is waited for, and nothing is taken for gone.
SECONDS = 50.0
IN_FLIGHT_MOST = WINDOW_MOST // REQUEST_UNITS
CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\n'


def replica_of(url: str, **options: Any) -> ReplicaServer:
    return replicas.replica_of(url, times=PATIENT, **options)


async def copied(replica: ReplicaServer, name: str) -> None:
    """Wait until the copy of a stream with one message answers."""

    def answers() -> bool:
        followed = replica.followed.get(name)
        copy = followed.copy() if followed is not None else None
        return copy is not None and copy.log.index.last_seq >= 1

    await until(answers)


class RawClient:
    """Reads when it wants to, and sends what it wants to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.messages = 0
        self.subjects: list[bytes] = []
        self.statuses: list[bytes] = []
        self.pongs = 0
        self.ended = False

    @classmethod
    async def connect(cls, server: ReplicaServer, room: int = 4 * 1024 * 1024) -> Self:
        """``room``: about how much unread output is buffered, here and by the system."""
        end = socket.socket()
        if room < 4 * 1024 * 1024:
            # Systems take up to tens of MB for a connection unless configured otherwise.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        end.setblocking(False)
        await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=end, limit=room)
        writer.write(CONNECT)
        return cls(reader, writer)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self) -> None:
        """Take everything until the connection ends."""
        while line := await self._reader.readline():
            if line.startswith((b"MSG ", b"HMSG ")):
                self.messages += 1
                words = line.split()
                self.subjects.append(words[1])
                body = await self._reader.readexactly(int(words[-1]) + 2)
                if line.startswith(b"HMSG "):
                    self.statuses.append(body[9:12])
            elif line == b"PONG\r\n":
                self.pongs += 1
            elif line == b"PING\r\n":
                self.send(b"PONG\r\n")
        self.ended = True

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self.writer.close()


def requests(count: int, verb: bytes = b"STREAM.INFO.S") -> bytes:
    return b"SUB _INBOX.a.* 1\r\n" + b"".join(
        b"PUB $JS.API.%b _INBOX.a.%d 0\r\n\r\n" % (verb, n) for n in range(count)
    )


@pytest.mark.parametrize("asked", ["ping", "request"])
async def test_a_flood_of_requests_does_not_make_another_client_wait(asked: str) -> None:
    count = 3000
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(replica.client_url) as other,
        await RawClient.connect(replica) as flooder,
    ):
        js = other.jetstream()
        await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        await other.flush()
        flooder.send(requests(count))
        waits = []
        while flooder.messages < count // 2:
            before = flooder.messages
            if asked == "ping":
                await other.flush(timeout=SECONDS)
            else:
                await js.publish("s", b"x", timeout=SECONDS)
            if before:
                waits.append(flooder.messages - before)
            await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS):
            while flooder.messages < count:
                await asyncio.sleep(0.01)

        # Counted in requests of the flood that were answered meanwhile, not by the clock. What is
        # in flight is limited by time, so a fast machine gets the largest window.
        waits.sort()
        assert waits
        # A window of requests and a window of answers may be in flight.
        assert waits[len(waits) // 2] < 2 * IN_FLIGHT_MOST


async def test_a_client_is_served_in_the_order_it_sent() -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await RawClient.connect(replica) as busy,
    ):
        await at_leader.jetstream().create_stream(StreamConfig(name="S", subjects=("s",)))
        heard = await at_leader.subscribe("count.>")
        await at_leader.flush()
        busy.send(
            requests(500)
            + b"PUB mine 0\r\n\r\nSUB mine 2\r\nPUB mine 0\r\n\r\nUNSUB 2\r\nPUB mine 0\r\n\r\n"
            + b"".join(b"PUB count.%d 0\r\n\r\n" % n for n in range(2000))
            + b"PING\r\n"
        )
        await until(lambda: busy.pongs == 1)

        # PONG: the leader has seen all of it.
        await at_leader.flush()
        assert heard.pending_msgs == 2000
        subjects = [(await heard.next()).subject for _ in range(2000)]
        assert subjects == [f"count.{n}" for n in range(2000)]
        await until(lambda: busy.messages >= 501)
        assert busy.subjects.count(b"mine") == 1


async def test_a_client_that_does_not_read_its_answers_waits_and_is_not_disconnected(
    tmp_path: Path,
) -> None:
    file = tmp_path / "replica.conf"
    file.write_text(
        "host: 127.0.0.1\nport: -1\nmax_pending: 16MB\nwrite_deadline: 2m\n"
        f'jetstream {{ store_dir: "{tmp_path}/r" }}\n'
    )
    count = 200
    async with AsyncExitStack() as stack:
        leader = await stack.enter_async_context(jetspark.Server())
        replica = await stack.enter_async_context(replica_of(leader.client_url, config=file))
        other = await stack.enter_async_context(await jetspark.connect(replica.client_url))
        js = other.jetstream()
        await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        await js.publish("b", b"x" * 90_000)
        lazy = await RawClient.connect(replica, room=64 * 1024)
        lazy.send(
            b"SUB _INBOX.a.* 1\r\n"
            + b"".join(
                b'PUB $JS.API.STREAM.MSG.GET.B _INBOX.a.%d 9\r\n{"seq":1}\r\n' % n
                for n in range(count)
            )
        )
        await until(
            lambda: any(one.waiting_bytes() > 4 * 1024 * 1024 for one in replica.connections)
        )
        for _ in range(20):
            await other.flush(timeout=SECONDS)
        await stack.enter_async_context(lazy)
        await until(lambda: lazy.messages == count)

        assert not lazy.ended
        assert replica.slow_consumers == 0


async def test_what_a_client_sends_to_a_leader_that_takes_nothing_is_bounded() -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await RawClient.connect(replica) as flooder,
    ):
        await until(lambda: replica.leader_is_up)
        assert replica._parts is not None
        queue = replica._parts.bridge.queue
        taken: list[bytes] = []
        flooder.send(b"SUB x 1\r\nPING\r\n")
        await until(lambda: flooder.pongs == 1)
        queue._carrier.carry = taken.extend  # type: ignore[method-assign,assignment]
        queue._carrier.ping_leader = (  # type: ignore[method-assign]
            asyncio.get_running_loop().create_future
        )
        flooder.send((b"PUB a 1000\r\n%b\r\n" % (b"x" * 1000)) * 20_000)
        await until(lambda: any(one._held_back for one in replica.connections))
        await asyncio.sleep(0.1)

        (lane,) = (lane for lane in queue._lanes.values() if lane.entries)
        assert lane._bytes < LANE_BYTES + 1024 * 1024
        assert not flooder.ended


async def test_a_flood_meets_a_leader_that_goes_and_comes_back(tmp_path: Path) -> None:
    leader = jetspark.Server(store_dir=tmp_path / "leader")
    await leader.start()
    port = leader.port
    async with (
        replica_of(leader.client_url) as replica,
        await jetspark.connect(replica.client_url) as other,
        await RawClient.connect(replica) as flooder,
    ):
        kv = await other.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("k", b"1")
        await copied(replica, "KV_b")
        flooder.send(requests(5000, b"STREAM.INFO.KV_b") + b"PING\r\n")
        await until(lambda: flooder.messages > 0)
        await leader.close()
        await until(lambda: flooder.pongs == 1)
        # Copies continue answering, and everyone is notified that the leader is down.
        assert (await kv.get("k")).value == b"1"
        # Everything may have been answered before the leader stopped.
        assert b"503" in flooder.statuses or flooder.messages == 5000
        async with jetspark.Server(store_dir=tmp_path / "leader", port=port):
            await until(lambda: replica.leader_is_up)
            last = await kv.put("k", b"2")
            assert (await kv.get("k", min_last_revision=last)).value == b"2"
            before = flooder.messages
            flooder.send(b"PUB $JS.API.STREAM.INFO.KV_b _INBOX.a.0 0\r\n\r\nPING\r\n")
            await until(lambda: flooder.pongs == 2 and flooder.messages == before + 1)

        assert not flooder.ended


async def test_a_purge_that_waited_for_its_turn_is_followed_before_the_copy_answers() -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(replica.client_url) as other,
        await RawClient.connect(replica) as busy,
    ):
        kv = await other.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("k", b"1")
        await copied(replica, "KV_b")
        busy.send(
            requests(1000, b"STREAM.INFO.KV_b")
            + b"SUB purged 2\r\nPUB $JS.API.STREAM.PURGE.KV_b purged 0\r\n\r\n"
        )
        await until(lambda: b"purged" in busy.subjects)

        with pytest.raises(KeyNotFound):
            await kv.get("k")


async def test_one_client_that_deletes_many_consumers_does_not_take_the_place_of_others() -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url, read_only=True) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as other,
        await RawClient.connect(replica) as flooder,
    ):
        await at_leader.jetstream().create_stream(StreamConfig(name="S", subjects=("s",)))
        await until(lambda: replica._parts is not None and replica._parts.stored.keeps("S"))
        flooder.send(
            b"SUB _INBOX.a.* 1\r\n"
            + b"".join(
                b"PUB $JS.API.CONSUMER.DELETE.S.x%d _INBOX.a.%d 0\r\n\r\n" % (n, n)
                for n in range(1500)
            )
        )
        answers = [(await ask(other, f"$JS.API.CONSUMER.DELETE.S.y{n}")).data for n in range(20)]

        assert all(b"consumer not found" in answer for answer in answers)
        # Deleted, refused for want of room, or deleted later: all hear something.
        await until(lambda: flooder.messages == 1500)


async def test_a_message_for_very_many_subscriptions_is_handed_out_in_steps() -> None:
    # A turn of the loop ends after 4 ms of CPU time: a fast machine delivers 65,000 in it.
    subscriptions, messages = 2000, 120
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as other,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", replica.port)
        writer.write(
            CONNECT + b"".join(b"SUB x %d\r\n" % n for n in range(subscriptions)) + b"PING\r\n"
        )
        await reader.readuntil(b"PONG\r\n")
        traffic = replica.default_account.router.traffic
        most = 0
        running = True

        async def watch() -> None:
            nonlocal most
            before = traffic.out_msgs
            while running:
                await asyncio.sleep(0)
                most = max(most, traffic.out_msgs - before)
                before = traffic.out_msgs

        watching = asyncio.create_task(watch())
        for _ in range(messages):
            at_leader.publish("x")
        await at_leader.flush()
        got = 0
        async with asyncio.timeout(SECONDS):
            while got < subscriptions * messages:
                got += (await reader.readuntil(b"\r\n\r\n")).count(b"MSG x ")
                if got % 1000 == 0:
                    await other.flush(timeout=SECONDS)
        running = False
        await watching
        writer.close()

        assert most <= subscriptions * messages // 2


def _filled(before: bytes, after: bytes) -> bytes:
    """A body that is as large as a server takes."""
    return before + b"z" * (PAYLOAD_MAX - len(before) - len(after)) + after


# After these the replica's own number for a subscription has two digits.
_OTHERS = b"".join(b"SUB o.%d %d\r\n" % (n, n + 2) for n in range(10))
_NEWER = b'{"last_by_subj":"$KV.b.k","min_last_seq":99999}'
_HEADERS = _filled(b"NATS/1.0\r\nx: ", b"\r\n\r\n" + _NEWER)[: -len(_NEWER)]
_CONSUMER = _filled(b'{"stream_name":"KV_b","config":{"name":"c","metadata":{"a":"', b'"}}}')


@pytest.mark.parametrize(
    ("read_only", "sent"),
    [
        (False, _OTHERS + b"SUB %b 1\r\n" % (b"a" * 4094)),
        (False, _OTHERS + b"SUB %b q 1\r\n" % (b"a" * 4092)),
        (
            False,
            b"SUB i 1\r\nHPUB $JS.API.DIRECT.GET.KV_b i %d %d\r\n%b%b\r\n"
            % (len(_HEADERS), PAYLOAD_MAX, _HEADERS, _NEWER),
        ),
        (
            False,
            b'SUB i 1\r\nPUB $JS.API.DIRECT.GET.KV_b.%b i 22\r\n{"min_last_seq":99999}\r\n'
            % (b"a" * 4060),
        ),
        (
            True,
            b"SUB i 1\r\nPUB $JS.API.CONSUMER.CREATE.KV_b.c i %d\r\n%b\r\n"
            % (PAYLOAD_MAX, _CONSUMER),
        ),
        (
            True,
            b"SUB i 1\r\nPUB $JS.API.CONSUMER.DELETE.KV_b.%b i 0\r\n\r\n" % (b"a" * 4060),
        ),
    ],
    ids=["subject", "queue", "headers", "read", "consumer", "deletion"],
)
async def test_nothing_one_client_sends_costs_the_others_the_connection(
    read_only: bool, sent: bytes
) -> None:
    async with (
        jetspark.Server() as leader,
        await jetspark.connect(leader.client_url) as at_leader,
        replica_of(leader.client_url, read_only=read_only) as replica,
        await jetspark.connect(replica.client_url) as other,
        await RawClient.connect(replica) as hostile,
    ):
        kv = await at_leader.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("k", b"1")
        await copied(replica, "KV_b")
        await until(lambda: replica._parts is not None and replica._parts.stored.keeps("KV_b"))
        hostile.send(sent + b"PING\r\n")
        await until(lambda: hostile.ended or (hostile.pongs == 1 and hostile.messages == 1))
        await other.flush()

        # Every request has an answer; a subscription that cannot be had ends its connection.
        assert hostile.ended == (b"a" * 4092 in sent)
        assert replica._parts is not None
        assert replica._parts.bridge.core.link.reconnects == 0
        assert replica.leader_is_up
