"""`sub`: messages of subjects as they arrive, or of a stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, ExitStack, aclosing
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import click

from jetspark.api.base import Timestamp
from jetspark.cli.messages import message_fields, show_headers, translated
from jetspark.cli.output import Output, to_json, visible
from jetspark.cli.quantities import show_seconds, show_time
from jetspark.cli.session import Session
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.client.message import Message
from jetspark.errors import ConsumerNotFound, RequestTimeout
from jetspark.subjects.match import matches
from jetspark.units import format_rfc3339

_FOREVER: Final = 10 * 365 * 86_400.0


class Arrived(Protocol):
    """What core messages and those of consumers have in common."""

    subject: str
    data: bytes
    reply: str
    header_block: bytes


class Look(NamedTuple):
    """How messages are shown."""

    raw: bool
    headers_only: bool
    subjects_only: bool
    timestamp: bool
    delta_time: bool
    translate: str
    dump: str


async def subscribe(
    session: Session, *, subjects: tuple[str, ...], queue: str, count: int, wait: float | None,
    inbox: bool, ignored: tuple[str, ...], stream: str, durable: str, seq: int | None,
    start: str | None, since: int | None, terminate: bool, ack: bool, raw: bool,
    headers_only: bool, subjects_only: bool, timestamp: bool, delta_time: bool, translate: str,
    dump: str,
) -> None:  # fmt: skip
    """Show messages until interrupted, or until enough have arrived."""
    look = Look(
        raw=raw, headers_only=headers_only, subjects_only=subjects_only, timestamp=timestamp,
        delta_time=delta_time, translate=translate, dump=dump,
    )  # fmt: skip
    stored = bool(stream or durable or seq or start or since is not None or terminate)
    if inbox:
        if stored or subjects:
            raise click.UsageError("--inbox subscribes to a new subject: it takes no others")
        subjects = (session.client.new_inbox(),)
    if stored and queue:
        raise click.UsageError(
            "--queue is for subjects; members of a --durable share its messages"
        )
    with Show(session.output, look, ignored, count) as show:
        if stored:
            source = Source(
                subjects=subjects, stream=stream, durable=durable, seq=seq, start=start,
                since=since, terminate=terminate,
            )  # fmt: skip
            await _follow_stream(session, source, show, wait)
        elif not subjects:
            raise click.UsageError("missing SUBJECT: give subjects, or --stream or --inbox")
        else:
            await _follow_subjects(session, subjects, queue, show, wait, ack=ack)


class Show:
    """Writes messages and counts them."""

    def __init__(self, output: Output, look: Look, ignored: tuple[str, ...], limit: int) -> None:
        self._output = output
        self._look = look
        self._ignored = [one.encode() for one in ignored]
        self.limit: Final = limit
        self.shown: int = 0
        self.done: Final = asyncio.Event()
        self._begun = time.monotonic()
        self._open = ExitStack()
        self._emit: Callable[[object], None] | None = None

    @property
    def counts_all(self) -> bool:
        """Whether every message counts towards the limit."""
        return not self._ignored

    def __enter__(self) -> Self:
        if self._output.json:
            self._emit = self._open.enter_context(self._output.emitting())
        return self

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def __call__(self, message: Arrived, stored: JetStreamMessage | None = None) -> None:
        """Show a message, unless enough were shown or its subject is ignored."""
        subject = message.subject.encode("utf-8", "surrogateescape")
        if self.done.is_set() or any(matches(subject, one) for one in self._ignored):
            return
        self.shown += 1
        if self._look.dump:
            self._dump(message, stored)
        elif self._emit is not None:
            self._emit(_fields(message, stored))
        else:
            self._write(message, stored)
        if self.shown == self.limit:
            self.done.set()

    def _write(self, message: Arrived, stored: JetStreamMessage | None) -> None:
        output, look = self._output, self._look
        if look.subjects_only:
            output.line(visible(message.subject))
            return
        data = b"" if look.headers_only else translated(
            message.data, look.translate, message.subject
        )  # fmt: skip
        if look.raw:
            output.data(data)
            return
        output.line(output.style(self._head(message, stored), "bold"))
        show_headers(output, message.header_block)
        if not look.headers_only:
            if message.header_block:
                output.line()
            output.data(data)
        output.line()

    def _head(self, message: Arrived, stored: JetStreamMessage | None) -> str:
        head = f"[#{self.shown}]"
        if self._look.timestamp:
            head += f" @ {show_time(datetime.now().astimezone())}"
        elif self._look.delta_time:
            head += f" @ {show_seconds(time.monotonic() - self._begun)}"
        if stored is not None:
            meta = stored.metadata
            return (
                f"{head} Received JetStream message: stream: {meta.stream} seq: "
                f"{meta.stream_seq} / subject: {visible(message.subject)} / time: "
                f"{show_time(stored.time)}"
            )
        reply = f' with reply "{visible(message.reply)}"' if message.reply else ""
        return f'{head} Received on "{visible(message.subject)}"{reply}'

    def _dump(self, message: Arrived, stored: JetStreamMessage | None) -> None:
        encoded = to_json(_fields(message, stored))
        if self._look.dump == "-":
            click.echo(encoded + b"\0", nl=False)
            return
        folder = Path(self._look.dump)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.shown}.json").write_bytes(encoded)


def _fields(message: Arrived, stored: JetStreamMessage | None) -> dict[str, Any]:
    before: dict[str, object] = {}
    if stored is not None:
        meta = stored.metadata
        before = {
            "stream": meta.stream,
            "seq": meta.stream_seq,
            "time": format_rfc3339(meta.time_ns),
        }
    elif message.reply:
        before = {"reply": message.reply}
    return message_fields(message.subject, message.data, message.header_block, before=before)


async def _follow_subjects(
    session: Session, subjects: tuple[str, ...], queue: str, show: Show, wait: float | None, *,
    ack: bool,
) -> None:  # fmt: skip
    """Show the messages of subjects."""
    arrived = asyncio.Event()

    def on_message(message: Message) -> None:
        show(message)
        arrived.set()
        if ack and message.reply.startswith("$JS.ACK."):
            session.client.publish(message.reply)

    for subject in subjects:
        made = await session.client.subscribe(subject, queue=queue, callback=on_message)
        if show.limit and show.counts_all and len(subjects) == 1:
            # The server stops there: what comes after is for the other members of a queue.
            await made.unsubscribe(show.limit)
    await session.client.flush()
    named = ", ".join(subjects) + (f" in queue group {queue}" if queue else "")
    session.output.say(f"Subscribing on {named}")
    while not show.done.is_set():
        arrived.clear()
        ended = asyncio.ensure_future(show.done.wait())
        came = asyncio.ensure_future(arrived.wait())
        finished, _ = await asyncio.wait(
            {ended, came}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
        )
        ended.cancel()
        came.cancel()
        if not finished:
            return


class Source(NamedTuple):
    """Which messages of a stream."""

    subjects: tuple[str, ...]
    stream: str
    durable: str
    seq: int | None
    start: str | None
    since: int | None
    terminate: bool

    def settings(self) -> dict[str, Any]:
        """The configuration of a consumer."""
        chosen = [name for name, value in (
            ("--start-sequence", self.seq), (f"--{self.start}", self.start),
            ("--since", self.since),
        ) if value]  # fmt: skip
        if len(chosen) > 1:
            raise click.UsageError(f"{' and '.join(chosen)} exclude each other: give one of them")
        found: dict[str, Any] = {}
        if self.subjects:
            found["filter_subjects"] = self.subjects
        if self.seq:
            found |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self.seq}
        elif self.since is not None:
            found |= {
                "deliver_policy": "by_start_time",
                "opt_start_time": Timestamp(self.since),
            }
        elif self.start:
            found["deliver_policy"] = self.start.replace("-", "_")
        elif self.stream and not self.terminate:
            found["deliver_policy"] = "new"
        return found


async def _follow_stream(session: Session, source: Source, show: Show, wait: float | None) -> None:
    """Show the messages of a stream; of a durable consumer, acknowledge them."""
    settings = source.settings()
    name = source.stream
    if not name:
        if not source.subjects:
            raise click.UsageError("missing SUBJECT: give subjects, or --stream")
        name = await session.jetstream.stream_name_by_subject(source.subjects[0])
    stream = await session.stream(name)
    session.output.say(f"Subscribing to stream {name}")
    async with aclosing(_messages(stream, source, settings, wait)) as messages:
        async for message in messages:
            show(message, message)
            if source.durable:
                await message.ack_sync()
            if show.done.is_set() or (source.terminate and message.metadata.num_pending == 0):
                return


async def _messages(
    stream: Stream, source: Source, settings: dict[str, Any], wait: float | None
) -> AsyncGenerator[JetStreamMessage, None]:
    """The messages of a consumer, until none has come for ``wait`` seconds."""
    async with AsyncExitStack() as ending:
        if source.durable:
            try:
                consumer = await stream.consumer(source.durable)
            except ConsumerNotFound:
                consumer = await stream.create_consumer(durable=source.durable, **settings)
            # One at a time: what was fetched and not shown would wait for its ack deadline.
            iterator = consumer.messages(prefetch=1)
        elif source.terminate:
            consumer = await stream.create_consumer(
                ack_policy="none", inactive_threshold=30.0, **settings
            )
            ending.push_async_callback(consumer.delete)
            iterator = consumer.messages()
        else:
            iterator = stream.ordered_consumer(**settings).messages()
        if source.terminate and consumer.cached_info.num_pending == 0:
            return
        messages = await ending.enter_async_context(iterator)
        while True:
            try:
                yield await messages.next(timeout=wait or _FOREVER)
            except RequestTimeout:
                return
