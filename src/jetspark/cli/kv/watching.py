"""`kv watch`: the values of keys, then every change."""

import click

from jetspark.cli.following import follow
from jetspark.cli.kv.buckets import open_bucket
from jetspark.cli.kv.entries import entry_fields, shown_value
from jetspark.cli.output import Output, visible
from jetspark.cli.quantities import show_time
from jetspark.cli.session import Session
from jetspark.client.jetstream.kv.entry import Entry


async def watch_keys(
    session: Session, *, bucket: str, filters: tuple[str, ...], history: bool, deletes: bool,
    updates: bool, revision: int | None, count: int,
) -> None:  # fmt: skip
    """Follow the keys until interrupted."""
    chosen = [
        name
        for name, given in (
            ("--history", history),
            ("--updates", updates),
            ("--revision", revision),
        )
        if given
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} exclude each other: give one of them")
    store = await open_bucket(session, bucket)
    watcher = await store.watch(
        *filters,
        include_history=history,
        ignore_deletes=not deletes,
        updates_only=updates,
        resume_from=revision or 0,
    )
    output = session.output
    async with watcher:
        if not output.json:
            await follow(watcher, count, lambda entry: _show(output, entry))
            return
        with output.emitting() as emit:
            await follow(watcher, count, lambda entry: emit(entry_fields(entry)))


def _show(output: Output, entry: Entry) -> None:
    """One line: a value cannot pretend to be another entry."""
    operation = output.style(entry.operation.value, "green" if entry.is_put else "red")
    line = f"[{show_time(entry.time)}] {operation} {entry.bucket} > {visible(entry.key)}"
    if entry.is_put:
        line += f": {visible(shown_value(entry))}"
    elif entry.marker_reason:
        line += f" ({visible(entry.marker_reason)})"
    output.line(line)
