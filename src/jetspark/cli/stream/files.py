"""Export files: complete under their final name, or absent; folders of parts."""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from jetspark.cli.stream.ndjson import NdjsonWriter, read_config_line, read_ndjson
from jetspark.cli.stream.parquet import ParquetWriter, read_metadata, read_parquet
from jetspark.cli.stream.rows import ExportRows

try:
    import fcntl
except ImportError:  # not on Windows, where users must avoid two exports to one name
    fcntl = None  # type: ignore[assignment]

MANIFEST: Final = "export.json"
_PART: Final = re.compile(r"part-(\d{20})-(\d{20})\.(parquet|ndjson)")

Writer = NdjsonWriter | ParquetWriter


class ExportRefused(Exception):
    """An export or import that cannot start or continue; the text says what to do."""


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The manifest of a folder of parts: written first, and again when it is complete."""

    version: int = 1
    stream: str
    created: str
    format: str
    subjects: list[str]
    first: int
    last: int
    complete: bool
    config: msgspec.Raw


@contextmanager
def whole_file(path: Path, *, replace: bool) -> Iterator[BinaryIO]:
    """Lend a file that is synced and renamed if the block ends without an exception.

    Until then it is `.NAME.partial` next to it, which the next attempt reuses.
    """
    if path.exists() and not replace:
        raise ExportRefused(f"{path} already exists: choose another name, or use --force")
    if path.exists() and not path.is_file():
        raise ExportRefused(f"{path} is not a file: choose another name, or - and a redirection")
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExportRefused(f"another process is writing {partial}: wait for it") from None
        file.truncate(0)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    _sync_folder(path.parent)


def writer_of(kind: str, file: BinaryIO, metadata: dict[str, str]) -> Writer:
    """Return the writer of a format."""
    if kind == "parquet":
        return ParquetWriter(file, metadata)
    return NdjsonWriter(file, metadata.get("jetspark.config", ""))


def part_path(folder: Path, first: int, last: int, kind: str) -> Path:
    """Return the path of the part that covers a range of sequences."""
    return folder / f"part-{first:020d}-{last:020d}.{kind}"


def parts_of(folder: Path) -> list[tuple[int, int, Path]]:
    """Return the parts of a folder in order; ``ExportRefused`` if one is missing in between."""
    found = []
    for path in folder.iterdir():
        name = _PART.fullmatch(path.name)
        if name is not None:
            found.append((int(name[1]), int(name[2]), path))
    found.sort()
    for (_, end, path), (begin, _, _) in itertools.pairwise(found):
        if begin != end + 1:
            raise ExportRefused(f"{folder}: the part after {path.name} is missing")
    return found


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder; None if it has none."""
    try:
        text = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise ExportRefused(f"{folder / MANIFEST} is not an export manifest: {error}") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, atomically."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    with whole_file(folder / MANIFEST, replace=True) as file:
        file.write(text + b"\n")


def read_rows(path: Path) -> Iterator[tuple[ExportRows, float]]:
    """Yield the messages of an export file, and the fraction that was read.

    The first bytes determine the format.
    """
    with path.open("rb") as file:
        head = file.read(4)
    return read_parquet(path) if head == b"PAR1" else read_ndjson(path)


def saved_config(path: Path) -> bytes | None:
    """Return the stream configuration in an export file, if it has one."""
    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            return read_config_line(path)
    text = read_metadata(path).get("jetspark.config")
    return None if text is None else text.encode()


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a rename
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
