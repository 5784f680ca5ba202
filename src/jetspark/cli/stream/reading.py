"""`stream get`, `view`, `cat`: messages of a stream, without consuming them."""

from typing import Any

import click

from jetspark.api.base import Timestamp
from jetspark.cli.confirm import can_ask
from jetspark.cli.messages import show_headers, show_stored, stored_fields, translated
from jetspark.cli.output import visible
from jetspark.cli.quantities import show_time
from jetspark.cli.session import Session
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.client.pager import Pager
from jetspark.errors import MessageNotFound


async def get_message(
    session: Session, *, name: str, seq: int | None, last_for: str, raw: bool, translate: str
) -> None:
    """Show one message."""
    if (seq is None) == (not last_for):
        raise click.UsageError(
            "give the sequence of a message, or --last-for SUBJECT for the last one of a subject"
        )
    stream = await session.stream(name)
    try:
        message = await stream.get_msg(seq=seq or 0, last_by_subject=last_for)
    except MessageNotFound:
        raise click.ClickException(await _missing(stream, seq, last_for)) from None
    output = session.output
    if output.json:
        output.value(stored_fields(message))
        return
    if raw:
        output.data(translated(message.data, translate, message.subject))
        return
    head = (
        f"Item: {name}#{message.seq} received {show_time(message.time)} on Subject "
        f"{visible(message.subject)}"
    )
    output.line(output.style(head, "bold"))
    show_headers(output, message.header_block)
    output.line()
    output.data(translated(message.data, translate, message.subject))


async def _missing(stream: Stream, seq: int | None, last_for: str) -> str:
    state = (await stream.info()).state
    if last_for:
        return (
            f"stream {stream.name} has no message on {last_for}: `jetspark stream subjects "
            f"{stream.name}` lists its subjects"
        )
    if not state.messages:
        return f"stream {stream.name} has no message {seq}: it is empty"
    return (
        f"stream {stream.name} has no message {seq}: it holds {state.messages:,} messages from "
        f"{state.first_seq:,} to {state.last_seq:,}"
    )


async def view_messages(
    session: Session, *, name: str, size: int, seq: int | None, since: int | None, subject: str,
    raw: bool, translate: str,
) -> None:  # fmt: skip
    """Show the messages page by page; without a terminal, the first page."""
    stream = await session.stream(name)
    output = session.output
    at, start = seq or 0, None if since is None else Timestamp(since)
    while True:
        page = [
            one
            async for one in stream.get_batch(
                seq=at, start_time=start, next_by_subject=subject, limit=size + 1
            )
        ]
        more = len(page) > size
        page = page[:size]
        if output.json:
            output.values(map(stored_fields, page))
        for message in () if output.json else page:
            _show(session, message, raw=raw, translate=translate)
        if not more:
            output.say("Reached apparent end of data")
            return
        at, start = page[-1].seq + 1, None
        if output.json or not (output.is_terminal and can_ask()):
            output.say(
                f"More messages follow: continue with --id {at}, or read all with `jetspark "
                f"stream cat {name}`"
            )
            return
        if not click.confirm("Next page?", default=True, err=True):
            return


def _show(session: Session, message: StreamMessage, *, raw: bool, translate: str) -> None:
    if raw:
        session.output.data(translated(message.data, translate, message.subject))
    else:
        show_stored(session.output, message, translate=translate)


async def cat_messages(
    session: Session, *, name: str, seq: int | None, since: int | None, subject: str, limit: int,
    raw: bool, translate: str,
) -> None:  # fmt: skip
    """Write all messages, up to the end of the stream."""
    stream = await session.stream(name)
    start: dict[str, Any] = {"seq": seq or 0}
    if since is not None:
        start = {"start_time": Timestamp(since)}
    messages: Pager[StreamMessage] = stream.get_batch(
        **start, next_by_subject=subject, limit=limit
    )
    if session.output.json:
        with session.output.emitting() as emit:
            async for message in messages:
                emit(stored_fields(message))
        return
    async for message in messages:
        _show(session, message, raw=raw, translate=translate)
