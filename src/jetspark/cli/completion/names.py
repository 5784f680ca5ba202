"""Completion of names that a server knows.

Shells call it while a command is being typed: it takes a second at most, says nothing, and an
unreachable server has no names.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from jetspark.client.jetstream.context import JetStream

_PATIENCE: Final = 1.0
_MOST: Final = 1000

Lister = Callable[["JetStream", click.Context], Awaitable[list[str]]]


def stream_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The streams whose names begin so."""

    async def listed(jetstream: "JetStream", _ctx: click.Context) -> list[str]:
        return await _first(jetstream.stream_names(), incomplete)

    return _names(ctx, listed)


def consumer_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The consumers, of the stream that was typed before, whose names begin so."""

    async def listed(jetstream: "JetStream", ctx: click.Context) -> list[str]:
        stream = await jetstream.stream(ctx.params["stream"])
        return await _first(stream.consumer_names(), incomplete)

    return _names(ctx, listed)


def bucket_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The buckets whose names begin so."""

    async def listed(jetstream: "JetStream", _ctx: click.Context) -> list[str]:
        return await _first(jetstream.key_value_names(), incomplete)

    return _names(ctx, listed)


def key_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The keys, of the bucket that was typed before, that begin so."""

    async def listed(jetstream: "JetStream", ctx: click.Context) -> list[str]:
        bucket = await jetstream.key_value(ctx.params["bucket"])
        return await _first(bucket.keys(), incomplete)

    return _names(ctx, listed)


def store_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The object stores whose names begin so."""

    async def listed(jetstream: "JetStream", _ctx: click.Context) -> list[str]:
        return await _first(jetstream.object_store_names(), incomplete)

    return _names(ctx, listed)


def object_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The objects, of the store that was typed before, whose names begin so."""

    async def listed(jetstream: "JetStream", ctx: click.Context) -> list[str]:
        store = await jetstream.object_store(ctx.params["bucket"])
        names = [info.name async for info in store.list()]
        return sorted(name for name in names if name.startswith(incomplete))[:_MOST]

    return _names(ctx, listed)


def context_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The contexts whose names begin so."""
    from jetspark.client.contexts import context_folder

    paths = (context_folder() / "context").glob("*.json")
    return sorted(path.stem for path in paths if path.stem.startswith(incomplete))


async def _first(names: AsyncIterator[str], incomplete: str) -> list[str]:
    found: list[str] = []
    async for name in names:
        if name.startswith(incomplete):
            found.append(name)
            if len(found) == _MOST:
                break
    return sorted(found)


def _names(ctx: click.Context, lister: Lister) -> list[str]:
    import asyncio

    from jetspark.cli.connection import CONNECTION_OPTIONS, settings_of
    from jetspark.client.client import connect

    async def asked() -> list[str]:
        # What was typed so far; an option without its value is None.
        given: dict[str, Any] = {
            option.name or "": ctx.params.get(option.name or "") for option in CONNECTION_OPTIONS
        }
        given["timeout"] = _PATIENCE
        with ctx.scope(cleanup=False):
            settings = settings_of(given)
        arguments = settings.arguments()
        arguments["connect_timeout"] = _PATIENCE
        async with await connect(settings.server, **arguments) as client:
            jetstream = client.jetstream(
                domain=settings.js_domain or "",
                prefix=settings.js_api_prefix or "",
                timeout=_PATIENCE,
            )
            return await lister(jetstream, ctx)

    try:
        return asyncio.run(asyncio.wait_for(asked(), 2 * _PATIENCE))
    except Exception:  # noqa: BLE001 - a message would end up in the line that is being typed
        return []
