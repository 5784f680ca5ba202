"""Random sessions with extreme values, on a server in a process of its own, next to a neighbour.

Requests, headers, handshakes and lines of the protocol are made from what the server knows, with
numbers, times and texts at their limits in several places at once, and broken now and then. The
server answers or closes that connection; the neighbour does not wait, memory stays bounded,
nothing fails with an internal error, and the server starts again on the same store. Configurations
are loaded here: each is accepted, or refused with a reason.
The short form is `tests/integration/clients/test_fuzzed_sessions.py`.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from pathlib import Path

from msgspec import inspect
from tests.campaigns.hostile import LONGEST_MS, Street, street
from tests.support import limit_values as table
from tests.support.hostile.clients import Target, connect

from jetspark.api import consumer as consumers
from jetspark.api import message as messages
from jetspark.api import stream as streams
from jetspark.protocol.handshake import ConnectOptions
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text

GROWTH_MIB = 300
BATCH = 25
NUMBERS = (*table.LARGE, *table.INTEGERS, "0", "1", "2147483648", "9007199254740993", "4294967296")
MODELS: tuple[tuple[str, type], ...] = (
    ("STREAM.CREATE.{s}", streams.StreamCreateRequest),
    ("STREAM.UPDATE.{s}", streams.StreamCreateRequest),
    ("STREAM.NAMES", streams.StreamNamesRequest),
    ("STREAM.LIST", streams.StreamListRequest),
    ("STREAM.INFO.{s}", streams.StreamInfoRequest),
    ("STREAM.PURGE.{s}", streams.PurgeRequest),
    ("STREAM.SNAPSHOT.{s}", streams.SnapshotRequest),
    ("STREAM.MSG.GET.{s}", messages.MsgGetRequest),
    ("STREAM.MSG.DELETE.{s}", messages.MsgDeleteRequest),
    ("STREAM.DELETE.{s}", streams.StreamNamesRequest),
    ("DIRECT.GET.{s}", messages.MsgGetRequest),
    ("CONSUMER.CREATE.{s}.{c}", consumers.ConsumerConfig),
    ("CONSUMER.MSG.NEXT.{s}.{c}", consumers.PullRequest),
    ("CONSUMER.PAUSE.{s}.{c}", consumers.PauseRequest),
    ("CONSUMER.RESET.{s}.{c}", consumers.ResetRequest),
    ("CONSUMER.UNPIN.{s}.{c}", consumers.UnpinRequest),
    ("CONSUMER.EXPLAIN.{s}.{c}", consumers.ExplainRequest),
    ("CONSUMER.INFO.{s}.{c}", consumers.ConsumersRequest),
    ("CONSUMER.DELETE.{s}.{c}", consumers.ConsumersRequest),
)
ACKS = (
    b"+ACK",
    b"-NAK",
    b"-NAK {}",
    b"+WPI",
    b"+TERM",
    b"+NXT",
    b"+NXT {}",
    b"-NAK %b",
    b"+NXT %b",
)


class Maker:
    """Random sessions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def session(self) -> bytes:
        """The bytes of one connection."""
        said = connect() if self.random.random() < 0.9 else self.handshake()
        parts = [said, b"SUB _r.> 1\r\n"]
        kinds = (self.request, self.request, self.publish, self.line, self.ack, self.handshake)
        weights = (5, 5, 4, 2, 2, 1)
        for _ in range(self.random.randint(1, 12)):
            (kind,) = self.random.choices(kinds, weights)
            parts.append(kind())
        data = b"".join(parts)
        return self.broken(data) if self.random.random() < 0.1 else data

    def number(self) -> str:
        return self.random.choice(NUMBERS)

    def word(self) -> bytes:
        return self.random.choice((*table.WORDS, self.number().encode(), b"x", b"sub", b"all"))

    def names(self) -> dict[str, str]:
        return {"s": f"F{self.random.randint(0, 3)}", "c": f"C{self.random.randint(0, 2)}"}

    def fields(self, model: type, most: int) -> str:
        """A few fields of a model with extreme values, or with what they should be."""
        info = inspect.type_info(model)
        assert isinstance(info, inspect.StructType)
        count = self.random.randint(0, min(most, len(info.fields)))
        chosen = self.random.sample(info.fields, count)
        return ",".join(f'"{each.encode_name}":{self.value(each.type)}' for each in chosen)

    def value(self, held: inspect.Type) -> str:
        if self.random.random() < 0.1:
            return self.random.choice((*table.WRONG, "null"))
        found = [*table.values(held, self.random.randrange(64))]
        short = [each for each in found if len(each) < 20_000 or self.random.random() < 0.02]
        if isinstance(held, inspect.IntType):
            short.append(self.number())
        return self.random.choice(short or ["true", "false"])

    def request(self) -> bytes:
        verb, model = self.random.choice(MODELS)
        names = self.names()
        inner = self.fields(model, 4)
        if model is consumers.ConsumerConfig:
            config = ",".join(filter(None, (f'"name":"{names["c"]}"', inner)))
            inner = f'"stream_name":"{names["s"]}","config":{{{config}}}'
        elif model is streams.StreamCreateRequest:
            own = f'"name":"{names["s"]}","subjects":["f{names["s"]}.>"],"storage":"memory"'
            inner = ",".join(filter(None, (own, inner)))
        body = f"{{{inner}}}".encode("utf-8", "replace").replace("\ufffd".encode(), b"\xff\xfe")
        if self.random.random() < 0.05:
            body = self.random.choice(table.ODD_BODIES)[1]
        if self.random.random() < 0.1:
            body = self.broken(body)
        subject = f"$JS.API.{verb.format(**names)}".encode()
        headers = self.headers() if self.random.random() < 0.15 else b""
        return framed(subject, b"_r.%d" % self.random.randrange(1000), headers, body[:900_000])

    def headers(self) -> bytes:
        lines = b"".join(
            b"%b: %b\r\n" % (self.random.choice(table.PUBLISH_HEADERS), self.word())
            for _ in range(self.random.randint(0, 4))
        )
        block = b"NATS/1.0\r\n%b\r\n" % lines
        return self.broken(block) if self.random.random() < 0.2 else block

    def publish(self) -> bytes:
        subject = b"fF%d.%d" % (self.random.randint(0, 3), self.random.randint(0, 5))
        reply = b"_r.%d" % self.random.randrange(1000) if self.random.random() < 0.7 else b""
        if self.random.random() < 0.1:
            reply = b"$FI.%b.%b.%b" % (self.word()[:50], self.word()[:50], self.word()[:50])
            reply = reply.replace(b" ", b"_")
        return framed(
            subject, reply, self.headers(), self.random.randbytes(self.random.randint(0, 99))
        )

    def ack(self) -> bytes:
        names = self.names()
        tokens = [self.number()[:40] if self.random.random() < 0.3 else "1" for _ in range(5)]
        subject = f"$JS.ACK.{names['s']}.{names['c']}.{'.'.join(tokens)}".encode()
        kind = self.random.choice(ACKS)
        body = f'{{"delay":{self.number()},"batch":{self.number()}}}'.encode()
        return framed(subject, b"", b"", kind % body if b"%b" in kind else kind)

    def line(self) -> bytes:
        number, other = self.number()[:60].encode(), self.number()[:60].encode()
        return self.random.choice((
            b"UNSUB 1 %b\r\n" % number,
            b"SUB a.%b %b\r\n" % (number, other),
            b"PUB a %b\r\n" % number,
            b"HPUB a %b %b\r\n" % (number, other),
            b"PING\r\n" * 50,
            b"PONG\r\n",
            b"SUB %b 5\r\n" % self.word()[:2000],
            b"+OK\r\n",
            b"-ERR '%b'\r\n" % number,
            b"\r\n",
        ))  # fmt: skip

    def handshake(self) -> bytes:
        body = f"{{{self.fields(ConnectOptions, 6)}}}".encode("utf-8", "replace")
        if self.random.random() < 0.5:
            body = b'{"user":"hostile","pass":"pw",' + body[1:].lstrip(b",")
        return b"CONNECT %b\r\n" % body.replace(b"\n", b"")[:4000]

    def broken(self, data: bytes) -> bytes:
        """Bytes changed, removed or repeated."""
        changed = bytearray(data)
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(changed) + 1)
            match self.random.randrange(4):
                case 0:
                    changed[at : at + 1] = self.random.randbytes(1)
                case 1:
                    del changed[at : at + self.random.randint(1, 20)]
                case 2:
                    changed[at:at] = changed[at : at + self.random.randint(1, 50)]
                case _:
                    changed[at:at] = self.number()[:100].encode()
        return bytes(changed)

    def configuration(self, samples: tuple[str, ...]) -> str:
        """Settings, combined and broken."""
        text = "\n".join(self.random.sample(samples, self.random.randint(1, 4)))
        for _ in range(self.random.randint(0, 3)):
            numbers = [at for at, char in enumerate(text) if char.isdigit()]
            if numbers:
                at = self.random.choice(numbers)
                text = f"{text[:at]}{self.number()}{text[at + 1 :]}"
        if self.random.random() < 0.5:
            text = self.broken(text.encode()).decode("utf-8", "replace")
        return text


def framed(subject: bytes, reply: bytes, headers: bytes, body: bytes) -> bytes:
    """PUB, or HPUB if there are headers."""
    target = b"%b %b" % (subject, reply) if reply else subject
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (target, len(body), body)
    size = len(headers)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (target, size, size + len(body), headers, body)


def play(made: Street, maker: Maker, count: int) -> float:
    """Play ``count`` sessions; return the longest wait of the neighbour, in ms of server time."""

    def sessions(target: Target) -> None:
        for _ in range(count):
            wire = target.wire()
            wire.send(maker.session())
            wire.finish()

    waits = made.visit(sessions)
    assert waits.server_ms < LONGEST_MS, waits
    return waits.server_ms


def try_configurations(maker: Maker, count: int, samples: tuple[str, ...]) -> int:
    """Load a number of them; return how many were accepted."""
    accepted = 0
    for _ in range(count):
        text = maker.configuration(samples)
        with contextlib.suppress(ConfigRefused):
            load_text(text, {"HOME": "/"}, check_tls=lambda _tls: None)
            accepted += 1
    return accepted


SAMPLES: tuple[str, ...] = (
    "port: 4222", 'listen: "127.0.0.1:4222"', "max_payload: 1MB", "ping_interval: 2m",
    "max_connections: 64K", "write_deadline: 10s", "lame_duck_duration: 30s", "http_port: 8222",
    "authorization { user: a, password: b, timeout: 2 }",
    "authorization { users: [ { user: a, password: b, permissions { publish: a } } ] }",
    "accounts { A { users: [ { user: a, password: b } ], limits { max_conn: 3, max_subs: 4 } } }",
    "jetstream { store_dir: d, max_mem: 1G, max_file: 10G, sync_interval: 10s }",
    "jetstream { limits { duplicate_window: 10m, batch { max_msgs: 5, timeout: 3s } } }",
    "jetspark { commit_delay: 2ms, held_reads_max: 5, fast { per_stream: 2 } }",
    "jetspark { limits { connections_per_user: 5, failed_logins_per_user: 6 } }",
    "jetspark { memory { pending: 1GB }, monitor_hosts: [a, b] }",
    "jetspark { remotes { hub { url: 'nats://h:4222', user: u, password: p, accounts: [A] } } }",
    "jetspark { replica { of: 'nats://h:4222', streams: ['KV_*'] } }",
    "tls { cert_file: c, key_file: k, timeout: 2, verify: true, min_version: '1.3' }",
    "max_traced_msg_len: 1024\ntrace: true\nlogtime: false", "no_auth_user: a", "X: 5\nport: $X",
)  # fmt: skip


def campaign(deadline: float, seed: int) -> str:
    """Until the deadline, in batches; then the server starts again on what they left."""
    maker = Maker(seed)
    sessions = configurations = 0
    longest = grown = 0.0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        with street(Path(name), "jetspark", 1.0) as made:
            play(made, maker, BATCH)
            before = made.resident_mib()
            while time.monotonic() < deadline or sessions == 0:
                longest = max(longest, play(made, maker, BATCH))
                sessions += BATCH
                configurations += BATCH
                try_configurations(maker, BATCH, SAMPLES)
                grown = max(grown, made.resident_mib() - before)
                assert grown < GROWTH_MIB, f"{grown:.0f} MiB more after {sessions} sessions"
                assert made.internal_errors() == 0, f"seed {seed}, {sessions} sessions"
        with street(Path(name), "jetspark", 1.0) as made:
            play(made, maker, 1)
    return (
        f"{sessions} sessions, {configurations} configurations, 0 internal errors, the neighbour "
        f"waited at most {longest:.0f} ms of server time, {grown:.0f} MiB more memory"
    )
