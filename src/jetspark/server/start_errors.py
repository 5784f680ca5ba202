"""Errors of a start, with advice."""

import errno
import os
import re
import socket
from pathlib import Path
from typing import Final

from jetspark.server.net.listening import shown_address

_ARGUMENTS: Final = {
    "clients": "port=",
    "http monitoring": "http_port=",
    "https monitoring": "https_port=",
}
# The flags of the command line for the arguments of an embedded server.
_FLAGS: Final = {
    "port": "-p",
    "host": "-a",
    "http_port": "-m",
    "https_port": "-ms",
    "store_dir": "-sd",
}
_ADVICE: Final = re.compile(rf"\bwith ({'|'.join(_FLAGS)})=")


def cannot_listen(purpose: str, host: str, port: int, error: OSError) -> OSError:
    """Return the error for a port that cannot be opened; ``purpose`` says what it is for."""
    name = _ARGUMENTS[purpose]
    advice = {
        errno.EADDRINUSE: f"stop what uses it, or choose another port with {name} (-1: any free)",
        errno.EADDRNOTAVAIL: "choose an address of this machine with host=",
        errno.EACCES: f"choose a port from 1024 up with {name}, or run as a user that may use it",
        socket.EAI_NONAME: "choose an address of this machine with host=",
    }.get(error.errno or 0, f"choose another address with host=, or another port with {name}")
    at = shown_address(host, port)
    return OSError(error.errno, f"cannot listen for {purpose} on {at}: {_reason(error)}; {advice}")


def cannot_open_store(folder: Path, error: OSError) -> OSError:
    """Return the error for a store folder that cannot be created, locked or read."""
    reason = "it is a file, expected a folder"
    if folder.is_dir() or not folder.exists():
        reason = _reason(error)
        if error.filename and Path(str(error.filename)) != folder:
            reason += f" ({error.filename})"
    advice = "let this user write there, or choose another folder with store_dir="
    return OSError(error.errno, f"cannot keep streams in {folder}: {reason}; {advice}")


def in_words(error: Exception) -> str:
    """Return an error as lines for the command line: without ``[Errno 13]``, and with flags."""
    return _ADVICE.sub(lambda found: f"with {_FLAGS[found[1]]}", _text(error))


def _text(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    return error.strerror


def _reason(error: OSError) -> str:
    """Return the text of the system; asyncio repeats the address in its own text."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)
