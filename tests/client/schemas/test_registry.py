"""Schema registries: versions, promises, messages that name their schema."""

import asyncio
import datetime as dt
import json
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from jetspark import Client, JetStream, SchemaRegistry
from jetspark.errors import (
    BucketNotFound,
    CodecFailed,
    IncompatibleSchema,
    InvalidSchema,
    PayloadMismatch,
    SchemaNotFound,
)

OLD = "payloads of version 1 could not be read:"
NEW = "readers with version 1 could not read new payloads:"
V1 = "id BIGINT NOT NULL, name STRING"
V2 = "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2)"
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; }'
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}


VERSION = {"version": 1, "text": "a INT", "time": "2026-01-01T00:00:00Z"}
Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def opened(client: Connect, name: str) -> AsyncIterator[tuple[JetStream, SchemaRegistry]]:
    """A registry of its own for each test."""
    async with client() as nc:
        js = nc.jetstream()
        yield js, await js.create_schema_registry(name)


async def test_versions_are_registered_and_found(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        first = await registry.register("orders", V1)
        second = await registry.register("orders", V2)
        again = await registry.register("orders", "id long NOT NULL,name string")

        assert (first.version, second.version, again.version) == (1, 2, 1)
        assert (first.format, first.compatibility, first.text) == ("json", "backward", V1)
        assert (await registry.get("orders")).version == 2
        assert (await registry.get("orders", 1)) == first
        assert [one.version for one in await registry.versions("orders")] == [1, 2]
        assert dt.timedelta(0) <= dt.datetime.now(dt.UTC) - first.time < dt.timedelta(minutes=5)
        assert first.ddl == "id bigint NOT NULL, name string"


async def test_schemas_are_listed_in_their_latest_version(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        assert [one async for one in registry.schemas()] == []
        await registry.register("orders", V1)
        await registry.register("orders", V2)
        await registry.register("shop.customers", V1, format="msgpack", compatibility="none")

        found = sorted([one async for one in registry.schemas()], key=lambda one: one.name)
        assert [(one.name, one.version, one.format) for one in found] == [
            ("orders", 2, "json"),
            ("shop.customers", 1, "msgpack"),
        ]


async def test_a_broken_promise_is_refused_with_all_problems(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", V1)
        broken = "id STRING NOT NULL, name STRING, n INT NOT NULL"

        problems = await registry.check("orders", broken)
        with pytest.raises(IncompatibleSchema) as caught:
            await registry.register("orders", broken)

        assert caught.value.problems == problems
        assert problems == (
            f"{OLD} id is string, which does not hold every bigint",
            f"{OLD} n is NOT NULL, and they do not have it",
        )
        assert (await registry.get("orders")).versions == (1,)
        assert await registry.check("orders", V2) == ()
        assert await registry.check("unknown", V2) == ()
        assert (await registry.register("orders", broken, compatibility="none")).version == 2


async def test_a_promise_stays_until_another_one_is_made(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", "id INT")
        await registry.register("orders", "id STRING", compatibility="none")

        assert (await registry.register("orders", "id DATE")).version == 3
        with pytest.raises(IncompatibleSchema):
            await registry.register("orders", "id BINARY", compatibility="backward")


async def test_every_earlier_version_counts(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", "id INT, a STRING")
        await registry.register("orders", "id INT")

        assert await registry.check("orders", "id INT, a INT") == (
            f"{OLD} a is int, which does not hold every string",
        )


async def test_the_promise_of_a_schema_can_be_changed(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", V1)
        same = await registry.register("orders", V1, compatibility="full")

        assert (same.version, same.compatibility) == (1, "full")
        assert (await registry.get("orders")).compatibility == "full"
        assert await registry.check("orders", "name STRING") == (
            f"{NEW} id is NOT NULL, and they do not have it",
        )


async def test_a_schema_has_one_format(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", V1)

        with pytest.raises(IncompatibleSchema, match="its format is json, not msgpack"):
            await registry.register("orders", V1, format="msgpack", compatibility="none")


async def test_numbers_are_not_used_again(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        await registry.register("orders", V1)
        await registry.register("orders", V2)

        await registry.delete("orders", 2)
        assert (await registry.get("orders")).version == 1
        await registry.delete("orders")

        with pytest.raises(SchemaNotFound, match="schema 'orders' not found"):
            await registry.get("orders")
        with pytest.raises(SchemaNotFound):
            await registry.delete("orders")
        assert [one async for one in registry.schemas()] == []
        assert (await registry.register("orders", PROTO, format="protobuf")).version == 3


async def test_what_is_not_there_is_named(client: Connect, name: str) -> None:
    async with opened(client, name) as (js, registry):
        await registry.register("orders", V1)

        with pytest.raises(SchemaNotFound, match="version 7 of schema 'orders' not found"):
            await registry.get("orders", 7)
        with pytest.raises(SchemaNotFound, match="schema 'nothing' not found"):
            await registry.versions("nothing")
        with pytest.raises(SchemaNotFound):
            await registry.delete("orders", 7)
        with pytest.raises(BucketNotFound):
            await js.schema_registry("NOT_THERE")


async def test_what_is_no_schema_is_refused(client: Connect, name: str) -> None:
    async with opened(client, name) as (js, registry):
        for text, kind in (("id whatever", "json"), ("{}", "avro"), ("message", "protobuf")):
            with pytest.raises(InvalidSchema):
                await registry.register("orders", text, format=kind)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="format='xml': expected one of json"):
            await registry.register("orders", V1, format="xml")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="compatibility='some'"):
            await registry.register("orders", V1, compatibility="some")  # type: ignore[arg-type]
        bucket = await js.key_value(registry.bucket)
        await bucket.put("other", b"a value")
        with pytest.raises(CodecFailed, match="is the bucket a schema registry"):
            await registry.get("other")


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "xml"},
        {"compatibility": "some"},
        {"last": 0},
        {"last": -5, "versions": []},
        {"versions": [VERSION, VERSION]},
        {"versions": [{**VERSION, "version": 0}]},
    ],
)
async def test_a_value_that_no_registry_wrote_is_refused(
    client: Connect, name: str, changed: dict[str, Any]
) -> None:
    """With a wrong last number, the number of another version would be used again."""
    value = {"format": "json", "compatibility": "none", "last": 1, "versions": [VERSION]}
    async with opened(client, name) as (js, registry):
        bucket = await js.key_value(registry.bucket)
        await bucket.put("orders", json.dumps(value | changed).encode())

        with pytest.raises(CodecFailed, match="is the bucket a schema registry"):
            await registry.register("orders", V2)


async def test_versions_that_exceed_a_message_are_refused_with_what_to_do(
    client: Connect, name: str
) -> None:
    comment = "x" * 400_000
    async with opened(client, name) as (_, registry):
        for n in range(2):
            await registry.register("orders", f"c{n} STRING COMMENT '{comment}'")
        with pytest.raises(InvalidSchema, match=r"have 3 versions .* delete versions"):
            await registry.register("orders", f"c3 STRING COMMENT '{comment}'")

        assert (await registry.get("orders")).version == 2
        assert (await registry.register("other", V1)).version == 1


async def test_clients_that_register_at_the_same_time_lose_nothing(
    client: Connect, name: str
) -> None:
    async with opened(client, name) as (_, registry):
        async with client() as other:
            both = [registry, await other.jetstream().schema_registry(registry.bucket)]
            texts = [f"id BIGINT, f{n} STRING" for n in range(12)]
            found = await asyncio.gather(
                *(both[n % 2].register("orders", text) for n, text in enumerate(texts)),
                *(both[(n + 1) % 2].register("orders", text) for n, text in enumerate(texts)),
            )

        assert [one.version for one in found[:12]] == [one.version for one in found[12:]]
        assert sorted(one.version for one in found[:12]) == list(range(1, 13))
        stored = {one.version: one.text for one in await registry.versions("orders")}
        assert stored == {one.version: texts[n] for n, one in enumerate(found[:12])}


@pytest.mark.parametrize(
    ("kind", "text"),
    [("json", V1), ("msgpack", V1), ("avro", AVRO), ("protobuf", PROTO)],
)
async def test_messages_are_decoded_by_the_version_that_they_name(
    client: Connect, name: str, kind: Any, text: Any
) -> None:
    async with opened(client, name) as (js, registry):
        stream = await js.create_stream(f"S_{name}", subjects=[f"s.{name}"])
        subject = f"s.{name}"
        first = await registry.register("orders", text, format=kind)
        newer: Any = {
            "avro": {
                **AVRO,
                "fields": [{"name": "no", "type": "int", "default": 7}, *AVRO["fields"]],
            },
            "protobuf": PROTO.replace("}", "optional int32 no = 3; }"),
        }.get(kind, f"{V1}, no INT")
        await js.publish(subject, first.encode({"id": 1, "name": "a"}), headers=first.headers)
        reader = await js.schema_registry(registry.bucket)
        old = await stream.get_msg(seq=1)
        assert await reader.decode(old) == {"id": 1, "name": "a"}
        second = await registry.register("orders", newer)
        await js.publish(subject, second.encode({"id": 2, "name": "b", "no": 5}),
                         headers=second.headers)  # fmt: skip
        new = await stream.get_msg(seq=2)

        # By their own versions; the reader learns of the second when it meets it.
        assert await reader.decode(new) == {"id": 2, "name": "b", "no": 5}
        # Both in the form of the second; a default of the reader is used.
        expected = {"id": 1, "name": "a", "no": 7 if kind == "avro" else None}
        assert second.decode(old.data, old.headers) == expected
        assert second.decode(new.data, new.headers) == {"id": 2, "name": "b", "no": 5}
        assert pickle.loads(pickle.dumps(second)).decode(old.data, old.headers) == expected
        with pytest.raises(PayloadMismatch, match=r"version 2 of schema 'orders'.* knows 1: call"):
            first.decode(new.data, new.headers)
        # A reader that stays with the first version reads what a later one wrote.
        assert await reader.decode(new, schema=first) == {"id": 2, "name": "b"}
        assert await reader.decode(old, schema=first) == {"id": 1, "name": "a"}
        assert await reader.decode(old, schema=second) == expected


async def test_messages_that_name_nothing_or_another_schema_are_refused(
    client: Connect, name: str
) -> None:
    async with opened(client, name) as (js, registry):
        stream = await js.create_stream(f"S_{name}", subjects=[f"s.{name}"])
        subject = f"s.{name}"
        orders = await registry.register("orders", V1)
        for value in (None, "customers;1", "orders", "orders;0", "orders;x", "orders;9"):
            headers = {} if value is None else {"Jetspark-Schema": value}
            await js.publish(subject, b"{}", headers=headers)
        messages = [await stream.get_msg(seq=seq) for seq in range(1, 7)]

        with pytest.raises(PayloadMismatch, match="has no header Jetspark-Schema"):
            await registry.decode(messages[0])
        for one, error in zip(
            messages[1:],
            (SchemaNotFound, PayloadMismatch, PayloadMismatch, PayloadMismatch, SchemaNotFound),
            strict=True,
        ):
            with pytest.raises(error):
                await registry.decode(one)
        with pytest.raises(PayloadMismatch, match="names schema 'customers', expected 'orders'"):
            orders.decode(messages[1].data, messages[1].headers)

        # With a schema of the reader's choice, a message that names none is taken for it.
        await js.publish(subject, b'{"id": 1}')
        unnamed = await stream.get_msg(seq=7)
        assert await registry.decode(unnamed, schema=orders) == {"id": 1, "name": None}
        with pytest.raises(PayloadMismatch, match="names schema 'customers', expected 'orders'"):
            await registry.decode(messages[1], schema=orders)
        with pytest.raises(SchemaNotFound):
            await registry.decode(messages[5], schema=orders)
        async with await js.create_schema_registry(f"{name}_other") as elsewhere:
            other = await elsewhere.register("orders", V1)
        with pytest.raises(ValueError, match=f"is of registry '{name}_other', not"):
            await registry.decode(unnamed, schema=other)


async def test_errors_name_the_field(client: Connect, name: str) -> None:
    async with opened(client, name) as (_, registry):
        orders = await registry.register(
            "orders", "id INT NOT NULL, s STRUCT<price: DECIMAL(4,2)>"
        )

        for value, problem in (
            ({"id": "x"}, "id: expected int, not 'x'"),
            ({"s": {}}, "id: missing, but NOT NULL in the schema"),
            ({"id": 1, "s": {"price": Decimal("1.234")}}, r"s.price: expected decimal\(4,2\)"),
            ({"id": 1, "typo": 1}, "the schema has no field 'typo'"),
        ):
            with pytest.raises(PayloadMismatch, match=problem):
                orders.encode(value)
        with pytest.raises(PayloadMismatch, match=r"\$.id"):
            orders.decode(b'{"id": "x"}')
