"""Servers of ours that are forks of one process, which has imported everything once.

A start of Python with the server takes a third of a second of CPU time, and tests start hundreds
of them. What a fork does is what ``python -m jetspark serve`` does with the same arguments; tests
of the command line itself start the command (tests/integration/server/test_serve.py).

This file is also the program of the process that is forked.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

REQUEST_MAX: Final = 1 << 20
STATUS_SIZE: Final = 4


class Fork:
    """A server in a process of its own, with the calls of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, stderr: TextIO, status: int) -> None:
        self.pid = pid
        self.stderr: TextIO | None = stderr
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with self._lock:
            return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code."""
        with self._lock:
            code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("jetspark serve", timeout or 0.0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, STATUS_SIZE)
            os.close(self._status)
            # Nothing is reported when the process that forks was ended itself.
            self.returncode = int.from_bytes(told, "big", signed=True) if told else -1
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Read to the end, wait for the end."""
        rest: list[str] = []
        if self.stderr is not None and not self.stderr.closed:
            stderr = self.stderr
            reader = threading.Thread(target=lambda: rest.append(stderr.read()), daemon=True)
            reader.start()
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired("jetspark serve", timeout or 0.0)
            stderr.close()
        self.wait(timeout)
        return None, "".join(rest)


class Forks:
    """The process that is forked, from outside."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        self._socket = here
        atexit.register(self._end)

    def start(self, arguments: list[str]) -> Fork:
        """Start a server with these arguments, in this folder and with this environment."""
        asked = {"arguments": arguments, "folder": str(Path.cwd()), "env": dict(os.environ)}
        stderr, their_stderr = os.pipe()
        status, their_status = os.pipe()
        with self._lock:
            socket.send_fds(
                self._socket, [json.dumps(asked).encode()], [their_stderr, their_status]
            )
            os.close(their_stderr)
            os.close(their_status)
            pid = int(self._socket.recv(64))
        return Fork(pid, os.fdopen(stderr, errors="replace"), status)

    def _end(self) -> None:
        """Let it end with all its forks."""
        if self.owner != os.getpid():
            return
        self._socket.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_forks: Forks | None = None
_making = threading.Lock()


def fork_server(arguments: list[str]) -> Fork:
    """Start ``jetspark serve`` with these arguments as a fork."""
    global _forks  # noqa: PLW0603 - one for each process of tests
    with _making:
        if _forks is None or _forks.owner != os.getpid():
            _forks = Forks()
        return _forks.start(["serve", *arguments])


# The program of the process that is forked ------------------------------------------------------


def prepared() -> Callable[[], Any]:
    """Import everything that a server needs; return the command line."""
    import jetspark.cli.serve.running
    import jetspark.replica  # noqa: F401
    from jetspark.cli.main import main

    with contextlib.suppress(ImportError):
        import uvloop  # noqa: F401
    gc.collect()
    gc.freeze()
    return main


def fork_until_closed(asking: socket.socket) -> Callable[[], Any] | None:
    """Fork whenever asked to; in a fork, return what it has to do; else None at the end."""
    main = prepared()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    running: dict[int, int] = {}  # where to say how a process ended
    while True:
        ready = select.select([asking.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            report_ended(running)
        if asking.fileno() not in ready:
            continue
        data, files, _, _ = socket.recv_fds(asking, REQUEST_MAX, 2)
        if not data:
            break
        stderr, status = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asking.close()
            os.dup2(stderr, 2)
            for number in (woken, wake, *files, *running.values()):
                os.close(number)
            become(json.loads(data))
            return main
        os.close(stderr)
        running[pid] = status
        asking.send(b"%d" % pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return None


def report_ended(running: dict[int, int]) -> None:
    """Say of each process that has ended how."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            answer = running.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # no one waits for it any more
                os.write(answer, code.to_bytes(STATUS_SIZE, "big", signed=True))
            os.close(answer)


def become(asked: dict[str, Any]) -> None:
    """Take the arguments, the folder and the environment that were asked for."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["jetspark", *asked["arguments"]]


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    program = fork_until_closed(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        program()
