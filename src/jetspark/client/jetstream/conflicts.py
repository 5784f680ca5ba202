"""Explains conflicts with an existing stream or consumer after a refused create.

Servers only report that there is a conflict. After an error, one more request does no harm.
"""

from contextlib import suppress
from typing import Any, Final

import msgspec

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.stream import STREAM_CREATE, STREAM_INFO, StreamConfig, StreamInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.listing import stream_pages
from jetspark.client.models.base import from_wire
from jetspark.client.models.consumer import ConsumerConfig as ShownConsumer
from jetspark.client.models.stream import StreamConfig as ShownStream
from jetspark.client.timeouts import Timeout
from jetspark.errors import Error, StreamExists, SubjectsOverlap
from jetspark.subjects.match import overlaps

# Filled in by the server if left out: no difference that a user chose.
FILLED_IN: Final = frozenset(
    {
        "ack_wait",
        "duplicate_window",
        "inactive_threshold",
        "max_ack_pending",
        "max_deliver",
        "max_waiting",
        "num_replicas",
    }
)
NAMED_MAX: Final = 5  # differences and streams listed in a message


async def create_stream(
    api: ApiClient, config: StreamConfig, timeout: Timeout | None
) -> StreamInfo:
    """Create a stream; StreamExists lists the differences, SubjectsOverlap names the stream."""
    try:
        return await api.call(
            f"STREAM.CREATE.{config.name}", config, STREAM_CREATE, timeout=timeout
        )
    except StreamExists as error:
        with suppress(Error):
            verb = f"STREAM.INFO.{config.name}"
            found = await api.call(verb, None, STREAM_INFO, timeout=timeout)
            error.detail = stream_differences(config, found.config)
        raise
    except SubjectsOverlap as error:
        with suppress(Error):
            error.detail = await _overlapping(api, config, timeout)
        raise


def stream_differences(asked: StreamConfig, found: StreamConfig) -> str:
    """Describe how the existing stream differs from the requested one."""
    return _differences(asked, found, StreamConfig(name=asked.name), ShownStream)


def consumer_differences(asked: ConsumerConfig, found: ConsumerInfo) -> str:
    """Describe how the existing consumer differs from the requested one."""
    return _differences(asked, found.config, ConsumerConfig(), ShownConsumer)


def _differences(asked: Any, found: Any, plain: Any, shown: Any) -> str:
    """Fields that were left out come last: the server may have filled them in."""
    different = [
        field.name
        for field in msgspec.structs.fields(asked)
        if field.name != "metadata" and getattr(asked, field.name) != getattr(found, field.name)
    ]
    chosen = [name for name in different if getattr(asked, name) != getattr(plain, name)]
    likely = chosen or [name for name in different if name not in FILLED_IN] or different
    names = [name.replace("durable_name", "durable") for name in likely]
    has, wanted = from_wire(shown, found), from_wire(shown, asked)
    parts = [
        f"{name} is {_text(getattr(has, name))}, requested {_text(getattr(wanted, name))}"
        for name in names
        if hasattr(has, name)
    ]
    more = f" and {len(parts) - NAMED_MAX} more" if len(parts) > NAMED_MAX else ""
    return ", ".join(parts[:NAMED_MAX]) + more


def _text(value: object) -> str:
    return str(getattr(value, "value", value)) if not isinstance(value, str) else repr(value)


async def _overlapping(api: ApiClient, config: StreamConfig, timeout: Timeout | None) -> str:
    mine = config.subjects or (config.name,)
    parts: list[str] = []
    async for page in stream_pages(api, "", timeout):
        for info in page:
            if info.config.name == config.name:
                continue
            pairs = [
                (one, other)
                for one in mine
                for other in info.config.subjects or (info.config.name,)
                if overlaps(one.encode(), other.encode())
            ]
            parts += [
                f"{one!r} overlaps {other!r} of stream {info.config.name!r}"
                for one, other in pairs
            ]
    return ", ".join(parts[:NAMED_MAX])
