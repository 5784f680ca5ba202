"""Opened twice, entered twice, ended twice, used after the end: no error but ours."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any

import pytest
from tests.client.conftest import Connect
from tests.support.waiting import PATIENCE_S

import jetspark
from jetspark import Client, KeyValue, ObjectStore, ReplicaServer, Stream, sync
from jetspark.errors import AlreadyEnded, Error, InvalidState

# What cannot be called by names alone; the others are called without arguments.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "add": ("ended.x", b""),
    "announce": (b"x",),
    "consume": (print,),
    "create": ("k", b"1"),
    "delete": ("k",),
    "elect": ("k", "me"),
    "exists": ("a",),
    "extend": (["ended.x"], [b""]),
    "get": ("a",),
    "get_at": ("a", 1),
    "get_last": ("ended.a",),
    "get_last_at": ("ended.a", 1),
    "get_many": (["a"],),
    "history": ("a",),
    "lock": ("k",),
    "members": ("g",),
    "publish": ("ended.x", b""),
    "purge": ("k",),
    "put": ("k", b"1"),
    "put_many": ({"k": b"1"},),
    "request": ("nobody", b""),
    "request_many": ("nobody", b""),
    "subscribe": ("ended.x",),
    "typed": (int,),
    "update": ("k", b"1", 1),
    "value": ("a",),
    "wait_for": (1,),
}
# They would wait for what another program does, or end what other handles need.
LEFT_OUT = {"destroy", "observe", "wait_lost", "wait_deposed", "acquire", "campaign"}
# Of what has no `close`.
ENDINGS = {
    "Subscription": "unsubscribe",
    "PushSubscription": "unsubscribe",
    "PullSubscription": "unsubscribe",
    "AtomicBatch": "commit",
    "FastPublisher": "commit",
    "Transaction": "commit",
    "Lock": "release",
    "Election": "resign",
}


class Scene:
    """What handles are made of."""

    def __init__(self, nc: Client, name: str) -> None:
        self.nc = nc
        self.js = nc.jetstream(timeout=PATIENCE_S)
        self.name = name
        self.stream: Stream
        self.kv: KeyValue
        self.store: ObjectStore

    async def prepare(self) -> "Scene":
        self.stream = await self.js.create_stream(
            self.name,
            subjects=[f"{self.name}.>"],
            allow_direct=True,
            allow_atomic=True,
            allow_batched=True,
        )
        await self.js.publish(f"{self.name}.a", b"1")
        self.kv = await self.js.create_key_value(self.name)
        await self.kv.put("a", b"1")
        self.store = await self.js.create_object_store(self.name)
        await self.store.put("a", b"data")
        return self

    async def atomic(self) -> object:
        batch = self.js.atomic_batch()
        batch.add(f"{self.name}.b", b"1")
        return batch

    async def fast(self) -> object:
        publisher = self.js.fast_publisher()
        await publisher.publish(f"{self.name}.b", b"1")
        return publisher

    async def transaction(self) -> object:
        transaction = self.kv.transaction()
        transaction.put("b", b"1")
        return transaction

    async def lock(self) -> object:
        lock = self.kv.lock("lock")
        await lock.acquire()
        return lock

    async def election(self) -> object:
        election = self.kv.elect("leader", "me")
        await election.campaign()
        return election

    async def consumption(self) -> object:
        return (await self.stream.create_consumer(durable="c")).consume(print)

    async def messages(self) -> object:
        return (await self.stream.create_consumer(durable="m")).messages()

    async def ordered(self) -> object:
        ordered = self.stream.ordered_consumer()
        await ordered.next()
        return ordered


HANDLES: dict[str, Callable[[Scene], Awaitable[Any]]] = {
    "Client": lambda s: jetspark.connect(s.nc.connected_server),
    "Subscription": lambda s: s.nc.subscribe(f"{s.name}-x"),
    "PushSubscription": lambda s: s.js.subscribe(f"{s.name}.>"),
    "PullSubscription": lambda s: s.js.pull_subscribe(f"{s.name}.>"),
    "MessageIterator": Scene.messages,
    "Consumption": Scene.consumption,
    "OrderedConsumer": Scene.ordered,
    "KeyValue": lambda s: s.js.key_value(s.name),
    "Watcher": lambda s: s.kv.watch(),
    "Watcher of typed values": lambda s: s.kv.typed(int).watch(),
    "Transaction": Scene.transaction,
    "Lock": Scene.lock,
    "Election": Scene.election,
    "Membership": lambda s: s.kv.members("group").join("me"),
    "KeyValueReplica": lambda s: s.kv.replica(),
    "StreamReplica": lambda s: s.js.replica(s.name),
    "Watcher of objects": lambda s: s.store.watch(),
    "ObjectReader": lambda s: s.store.open("a"),
    "AtomicBatch": Scene.atomic,
    "FastPublisher": Scene.fast,
}


async def tried(handle: Any, member: str) -> object:
    """What comes of it: a result, or the error."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = getattr(handle, member)
            if inspect.ismethod(found) or member.startswith("__"):
                found = found(*ARGUMENTS.get(member, ()))
            if hasattr(found, "__aenter__") and hasattr(found, "__await__"):
                async with found:
                    return "opened"
            if inspect.isawaitable(found):
                found = await found
            if hasattr(found, "__anext__"):
                found = await anext(found)
            elif hasattr(found, "__aiter__"):
                found = [each async for each in found]
            if hasattr(found, "close") and found is not handle:
                await found.close()
    except StopAsyncIteration:
        return "ended"
    except Exception as error:  # noqa: BLE001 - it is looked at
        return error
    return found


def members(handle: Any) -> list[str]:
    """All that a user sees of it."""
    shown = [each for each in dir(type(handle)) if not each.startswith("_")]
    iterates = [each for each in ("__anext__", "__len__") if hasattr(type(handle), each)]
    return [each for each in [*shown, *iterates] if each not in LEFT_OUT]


@pytest.mark.parametrize("kind", HANDLES)
async def test_a_handle_that_has_ended_raises_errors_of_ours(
    client: Connect, name: str, kind: str
) -> None:
    async with client() as nc:
        scene = await Scene(nc, name).prepare()
        handle = await HANDLES[kind](scene)
        assert type(handle).__name__ == kind.partition(" ")[0]
        wrong: dict[str, object] = {}

        async def note(moment: str, member: str) -> None:
            found = await tried(handle, member)
            if isinstance(found, Exception) and not isinstance(found, Error):
                wrong[f"{moment} {member}"] = found

        ending = ENDINGS.get(kind, "close")
        await note("first", ending)
        await note("second", ending)
        for member in members(handle):
            await note("ended", member)
        for moment in ("entered", "entered again"):
            try:
                async with handle, asyncio.timeout(PATIENCE_S):
                    pass
            except Error:
                pass
            except Exception as error:  # noqa: BLE001 - it is reported
                wrong[moment] = error
        await nc.close()
        for member in members(handle):
            await note("client closed", member)
        assert wrong == {}


@pytest.mark.parametrize("kind", HANDLES)
async def test_a_handle_that_was_entered_can_be_entered_or_says_why_not(
    client: Connect, name: str, kind: str
) -> None:
    async with client() as nc:
        handle = await HANDLES[kind](await Scene(nc, name).prepare())
        try:
            async with handle, handle, asyncio.timeout(PATIENCE_S):
                found: Error | None = None
        except Error as error:
            found = error
        # One object holds a lock once: entering it again would wait for itself.
        assert type(found) is (InvalidState if kind in {"Lock", "Election"} else NoneType)


@pytest.mark.parametrize("kind", ["Server", "ReplicaServer"])
async def test_a_server_runs_once(kind: str) -> None:
    async with jetspark.Server() as leader:
        server = jetspark.Server() if kind == "Server" else ReplicaServer(leader.client_url)
        with pytest.raises(InvalidState, match="not running"):
            assert server.port
        await server.start()
        port = server.port
        with pytest.raises(InvalidState, match="already running"):
            await server.start()
        with pytest.raises(InvalidState, match="already running"):
            async with server:
                pass
        assert server.port == port
        async with jetspark.connect(server.client_url) as nc:
            await nc.flush()
        await server.close()
        await server.close()
        with pytest.raises(AlreadyEnded, match="make a new one"):
            await server.start()
        with pytest.raises(InvalidState, match="not running"):
            assert server.client_url


def test_a_blocking_server_runs_once() -> None:
    server = sync.Server()
    with pytest.raises(InvalidState, match="not running"):
        assert server.port
    with server:
        with pytest.raises(InvalidState, match="already running"):
            server.start()
        with server.connect() as nc:
            nc.flush()
    server.close()
    with pytest.raises(AlreadyEnded, match="make a new one"), server:
        pass
    with pytest.raises(InvalidState, match="not running"):
        server.connect()


async def test_what_was_opened_is_not_opened_again(client: Connect, name: str) -> None:
    async with client() as nc:
        opening = nc.subscribe(name)
        with pytest.raises(InvalidState, match="not open"):
            await opening.__aexit__(None, None, None)
        await opening
        with pytest.raises(InvalidState, match="already open"):
            await opening
        with pytest.raises(InvalidState, match="already open"):
            async with opening:
                pass


async def test_a_replica_is_used_as_any_server() -> None:
    """It shows the same names, and has a client of its own."""
    shown = [name for name in dir(ReplicaServer) if not name.startswith("_")]
    assert shown == [name for name in dir(jetspark.Server) if not name.startswith("_")]
    async with (
        jetspark.Server() as leader,
        ReplicaServer(leader.client_url) as replica,
        replica.connect(name="reader") as nc,
    ):
        assert [name async for name in nc.jetstream().stream_names()] == []
        assert not [name for name in vars(replica) if not name.startswith("_")]
