"""`consumer next`, `rm`, `pause`, `resume`, `reset`, `unpin`, `explain`."""

from datetime import UTC, datetime

import click

from jetspark.api.enums import AckPolicy
from jetspark.cli.confirm import confirm
from jetspark.cli.consumer.configuring import until_ns
from jetspark.cli.messages import message_fields, show_headers, translated
from jetspark.cli.output import visible
from jetspark.cli.quantities import show_seconds, show_time
from jetspark.cli.session import Session
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.models.base import to_wire
from jetspark.units import format_rfc3339

_SECOND = 1_000_000_000


async def next_messages(
    session: Session, *, stream: str, name: str, count: int, ack: bool | None, nak: bool,
    term: bool, raw: bool, wait: float | None, translate: str,
) -> None:  # fmt: skip
    """Fetch messages, show and settle them."""
    if sum((ack is True, nak, term)) > 1:
        raise click.UsageError("--ack, --nak and --term exclude each other: give one of them")
    consumer = await session.consumer(stream, name)
    if consumer.config.deliver_subject:
        raise click.ClickException(
            f"consumer {name} is a push consumer: it delivers to "
            f"{consumer.config.deliver_subject}; receive that with `jetspark sub`"
        )
    acks = consumer.config.ack_policy != AckPolicy.NONE
    action = "nak" if nak else "term" if term else "ack" if ack is not False else ""
    output = session.output
    patience = session.settings.timeout if wait is None else wait
    messages = await consumer.fetch(count, timeout=patience)
    shown = 0
    if output.json:
        if count == 1 and messages:
            output.value(_fields(messages[0]))
        elif count > 1:
            output.values(map(_fields, messages))
    for message in messages:
        if not output.json:
            _show(session, message, raw=raw, translate=translate)
        if acks and action:
            await _settle(message, action)
            if not raw and not output.json:
                output.say(_SAID[action])
        shown += 1
    if not shown:
        raise click.ClickException(
            f"no message within {show_seconds(patience)}; `jetspark consumer explain {stream} "
            f"{name}` says why"
        )
    await session.client.flush()


_SAID = {
    "ack": "Acknowledged message",
    "nak": "Message will be delivered again",
    "term": "Message will not be delivered again",
}


async def _settle(message: JetStreamMessage, action: str) -> None:
    if action == "ack":
        await message.ack_sync()
    elif action == "nak":
        message.nak()
    else:
        message.term()


def _show(session: Session, message: JetStreamMessage, *, raw: bool, translate: str) -> None:
    output = session.output
    data = translated(message.data, translate, message.subject)
    if raw:
        output.data(data)
        return
    meta = message.metadata
    head = (
        f"[{show_time(message.time)}] subj: {visible(message.subject)} / tries: "
        f"{meta.num_delivered} / cons seq: {meta.consumer_seq} / str seq: {meta.stream_seq} / "
        f"pending: {meta.num_pending:,}"
    )
    output.line(output.style(head, "bold"))
    show_headers(output, message.header_block)
    output.line()
    output.data(data)
    output.line()


def _fields(message: JetStreamMessage) -> dict[str, object]:
    meta = message.metadata
    before = {
        "stream": meta.stream,
        "consumer": meta.consumer,
        "seq": meta.stream_seq,
        "consumer_seq": meta.consumer_seq,
        "num_delivered": meta.num_delivered,
        "num_pending": meta.num_pending,
        "time": format_rfc3339(meta.time_ns),
    }
    return message_fields(message.subject, message.data, message.header_block, before=before)


async def remove_consumer(session: Session, *, stream: str, name: str, force: bool) -> None:
    """Delete a consumer."""
    consumer = await session.consumer(stream, name)
    confirm(f"Really remove consumer {name} of stream {stream}?", force=force)
    await consumer.delete()
    session.output.done(
        f"Consumer {name} of stream {stream} was removed",
        stream=stream, consumer=name, removed=True,
    )  # fmt: skip


async def pause_consumer(
    session: Session, *, stream: str, name: str, until: str, force: bool
) -> None:
    """Pause a consumer."""
    at = until_ns(until, "UNTIL")
    consumer = await session.consumer(stream, name)
    when = datetime.fromtimestamp(at / _SECOND, UTC)
    confirm(f"Really pause consumer {name} until {show_time(when)}?", force=force)
    state = await consumer.pause(when)
    if not state.paused:
        raise click.ClickException(f"{show_time(when)} has passed: the consumer is not paused")
    text = (
        f"Consumer {name} is paused until {show_time(state.pause_until)}, for "
        f"{show_seconds(state.pause_remaining)}"
    )
    if session.output.json:
        session.output.value(to_wire(state))
    else:
        session.output.say(text)


async def resume_consumer(session: Session, *, stream: str, name: str, force: bool) -> None:
    """Resume a consumer."""
    consumer = await session.consumer(stream, name)
    if not consumer.cached_info.paused:
        session.output.done(f"Consumer {name} is not paused", paused=False)
        return
    confirm(f"Really resume consumer {name}?", force=force)
    state = await consumer.resume()
    if session.output.json:
        session.output.value(to_wire(state))
    else:
        session.output.say(f"Consumer {name} was resumed")


async def reset_consumer(
    session: Session, *, stream: str, name: str, seq: int | None, force: bool
) -> None:
    """Deliver messages again."""
    consumer = await session.consumer(stream, name)
    where = f"sequence {seq:,}" if seq else "its ack floor"
    confirm(f"Really reset consumer {name} to {where}?", force=force)
    start = await consumer.reset(seq or 0)
    session.output.done(
        f"Consumer {name} was reset: it continues at sequence {start:,}",
        stream=stream, consumer=name, seq=start,
    )  # fmt: skip


async def unpin_client(
    session: Session, *, stream: str, name: str, group: str, force: bool
) -> None:
    """Unpin the client of a priority group."""
    consumer = await session.consumer(stream, name)
    confirm(f"Really unpin the client of group {group} of consumer {name}?", force=force)
    await consumer.unpin(group)
    session.output.done(
        f"The client of group {group} was unpinned",
        stream=stream, consumer=name, group=group, unpinned=True,
    )  # fmt: skip


async def explain_consumer(session: Session, *, stream: str, name: str, seq: int | None) -> None:
    """Explain why a message is not delivered."""
    consumer = await session.consumer(stream, name)
    found = await consumer.explain(seq or 0)
    if session.output.json:
        session.output.value(
            {"stream": stream, "consumer": name, "seq": seq, "reason": found.reason.value,
             "text": found.text}
        )  # fmt: skip
    else:
        session.output.line(f"{found.reason.value.replace('_', ' ')}: {found.text}")
