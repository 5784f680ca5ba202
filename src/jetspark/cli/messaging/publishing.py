"""`pub`: core messages, stored messages, atomic batches."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Self

import click

from jetspark.api.message import PubAck
from jetspark.cli.messaging.payloads import Draft, Drafts
from jetspark.cli.output import visible
from jetspark.cli.progress import Progress, progress_bar
from jetspark.cli.session import Session
from jetspark.clock import SystemClock
from jetspark.errors import BatchNotEnabled
from jetspark.headers.names import (
    SCHEDULE,
    SCHEDULE_SOURCE,
    SCHEDULE_TARGET,
    SCHEDULE_TTL,
)
from jetspark.units import format_duration, format_rfc3339

_FLUSH_EVERY: Final = 1_000
_WINDOW: Final = 500
_BAR_ABOVE: Final = 20
_SECOND: Final = 1_000_000_000


async def publish(
    session: Session, *, subject: str, body: str | None, reply: str,
    headers: tuple[tuple[str, str], ...], count: int, sleep: float, jetstream: bool, atomic: bool,
    quiet: bool, send_on: str, templates: bool, force_stdin: bool, **schedule: Any,
) -> None:  # fmt: skip
    """Publish messages."""
    if force_stdin and body is not None:
        raise click.UsageError("BODY and --force-stdin exclude each other: give one of them")
    scheduled = _schedule_headers(schedule)
    jetstream = jetstream or atomic or bool(scheduled)
    if jetstream and reply:
        raise click.UsageError(
            "--reply cannot be combined with --jetstream: the acknowledgement uses the reply"
        )
    drafts = Drafts(
        session.output, subject, body, (*headers, *scheduled), count=count, send_on=send_on,
        templates=templates,
    )  # fmt: skip
    run = _Run(session, drafts, quiet=quiet, sleep=sleep, single=atomic or drafts.single)
    with run:
        if atomic:
            await run.atomic()
        elif jetstream:
            await run.stored()
        else:
            await run.core(reply)


class _Run:
    """One run of the command: sends the messages and reports each, or shows a bar for many."""

    def __init__(
        self, session: Session, drafts: Drafts, *, quiet: bool, sleep: float, single: bool
    ) -> None:
        self._session = session
        self._drafts = drafts
        self._single = single
        self._sleep = sleep
        self._sent = 0
        many = drafts.total is not None and drafts.total > _BAR_ABOVE
        self._each = not quiet and not many
        self._quiet = quiet
        self._open = ExitStack()
        self._emit: Callable[[object], None] | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        output = self._session.output
        if output.json and not self._single:
            self._emit = self._open.enter_context(output.emitting())
        elif output.json:
            self._emit = output.value
        elif not self._each:
            self._bar = self._open.enter_context(
                progress_bar("publishing", self._drafts.total, quiet=self._quiet)
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def _report(self, draft: Draft, text: str, **fields: object) -> None:
        self._sent += 1
        if self._emit is not None:
            self._emit({"subject": draft.subject, "bytes": len(draft.data), **fields})
        elif self._each:
            self._session.output.say(text)
        elif self._bar is not None:
            self._bar(self._sent)

    async def _pause(self) -> None:
        if self._sleep:
            await asyncio.sleep(self._sleep)

    def _summary(self, what: str) -> None:
        if not self._each and not self._quiet and self._emit is None:
            self._session.output.say(f"{what} {self._sent:,} messages")

    async def core(self, reply: str) -> None:
        """Publish without acknowledgements; the server has received them at the end."""
        client = self._session.client
        waiting: list[Draft] = []
        async for draft in self._drafts:
            client.publish(draft.subject, draft.data, reply=reply, headers=draft.headers or None)
            waiting.append(draft)
            if len(waiting) >= _FLUSH_EVERY or self._sleep or self._drafts.must_wait:
                await self._received(waiting)
            await self._pause()
        await self._received(waiting)
        self._summary("Published")

    async def _received(self, waiting: list[Draft]) -> None:
        """Report messages when the server has received them and refused none."""
        await self._session.client.flush()
        self._session.errors.check()
        for draft in waiting:
            self._report(draft, f'Published {len(draft.data)} bytes to "{visible(draft.subject)}"')
        waiting.clear()

    async def stored(self) -> None:
        """Publish to a stream; each message is acknowledged."""
        waiting: list[tuple[Draft, Any]] = []
        jetstream = self._session.jetstream
        async for draft in self._drafts:
            future = await jetstream.publish_async(
                draft.subject, draft.data, headers=draft.headers or None
            )
            waiting.append((draft, future))
            if len(waiting) >= _WINDOW or self._sleep or self._drafts.total is None:
                await self._collect(waiting)
            await self._pause()
        await self._collect(waiting)
        self._summary("Stored")

    async def _collect(self, waiting: list[tuple[Draft, Any]]) -> None:
        for draft, future in waiting:
            ack: PubAck = await future
            self._report(draft, _stored_text(ack), **_ack_fields(ack))
        waiting.clear()

    async def atomic(self) -> None:
        """Publish all messages as one batch: all are stored, or none."""
        try:
            async with self._session.jetstream.atomic_batch() as batch:
                async for draft in self._drafts:
                    batch.add(draft.subject, draft.data, headers=draft.headers or None)
                    subject = draft.subject
                if not len(batch):
                    raise click.ClickException("nothing to publish: standard input was empty")
        except BatchNotEnabled as error:
            raise click.ClickException(
                f"{error}: allow it with `jetspark stream edit STREAM --allow-batch`"
            ) from error
        ack = batch.ack
        text = (
            f"Wrote batch with {ack.count:,} messages to stream {ack.stream}, the last one has "
            f"sequence {ack.seq:,}"
        )
        if self._emit is not None:
            self._emit({"subject": subject, **_ack_fields(ack), "count": ack.count})
        elif not self._quiet:
            self._session.output.say(text)


def _stored_text(ack: PubAck) -> str:
    text = f"Stored in Stream: {ack.stream} Sequence: {ack.seq:,}"
    if ack.domain:
        text += f' Domain: "{ack.domain}"'
    if ack.duplicate:
        text += " Duplicate: true"
    if ack.val:
        text += f" Counter Value: {ack.val}"
    return text


def _ack_fields(ack: PubAck) -> dict[str, object]:
    found: dict[str, object] = {"stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate}
    if ack.domain:
        found["domain"] = ack.domain
    if ack.val:
        found["value"] = ack.val
    return found


def _schedule_headers(given: dict[str, Any]) -> list[tuple[str, str]]:
    """The headers of a scheduled message (ADR-51)."""
    when = [
        name
        for name in ("schedule_at", "schedule_after", "schedule_every", "schedule_cron")
        if given[name]
    ]
    if not when:
        extra = [name for name in ("schedule_dest", "schedule_ttl") if given[name]]
        if extra:
            raise click.UsageError(
                "give one of --schedule-at, --schedule-after, --schedule-every, --schedule-cron"
            )
        return []
    if len(when) > 1:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in when)
        raise click.UsageError(f"{named} exclude each other: give one of them")
    if not given["schedule_dest"]:
        raise click.UsageError("--schedule-dest is missing: the subject of the scheduled message")
    match when[0]:
        case "schedule_at":
            pattern = f"@at {format_rfc3339(given['schedule_at'])}"
        case "schedule_after":
            at = SystemClock().now_ns() + round(given["schedule_after"] * _SECOND)
            pattern = f"@at {format_rfc3339(at // _SECOND * _SECOND)}"
        case "schedule_every":
            pattern = f"@every {format_duration(round(given['schedule_every'] * _SECOND))}"
        case _:
            pattern = given["schedule_cron"]
    headers = [(SCHEDULE, pattern), (SCHEDULE_TARGET, given["schedule_dest"])]
    if given["schedule_source"]:
        headers.append((SCHEDULE_SOURCE, given["schedule_source"]))
    if given["schedule_ttl"]:
        headers.append((SCHEDULE_TTL, format_duration(round(given["schedule_ttl"] * _SECOND))))
    return [(name.decode(), value) for name, value in headers]
