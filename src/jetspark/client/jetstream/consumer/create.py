"""Making and listing consumers: the subject and body of a create request, and its answer."""

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

# What an ordered consumer settles itself; a configuration that sets one of them is refused.
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
    """Refuse what cannot be a consumer's name, before it gets into a subject."""
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
    """Create or update a consumer; a name is made up when the configuration has none.

    Such a one, and a ``temporary`` one, is deleted again when the caller is gone by the time that
    it is there.

    A single filter stands in the subject, so that permissions can be given per filter.
    With ``min_last_seq`` on a server that does not know it the consumer is made when the leader
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
            f"name={config.name!r} and durable={config.durable_name!r}: give one of them, or the "
            "same to both"
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
    """Wait for a consumer that nobody will ever use if the caller does not."""
    task = api.core.loop.create_task(creating)

    def forget(done: "asyncio.Future[ConsumerInfo]") -> None:
        # Behind the answer: nats-server may do a deletion before a creation that was sent first.
        # Without an answer it may be there all the same.
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
    """Look a consumer up; ConsumerNotFound when there is none."""
    verb = f"CONSUMER.INFO.{stream}.{check_consumer_name(name)}"
    return await api.call(verb, None, CONSUMER_INFO, timeout=timeout)


def forget_consumer(api: ApiClient, stream: str, name: str) -> None:
    """Ask for its deletion without waiting for an answer: it would go away by itself, later."""
    if not api.core.is_closed:
        api.core.send_message(api.subject(f"CONSUMER.DELETE.{stream}.{name}"), b"", b"", b"")


def ordered_config(config: ConsumerConfig) -> ConsumerConfig:
    """Refuse what an ordered consumer settles itself; return the rest as it is."""
    plain = ConsumerConfig()
    wrong = [name for name in _SETTLED if getattr(config, name) != getattr(plain, name)]
    if wrong:
        names = ", ".join(wrong).replace("durable_name", "durable")
        raise ValueError(
            f"an ordered consumer settles {names} itself: leave it out, or use create_consumer"
        )
    return config


async def update_consumer(
    api: ApiClient, stream: str, name: str, changes: ConsumerOptions, timeout: Timeout | None
) -> ConsumerInfo:
    """Change what is named and nothing else: read, change, write, and look at what was done."""
    label = f"consumer {name!r} of stream {stream!r}"
    planned = ShownConfig(**changes)  # refuses what cannot be before it asks
    if {planned.name, planned.durable} - {"", name}:
        raise ValueError(f"{label} keeps its name: create another consumer")
    before = await consumer_info(api, stream, name, timeout=timeout)
    wanted = from_wire(ShownConfig, before.config).replace(**changes)
    after = await create_consumer(
        api, stream, to_wire(wanted), ConsumerAction.UPDATE, timeout=timeout
    )
    check_applied(changes, wanted, from_wire(ShownConfig, after.config), label)
    return after


async def delete_consumer(api: ApiClient, stream: str, name: str, timeout: Timeout | None) -> None:
    """Delete a consumer; ConsumerNotFound when there is none."""
    verb = f"CONSUMER.DELETE.{stream}.{check_consumer_name(name)}"
    await api.call(verb, None, CONSUMER_DELETE, timeout=timeout)
