"""The same bytes to two servers: ours and nats-server 2.15.1.

A script writes to one or several raw connections; what comes back is cut into frames, made
comparable and collected per connection. No script waits for time to pass: within a script a PING
and its PONG say that a server has done what it was asked; at the end, a publish that exceeds every
limit makes it close, and it is read until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.support.known_differences import INFO_ONLY_OURS, INFO_ONLY_THEIRS, TIMELY

import jetspark

NATS_SERVER: Final = Path(sys.executable).parent / "nats-server"
TIMEOUT_S: Final = 10.0
# More than any max_payload of the configurations here: a connection that is still open closes.
FAREWELL: Final = b"PUB goodbye 999999999\r\n"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Turn:
    """Bytes for one connection. ``wait`` has the answers read before the next turn begins.

    ``pings`` is how many PONGs they cause: None counts lines that begin with PING. ``single``
    writes them one by one. ``ends`` reads until the server has closed the connection on its own;
    ``last`` makes it close if it has not.
    """

    connection: str
    data: bytes
    wait: bool = True
    pings: int | None = None
    single: bool = False
    ends: bool = False
    last: bool = False

    def count_pings(self) -> int:
        """Return how many PONGs to expect."""
        if self.pings is not None:
            return self.pings
        return len(re.findall(rb"(?im)^ping[ \t\r]*$", self.data))


@dataclass(frozen=True)
class Script:
    """Turns, played to a server that has the configuration ``config``."""

    name: str
    turns: tuple[Turn, ...]
    config: str = "plain"


# Playing -----------------------------------------------------------------------------------------


class Wire:
    """One raw connection, and everything that came on it."""

    def __init__(self, port: int) -> None:
        self.received = bytearray()
        self.open = True
        self._pongs = 0
        self._expected = 0
        self._scanned = 0
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # INFO first: a server that is slow to greet would see the script in other pieces.
        self._read_until(lambda: b"\r\n" in self.received)

    def play(self, turn: Turn) -> None:
        """Send a turn; read its answers if it says so."""
        if turn.single:
            for i in range(len(turn.data)):
                self._send(turn.data[i : i + 1])
        else:
            self._send(turn.data)
        self._expected += turn.count_pings()
        if turn.last:
            self.finish()
        elif turn.ends:
            self._read_until(lambda: False)
        elif turn.wait:
            self._send(b"PING\r\n")
            self._expected += 1
            self._read_until(self._answered)

    def finish(self) -> None:
        """Make the server close if it has not done so, and read to the end."""
        if not self.open:
            return
        self._send(FAREWELL)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._read_until(lambda: False)
        self.drop()

    def drop(self) -> None:
        """Close on our side."""
        self.open = False
        self._socket.close()

    def _send(self, data: bytes) -> None:
        try:
            if self.open:
                self._socket.sendall(data)
        except OSError:
            # The server closed; what it said before can still be read.
            return

    def _answered(self) -> bool:
        # Only whole frames count: a payload may hold the text of a PONG.
        for frame, end in frames(bytes(self.received), self._scanned):
            self._scanned = end
            self._pongs += frame == b"PONG"
        return self._pongs >= self._expected

    def _read_until(self, done: Any) -> None:
        while self.open and not done():
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                self.received += b"\x00SILENCE\r\n"
                self.open = False
                return
            except OSError:
                data = b""
            if not data:
                self.open = False
            self.received += data


def play(script: Script, port: int) -> dict[str, list[bytes]]:
    """Play a script and return, per connection, the frames that came back, comparable."""
    wires: dict[str, Wire] = {}
    try:
        for turn in script.turns:
            if turn.connection not in wires:
                wires[turn.connection] = Wire(port)
            wires[turn.connection].play(turn)
        for wire in wires.values():
            wire.finish()
        return {name: comparable(bytes(wire.received)) for name, wire in wires.items()}
    finally:
        for wire in wires.values():
            wire.drop()


# Comparing ---------------------------------------------------------------------------------------


def frames(data: bytes, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Cut what a server sent into whole frames, each with the offset after it."""
    pos = start
    while True:
        end = data.find(b"\r\n", pos)
        if end < 0:
            return
        line = data[pos:end]
        after = end + 2
        if line.startswith((b"MSG ", b"HMSG ")):
            size = line.rpartition(b" ")[2]
            after += (int(size) if size.isdigit() else 0) + 2
            if len(data) < after:
                return
        yield data[pos : after - 2], after
        pos = after


INFO_ONLY_ONE: Final = INFO_ONLY_OURS | INFO_ONLY_THEIRS
# What the value of an INFO field may not say: who the server is, and where.
PRIVATE: Final = {
    "server_id",
    "server_name",
    "git_commit",
    "go",
    "port",
    "client_id",
    "xkey",
    "nonce",
}


def comparable(data: bytes) -> list[bytes]:
    """Return frames in a form that two servers can share.

    INFO has its fields in order of name, with the private values masked. Left out are the PINGs
    of the server, which come when its timers say so, and its events. Several subscriptions of a
    client get one message in any order (Go's maps have none).
    """
    found: list[bytes] = []
    end = 0
    for frame, after in frames(data):
        end = after
        if frame.startswith(b"INFO "):
            found.append(b"INFO " + json.dumps(masked(json.loads(frame[5:]))).encode())
        elif not frame.startswith((b"PING", b"MSG $SYS.ACCOUNT.")):
            found.append(with_plain_sizes(frame))
    if end < len(data):
        found.append(b"cut off: " + data[end:])
    return in_order(found)


def agree(ours: dict[str, list[bytes]], theirs: dict[str, list[bytes]]) -> bool:
    """Say whether two servers said the same, apart from what is a matter of chance or of timing.

    When they say `TIMELY` is the one; which subscription of several learns that no one responds
    is the other.
    """
    if ours == theirs:
        return True
    return ours.keys() == theirs.keys() and all(
        mine.count(TIMELY) <= theirs[name].count(TIMELY) and loosely(mine) == loosely(theirs[name])
        for name, mine in ours.items()
    )


def loosely(found: list[bytes]) -> list[bytes]:
    """Return frames without what may differ."""
    return [
        re.sub(rb"^HMSG (\S+) \S+ (.*\r\nNATS/1.0 503\r\nNats-Subject)", rb"HMSG \1 * \2", frame)
        for frame in found
        if frame != TIMELY
    ]


def with_plain_sizes(frame: bytes) -> bytes:
    """Return a message without leading zeros in its sizes: known_differences.py has the reason."""
    if not frame.startswith((b"MSG ", b"HMSG ")):
        return frame
    line, _, rest = frame.partition(b"\r\n")
    return re.sub(rb"(?<= )0+(?=\d+( \d+)?$)", b"", line) + b"\r\n" + rest


def masked(info: dict[str, Any]) -> dict[str, Any]:
    """Return INFO with the private values masked and its fields in order."""
    fields = {key: "*" if key in PRIVATE else value for key, value in info.items()}
    return {key: fields[key] for key in sorted(fields) if key not in INFO_ONLY_ONE}


def info_fields(port: int) -> set[str]:
    """Return the names of the fields in the INFO that a server greets with."""
    wire = Wire(port)
    wire.drop()
    fields: dict[str, Any] = json.loads(bytes(wire.received).removeprefix(b"INFO "))
    return set(fields)


def in_order(found: list[bytes]) -> list[bytes]:
    """Sort neighbours that are the same message for several subscriptions."""
    result: list[bytes] = []
    run: list[bytes] = []
    key = b""
    for frame in found:
        mine = without_sid(frame)
        if mine != key:
            result += sorted(run)
            run = []
            key = mine
        run.append(frame)
    return result + sorted(run)


def without_sid(frame: bytes) -> bytes:
    """Return a message without its subscription id; other frames as they are."""
    if not frame.startswith((b"MSG ", b"HMSG ")):
        return frame
    line, _, rest = frame.partition(b"\r\n")
    words = line.split(b" ")
    return b" ".join([words[1], *words[3:]]) + b"\r\n" + rest


# Servers -----------------------------------------------------------------------------------------


class Theirs:
    """nats-server as a process."""

    def __init__(self, config: Path) -> None:
        self.port = 0
        self._process = subprocess.Popen(
            [str(NATS_SERVER), "-c", str(config)],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            match = re.search(r"Listening for client connections on \S+:(\d+)", line)
            self.port = int(match[1]) if match else self.port
            if "Server is ready" in line:
                # Its log must not fill the pipe.
                self._reader = threading.Thread(target=deque, args=(self._process.stderr, 0))
                self._reader.start()
                return
        raise AssertionError(f"nats-server ended before it was ready:\n{said}")

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._reader.join()
        self._process.communicate()


class Ours:
    """A jetspark server on the loop of a `Host`."""

    def __init__(self, host: Host, config: Path) -> None:
        self._host = host
        self._server = jetspark.Server(config=config)
        host.run(self._server.start())
        self.port = self._server.port

    def close(self) -> None:
        """Stop it."""
        self._host.run(self._server.close())


class Host:
    """A thread with an event loop for servers."""

    def __init__(self) -> None:
        try:
            import uvloop
        except ImportError:
            self._loop = asyncio.new_event_loop()
        else:
            self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire-servers")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def close(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Arena:
    """Both servers, for each configuration that a script asks for."""

    def __init__(self, folder: Path, configs: dict[str, str]) -> None:
        self._folder = folder
        self._configs = configs
        self._host = Host()
        self._pairs: dict[str, tuple[Ours, Theirs]] = {}

    def play(self, script: Script) -> tuple[dict[str, list[bytes]], dict[str, list[bytes]]]:
        """Play a script to both; ours first."""
        ours, theirs = self.ports(script.config)
        return play(script, ours), play(script, theirs)

    def ports(self, config: str) -> tuple[int, int]:
        """Start both servers if they do not run, and say where they listen; ours first."""
        if config not in self._pairs:
            path = self._folder / f"{config}.conf"
            path.write_text("listen: 127.0.0.1:-1\n" + self._configs[config])
            self._pairs[config] = (Ours(self._host, path), Theirs(path))
        ours, theirs = self._pairs[config]
        return ours.port, theirs.port

    def close(self) -> None:
        """Stop everything."""
        for ours, theirs in self._pairs.values():
            ours.close()
            theirs.close()
        self._host.close()
