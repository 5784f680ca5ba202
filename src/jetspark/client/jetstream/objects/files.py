"""The file that an object is written to: a temporary file, renamed when it is complete."""

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import BinaryIO, Final

# Bytes of an object that are read before they are written.
FILE_PIECE: Final = 1024 * 1024


class FileTarget:
    """A file to write. The methods block, so they are called on threads, one at a time.

    A call continues if its caller is cancelled; ``discard`` waits for it.
    """

    def __init__(self, path: str | os.PathLike[str], token: str) -> None:
        # A symbolic link is kept: its target is replaced.
        self._path = Path(os.path.realpath(path))
        self._part = self._path.with_name(f".{token}.part")
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._discarded = False

    def open(self) -> None:
        """Create the temporary file; an OSError names the path if that fails."""
        with self._lock:
            if self._path.is_dir():
                raise IsADirectoryError(
                    errno.EISDIR, "expected the path of a file, not of a folder", str(self._path)
                )
            if not self._path.parent.is_dir():
                raise FileNotFoundError(
                    errno.ENOENT, "the folder for the file does not exist", str(self._path.parent)
                )
            if not self._discarded:
                # Permissions follow the umask of the process, as for any new file.
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
                self._file = os.fdopen(os.open(self._part, flags, 0o666), "wb")

    def write(self, piece: bytes) -> None:
        """Write more of the object."""
        with self._lock:
            if self._file is not None:
                self._file.write(piece)

    def restart(self) -> None:
        """Discard what was written: the object was replaced meanwhile."""
        with self._lock:
            if self._file is not None:
                self._file.seek(0)
                self._file.truncate()

    def finish(self) -> None:
        """The object is complete: sync the file and rename it."""
        with self._lock:
            if self._file is None:
                return
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if self._path.exists():
                shutil.copymode(self._path, self._part)
            self._part.replace(self._path)
            self._file = None

    def discard(self) -> None:
        """Remove the temporary file."""
        with self._lock:
            self._discarded = True
            if self._file is not None:
                self._file.close()
                self._part.unlink(missing_ok=True)
                self._file = None
