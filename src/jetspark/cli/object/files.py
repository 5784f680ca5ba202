"""`object put` and `get`: files, standard input and output, with progress bars."""

import sys
import time
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from jetspark.cli.confirm import confirm
from jetspark.cli.object.stores import find_object, open_store, show_object
from jetspark.cli.output import visible
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.cli.standard_input import chunks
from jetspark.cli.standard_output import standard_output
from jetspark.client.jetstream.objects.store import ObjectStore
from jetspark.errors import ObjectNotFound
from jetspark.units import format_bytes

_PIECE: Final = 1 << 20


async def put_object(
    session: Session, *, bucket: str, file: Path | None, name: str, description: str,
    headers: tuple[tuple[str, str], ...], metadata: tuple[tuple[str, str], ...],
    chunk_size: int | None, progress: bool, force: bool,
) -> None:  # fmt: skip
    """Store a file or standard input."""
    piped = file is None or str(file) == "-"
    if piped and not name:
        raise click.UsageError("standard input has no name: give the object one with --name")
    if piped and sys.stdin.isatty():
        raise click.UsageError("missing FILE: give one, or redirect standard input")
    name = name or (file.name if file is not None else "")
    store = await open_store(session, bucket)
    await _confirm_replacing(store, name, force=force)
    options: dict[str, Any] = {"description": description, "metadata": dict(metadata)}
    if headers:
        named: dict[str, list[str]] = {}
        for key, text in headers:
            named.setdefault(key, []).append(text)
        options["headers"] = named
    if chunk_size is not None:
        options["chunk_size"] = chunk_size
    total = None if piped or file is None else _size(file)
    output = session.output
    with progress_bar(
        f"putting {visible(name)}", total, quiet=output.json or not progress, sizes=True
    ) as bar:
        options["progress"] = lambda sent, _total: bar(sent)
        if piped or file is None:
            info = await store.put(name, chunks(), **options)
        else:
            info = await store.put_file(file, name, **options)
    show_object(output, info)


def _size(file: Path) -> int:
    return file.stat().st_size


async def _confirm_replacing(store: ObjectStore, name: str, *, force: bool) -> None:
    if force:
        return
    try:
        found = await store.info(name)
    except ObjectNotFound:
        return
    confirm(
        f"Replace the existing object {store.bucket} > {name} with {format_bytes(found.size)}?",
        force=force,
    )


async def get_object(
    session: Session, *, bucket: str, name: str, target: Path | None, progress: bool, force: bool
) -> None:
    """Write an object to a file or standard output."""
    store = await open_store(session, bucket)
    info = await find_object(store, name)
    output = session.output
    piped = str(target) == "-"
    path = target or Path(_file_name(name))
    if not piped and path.exists():
        if not path.is_file():
            raise click.ClickException(f"{path} is not a file: choose another with --output")
        confirm(f"Replace the existing file {path}?", force=force)
    begun = time.monotonic()
    with progress_bar(
        f"getting {visible(name)}", info.size, quiet=output.json or not progress, sizes=True
    ) as bar:
        if piped:
            await _to_standard_output(store, name, bar)
            return
        info = await store.get_file(name, path, progress=lambda read, _total: bar(read))
    took = max(time.monotonic() - begun, 1e-6)
    output.done(
        f"Wrote: {format_bytes(info.size)} to {path} in {took:.2f}s average "
        f"{format_bytes(int(info.size / took))}/s",
        bucket=bucket, name=name, file=str(path), bytes=info.size, digest=info.digest,
    )  # fmt: skip


async def _to_standard_output(store: ObjectStore, name: str, bar: Any) -> None:
    """All of it; a digest that does not match is an error at the end."""
    async with await store.open(name, progress=lambda read, _total: bar(read)) as opened:
        with standard_output() as out:
            while piece := await opened.read(_PIECE):
                out.write(piece)


def _file_name(name: str) -> str:
    """The file for an object: the last part of its name, never a path that leads elsewhere."""
    found = PurePosixPath(name).name
    if found in {"", "..", "."} or "\0" in found:
        raise click.UsageError(f"the object {name!r} needs a file name: give one with --output")
    return found
