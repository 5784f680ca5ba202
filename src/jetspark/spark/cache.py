"""Small files that Spark's JVM needs on disk, kept in the user's cache directory.

The name of a file carries a digest of its content, so two versions of jetspark, or two virtual
environments, never overwrite each other's.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jetspark.errors import Error

_DIGEST_SIZE = 8


class CacheUnavailable(Error):
    """The cache directory cannot be written; the text says which and how to choose another."""


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return where this user's cached files of jetspark live, by the XDG base directory rules."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "jetspark"
    # The XDG rules say that a relative path is to be ignored.
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:
        raise CacheUnavailable(
            "no home directory is known for this user: set XDG_CACHE_HOME to a writable directory"
        ) from error
    return home / ".cache" / "jetspark"


def content_digest(content: str) -> str:
    """Return a short digest that names ``content``."""
    return hashlib.blake2b(content.encode(), digest_size=_DIGEST_SIZE).hexdigest()


def write_cached(target: Path, content: str, *, executable: bool) -> None:
    """Make ``target`` hold ``content``; a reader sees the whole file or none.

    Does nothing when the file is already right. Raises ``CacheUnavailable`` when it cannot be
    written.
    """
    mode = 0o755 if executable else 0o644
    try:
        if _is_current(target, content, mode):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, content, mode)
    except OSError as error:
        raise CacheUnavailable(
            f"cannot write {target}: {error.strerror}. "
            "Set XDG_CACHE_HOME to a directory this user may write to"
        ) from error


def _is_current(target: Path, content: str, mode: int) -> bool:
    try:
        same = target.read_bytes() == content.encode()
    except FileNotFoundError:
        return False
    return same and target.stat().st_mode & 0o777 == mode


def _replace(target: Path, content: str, mode: int) -> None:
    """Write beside ``target`` and rename, so that a concurrent process never runs half a file."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
        # mkstemp makes a private file; what is cached is no secret and the shim must be run.
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
