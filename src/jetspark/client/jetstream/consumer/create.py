"""Creating and listing consumers: the subject and body of a create request, and its answer."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from jetspark.api.consumer import (
    CONSUMER_CREATE,
    CONSUMER_DELETE,
    CONSUMER_INFO,
    ConsumerConfig,
    ConsumerCreateRequest,
    ConsumerInfo,
)
from jetspark.api.enums import ConsumerAction
from jetspark.client.arguments import text
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.conflicts import consumer_differences
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.models.base import check_applied, from_wire, to_wire
from jetspark.client.models.consumer import ConsumerConfig as ShownConfig
from jetspark.client.models.consumer import ConsumerOptions
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    ApiError,
    BadName,
    ConnectionClosed,
    ConsumerExists,
    Error,
    RequestTimeout,
)
from jetspark.subjects.tokens import consumer_name_problem, is_valid_subject

# Set by ordered consumers; a configuration that sets one of them is refused.
# ``durable_name`` of the wire is ``durable`` for users.
_SETTLED: Final = (
    "durable_name",
    "name",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "backoff",
    "max_ack_pending",
    "deliver_subject",
    "deliver_group",
    "flow_control",
    "idle_heartbeat",
    "priority_groups",
)


def check_consumer_name(name: str) -> str:
    """Refuse an invalid consumer name, before it becomes part of a subject."""
    problem = consumer_name_problem(text(name, "consumer"))
    if problem is not None:
        raise BadName("consumer", name, problem)
    return name


async def create_consumer(
    api: ApiClient,
    stream: str,
    config: ConsumerConfig,
    action: ConsumerAction,
    *,
    temporary: bool = False,
    timeout: Timeout | None = None,
) -> ConsumerInfo:
    """Create or update a consumer; a name is generated if the configuration has none.

    Such a consumer, and a ``temporary`` one, is deleted again if the caller was cancelled by the
    time it was created.

    A single filter is part of the subject, so that permissions can be granted per filter. With
    ``min_last_seq`` on a server that does not support it, the consumer is created when the leader
    has reached that sequence, or MinLastSequence is raised.
    """
    if config.min_last_seq:
        reader = StreamReader(api, stream)
        if not reader.server_has_min_last_seq:
            deadline = api.core.loop.time() + api.seconds(timeout)
            await reader.wait_for_leader(config.min_last_seq, deadline)
            config = msgspec.structs.replace(config, min_last_seq=0)
    given = config.name or config.durable_name
    name = check_consumer_name(given or api.nuid.next())
    if config.durable_name and config.durable_name != name:
        raise ValueError(
            f"name={config.name!r} and durable={config.durable_name!r}: give one of them, or "
            "the same value for both"
        )
    verb = f"CONSUMER.CREATE.{stream}.{name}"
    only = config.filter_subject
    if only and is_valid_subject(only.encode("utf-8", "surrogateescape")):
        verb = f"{verb}.{only}"
    request = ConsumerCreateRequest(stream_name=stream, config=config, action=action)
    creating = api.call(verb, request, CONSUMER_CREATE, timeout=timeout)
    if given and not temporary:
        try:
            return await creating
        except ConsumerExists as error:
            with suppress(Error):
                found = await consumer_info(api, stream, name, timeout=timeout)
                error.detail = consumer_differences(config, found)
            raise
    return await _or_forget(api, stream, name, creating)


async def _or_forget(
    api: ApiClient, stream: str, name: str, creating: Coroutine[Any, Any, ConsumerInfo]
) -> ConsumerInfo:
    """Wait for a consumer, and delete it if the caller no longer waits."""
    task = api.core.loop.create_task(creating)

    def forget(done: "asyncio.Future[ConsumerInfo]") -> None:
        # After the answer: nats-server may process a deletion before a creation sent earlier.
        # Without an answer the consumer may still exist.
        if done.cancelled() or isinstance(done.exception(), ApiError):
            return
        with suppress(ConnectionClosed):
            forget_consumer(api, stream, name)

    try:
        return await asyncio.shield(task)
    except RequestTimeout:
        forget(task)
        raise
    except asyncio.CancelledError:
        task.add_done_callback(forget)
        raise


async def consumer_info(
    api: ApiClient, stream: str, name: str, *, timeout: Timeout | None = None
) -> ConsumerInfo:
    """Look up a consumer; ConsumerNotFound if it does not exist."""
    verb = f"CONSUMER.INFO.{stream}.{check_consumer_name(name)}"
    return await api.call(verb, None, CONSUMER_INFO, timeout=timeout)


def forget_consumer(api: ApiClient, stream: str, name: str) -> None:
    """Request its deletion without waiting for an answer: otherwise it expires later."""
    if not api.core.is_closed:
        api.core.send_message(api.subject(f"CONSUMER.DELETE.{stream}.{name}"), b"", b"", b"")


def ordered_config(config: ConsumerConfig) -> ConsumerConfig:
    """Refuse settings that an ordered consumer sets itself; return the rest."""
    plain = ConsumerConfig()
    wrong = [name for name in _SETTLED if getattr(config, name) != getattr(plain, name)]
    if wrong:
        names = ", ".join(wrong).replace("durable_name", "durable")
        raise ValueError(
            f"an ordered consumer sets {names} itself: leave it out, or use create_consumer"
        )
    return config


async def update_consumer(
    api: ApiClient, stream: str, name: str, changes: ConsumerOptions, timeout: Timeout | None
) -> ConsumerInfo:
    """Change the given settings only: read, change, write, and check the result."""
    label = f"consumer {name!r} of stream {stream!r}"
    planned = ShownConfig(**changes)  # checks before anything is sent
    if {planned.name, planned.durable} - {"", name}:
        raise ValueError(f"{label} cannot be renamed: create another consumer")
    before = await consumer_info(api, stream, name, timeout=timeout)
    wanted = from_wire(ShownConfig, before.config).replace(**changes)
    after = await create_consumer(
        api, stream, to_wire(wanted), ConsumerAction.UPDATE, timeout=timeout
    )
    check_applied(changes, wanted, from_wire(ShownConfig, after.config), label)
    return after


async def delete_consumer(api: ApiClient, stream: str, name: str, timeout: Timeout | None) -> None:
    """Delete a consumer; ConsumerNotFound if it does not exist."""
    verb = f"CONSUMER.DELETE.{stream}.{check_consumer_name(name)}"
    await api.call(verb, None, CONSUMER_DELETE, timeout=timeout)
