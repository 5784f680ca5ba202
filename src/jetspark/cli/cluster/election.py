"""Requests about leaders and replicas, and waiting for an election."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import click
import msgspec

from jetspark.api.base import Response, Success
from jetspark.cli.session import Session
from jetspark.client.jetstream.api import api_prefix, read_answer
from jetspark.errors import Error

_POLL: Final = 0.1
# No server answers without a leader: ask again soon.
ANSWER_TIMEOUT: Final = 0.5


class Leader(NamedTuple):
    """The leader that a server names, and since when it leads, if the server says so."""

    name: str
    since: datetime | None = None


async def ask_cluster(session: Session, verb: str, body: Mapping[str, Any]) -> None:
    """Send a request of the JetStream API that is answered with success or an error."""
    settings = session.settings
    prefix = api_prefix(settings.js_domain or "", settings.js_api_prefix or "")
    subject = f"{prefix}.{verb}"
    reply = await session.client.request(
        subject, msgspec.json.encode(body) if body else b"", timeout=settings.timeout
    )
    answer = read_answer(subject.encode(), _ANSWER, reply.data)
    if not answer.success:
        raise click.ClickException("the server did not do it, and does not say why")


async def elect(
    session: Session, what: str, placement: Mapping[str, Any], *,
    verb: str, leader: Callable[[], Awaitable[Leader]], **named: str,
) -> None:  # fmt: skip
    """Have the leader step down, and wait until another one was elected."""
    output, patience = session.output, session.settings.timeout
    try:
        before = await leader()
    except Error:
        before = Leader("")
    old = before.name
    if old and placement.get("preferred") == old:
        raise click.ClickException(f"{old} leads {what} already")
    output.say(f"Requesting that {old or 'the unknown leader'} steps down for {what}")
    begun = time.monotonic()
    await ask_cluster(session, verb, {"placement": placement} if placement else {})
    while True:
        try:
            now = await leader()
        except Error:  # the one that is asked may be the one that changes
            now = Leader("")
        took = time.monotonic() - begun
        if now.name and now.name != old:
            break
        if now.since and before.since and now.since > before.since:
            raise click.ClickException(f"{what}: {old} was elected again; repeat the command")
        if took > patience:
            raise click.ClickException(
                f"{what}: no other leader was elected within {patience:g} seconds; the same one "
                "may have won, then repeat the command"
            )
        await asyncio.sleep(_POLL)
    output.done(
        f"New leader elected: {now.name}, after {took:.1f} seconds",
        **named, old_leader=old, leader=now.name, seconds=round(took, 3),
    )  # fmt: skip


_ANSWER: Final = Response("leader_stepdown", Success)
