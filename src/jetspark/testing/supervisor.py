"""A process that starts the servers of a test process, and outlives it to clean up.

It has imported the server, so a start is a fork: 25 ms instead of 300. When the test process ends,
however it ends, the supervisor kills its servers and removes their folder.

``python -m jetspark.testing.supervisor FD FOLDER``: requests are lines of JSON on a Unix socket,
each with one file descriptor, the socket of the server to start.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any, Final, NoReturn

REQUEST_MAX: Final = 65536
# How long servers may take to end on their own: their sockets closed, too.
END_TIMEOUT: Final = 2.0


class Supervisor:
    """The running servers of one test process."""

    def __init__(self, requests: socket.socket, folder: str) -> None:
        self._requests = requests
        self._folder = folder
        self._running: set[int] = set()
        signal.signal(signal.SIGCHLD, self._reap)

    def run(self) -> None:
        """Start servers until the test process ends; then remove everything."""
        while True:
            line, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_MAX, 1)
            if not line:
                break
            control = socket.socket(fileno=descriptors[0])
            self._start(control, json.loads(line))
            control.close()
        self._end()

    def _start(self, control: socket.socket, request: dict[str, Any]) -> None:
        # Until the parent knows the child, its end would be missed.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            self._requests.close()
            _run(control, request)
        self._running.add(child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _reap(self, _number: int, _frame: FrameType | None) -> None:
        for child in list(self._running):
            if os.waitpid(child, os.WNOHANG)[0]:
                self._running.discard(child)

    def _end(self) -> None:
        until = time.monotonic() + END_TIMEOUT
        self._signal(signal.SIGTERM)
        while self._running and time.monotonic() < until:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        while self._running:
            time.sleep(0.02)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        for child in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)


def _run(control: socket.socket, request: dict[str, Any]) -> NoReturn:
    """Be a server, in the forked process."""
    status = 1
    try:
        if "program" in request:
            # It keeps the socket open without knowing, so that its end is noticed there.
            os.set_inheritable(control.fileno(), True)
            control.sendall(json.dumps({"number": 0, "pid": os.getpid()}).encode() + b"\n")
            os.execv(request["program"][0], request["program"])  # noqa: S606
        from jetspark.testing.hosted import host

        host(control, request["config"], request["ahead_ns"])
        status = 0
    except BaseException:  # noqa: BLE001 - the log of the server
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Run the supervisor of the process at the other end of a socket."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    if sys.argv[3] == "jetspark":
        import jetspark.testing.hosted  # noqa: F401 - imported once, for all forks
    Supervisor(requests, sys.argv[2]).run()


if __name__ == "__main__":
    main()
