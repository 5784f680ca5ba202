"""Events of a server: advisories and metrics."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from jetspark.cli.output import Output, visible
from jetspark.cli.session import Session
from jetspark.client.message import Message

_ADVISORIES: Final = "$JS.EVENT.ADVISORY.>"
_METRICS: Final = "$JS.EVENT.METRIC.>"
_SERVER: Final = (
    "$SYS.ACCOUNT.*.CONNECT",
    "$SYS.ACCOUNT.*.DISCONNECT",
    "$SYS.SERVER.*.CLIENT.AUTH.ERR",
)


async def follow_events(
    session: Session, *, every: bool, js_advisory: bool, js_metric: bool, srv_advisory: bool,
    subjects: tuple[str, ...], pattern: str, short: bool, count: int,
) -> None:  # fmt: skip
    """Show events until interrupted."""
    try:
        wanted = re.compile(pattern.encode(), re.IGNORECASE)
    except re.error as error:
        raise click.UsageError(f"--filter {pattern!r} is no expression: {error}") from None
    chosen = list(subjects)
    every = every or not (js_advisory or js_metric or srv_advisory or subjects)
    if every or js_advisory:
        chosen.append(_ADVISORIES)
    if every or js_metric:
        chosen.append(_METRICS)
    # Others see none of them, and may not be allowed to ask.
    if srv_advisory or (every and session.client.server_info.acc_is_sys):
        chosen.extend(_SERVER)
    output = session.output
    arrived: asyncio.Queue[Message] = asyncio.Queue()
    for subject in chosen:
        await session.client.subscribe(subject, callback=arrived.put_nowait)
    await session.client.flush()
    output.say(f"Listening for events on {', '.join(chosen)}")
    if not output.json:
        async for message, event in _matching(arrived, wanted, count):
            _show(output, message.subject, event, short=short)
        return
    with output.emitting() as emit:
        async for message, event in _matching(arrived, wanted, count):
            emit({"subject": message.subject} if event is None else event)


async def _matching(
    arrived: "asyncio.Queue[Message]", wanted: re.Pattern[bytes], count: int
) -> Any:
    """Events and their messages: ``count`` of them, or with 0 all that come."""
    seen = 0
    while True:
        message = await arrived.get()
        if not wanted.search(message.data):
            continue
        yield message, _decoded(message.data)
        seen += 1
        if seen == count:
            return


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return None
    return found if isinstance(found, dict) else None


def _show(output: Output, subject: str, event: dict[str, Any] | None, *, short: bool) -> None:
    if event is None:
        output.line(f"[{visible(subject)}] an event that is no JSON object")
        return
    kind = str(event.get("type", "")).rpartition(".")[2] or subject
    head = f"[{event.get('timestamp', '')}] [{event.get('id', '')}] {_title(kind)}"
    fields = list(_flat(event))
    if short:
        output.line(visible(f"{head}: " + ", ".join(f"{name}={value}" for name, value in fields)))
        return
    output.line(output.style(visible(head), "bold"))
    output.line()
    widest = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        output.line(f"  {visible(name):>{widest}}: {visible(str(value))}")
    output.line()


def _title(kind: str) -> str:
    return kind.replace("_", " ").title()


def _flat(event: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The fields, those of parts with the name of the part."""
    for name, value in event.items():
        if not prefix and name in {"type", "id", "timestamp"}:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in ("", None, [], 0, False):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            yield f"{prefix}{name}", shown
