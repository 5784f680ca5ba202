"""Buckets and object stores of client tests."""

from typing import Any

from jetspark import JetStream, KeyValue, KeyValueConfig, ObjectStore, ObjectStoreConfig


async def new_bucket(js: JetStream, name: str, **changes: Any) -> KeyValue:
    return await js.create_key_value(KeyValueConfig(bucket=name, **changes))


async def keys_of(kv: KeyValue, *filters: str, **options: Any) -> list[str]:
    pager = kv.keys(*filters, **options)
    return [key async for key in pager]


async def new_store(js: JetStream, name: str, **changes: Any) -> ObjectStore:
    return await js.create_object_store(ObjectStoreConfig(bucket=name, **changes))
