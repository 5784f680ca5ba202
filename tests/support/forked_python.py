"""Python processes that begin with their modules imported, for the many that Spark starts.

A JVM starts a Python process for each streaming source and for each kind of worker, about 140 in
the tests of Spark, and each takes most of a CPU-second to import pyspark, pyarrow and jetspark.
Here one process imports them and forks. Spark runs a launcher in place of Python: a process that
hands its arguments, environment and standard streams over, waits, passes signals on, and ends as
the forked process ends; when it is killed the forked process is killed. Without the server the
launcher runs Python.

This file is run as a program, by the launcher with neither site-packages nor this repository.
"""

import os
import shlex
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Those that Spark runs with ``-m`` by its worker factories.
MODULES = ("pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner")
PRELOADED = (
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "jetspark.spark.stream.source",
    "jetspark.spark.kv.source",
    "jetspark.spark.objects.source",
)
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NUMBER = struct.Struct(">i")


class ForkingPython:
    """The server, and the launcher that Spark is to run as Python."""

    def __init__(self, folder: "Path") -> None:
        import subprocess

        self.launcher = folder / "python"
        place = folder / "forking.sock"
        words = [sys.executable, "-I", "-S", __file__, "launch", str(place), sys.executable]
        self.launcher.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        self.launcher.chmod(0o755)
        # A thread before a fork would be missing after it: these two have none with the settings.
        # Spark wants strings to have the same hash in every process.
        settings = {
            "OPENBLAS_NUM_THREADS": "1",
            "JE_ARROW_MALLOC_CONF": "background_thread:false",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        # It ends when its standard input does: when the process of the tests ends.
        self._server = subprocess.Popen(
            [sys.executable, __file__, "serve", str(place)],
            env=os.environ | settings,
            stdin=subprocess.PIPE,
        )

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


def launch(place: str, python: str, arguments: list[str]) -> None:
    """Have the server fork, and be what it forked to the process that started this one."""
    link = socket.socket(socket.AF_UNIX)
    try:
        if arguments[:1] != ["-m"] or arguments[1] not in MODULES:
            raise ConnectionRefusedError
        link.connect(place)
    except OSError:
        os.execv(python, [python, *arguments])
    words = [os.getcwd(), str(len(arguments)), *arguments]  # noqa: PTH109 - pathlib takes long to import
    words += [f"{name}={value}" for name, value in os.environ.items()]
    request = "\0".join(words).encode(errors="surrogateescape")
    socket.send_fds(link, [_NUMBER.pack(len(request))], [0, 1, 2])
    link.sendall(request)
    pid = _NUMBER.unpack(_read(link, _NUMBER.size))[0]
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))
    code = _NUMBER.unpack(_read(link, _NUMBER.size))[0]
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(place: str) -> list[str]:
    """Fork for every request, until standard input ends; return in a forked process.

    The result are the arguments that it was started with.
    """
    import contextlib
    import gc
    import importlib
    import selectors
    from pathlib import Path

    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SystemExit("a module has started a thread: processes cannot be forked")
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    ready.register(0, selectors.EVENT_READ)
    # By the file descriptor of the process, which is readable when it has ended.
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in ready.select():
            if key.fd == 0:
                os._exit(0)
            if key.fileobj is listener:
                link = listener.accept()[0]
                request, streams = _receive(link)
                if request is None:
                    link.close()
                    continue
                pid = os.fork()
                if not pid:
                    ready.close()
                    for _, other in running.values():
                        other.close()
                    for ended in running:
                        os.close(ended)
                    listener.close()
                    link.close()
                    return _become(request, streams)
                for stream in streams:
                    os.close(stream)
                ended = os.pidfd_open(pid)
                running[ended] = pid, link
                ready.register(ended, selectors.EVENT_READ)
                ready.register(link, selectors.EVENT_READ, ended)
                with contextlib.suppress(OSError):
                    link.sendall(_NUMBER.pack(pid))
            elif key.data is not None:
                # The launcher has been killed.
                ready.unregister(key.fileobj)
                os.kill(running[key.data][0], signal.SIGKILL)
            else:
                pid, link = running.pop(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                ready.unregister(key.fd)
                os.close(key.fd)
                with contextlib.suppress(KeyError):
                    ready.unregister(link)
                with contextlib.suppress(OSError):
                    link.sendall(_NUMBER.pack(code))
                link.close()


def _receive(link: socket.socket) -> tuple[list[str] | None, list[int]]:
    try:
        head, streams, _, _ = socket.recv_fds(link, _NUMBER.size, 3)
        words = _read(link, _NUMBER.unpack(head)[0]).decode(errors="surrogateescape")
    except (OSError, EOFError, struct.error):
        return None, []
    return words.split("\0"), streams


def _become(request: list[str], streams: list[int]) -> list[str]:
    """Be the process that was asked for: its streams, folder, environment and path."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    folder, count, *words = request
    arguments, variables = words[: int(count)], words[int(count) :]
    os.environ.clear()
    os.environ.update(dict(variable.split("=", 1) for variable in variables))
    os.chdir(folder)
    path = [folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path[1:]]
    sys.path[:] = list(dict.fromkeys(each for each in path if each))
    return arguments


def _read(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def main() -> None:
    """Launch, or serve and become what was launched."""
    command, place, *rest = sys.argv[1:]
    if command == "launch":
        launch(place, rest[0], rest[1:])
    arguments = serve(place)
    import runpy

    # As Python has it while it runs a module: the module puts its own path in front.
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
