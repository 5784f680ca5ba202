"""One call of every method of the client that waits for a server, on handles that exist."""

import inspect
import itertools
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import jetspark
from jetspark import Client, ConsumerConfig, StreamConfig, Timeout

T = TypeVar("T")
Call = Callable[[Timeout], Coroutine[Any, Any, Any]]

# What a store for buckets must have, what closes the client, and servers.
NOT_CALLED = {
    "Backend",
    "ReplicaServer",
    "Server",
    "ThreadCallback",
    "WatchSource",
    "Pager",
}


def waiting_methods() -> Iterator[tuple[str, bool]]:
    """``Class.method`` of all that are awaited or iterated over, and whether it has a timeout."""
    for name in jetspark.__all__:
        kind = getattr(jetspark, name)
        if not isinstance(kind, type) or name in NOT_CALLED:
            continue
        for member in dir(kind):
            function = inspect.getattr_static(kind, member)
            if member.startswith("_") or not inspect.isfunction(function):
                continue
            inner = inspect.unwrap(function)
            signature = inspect.signature(function)
            waits = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
            if waits or "Pager" in str(signature.return_annotation):
                yield f"{name}.{member}", "timeout" in signature.parameters


async def listed(items: AsyncIterable[T]) -> list[T]:
    """Everything that there is to iterate over."""
    return [item async for item in items]


class EveryCall:
    """Handles of every kind on one client."""

    def __init__(self, nc: Client, name: str, folder: Path) -> None:
        self.nc = nc
        self.name = name
        self.folder = folder
        self._numbers = itertools.count(1)
        self._stack = AsyncExitStack()
        self.calls: dict[str, Call] = {}

    def new(self) -> str:
        """A name that was not used."""
        return f"{self.name}-{next(self._numbers)}"

    async def __aenter__(self) -> Self:
        nc, name = self.nc, self.name
        self.js = js = nc.jetstream()
        self.stream = await js.create_stream(name, subjects=[f"{name}.>"], allow_direct=True)
        for n in range(3):
            await js.publish(f"{name}.{n}", b"%d" % n)
        self.consumer = await self.stream.create_consumer(durable="w")
        self.idle = await self.stream.create_consumer(
            durable="idle", filter_subject=f"{name}.idle"
        )
        self.kv = await js.create_key_value(name, history=3)
        await self.kv.put("a", b"1")
        self.store = await js.create_object_store(name)
        await self.store.put("a", b"data")
        self.file = self.folder / "file"
        self.file.write_bytes(b"data")
        await nc.subscribe(f"{name}-echo", callback=lambda message: message.respond(message.data))
        await self.stream.backup(self.folder / "backup")
        self._add_client()
        await self._add_streams()
        await self._add_consumers()
        await self._add_buckets()
        await self._add_stores()
        await self._add_schemas()
        return self

    async def __aexit__(self, *_error: object) -> None:
        if not self.nc.is_closed:
            await self._stack.aclose()

    def _add_client(self) -> None:
        nc, name = self.nc, self.name
        self.calls |= {
            "Client.flush": lambda t: nc.flush(timeout=t),
            "Client.force_reconnect": lambda t: nc.force_reconnect(timeout=t),
            "Client.replicas": lambda t: nc.replicas(timeout=t),
            "Client.request": lambda t: nc.request(f"{name}-echo", b"x", timeout=t),
            "Client.request_many": lambda t: listed(
                nc.request_many(f"{name}-echo", b"x", limit=1, timeout=t)
            ),
            "Client.rtt": lambda t: nc.rtt(timeout=t),
        }

    async def _add_streams(self) -> None:
        js, stream, name = self.js, self.stream, self.name
        config = stream.config
        replica = await self._stack.enter_async_context(js.replica(name))

        def fresh() -> StreamConfig:
            made = self.new()
            return StreamConfig(made, subjects=[made])

        async def asynchronous(t: Timeout) -> None:
            await (await js.publish_async(f"{name}.p", b"x", timeout=t)).wait()

        unused = [await js.create_stream(fresh())]

        async def delete(t: Timeout) -> None:
            # The first one exists: a server that does not answer is asked to delete it.
            found = unused.pop() if unused else await js.create_stream(fresh(), timeout=t)
            await found.delete(timeout=t)

        async def scan(t: Timeout) -> None:
            await listed(stream.scan(timeout=t))

        self.calls |= {
            "JetStream.account_info": lambda t: js.account_info(timeout=t),
            "JetStream.consumer": lambda t: js.consumer(name, "w", timeout=t),
            "JetStream.create_consumer": lambda t: js.create_consumer(
                name, durable="made", timeout=t
            ),
            "JetStream.update_consumer": lambda t: js.update_consumer(
                name, "w", description="x", timeout=t
            ),
            "JetStream.create_or_update_consumer": lambda t: js.create_or_update_consumer(
                name, durable="made", timeout=t
            ),
            "JetStream.delete_consumer": lambda t: js.delete_consumer(name, self.new(), timeout=t),
            "JetStream.create_stream": lambda t: js.create_stream(fresh(), timeout=t),
            "JetStream.create_or_update_stream": lambda t: js.create_or_update_stream(
                config, timeout=t
            ),
            "JetStream.update_stream": lambda t: js.update_stream(config, timeout=t),
            "JetStream.delete_stream": lambda t: js.delete_stream(self.new(), timeout=t),
            "JetStream.stream": lambda t: js.stream(name, timeout=t),
            "JetStream.streams": lambda t: listed(js.streams(subject=f"{name}.x", timeout=t)),
            "JetStream.stream_names": lambda t: listed(
                js.stream_names(subject=f"{name}.x", timeout=t)
            ),
            "JetStream.stream_name_by_subject": lambda t: js.stream_name_by_subject(
                f"{name}.x", timeout=t
            ),
            "JetStream.publish": lambda t: js.publish(f"{name}.p", b"x", timeout=t),
            "JetStream.publish_async": asynchronous,
            "JetStream.publish_async_complete": lambda t: js.publish_async_complete(timeout=t),
            "JetStream.replica": lambda t: self.opened(js.replica(name, timeout=t)),
            "JetStream.restore_stream": lambda t: js.restore_stream(
                self.folder / "backup", config=fresh(), timeout=t
            ),
            "JetStream.subscribe": lambda t: self.opened(js.subscribe(f"{name}.>", timeout=t)),
            "JetStream.pull_subscribe": lambda t: self.opened(
                js.pull_subscribe(f"{name}.>", timeout=t)
            ),
            "Stream.backup": lambda t: stream.backup(self.folder / self.new(), timeout=t),
            "Stream.restore": lambda t: stream.restore(self.folder / "backup", timeout=t),
            "Stream.consumer": lambda t: stream.consumer("w", timeout=t),
            "Stream.consumers": lambda t: listed(stream.consumers(timeout=t)),
            "Stream.consumer_names": lambda t: listed(stream.consumer_names(timeout=t)),
            "Stream.create_consumer": lambda t: stream.create_consumer(durable="made", timeout=t),
            "Stream.update_consumer": lambda t: stream.update_consumer(
                ConsumerConfig(durable="w"), timeout=t
            ),
            "Stream.create_or_update_consumer": lambda t: stream.create_or_update_consumer(
                durable="w", timeout=t
            ),
            "Stream.delete_consumer": lambda t: stream.delete_consumer(self.new(), timeout=t),
            "Stream.delete": delete,
            "Stream.delete_msg": lambda t: stream.delete_msg(10**6, timeout=t),
            "Stream.get_msg": lambda t: stream.get_msg(seq=1, timeout=t),
            "Stream.get_batch": lambda t: listed(stream.get_batch(limit=2, timeout=t)),
            "Stream.get_last_many": lambda t: listed(
                stream.get_last_many([f"{name}.0", f"{name}.1"], timeout=t)
            ),
            "Stream.info": lambda t: stream.info(timeout=t),
            "Stream.purge": lambda t: stream.purge(subject=f"{name}.never", timeout=t),
            "Stream.scan": scan,
            "Stream.update": lambda t: stream.update(description="x", timeout=t),
            "StreamReplica.get_last_at": lambda t: replica.get_last_at(
                f"{name}.0", 10**6, timeout=t
            ),
            "StreamReplica.wait_for": lambda t: replica.wait_for(10**6, timeout=t),
        }

    async def _add_consumers(self) -> None:
        consumer, idle, name = self.consumer, self.idle, self.name
        ordered = await self._stack.enter_async_context(
            self.stream.ordered_consumer(filter_subject=f"{name}.idle")
        )
        # What it reads with stays open once it is, which takes a busy machine a while.
        patience = 0.01
        while ordered.cached_info is None:
            await ordered.fetch(1, timeout=patience)
            patience *= 2
        messages = await self._stack.enter_async_context(idle.messages())
        pull = await self._stack.enter_async_context(
            self.js.pull_subscribe(f"{name}.idle", durable="pull")
        )
        push = await self._stack.enter_async_context(self.js.subscribe(f"{name}.idle"))
        core = await self._stack.enter_async_context(self.nc.subscribe(f"{name}-idle"))
        taken = await consumer.next()

        self.calls |= {
            "Consumer.info": lambda t: consumer.info(timeout=t),
            "Consumer.fetch": lambda t: idle.fetch(2, timeout=t),
            "Consumer.next": lambda t: idle.next(timeout=t),
            "Consumer.update": lambda t: consumer.update(description="x", timeout=t),
            "Consumer.pause": lambda t: idle.pause(3600, timeout=t),
            "Consumer.resume": lambda t: idle.resume(timeout=t),
            "Consumer.reset": lambda t: idle.reset(timeout=t),
            "Consumer.unpin": lambda t: idle.unpin("none", timeout=t),
            "Consumer.explain": lambda t: consumer.explain(timeout=t),
            "Consumer.delete": lambda t: self._unknown().delete(timeout=t),
            "JetStreamMessage.ack_sync": lambda t: taken.ack_sync(timeout=t),
            "MessageIterator.next": lambda t: messages.next(timeout=t),
            "OrderedConsumer.fetch": lambda t: ordered.fetch(2, timeout=t),
            "OrderedConsumer.next": lambda t: ordered.next(timeout=t),
            "PullSubscription.fetch": lambda t: pull.fetch(2, timeout=t),
            "PullSubscription.next": lambda t: pull.next(timeout=t),
            "PullSubscription.info": lambda t: pull.info(timeout=t),
            "PushSubscription.next": lambda t: push.next(timeout=t),
            "PushSubscription.info": lambda t: push.info(timeout=t),
            "Subscription.next": lambda t: core.next(timeout=t),
        }

    def endings(self) -> dict[str, Call]:
        """What ends something, on something made for it."""
        nc, js, idle, name = self.nc, self.js, self.idle, self.name

        async def subscription(t: Timeout) -> None:
            await (await nc.subscribe(f"{name}-x")).drain(timeout=t)

        async def consumption(t: Timeout) -> None:
            async with idle.consume(print, concurrency=2) as running:
                await running.close(timeout=t)

        async def drained_consumption(t: Timeout) -> None:
            async with idle.consume(print) as running:
                await running.drain(timeout=t)

        async def pull(t: Timeout) -> None:
            async with js.pull_subscribe(f"{name}.idle", timeout=t) as made:
                made.consume(print)
                await made.drain(timeout=t)

        async def push(t: Timeout) -> None:
            async with js.subscribe(f"{name}.idle", callback=print, timeout=t) as made:
                await made.drain(timeout=t)

        async def messages(t: Timeout) -> None:
            async with idle.messages() as made:
                await made.next(
                    timeout=timedelta(milliseconds=10) if isinstance(t, timedelta) else 0.01
                )

        async def watch(t: Timeout) -> None:
            async with self.kv.watch(timeout=t) as made:
                await listed(made.initial())

        async def batch(t: Timeout) -> None:
            async with js.fast_publisher(ack_timeout=t) as publisher:
                await publisher.publish(f"{name}.p", b"x")

        return {
            "Subscription.drain": subscription,
            "Consumption.close": consumption,
            "Consumption.drain": drained_consumption,
            "PullSubscription.drain": pull,
            "PushSubscription.drain": push,
            "MessageIterator.close": messages,
            "Watcher.close": watch,
            "FastPublisher.commit": batch,
        }

    def _unknown(self) -> Any:
        """A handle to a consumer that does not exist."""
        from jetspark.api.consumer import ConsumerInfo
        from jetspark.client.models.base import to_wire

        info = to_wire(self.idle.cached_info)
        assert isinstance(info, ConsumerInfo)
        import msgspec

        return type(self.idle)(self.idle._api, msgspec.structs.replace(info, name=self.new()))

    async def opened(self, opening: Any) -> None:
        """Open something and close it."""
        async with opening:
            pass

    async def _add_buckets(self) -> None:
        js, kv, name = self.js, self.kv, self.name
        typed = kv.typed(int)
        watch = await self._stack.enter_async_context(kv.watch())
        await listed(watch.initial())
        replica = await self._stack.enter_async_context(kv.replica())
        lock, election, members = kv.lock("lock"), kv.elect("leader", "me"), kv.members("group")
        membership = await members.join("me", b"")

        def made() -> str:
            return self.new()

        self.calls |= {
            "JetStream.create_key_value": lambda t: js.create_key_value(made(), timeout=t),
            "JetStream.create_or_update_key_value": lambda t: js.create_or_update_key_value(
                name, history=3, timeout=t
            ),
            "JetStream.update_key_value": lambda t: js.update_key_value(
                name, history=3, timeout=t
            ),
            "JetStream.delete_key_value": lambda t: js.delete_key_value(made(), timeout=t),
            "JetStream.key_value": lambda t: js.key_value(name, timeout=t),
            "JetStream.key_values": lambda t: listed(js.key_values(timeout=t)),
            "JetStream.key_value_names": lambda t: listed(js.key_value_names(timeout=t)),
            "KeyValue.create": lambda t: kv.create(made(), b"1", timeout=t),
            "KeyValue.delete": lambda t: kv.delete("b", timeout=t),
            "KeyValue.exists": lambda t: kv.exists("a", timeout=t),
            "KeyValue.get": lambda t: kv.get("a", timeout=t),
            "KeyValue.get_many": lambda t: kv.get_many(["a", "b"], timeout=t),
            "KeyValue.history": lambda t: kv.history("a", timeout=t),
            "KeyValue.keys": lambda t: listed(kv.keys(timeout=t)),
            "KeyValue.purge": lambda t: kv.purge("b", timeout=t),
            "KeyValue.purge_deletes": lambda t: kv.purge_deletes(timeout=t),
            "KeyValue.put": lambda t: kv.put("a", b"1", timeout=t),
            "KeyValue.put_many": lambda t: kv.put_many({"a": b"1", "c": b"2"}, timeout=t),
            "KeyValue.replica": lambda t: self.opened(kv.replica(timeout=t)),
            "KeyValue.snapshot": lambda t: listed(kv.snapshot(timeout=t)),
            "KeyValue.status": lambda t: kv.status(timeout=t),
            "KeyValue.update": lambda t: kv.update("a", b"1", 10**6, timeout=t),
            "KeyValue.watch": lambda t: self.opened(kv.watch(timeout=t)),
            "TypedKeyValue.create": lambda t: typed.create(made(), 1, timeout=t),
            "TypedKeyValue.delete": lambda t: typed.delete("b", timeout=t),
            "TypedKeyValue.exists": lambda t: typed.exists("a", timeout=t),
            "TypedKeyValue.get": lambda t: typed.get("a", timeout=t),
            "TypedKeyValue.get_many": lambda t: typed.get_many(["a", "b"], timeout=t),
            "TypedKeyValue.history": lambda t: typed.history("a", timeout=t),
            "TypedKeyValue.keys": lambda t: listed(typed.keys(timeout=t)),
            "TypedKeyValue.purge": lambda t: typed.purge("b", timeout=t),
            "TypedKeyValue.put": lambda t: typed.put("a", 1, timeout=t),
            "TypedKeyValue.put_many": lambda t: typed.put_many({"a": 1, "c": 2}, timeout=t),
            "TypedKeyValue.snapshot": lambda t: listed(typed.snapshot(timeout=t)),
            "TypedKeyValue.update": lambda t: typed.update("a", 1, 10**6, timeout=t),
            "TypedKeyValue.watch": lambda t: self.opened(typed.watch(timeout=t)),
            "Watcher.next": lambda t: self._drained(watch, t),
            "Watcher.ready": lambda t: watch.ready(timeout=t),
            "KeyValueReplica.get_at": lambda t: replica.get_at("a", 10**6, timeout=t),
            "KeyValueReplica.wait_for": lambda t: replica.wait_for(10**6, timeout=t),
            "Lock.acquire": lambda t: self._locked(lock.acquire, lock.release, t),
            "Lock.try_acquire": lambda t: self._locked(lock.try_acquire, lock.release, t),
            "Lock.release": lambda t: lock.release(timeout=t),
            "Lock.wait_lost": lambda t: lock.wait_lost(timeout=t),
            "Election.campaign": lambda t: self._locked(election.campaign, election.resign, t),
            "Election.leader": lambda t: election.leader(timeout=t),
            "Election.resign": lambda t: election.resign(timeout=t),
            "Election.wait_deposed": lambda t: election.wait_deposed(timeout=t),
            "Members.join": lambda t: self._joined(members, t),
            "Members.list": lambda t: members.list(timeout=t),
            "Membership.announce": lambda t: membership.announce(b"x", timeout=t),
        }

    async def _drained(self, watch: Any, t: Timeout) -> None:
        """Until nothing comes: what other calls wrote is seen first."""
        while True:
            await watch.next(timeout=t)

    async def _locked(self, take: Any, give: Any, t: Timeout) -> None:
        await take(timeout=t)
        await give(timeout=t)

    async def _joined(self, members: Any, t: Timeout) -> None:
        await (await members.join(self.new(), b"", timeout=t)).close(timeout=t)

    async def _add_stores(self) -> None:
        js, store, name = self.js, self.store, self.name
        info = await store.info("a")
        self.calls |= {
            "JetStream.create_object_store": lambda t: js.create_object_store(
                self.new(), timeout=t
            ),
            "JetStream.update_object_store": lambda t: js.update_object_store(
                name, description="x", timeout=t
            ),
            "JetStream.create_or_update_object_store": lambda t: js.create_or_update_object_store(
                self.new(), timeout=t
            ),
            "JetStream.delete_object_store": lambda t: js.delete_object_store(
                self.new(), timeout=t
            ),
            "JetStream.object_store": lambda t: js.object_store(name, timeout=t),
            "JetStream.object_stores": lambda t: listed(js.object_stores(timeout=t)),
            "JetStream.object_store_names": lambda t: listed(js.object_store_names(timeout=t)),
            "ObjectStore.delete": lambda t: store.delete(self.new(), timeout=t),
            "ObjectStore.get": lambda t: store.get("a", timeout=t),
            "ObjectStore.get_file": lambda t: store.get_file(
                "a", self.folder / self.new(), timeout=t
            ),
            "ObjectStore.get_folder": lambda t: store.get_folder(
                self.folder / self.new(), timeout=t
            ),
            "ObjectStore.info": lambda t: store.info("a", timeout=t),
            "ObjectStore.link": lambda t: store.link("link", info, timeout=t),
            "ObjectStore.link_bucket": lambda t: store.link_bucket("all", name, timeout=t),
            "ObjectStore.list": lambda t: listed(store.list(timeout=t)),
            "ObjectStore.open": lambda t: self.opened(store.open("a", timeout=t)),
            "ObjectStore.purge_orphans": lambda t: store.purge_orphans(timeout=t),
            "ObjectStore.put": lambda t: store.put("b", b"x", timeout=t),
            "ObjectStore.put_file": lambda t: store.put_file(self.file, timeout=t),
            "ObjectStore.put_folder": lambda t: store.put_folder(
                self.folder / "backup", timeout=t
            ),
            "ObjectStore.status": lambda t: store.status(timeout=t),
            "ObjectStore.update_meta": lambda t: store.update_meta(
                "a", description="x", timeout=t
            ),
            "ObjectStore.watch": lambda t: self.opened(store.watch(timeout=t)),
        }

    async def _add_schemas(self) -> None:
        js, name = self.js, f"{self.name}-schemas"
        registry = await js.create_schema_registry(name)
        await registry.register("a", "n int", format="json")
        # Of a schema that this handle has not read yet.
        block = b"NATS/1.0\r\nJetspark-Schema: other;1\r\n\r\n"
        message = jetspark.Message(f"{self.name}.0", b"{}", header_block=block)
        self.calls |= {
            "JetStream.create_schema_registry": lambda t: js.create_schema_registry(
                self.new(), timeout=t
            ),
            "JetStream.schema_registry": lambda t: js.schema_registry(name, timeout=t),
            "SchemaRegistry.check": lambda t: registry.check("a", "n bigint", timeout=t),
            "SchemaRegistry.decode": lambda t: registry.decode(message, timeout=t),
            "SchemaRegistry.delete": lambda t: registry.delete(self.new(), timeout=t),
            "SchemaRegistry.get": lambda t: registry.get("a", timeout=t),
            "SchemaRegistry.register": lambda t: registry.register(
                self.new(), "n int", format="json", timeout=t
            ),
            "SchemaRegistry.schemas": lambda t: listed(registry.schemas(timeout=t)),
            "SchemaRegistry.versions": lambda t: registry.versions("a", timeout=t),
        }
