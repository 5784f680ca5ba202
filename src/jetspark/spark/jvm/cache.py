"""Small files that Spark's JVM needs on disk, kept in the user's cache directory.

The name of a file contains a digest of its content, so two versions of jetspark, or two virtual
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
    """The cache directory cannot be written; the text names it and how to choose another."""


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return this user's cache directory for jetspark, by the XDG base directory rules."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "jetspark"
    # By the XDG rules, a relative path is ignored.
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
    """Ensure that ``target`` holds ``content``; a reader sees the whole file or none.

    Does nothing if the file is up to date. Raises ``CacheUnavailable`` if it cannot be
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
    """Write a temporary file and rename it, so that no process runs an incomplete file."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
        # mkstemp creates a private file; the cache holds no secrets and the shim must be
        # executable.
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
