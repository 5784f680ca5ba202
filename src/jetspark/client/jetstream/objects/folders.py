"""Folders of files as objects, and back: what is equal is not copied again.

A file and its object have the same bytes if size and SHA-256 are equal: times are not compared,
because a copy has its own. Everything is checked before the first copy: a name that would lead
out of the folder, or two names that one file system takes for one, change nothing.
"""

import asyncio
import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.client.jetstream.objects.files import FILE_PIECE
from jetspark.client.jetstream.objects.info import Digest, ObjectInfo, check_name
from jetspark.client.timeouts import Timeout
from jetspark.errors import BadName, FolderRefused, NotSupported

if TYPE_CHECKING:
    from jetspark.client.jetstream.objects.store import ObjectStore

# Called with the number of files done, and how many there are.
FolderProgress = Callable[[int, int], None]

# Characters that end a file's name or lead elsewhere on Windows.
_NOT_ON_WINDOWS: Final = frozenset('\\:*?"<>|')


_DEVICES: Final = frozenset(
    ("CON", "PRN", "AUX", "NUL", *(f"{name}{n}" for name in ("COM", "LPT") for n in range(1, 10)))
)
# Of a file's or folder's name, on the usual file systems.
_PART_BYTES_MAX: Final = 255


class FolderCopied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``ObjectStore.put_folder`` and ``get_folder``."""

    copied: tuple[str, ...]
    """Names of the objects that were new or different, sorted."""
    unchanged: int
    """Objects that were equal already, and not copied."""
    deleted: tuple[str, ...]
    """With ``delete``: objects, or files relative to the folder, that the other side lacks."""
    size: int
    """Bytes of what was copied."""


class FolderPut:
    """Copies the files of a folder into a store."""

    def __init__(self, store: "ObjectStore", folder: Path, prefix: str) -> None:
        self._store = store
        self._folder = folder
        self._prefix = prefix

    async def run(
        self, *, delete: bool, dry_run: bool, progress: FolderProgress | None,
        timeout: Timeout | None,
    ) -> FolderCopied:  # fmt: skip
        """Copy what is different; with ``delete``, delete what has no file."""
        files = {
            self._prefix + name: path
            for name, path in (await asyncio.to_thread(files_in, self._folder)).items()
        }
        _check_names(self._folder, files)
        if delete and self._prefix and not self._prefix.endswith("/"):
            problem = f"with the prefix {self._prefix!r} delete would also delete objects such as "
            problem += f"{self._prefix + '2/x'!r}: end it with '/'"
            raise FolderRefused(str(self._folder), [problem])
        if delete and not files:
            raise FolderRefused(
                str(self._folder), ["it has no files, and delete would delete every object"]
            )
        found = await _listed(self._store, self._prefix, timeout)
        gone = tuple(sorted(found.keys() - files.keys())) if delete else ()
        copied: list[str] = []
        size = 0
        for done, (name, path) in enumerate(sorted(files.items())):
            info = found.get(name)
            # A link is replaced by the file: its target may change.
            if info is None or info.link or not await asyncio.to_thread(is_equal, path, info):
                size += path.stat().st_size
                if not dry_run:
                    await self._store.put_file(path, name, timeout=timeout)
                copied.append(name)
            if progress is not None:
                progress(done + 1, len(files))
        if not dry_run:
            for name in gone:
                await self._store.delete(name, timeout=timeout)
        return FolderCopied(
            copied=tuple(copied), unchanged=len(files) - len(copied), deleted=gone, size=size
        )


class FolderGet:
    """Copies the objects of a store into a folder."""

    def __init__(self, store: "ObjectStore", folder: Path, prefix: str) -> None:
        self._store = store
        self._folder = folder
        self._prefix = prefix

    async def run(
        self, *, delete: bool, dry_run: bool, progress: FolderProgress | None,
        timeout: Timeout | None,
    ) -> FolderCopied:  # fmt: skip
        """Copy what is different; with ``delete``, delete files without an object."""
        found = await _listed(self._store, self._prefix, timeout)
        if delete and not found:
            what = f"no object of {self._store.bucket!r} starts with {self._prefix!r}"
            raise FolderRefused(str(self._folder), [f"{what}, and delete would delete every file"])
        infos = await self._resolved(found, timeout)
        files = await asyncio.to_thread(
            file_paths, self._folder, self._prefix, infos, windows=os.name == "nt"
        )
        gone = await asyncio.to_thread(self._without_object, files) if delete else {}
        copied: list[str] = []
        size = 0
        for done, (name, path) in enumerate(sorted(files.items())):
            if not await asyncio.to_thread(is_equal, path, infos[name]):
                size += infos[name].size
                if not dry_run:
                    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
                    await self._store.get_file(name, path, timeout=timeout)
                copied.append(name)
            if progress is not None:
                progress(done + 1, len(files))
        if not dry_run:
            await asyncio.to_thread(_remove, self._folder, gone.values())
        return FolderCopied(
            copied=tuple(copied),
            unchanged=len(files) - len(copied),
            deleted=tuple(sorted(gone)),
            size=size,
        )

    async def _resolved(
        self, found: Mapping[str, ObjectInfo], timeout: Timeout | None
    ) -> dict[str, ObjectInfo]:
        """The metadata of each name, of a link that of its target."""
        infos = dict(found)
        problems: list[str] = []
        for name, info in found.items():
            if info.link is None:
                continue
            try:
                async with self._store.open(name, timeout=timeout) as reader:
                    infos[name] = reader.info
            except (LookupError, NotSupported) as error:
                problems.append(f"{name!r} is a link that cannot be a file ({error})")
        if problems:
            raise FolderRefused(str(self._folder), problems)
        return infos

    def _without_object(self, files: Mapping[str, Path]) -> dict[str, Path]:
        if not self._folder.is_dir():
            return {}
        kept = set(files.values())
        return {name: path for name, path in files_in(self._folder).items() if path not in kept}


async def _listed(
    store: "ObjectStore", prefix: str, timeout: Timeout | None
) -> dict[str, ObjectInfo]:
    return {
        info.name: info
        async for info in store.list(timeout=timeout)
        if info.name.startswith(prefix)
    }


def files_in(folder: Path) -> dict[str, Path]:
    """The files below a folder by their relative names with ``/``; raises FolderRefused.

    A link to a file counts as a file. A link to a folder may lead back, and a device or a pipe
    has no end: they are refused.
    """
    if not folder.is_dir():
        raise NotADirectoryError(20, "expected the path of a folder", str(folder))
    found: dict[str, Path] = {}
    problems: list[str] = []

    def failed(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=failed):
        here = Path(root)
        problems += [
            f"{_relative(here / name, folder)!r} is a link to a folder"
            for name in folders
            if (here / name).is_symlink()
        ]
        for name in sorted(names):
            path = here / name
            relative = _relative(path, folder)
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                problems.append(f"{relative!r} is a link to nothing")
                continue
            if stat.S_ISREG(mode):
                found[relative] = path
            else:
                problems.append(f"{relative!r} is neither a file nor a folder")
    if problems:
        raise FolderRefused(str(folder), problems)
    return found


def file_paths(
    folder: Path, prefix: str, names: Iterable[str], *, windows: bool = False
) -> dict[str, Path]:
    """The file for each object; FolderRefused names those that cannot have one."""
    found: dict[str, Path] = {}
    problems: list[str] = []
    # File systems that ignore case, or normalise Unicode, take these for one name.
    seen: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name in sorted(names):
        relative = name[len(prefix) :]
        problem = _name_problem(relative, windows=windows)
        if problem:
            problems.append(f"{name!r} {problem}")
            continue
        path = folder / relative
        key = _folded(relative)
        if key in seen:
            problems.append(f"{name!r} and {seen[key]!r} differ only in case")
        seen[key] = name
        for parent in PurePosixPath(relative).parents:
            parents.setdefault(_folded(str(parent)), name)
        problem = _place_problem(folder, path)
        if problem:
            problems.append(f"{name!r} {problem}")
        found[name] = path
    problems += [
        f"{name!r} cannot be a file, because {parents[key]!r} is in a folder of that name"
        for key, name in seen.items()
        if key in parents
    ]
    if problems:
        raise FolderRefused(str(folder), problems)
    return found


def is_equal(path: Path, info: ObjectInfo) -> bool:
    """Whether a file exists and has the bytes of an object."""
    try:
        if path.stat().st_size != info.size:
            return False
    except FileNotFoundError:
        return False
    digest = Digest()
    with path.open("rb") as file:
        while piece := file.read(FILE_PIECE):
            digest.update(piece)
    return digest.fits(info.digest)


def _name_problem(relative: str, *, windows: bool) -> str:
    """Why a name cannot be the path of a file inside a folder; empty if it can."""
    if not relative:
        return "has no name after the prefix"
    if relative.startswith("/"):
        return "is an absolute path"
    parts = relative.split("/")
    if ".." in parts:
        return "leads out of the folder with '..'"
    if "." in parts or "" in parts:
        return "has an empty part or '.', which a path does not keep"
    if "\0" in relative:
        return "has a NUL character"
    if any(len(part.encode()) > _PART_BYTES_MAX for part in parts):
        return f"has a part of more than {_PART_BYTES_MAX} bytes, which file systems do not allow"
    if windows and any(part.split(".")[0].rstrip().upper() in _DEVICES for part in parts):
        return "has the name of a device of Windows"
    if windows and (_NOT_ON_WINDOWS & set(relative) or any(part[-1] in ". " for part in parts)):
        return "has a character that Windows does not allow there"
    return ""


def _place_problem(folder: Path, path: Path) -> str:
    """Why the file cannot be written; empty if it can."""
    if path.is_symlink():
        return f"would be written through the link {path}"
    if path.is_dir():
        return f"would replace the folder {path}"
    for parent in path.parents:
        if parent == folder:
            break
        # A link inside the folder may lead out of it.
        if parent.is_symlink():
            return f"would be written through the link {parent}"
        if parent.exists() and not parent.is_dir():
            return f"needs a folder where the file {parent} is"
    return ""


def _check_names(folder: Path, names: Iterable[str]) -> None:
    problems: list[str] = []
    for name in names:
        try:
            check_name(name)
        except BadName as error:
            problems.append(str(error))
    if problems:
        raise FolderRefused(str(folder), problems)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _remove(folder: Path, files: Iterable[Path]) -> None:
    """Remove files, and the folders that are empty then."""
    for path in files:
        path.unlink(missing_ok=True)
        for parent in path.parents:
            if parent == folder or any(parent.iterdir()):
                break
            parent.rmdir()
