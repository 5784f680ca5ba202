"""`stream rm`, `purge`, `rmm`: what cannot be undone, after a confirmation."""

import click

from jetspark.cli.confirm import confirm
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import show_info
from jetspark.errors import MessageNotFound


async def remove_stream(session: Session, *, name: str, force: bool) -> None:
    """Delete a stream with its messages and consumers."""
    state = (await session.stream(name)).cached_info.state
    confirm(
        f"Really remove stream {name} with {state.messages:,} messages and "
        f"{state.consumer_count:,} consumers?",
        force=force,
    )
    await session.jetstream.delete_stream(name)
    session.output.done(f"Stream {name} was removed", stream=name, removed=True)


async def purge_stream(
    session: Session, *, name: str, subject: str, seq: int | None, keep: int | None, force: bool
) -> None:
    """Remove messages of a stream."""
    if seq is not None and keep is not None:
        raise click.UsageError("--seq and --keep exclude each other: give one of them")
    stream = await session.stream(name)
    what = f"messages on {subject} of stream {name}" if subject else f"stream {name}"
    confirm(f"Really purge {what}?", force=force)
    purged = await stream.purge(subject=subject, seq=seq or 0, keep=keep or 0)
    output = session.output
    output.done(f"Purged {purged:,} messages from {name}", stream=name, purged=purged)
    if not output.json:
        show_info(output, await stream.info(), state_only=True)


async def remove_message(session: Session, *, name: str, seq: int, force: bool) -> None:
    """Delete one message."""
    stream = await session.stream(name)
    confirm(f"Really remove message {seq} from stream {name}?", force=force)
    try:
        await stream.delete_msg(seq)
    except MessageNotFound:
        raise click.ClickException(f"stream {name} has no message {seq}") from None
    session.output.done(
        f"Message {seq} was removed from {name}", stream=name, seq=seq, removed=True
    )
