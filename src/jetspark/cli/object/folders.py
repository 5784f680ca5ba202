"""`object put-folder` and `get-folder`."""

from pathlib import Path

from jetspark.cli.confirm import confirm
from jetspark.cli.object.stores import open_store
from jetspark.cli.output import visible
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.client.jetstream.objects.folders import FolderCopied
from jetspark.units import format_bytes


async def put_folder(
    session: Session, *, bucket: str, folder: Path, prefix: str, delete: bool, dry_run: bool,
    progress: bool, force: bool,
) -> None:  # fmt: skip
    """Store the files below a folder."""
    store = await open_store(session, bucket)
    if not dry_run and not force:
        planned = await store.put_folder(folder, prefix, delete=delete, dry_run=True)
        known = {info.name async for info in store.list()}
        _confirm(len(known.intersection(planned.copied)), len(planned.deleted), "objects")
    output = session.output
    with progress_bar(f"storing {folder}", None, quiet=output.json or not progress) as bar:
        done = await store.put_folder(
            folder, prefix, delete=delete, dry_run=dry_run,
            progress=lambda files, _total: bar(files),
        )  # fmt: skip
    verb = "Would store" if dry_run else "Stored"
    _show(session, done, bucket, folder, dry_run=dry_run, verb=verb, gone="objects")


async def get_folder(
    session: Session, *, bucket: str, folder: Path, prefix: str, delete: bool, dry_run: bool,
    progress: bool, force: bool,
) -> None:  # fmt: skip
    """Write objects to files below a folder."""
    store = await open_store(session, bucket)
    if not dry_run and not force:
        planned = await store.get_folder(folder, prefix, delete=delete, dry_run=True)
        replaced = sum((folder / name[len(prefix) :]).exists() for name in planned.copied)
        _confirm(replaced, len(planned.deleted), "files")
    output = session.output
    with progress_bar(f"writing {folder}", None, quiet=output.json or not progress) as bar:
        done = await store.get_folder(
            folder, prefix, delete=delete, dry_run=dry_run,
            progress=lambda files, _total: bar(files),
        )  # fmt: skip
    verb = "Would write" if dry_run else "Wrote"
    _show(session, done, bucket, folder, dry_run=dry_run, verb=verb, gone="files")


def _confirm(replaced: int, deleted: int, what: str) -> None:
    """Ask before anything that exists is lost."""
    parts = [f"Replace {replaced} existing {what}"] if replaced else []
    parts += [f"delete {deleted} {what} that the other side does not have"] if deleted else []
    if parts:
        question = " and ".join(parts)
        confirm(f"{question[0].upper()}{question[1:]}?", force=False)


def _show(
    session: Session, done: FolderCopied, bucket: str, folder: Path, *, dry_run: bool, verb: str,
    gone: str,
) -> None:  # fmt: skip
    output = session.output
    if not output.json and dry_run:
        for name in done.copied:
            output.line(f"copy {visible(name)}")
        for name in done.deleted:
            output.line(f"delete {visible(name)}")
    output.done(
        f"{verb} {len(done.copied)} files with {format_bytes(done.size)}, {done.unchanged} "
        f"unchanged, {len(done.deleted)} {gone} deleted",
        bucket=bucket, folder=str(folder), copied=list(done.copied), unchanged=done.unchanged,
        deleted=list(done.deleted), bytes=done.size, dry_run=dry_run,
    )  # fmt: skip
