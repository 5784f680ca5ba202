"""`stream backup` and `restore`: whole streams with their consumers, as the server archives them.

An archive of nats-server can be restored to a nats-server only, one of ours to ours; `stream
export` and `import` work between both.
"""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jetspark.api import stream as wire
from jetspark.cli.configuration import read_config
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.client.jetstream.backup import DATA_FILE, read_backup
from jetspark.client.models.base import from_wire, to_wire
from jetspark.client.models.stream import StreamConfig
from jetspark.units import format_bytes


async def backup_stream(
    session: Session, *, name: str, folder: Path, check: bool, consumers: bool, progress: bool,
    chunk_size: int | None,
) -> None:  # fmt: skip
    """Write a stream to a folder."""
    stream = await session.stream(name)
    total = stream.cached_info.state.bytes
    output = session.output
    options: dict[str, Any] = {} if chunk_size is None else {"chunk_bytes": chunk_size}
    with progress_bar(
        f"backing up {name}", total, quiet=output.json or not progress, sizes=True
    ) as bar:
        made = await stream.backup(
            folder, consumers=consumers, check=check, progress=bar, **options
        )
    state = made.state
    output.done(
        f"Stream {name} was backed up to {folder}: {state.messages:,} messages, "
        f"{format_bytes(made.size)}",
        stream=name, folder=str(folder), messages=state.messages, bytes=made.size,
        sha256=made.sha256,
    )  # fmt: skip


async def restore_stream(
    session: Session, *, folder: Path, config: Path | None, replicas: int | None, cluster: str,
    tags: tuple[str, ...], name: str, progress: bool,
) -> None:  # fmt: skip
    """Create a stream from a backup."""
    saved = to_wire(read_backup(folder).config)
    wanted = saved if config is None else read_config(config, wire.StreamConfig)
    if not wanted.name:
        wanted = replace(wanted, name=saved.name)
    if name:
        wanted = replace(wanted, name=name)
    if replicas is not None:
        wanted = replace(wanted, num_replicas=replicas)
    if cluster or tags:
        wanted = replace(wanted, placement=wire.Placement(cluster=cluster, tags=tags))
    output = session.output
    total = (folder / DATA_FILE).stat().st_size
    with progress_bar(
        f"restoring {wanted.name}", total, quiet=output.json or not progress, sizes=True
    ) as bar:
        stream = await session.jetstream.restore_stream(
            folder, config=from_wire(StreamConfig, wanted), progress=bar
        )
    state = (await stream.info()).state
    output.done(
        f"Stream {wanted.name} was restored: {state.messages:,} messages, "
        f"{state.consumer_count:,} consumers",
        stream=wanted.name, messages=state.messages, bytes=state.bytes,
        consumers=state.consumer_count,
    )  # fmt: skip
