"""Measurements of buckets."""

import random
from typing import Any

import click

from jetspark.cli.bench.running import Plan, Tally, measure
from jetspark.cli.session import Session
from jetspark.client.client import Client
from jetspark.errors import BucketNotFound


def _key(number: int, randomize: int) -> str:
    return str(random.randrange(randomize) if randomize else number)  # noqa: S311


async def put(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, bucket: str,
    storage: str, history: int, replicas: int, randomize: int,
) -> None:  # fmt: skip
    """Put values."""
    options: Any = {"storage": storage}
    try:
        await session.jetstream.key_value(bucket)
    except BucketNotFound:
        await session.jetstream.create_key_value(
            bucket, history=history, replicas=replicas, **options
        )
    data = bytes(size)

    async def work(client: Client, tally: Tally) -> None:
        kv = await client.jetstream().key_value(bucket)
        while tally.done < tally.wanted:
            await kv.put(_key(tally.done, randomize), data)
            tally.add()

    await measure(session, "KV put", Plan(clients, msgs, size, progress), work)


async def get(
    session: Session, *, clients: int, msgs: int, size: int, progress: bool, bucket: str,
    randomize: int,
) -> None:  # fmt: skip
    """Get values."""
    try:
        kv = await session.jetstream.key_value(bucket)
    except BucketNotFound:
        raise click.ClickException(
            f"bucket {bucket} does not exist: fill it with `jetspark bench kv put`"
        ) from None
    keys = [key async for key in kv.keys()]  # noqa: SIM118 - a bucket is no mapping
    if not keys:
        raise click.ClickException(
            f"bucket {bucket} is empty: fill it with `jetspark bench kv put`"
        )

    async def work(client: Client, tally: Tally) -> None:
        kv = await client.jetstream().key_value(bucket)
        while tally.done < tally.wanted:
            number = random.randrange(len(keys)) if randomize else tally.done % len(keys)  # noqa: S311
            await kv.get(keys[number])
            tally.add()

    await measure(session, "KV get", Plan(clients, msgs, size, progress), work)
