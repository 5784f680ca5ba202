"""`req` and `reply`: requests, and a service that answers them."""

import asyncio
import os
import random
import re
import shlex
import time
from collections.abc import AsyncIterator
from typing import Any

import click

from jetspark.cli.messages import message_fields, show_headers, translated
from jetspark.cli.messaging.payloads import Draft, Drafts
from jetspark.cli.messaging.templates import expand, expand_text
from jetspark.cli.output import Output, to_json, visible
from jetspark.cli.quantities import show_seconds
from jetspark.cli.session import Session
from jetspark.client.message import Message
from jetspark.errors import NoResponders, RequestTimeout


async def request(
    session: Session, *, subject: str, body: str | None, headers: tuple[tuple[str, str], ...],
    count: int, replies: int, reply_timeout: float, wait_for_empty: bool, raw: bool,
    translate: str, send_on: str, templates: bool, force_stdin: bool,
) -> None:  # fmt: skip
    """Send requests and show the replies."""
    if force_stdin and body is not None:
        raise click.UsageError("BODY and --force-stdin exclude each other: give one of them")
    output = session.output
    drafts = Drafts(
        output, subject, body, headers, count=count, send_on=send_on, templates=templates
    )
    single = drafts.single and replies == 1 and not wait_for_empty
    if output.json and not single:
        with output.emitting() as emit:
            async for draft in drafts:
                async for reply, seconds in _replies(
                    session, draft, replies, reply_timeout, wait_for_empty=wait_for_empty
                ):
                    emit(_fields(reply, seconds))
        return
    async for draft in drafts:
        if not raw and not output.json:
            output.say(f'Sending request on "{visible(draft.subject)}"')
        async for reply, seconds in _replies(
            session, draft, replies, reply_timeout, wait_for_empty=wait_for_empty
        ):
            if output.json:
                output.value(_fields(reply, seconds))
                continue
            if not raw:
                output.say(f"Received with rtt {show_seconds(seconds)}")
                _show_headers(output, reply)
            output.data(translated(reply.data, translate, reply.subject))


def _show_headers(output: Output, reply: Message) -> None:
    if reply.header_block:
        show_headers(output, reply.header_block)
        output.line()


def _fields(reply: Message, seconds: float) -> dict[str, Any]:
    before = {"rtt_seconds": round(seconds, 6)}
    return message_fields(reply.subject, reply.data, reply.header_block, before=before)


async def _replies(
    session: Session, draft: Draft, replies: int, reply_timeout: float, *, wait_for_empty: bool
) -> AsyncIterator[tuple[Message, float]]:
    """The replies to one request, with the seconds that each took."""
    begun = time.monotonic()
    came = 0
    try:
        async for reply in session.client.request_many(
            draft.subject,
            draft.data,
            headers=draft.headers or None,
            limit=0 if wait_for_empty else replies,
            stall=reply_timeout if replies > 1 or wait_for_empty else None,
            sentinel=wait_for_empty,
            timeout=session.settings.timeout,
        ):
            came += 1
            yield reply, time.monotonic() - begun
    except NoResponders:
        raise click.ClickException(
            f"no responders are available: no client subscribes to {draft.subject}"
        ) from None
    except RequestTimeout:
        pass
    if not came and not wait_for_empty:
        waited = show_seconds(session.settings.timeout)
        raise click.ClickException(
            f"no reply from {draft.subject} within {waited}: --timeout waits longer"
        )


async def reply(
    session: Session, *, subject: str, body: str | None, echo: bool, command: str, queue: str,
    sleep: float, headers: tuple[tuple[str, str], ...], count: int,
) -> None:  # fmt: skip
    """Answer requests until interrupted, or until enough were answered."""
    output = session.output
    if sum((body is not None, echo, bool(command))) > 1:
        raise click.UsageError("BODY, --echo and --command exclude each other: give one of them")
    if body is None and not command and not echo:
        output.say("No body or command supplied, enabling echo mode")
        echo = True
    async with await session.client.subscribe(subject, queue=queue) as subscription:
        if count:
            # The server stops there: later requests are for the other members of the group.
            await subscription.unsubscribe(count)
        await session.client.flush()
        output.say(f'Listening on "{visible(subject)}" in group "{queue}"')
        number = 0
        async for message in subscription:
            _show_request(output, message, number)
            if sleep:
                await asyncio.sleep(random.uniform(0, sleep))  # noqa: S311
            if message.reply:
                given = [(name, expand_text(value, number)) for name, value in headers]
                if echo:
                    data = message.data
                    given = [
                        *message.headers.items(), *given, ("NATS-Reply-Counter", str(number))
                    ]  # fmt: skip
                elif command:
                    data = await _run(output, command, message, number)
                else:
                    data = expand((body or "").encode(), number, request=message.data)
                message.respond(data, headers=given or None)
            number += 1
            if count and number >= count:
                break
        await session.client.flush()


def _show_request(output: Output, message: Message, number: int) -> None:
    if output.json:
        output.line(_line(message))
        return
    output.line(
        output.style(f'[#{number}] Received on subject "{visible(message.subject)}":', "bold")
    )
    show_headers(output, message.header_block)
    output.line()
    output.data(message.data)


def _line(message: Message) -> str:
    before = {"reply": message.reply}
    fields = message_fields(message.subject, message.data, message.header_block, before=before)
    return to_json(fields).decode()


async def _run(output: Output, command: str, message: Message, number: int) -> bytes:
    """The output of a command; tokens of the subject are `{{0}}`, `{{1}}`, ..."""
    words = []
    tokens = {f"{{{{{n}}}}}": token for n, token in enumerate(message.subject.split("."))}
    for word in shlex.split(command):
        filled = re.sub(r"\{\{\d+\}\}", lambda found: tokens.get(found[0], found[0]), word)
        words.append(
            expand(filled.encode(), number, request=message.data).decode(errors="replace")
        )
    environment = {
        **os.environ,
        "NATS_REQUEST_SUBJECT": message.subject,
        "NATS_REQUEST_BODY": message.data.replace(b"\0", b"").decode(errors="surrogateescape"),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
    except (OSError, ValueError) as error:
        output.say(f"Command {words[0]!r} cannot run: {error}")
        return b""
    found, _ = await process.communicate()
    if process.returncode:
        output.say(f"Command {words[0]!r} exited with {process.returncode}")
    return found
