"""`account backup` and `restore`: all streams of an account, a folder for each."""

import sys
from pathlib import Path

import click
from msgspec.structs import replace

from jetspark.api import stream as wire
from jetspark.api.enums import Storage
from jetspark.cli.confirm import can_ask, confirm
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.client.jetstream.backup import DATA_FILE, META_FILE, read_backup
from jetspark.client.models.base import from_wire, to_wire
from jetspark.client.models.stream import StreamConfig
from jetspark.errors import Error
from jetspark.units import format_bytes


async def backup_account(
    session: Session, *, folder: Path, check: bool, consumers: bool, force: bool,
    critical_warnings: bool,
) -> None:  # fmt: skip
    """Back up all streams; one that fails does not keep the others from it."""
    infos = [one async for one in session.jetstream.streams()]
    if not infos:
        raise click.ClickException("the account has no streams: nothing to back up")
    infos.sort(key=lambda info: info.config.name)
    size = sum(info.state.bytes for info in infos)
    output = session.output
    existing = [name for info in infos if (folder / (name := info.config.name)).exists()]
    if existing:
        raise click.ClickException(
            f"{folder} has {', '.join(existing)} already: name another folder, or remove them"
        )
    if can_ask():
        confirm(f"Back up {len(infos):,} streams ({format_bytes(size)}) to {folder}?", force=force)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # noqa: ASYNC240
    failed = warned = done = 0
    made: list[dict[str, object]] = []
    with progress_bar("backing up", size, quiet=output.json, sizes=True) as bar:
        for info in infos:
            name = info.config.name
            try:
                stream = await session.jetstream.stream(name)
                backup = await stream.backup(folder / name, consumers=consumers, check=check)
            except Error as error:
                if info.config.storage == Storage.MEMORY:
                    warned += 1
                    output.say(f"Warning: {name}, stored in memory, was not backed up: {error}")
                else:
                    failed += 1
                    output.say(f"Error: the backup of {name} failed: {error}")
                continue
            made.append(
                {"stream": name, "folder": str(folder / name), "messages": backup.state.messages,
                 "bytes": backup.size}
            )  # fmt: skip
            done += info.state.bytes
            bar(done)
    if output.json:
        output.values(made)
    output.say(f"{len(made):,} of {len(infos):,} streams were backed up to {folder}")
    if failed or (warned and critical_warnings):
        sys.exit(FAILED)


async def restore_account(
    session: Session, *, folder: Path, cluster: str, tags: tuple[str, ...]
) -> None:
    """Create all streams of a backup; nothing happens if one of them exists."""
    parts = sorted(one.parent for one in folder.glob(f"*/{META_FILE}"))  # noqa: ASYNC240
    if not parts:
        raise click.ClickException(
            f"{folder} has no backups of streams: expected the folder of `jetspark account backup`"
        )
    saved = [(part, to_wire(read_backup(part).config)) for part in parts]
    known = {one async for one in session.jetstream.stream_names()}
    existing = sorted(config.name for _, config in saved if config.name in known)
    if existing:
        raise click.ClickException(
            f"these streams exist, so nothing was restored: {', '.join(existing)}"
        )
    output = session.output
    total = sum((part / DATA_FILE).stat().st_size for part, _ in saved)
    done = 0
    restored: list[dict[str, object]] = []
    with progress_bar("restoring", total, quiet=output.json, sizes=True) as bar:
        for part, config in saved:
            wanted = config
            if cluster or tags:
                wanted = replace(config, placement=wire.Placement(cluster=cluster, tags=tags))
            stream = await session.jetstream.restore_stream(
                part, config=from_wire(StreamConfig, wanted)
            )
            state = (await stream.info()).state
            restored.append(
                {"stream": config.name, "messages": state.messages, "bytes": state.bytes,
                 "consumers": state.consumer_count}
            )  # fmt: skip
            done += (part / DATA_FILE).stat().st_size
            bar(done)
    if output.json:
        output.values(restored)
    output.say(f"{len(saved):,} streams were restored from {folder}")
