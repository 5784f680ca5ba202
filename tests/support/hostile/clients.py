"""Hostile clients: each tries to make others wait, by one kind of request or behaviour.

They use the protocol by hand, as anyone could, and work against any NATS server. ``scale`` makes
them smaller for the short form; what a client does to a server of ours and how large it is in full
is in its docstring.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import ssl
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from jetspark.api.stream import StreamConfig, StreamState
from jetspark.engine.archive import ArchiveWriter

PASSWORD: Final = "pw"
# The hash of "pw", of a cost that takes some milliseconds.
HASH: Final = "$2b$07$eg/VBHI9rEwBfBdjVtO84O37OFPF0UkAZCJODzd4oOvJ6cZ24cVgS"
CONFIG: Final = f"""
max_pending: 8MB
authorization {{
  timeout: 2
  users: [
    {{ user: neighbour, password: {PASSWORD} }}
    {{ user: hostile, password: {PASSWORD} }}
    {{ user: hashed, password: "{HASH}" }}
    {{ user: denied, password: {PASSWORD}, permissions: {{ publish: own, subscribe: own }} }}
  ]
}}
"""
EXPECTS: Final = b"Nats-Expected-Last-Subject-Sequence"


@dataclass
class Target:
    """A server: where it is, and how large the clients are."""

    port: int
    http_port: int = 0
    scale: float = 1.0
    tls: bool = False
    ends: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def times(self, number: int) -> int:
        """So many, scaled."""
        return max(2, int(number * self.scale))

    @contextlib.contextmanager
    def client(self, user: str = "hostile") -> Iterator[Wire]:
        """A client that logged in."""
        wire = self.wire()
        try:
            wire.send(connect(user))
            wire.settle()
            yield wire
        finally:
            wire.close()

    def wire(self) -> Wire:
        """A connection that has said nothing yet."""
        return Wire(socket.create_connection(("127.0.0.1", self.port), timeout=60))

    def stay(self, connection: socket.socket) -> None:
        """Keep a connection open until the neighbour was asked."""
        self.ends.callback(connection.close)


def connect(user: str = "hostile", password: str = PASSWORD) -> bytes:
    said = {"verbose": False, "headers": True, "user": user, "pass": password}
    return b"CONNECT %b\r\n" % json.dumps(said).encode()


class Wire:
    """One connection. What comes is read and thrown away while it sends."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = bytearray()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send everything, reading in between; a server that closed is no error."""
        view = memoryview(data)
        self.socket.setblocking(False)
        ready = select.poll()
        ready.register(self.socket, select.POLLIN | select.POLLOUT)
        try:
            while view:
                # Not select(): the mix of all kinds has more than 1,024 descriptors.
                [(_, state)] = ready.poll(60_000) or [(0, 0)]
                if not state:
                    return
                if state & ~select.POLLOUT:
                    more = self.socket.recv(1 << 20)
                    if not more:
                        return
                    self._buffer += more[-4096:]
                    del self._buffer[:-65536]
                if state & select.POLLOUT:
                    view = view[self.socket.send(view) :]
        except OSError:
            return
        finally:
            with contextlib.suppress(OSError):
                self.socket.settimeout(60)

    def settle(self) -> None:
        """Wait until the server has done everything that was sent, or has closed."""
        self._buffer.clear()
        self.send(b"PING\r\n")
        with contextlib.suppress(OSError):
            while b"PONG\r\n" not in self._buffer:
                more = self.socket.recv(1 << 20)
                if not more:
                    return
                self._buffer += more
                del self._buffer[:-8]

    def finish(self) -> None:
        """End this side, wait until the server has closed, and close."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(1 << 20):
                pass
        self.close()

    def request(self, verb: bytes, body: object = b"") -> bytes:
        """Ask something of ``$JS.API``; the answer's payload."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._buffer.clear()
        self.socket.sendall(
            b"SUB _a 9999999\r\nUNSUB 9999999 1\r\nPUB $JS.API.%b _a %d\r\n%b\r\n"
            % (verb, len(data), data)
        )
        found = bytearray()
        while b"MSG _a 9999999 " not in found:
            found += self._more()
        _, _, rest = bytes(found).partition(b"MSG _a 9999999 ")
        while b"\r\n" not in rest:
            rest += self._more()
        size, _, rest = rest.partition(b"\r\n")
        while len(rest) < int(size):
            rest += self._more()
        return rest[: int(size)]

    def _more(self) -> bytes:
        more = self.socket.recv(1 << 20)
        assert more, "closed"
        return more


def create(wire: Wire, name: str, subjects: list[str], **config: object) -> None:
    wire.request(
        b"STREAM.CREATE.%b" % name.encode(),
        {"name": name, "subjects": subjects, "storage": "memory", **config},
    )


def fill(wire: Wire, count: int, prefix: str = "s", size: int = 0) -> None:
    """Publish to so many subjects."""
    head = prefix.encode()
    payload = bytes(size)
    wire.send(
        b"".join(b"PUB %b.%d.x %d\r\n%b\r\n" % (head, n, size, payload) for n in range(count))
    )
    wire.settle()


def drop(wire: Wire, *names: str) -> None:
    for name in names:
        wire.request(b"STREAM.DELETE.%b" % name.encode())


# Subscriptions ----------------------------------------------------------------------------------


def same_subject(target: Target) -> None:
    """60,000 subscriptions of one subject, removed in reverse."""
    count = target.times(60_000)
    with target.client() as client:
        client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(count)))
        client.send(b"".join(b"UNSUB %d\r\n" % sid for sid in reversed(range(count))))
        client.settle()


def subscriptions_left_by_connect(target: Target) -> None:
    """60,000 subscriptions that another CONNECT removes, and 60,000 that closing does."""
    subs = b"".join(b"SUB same %d\r\n" % sid for sid in range(target.times(60_000)))
    with target.client() as client:
        client.send(subs + connect() + subs)
        client.settle()


def wildcard_subscriptions(target: Target) -> None:
    """40,000 different wildcard subscriptions that overlap, and messages for them."""
    count = target.times(40_000)
    with target.client() as client:
        forms = (b"SUB *.%d.> %d\r\n", b"SUB a.*.%d %d\r\n", b"SUB a.%d.> %d\r\n")
        client.send(b"".join(forms[n % 3] % (n, n) for n in range(count)))
        client.send(b"".join(b"PUB a.%d.%d 0\r\n\r\n" % (n, n) for n in range(count // 4)))
        client.settle()


def dead_ends(target: Target) -> None:
    """32,768 patterns that agree with a subject up to the last token, and messages for none."""
    depth = 15 if target.times(1_000) >= 1_000 else 12
    tokens = itertools.product((b"a", b"*"), repeat=depth)
    with target.client() as client:
        patterns = [b".".join(each) + b".z" for each in tokens]
        client.send(b"".join(b"SUB %b %d\r\n" % (each, n) for n, each in enumerate(patterns)))
        to = b".".join([b"a"] * depth)
        client.send(b"".join(b"PUB %b.%d 0\r\n\r\n" % (to, n) for n in range(target.times(300))))
        client.settle()


def unlike_dead_ends(target: Target) -> None:
    """262,144 patterns with dead ends that have nothing in common, so that none is skipped."""
    depth = 17 if target.times(1_000) >= 1_000 else 12
    with target.client() as client:
        sid = 0
        for heads in itertools.product((b"a", b"*"), repeat=depth):
            head = b".".join(heads)
            client.send(b"SUB %b.x.* %d\r\nSUB %b.y.* %d\r\n" % (head, sid, head, sid + 1))
            sid += 2
        to = b".".join([b"a"] * depth)
        client.send(b"".join(b"PUB %b.%d.z 0\r\n\r\n" % (to, n) for n in range(target.times(100))))
        client.settle()


def queue_names(target: Target) -> None:
    """40,000 queue groups of one subject, and messages for all of them."""
    with target.client() as client:
        count = target.times(40_000)
        client.send(b"".join(b"SUB same q%d %d\r\n" % (sid, sid) for sid in range(count)))
        client.send(b"PUB same 2\r\nhi\r\n" * 5)
        client.settle()


def large_fan_out(target: Target) -> None:
    """20,000 subscriptions of one client, and one message of 1 MB."""
    with target.client() as client:
        count = target.times(20_000)
        client.send(b"".join(b"SUB same %d\r\n" % sid for sid in range(count)))
        client.send(b"PUB same 2\r\nhi\r\n" * 10)
        client.send(b"PUB same 1000000\r\n%b\r\n" % bytes(1_000_000))
        client.settle()


def alternating(target: Target) -> None:
    """A subscription, a message, a subscription, a message, 3,000 times."""
    with target.client() as client:
        count = target.times(3_000)
        client.send(b"".join(b"SUB s %d\r\nPUB s 0\r\n\r\n" % sid for sid in range(count)))
        client.settle()


def unknown_unsubscriptions(target: Target) -> None:
    """200,000 UNSUBs of what does not exist."""
    with target.client() as client:
        client.send(b"".join(b"UNSUB %d 7\r\n" % n for n in range(target.times(200_000))))
        client.settle()


# Floods -----------------------------------------------------------------------------------------


def pings(target: Target) -> None:
    """300,000 PINGs."""
    with target.client() as client:
        client.send(b"PING\r\n" * target.times(300_000))
        client.settle()


def changing_subjects(target: Target) -> None:
    """300,000 messages, each to another subject."""
    with target.client() as client:
        count = target.times(300_000)
        client.send(b"".join(b"PUB x.%d 0\r\n\r\n" % n for n in range(count)))
        client.settle()


def denied_messages(target: Target) -> None:
    """50,000 messages that the user may not publish."""
    with target.client("denied") as client:
        count = target.times(50_000)
        client.send(b"".join(b"PUB not.%d 0\r\n\r\n" % n for n in range(count)))
        client.settle()


def denied_subscriptions(target: Target) -> None:
    """50,000 subscriptions that the user may not have."""
    with target.client("denied") as client:
        count = target.times(50_000)
        client.send(b"".join(b"SUB not.%d %d\r\n" % (n, n) for n in range(count)))
        client.settle()


def connects(target: Target) -> None:
    """20,000 CONNECTs on one connection."""
    with target.client() as client:
        client.send(connect() * target.times(20_000))
        client.settle()


def connections(target: Target) -> None:
    """2,000 connections, one after the other, each with a login."""
    for _ in range(target.times(2_000)):
        with target.client():
            pass


def busy_connections(target: Target) -> None:
    """200 connections that send 1 MB of messages each, all at the same time."""
    wires = [target.wire() for _ in range(target.times(200))]
    data = connect() + b"".join(b"PUB y.%d 10\r\n0123456789\r\n" % n for n in range(40_000))
    views = {wire.socket: memoryview(data) for wire in wires}
    for each in views:
        each.setblocking(False)
    while views:
        _, writable, _ = select.select([], list(views), [], 60)
        for each in writable:
            views[each] = views[each][each.send(views[each]) :]
            if not views[each]:
                del views[each]
    for wire in wires:
        wire.socket.settimeout(60)
        wire.settle()
        wire.close()


def no_responders(target: Target) -> None:
    """100,000 requests that no one answers."""
    with target.client() as client:
        said = connect().replace(b'"headers": true', b'"headers": true, "no_responders": true')
        client.send(said + b"SUB _r 1\r\n")
        client.send(b"PUB none _r 0\r\n\r\n" * target.times(100_000))
        client.settle()


def large_messages(target: Target) -> None:
    """400 messages of 1 MB that go nowhere."""
    with target.client() as client:
        message = b"PUB none 1000000\r\n%b\r\n" % bytes(1_000_000)
        for _ in range(target.times(400)):
            client.send(message)
        client.settle()


def many_headers(target: Target) -> None:
    """Messages with 20,000 headers each, to a stream."""
    lines = b"".join(b"K%d: v\r\n" % n for n in range(target.times(20_000)))
    block = b"NATS/1.0\r\n%b\r\n" % lines
    with target.client() as client:
        create(client, "H", ["h"])
        client.send(b"HPUB h %d %d\r\n%b\r\n" % (len(block), len(block), block) * 20)
        client.settle()
        drop(client, "H")


# Half of everything -----------------------------------------------------------------------------

HALVES: Final = (
    b"", b"C", b"CONNECT {", b'CONNECT {"user":"hostile"', connect()[:-2],
    connect() + b"PUB a 1000000\r\nx",
    connect() + b"SUB a", connect() + b"HPUB a 500000 900000\r\nNATS/1.0\r\nK: ",
    b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n",
)  # fmt: skip


def half_open(target: Target) -> None:
    """2,000 connections that send half of something and stay."""
    for number in range(target.times(2_000)):
        wire = target.wire()
        with contextlib.suppress(OSError):
            wire.socket.sendall(HALVES[number % len(HALVES)])
        target.stay(wire.socket)


def single_bytes(target: Target) -> None:
    """20,000 messages in writes of one byte."""
    with target.client() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b"PUB a 1\r\nx\r\n" * (target.times(20_000) // 12)
        for at in range(len(data)):
            client.socket.sendall(data[at : at + 1])
        client.settle()


def garbage(target: Target) -> None:
    """1,000 connections that send 4 KB of noise."""
    for _ in range(target.times(1_000)):
        wire = target.wire()
        wire.send(os.urandom(4096))
        wire.close()


def half_closed(target: Target) -> None:
    """1,000 connections that ask for much, end their side and read nothing."""
    for _ in range(target.times(1_000)):
        wire = target.wire()
        with contextlib.suppress(OSError):
            wire.socket.sendall(
                connect() + b"SUB b 1\r\n" + b"PUB b 1000\r\n%b\r\n" % bytes(1000) * 20
            )
            wire.socket.shutdown(socket.SHUT_WR)
        target.stay(wire.socket)


def tls_halves(target: Target) -> None:
    """500 TLS handshakes that stop after the first message."""
    context = ssl.create_default_context()
    for _ in range(target.times(500)):
        wire = target.wire()
        wire.socket.recv(65536)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        hello = context.wrap_bio(incoming, outgoing, server_hostname="x")
        with contextlib.suppress(ssl.SSLWantReadError):
            hello.do_handshake()
        with contextlib.suppress(OSError):
            wire.socket.sendall(outgoing.read())
        target.stay(wire.socket)


def tls_logins(target: Target) -> None:
    """200 TLS clients that shake hands at the same time."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    waiting: list[tuple[socket.socket, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]] = []
    for _ in range(target.times(200)):
        plain = socket.create_connection(("127.0.0.1", target.port), timeout=60)
        target.stay(plain)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        waiting.append((plain, context.wrap_bio(incoming, outgoing), incoming, outgoing))
    for plain, secure, _, _ in waiting:
        plain.recv(65536)  # INFO
        with contextlib.suppress(ssl.SSLWantReadError):
            secure.do_handshake()
    for _ in range(2):
        for plain, _, _, outgoing in waiting:
            plain.sendall(outgoing.read())
        for plain, secure, incoming, _ in waiting:
            incoming.write(plain.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                secure.do_handshake()
            with contextlib.suppress(ssl.SSLError):
                secure.write(connect() + b"PING\r\n")


# Logins -----------------------------------------------------------------------------------------


def wrong_passwords(target: Target) -> None:
    """2,000 logins of unknown users, and of known ones with wrong passwords."""
    waiting: list[socket.socket] = []
    for number in range(target.times(2_000)):
        wire = target.wire()
        user = ("hashed", "hostile", f"nobody{number}")[number % 3]
        with contextlib.suppress(OSError):
            wire.socket.sendall(connect(user, f"guess {number}"))
        waiting.append(wire.socket)
        if len(waiting) > 200:
            waiting.pop(0).close()
    for each in waiting:
        target.stay(each)


def logins_that_leave(target: Target) -> None:
    """2,000 logins with a password to hash, of clients that leave at once."""
    for number in range(target.times(2_000)):
        wire = target.wire()
        with contextlib.suppress(OSError):
            wire.socket.sendall(connect("hashed", f"guess {number}"))
        wire.close()


# Slow readers -----------------------------------------------------------------------------------


def slow_readers(target: Target) -> None:
    """40 subscribers that read nothing, and messages of 400 MB in all for them."""
    for _ in range(target.times(40)):
        wire = target.wire()
        wire.socket.sendall(connect() + b"SUB load 1\r\n")
        target.stay(wire.socket)
    with target.client() as client:
        for _ in range(target.times(40)):
            client.send(b"PUB load 60000\r\n%b\r\n" % bytes(60_000) * 4)
        client.settle()


def unread_answers(target: Target) -> None:
    """20 clients that ask for the list of streams 5,000 times and read nothing."""
    with target.client() as client:
        for number in range(target.times(50)):
            create(client, f"L{number}", [f"l{number}"])
        asked = connect() + b"SUB _r 1\r\n"
        asked += b"PUB $JS.API.STREAM.LIST _r 0\r\n\r\n" * target.times(5_000)
        for _ in range(target.times(20)):
            wire = target.wire()
            wire.socket.setblocking(False)
            with contextlib.suppress(OSError):
                time.sleep(0.001)
                wire.socket.send(asked)
            target.stay(wire.socket)
        client.settle()
        drop(client, *(f"L{number}" for number in range(target.times(50))))


def unread_consumer(target: Target) -> None:
    """A push consumer and a pull of 50,000 messages whose reader reads nothing."""
    with target.client() as client:
        create(client, "P", ["p.>"])
        fill(client, target.times(50_000), "p", 200)
        config = {"name": "C", "deliver_subject": "here", "ack_policy": "none"}
        wire = target.wire()
        wire.socket.sendall(connect() + b"SUB here 1\r\nSUB _p 2\r\nPING\r\n")
        target.stay(wire.socket)
        client.request(b"CONSUMER.CREATE.P.C", {"stream_name": "P", "config": config})
        pull = {"name": "D", "ack_policy": "none"}
        client.request(b"CONSUMER.CREATE.P.D", {"stream_name": "P", "config": pull})
        body = b'{"batch":100000}'
        wire.socket.sendall(
            b"PUB $JS.API.CONSUMER.MSG.NEXT.P.D _p %d\r\n%b\r\n" % (len(body), body)
        )
        client.settle()
        drop(client, "P")


def unread_snapshot(target: Target) -> None:
    """Ten snapshots of a stream of 50 MB that no one reads."""
    with target.client() as client:
        create(client, "Z", ["z.>"])
        fill(client, target.times(5_000), "z", 10_000)
        wire = target.wire()
        wire.socket.sendall(connect() + b"SUB snap 1\r\nPING\r\n")
        target.stay(wire.socket)
        for _ in range(10):
            client.request(
                b"STREAM.SNAPSHOT.Z", {"deliver_subject": "snap", "chunk_size": 100_000}
            )
        client.settle()
        drop(client, "Z")


# JetStream --------------------------------------------------------------------------------------


def requests(target: Target) -> None:
    """20,000 requests of each of five kinds."""
    with target.client() as client:
        for verb in (b"INFO", b"STREAM.NAMES", b"STREAM.LIST", b"STREAM.INFO.none", b"UNKNOWN"):
            client.send(b"PUB $JS.API.%b answer 0\r\n\r\n" % verb * target.times(20_000))
        client.settle()


def acknowledgements(target: Target) -> None:
    """Publishers are answered on a subject with 20,000 subscriptions."""
    with target.client() as client, target.client() as other:
        create(other, "S", ["s"])
        count = target.times(20_000)
        client.send(b"".join(b"SUB acks %d\r\n" % sid for sid in range(count)))
        client.settle()
        other.send(b"PUB s acks 0\r\n\r\n" * 20)
        other.settle()
        client.settle()
        drop(other, "S")


def many_subjects(target: Target) -> None:
    """Streams of 3,000 subjects each, compared with each other."""
    count = target.times(3_000)
    with target.client() as client:
        for name, form in (("A", "a.{}.*"), ("B", "b.{}.*"), ("C", "c.*.{}")):
            create(client, name, [form.format(n) for n in range(count)])
        drop(client, "A", "B", "C")


def many_filters(target: Target) -> None:
    """A consumer of 20,000 filter subjects over 20,000 subjects."""
    count = target.times(20_000)
    with target.client() as client:
        create(client, "S", ["s.>"])
        fill(client, count)
        config = {"name": "C", "filter_subjects": [f"s.{n}.*" for n in range(count)]}
        client.request(b"CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        drop(client, "S")


def dead_end_filters(target: Target) -> None:
    """A consumer of 4,096 filters that agree with 20,000 subjects up to the last token."""
    depth = 12 if target.times(1_000) >= 1_000 else 8
    tokens = itertools.product("a*", repeat=depth)
    filters = [f"s.{'.'.join(each)}.z{n}" for n, each in enumerate(tokens)]
    with target.client() as client:
        create(client, "S", ["s.>"])
        to = b"s." + b".".join([b"a"] * depth)
        count = target.times(20_000)
        client.send(b"".join(b"PUB %b.%d 0\r\n\r\n" % (to, n) for n in range(count)))
        client.settle()
        config = {"name": "C", "filter_subjects": filters}
        client.request(b"CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _x 0\r\n\r\n")
        client.request(b"CONSUMER.INFO.S.C")
        drop(client, "S")


def wildcard_expectations(target: Target) -> None:
    """200 expectations with wildcards over 50,000 subjects."""
    with target.client() as client:
        create(client, "S", ["s.>"])
        fill(client, target.times(50_000))
        block = b"NATS/1.0\r\n%b: 1\r\n%b-Subject: s.*.x\r\n\r\n" % (EXPECTS, EXPECTS)
        client.send(b"HPUB s.1 %d %d\r\n%b\r\n" % (len(block), len(block), block) * 200)
        client.settle()
        drop(client, "S")


def wildcard_reads(target: Target) -> None:
    """Last messages, subject lists and filtered purges by wildcards over 50,000 subjects."""
    with target.client() as client:
        create(client, "S", ["s.>"], allow_direct=True)
        fill(client, target.times(50_000))
        for _ in range(5):
            client.request(b"STREAM.INFO.S", {"subjects_filter": ">"})
            client.send(b'PUB $JS.API.DIRECT.GET.S _x 24\r\n{"multi_last":["s.*.x"]}\r\n')
        client.settle()
        for n in range(5):
            client.request(b"STREAM.PURGE.S", {"filter": f"s.*.{n}"})
        client.request(b"STREAM.PURGE.S", {"filter": "s.*.x", "keep": 3})
        drop(client, "S")


def single_byte_restore(target: Target) -> None:
    """60 MB of a restore, then 3,000 chunks of one byte."""
    with target.client() as client:
        body = {"config": {"name": "R", "subjects": ["r"]}, "state": {}}
        answer = json.loads(client.request(b"STREAM.RESTORE.R", body))
        to = answer.get("deliver_subject", "nowhere").encode()
        head = ArchiveWriter().head(StreamConfig(name="R"), StreamState())
        entry = tarfile.TarInfo("messages-00000001.bin")
        entry.size = 100 * 1024 * 1024
        data = head + entry.tobuf(tarfile.USTAR_FORMAT) + bytes(target.times(60_000_000))
        for start in range(0, len(data), 500_000):
            piece = data[start : start + 500_000]
            client.send(b"PUB %b %d\r\n%b\r\n" % (to, len(piece), piece))
        client.send(b"PUB %b 1\r\nx\r\n" % to * target.times(3_000))
        client.send(b"PUB %b 0\r\n\r\n" % to)
        client.settle()


def streams(target: Target) -> None:
    """200 file streams made and removed."""
    with target.client() as client:
        for number in range(target.times(200)):
            create(client, f"T{number}", [f"t{number}"], storage="file")
        drop(client, *(f"T{number}" for number in range(target.times(200))))


def consumers(target: Target) -> None:
    """2,000 consumers of one stream, notified of each message, and removed with it."""
    with target.client() as client:
        create(client, "S", ["s.>"])
        for number in range(target.times(2_000)):
            body = json.dumps({"stream_name": "S", "config": {"name": f"C{number}"}}).encode()
            client.send(
                b"PUB $JS.API.CONSUMER.CREATE.S.C%d _x %d\r\n%b\r\n" % (number, len(body), body)
            )
        client.settle()
        fill(client, target.times(200))
        drop(client, "S")


def waiting_pulls(target: Target) -> None:
    """50,000 pull requests that wait."""
    with target.client() as client:
        create(client, "S", ["s.>"])
        client.request(b"CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})
        body = b'{"batch":10,"expires":60000000000}'
        line = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _x %d\r\n%b\r\n" % (len(body), body)
        client.send(line * target.times(50_000))
        client.settle()
        drop(client, "S")


def last_per_subject(target: Target) -> None:
    """100 consumers that start with the last message of each of 50,000 subjects."""
    with target.client() as client:
        create(client, "S", ["s.>"])
        fill(client, target.times(50_000))
        for number in range(target.times(100)):
            config = {"name": f"C{number}", "deliver_policy": "last_per_subject"}
            config["filter_subject"] = "s.>"
            verb = b"CONSUMER.CREATE.S.C%d.s.>" % number
            client.request(verb, {"stream_name": "S", "config": config})
        drop(client, "S")


def message_ids(target: Target) -> None:
    """50,000 messages with ids, twice."""
    blocks = (b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % n for n in range(target.times(50_000)))
    data = b"".join(b"HPUB s.1 %d %d\r\n%b\r\n" % (len(b), len(b), b) for b in blocks)
    with target.client() as client:
        create(client, "S", ["s.>"])
        client.send(data + data)
        client.settle()
        drop(client, "S")


def half_batches(target: Target) -> None:
    """2,000 atomic batches that are started and never committed."""
    with target.client() as client:
        create(client, "S", ["s.>"], allow_atomic=True)
        for number in range(target.times(2_000)):
            block = b"NATS/1.0\r\nNats-Batch-Id: b%d\r\nNats-Batch-Sequence: 1\r\n\r\n" % number
            client.send(b"HPUB s.1 _x %d %d\r\n%b\r\n" % (len(block), len(block), block))
        client.settle()
        drop(client, "S")


def large_bodies(target: Target) -> None:
    """Request bodies of 1 MB: nested, wide, the same key again and again."""
    size = target.times(1_000_000)
    bodies = (
        b"[" * size,
        b'{"subjects":[' + b'"x",' * (size // 4) + b'"x"]}',
        b"{" + b'"name":"x",' * (size // 11) + b'"name":"x"}',
        b'{"name":"x","metadata":{' + b",".join(b'"%d":""' % n for n in range(size // 10)) + b"}}",
        b'"' + b"\\u0000" * (size // 6) + b'"',
    )
    with target.client() as client:
        for verb in (
            b"STREAM.CREATE.x",
            b"CONSUMER.CREATE.x.y",
            b"STREAM.NAMES",
            b"STREAM.PURGE.x",
        ):
            for body in bodies:
                client.request(verb, body[:1_000_000])


# Monitoring -------------------------------------------------------------------------------------


def monitoring(target: Target) -> None:
    """300 requests for everything that monitoring knows, of 2,000 subscriptions."""
    with target.client() as client:
        count = target.times(2_000)
        client.send(b"".join(b"SUB m.%d %d\r\n" % (n, n) for n in range(count)))
        client.settle()
        paths = ("/connz?subs=detail", "/subsz?subs=1", "/jsz?streams=1&consumers=1", "/metrics")
        for number in range(target.times(300)):
            with socket.create_connection(("127.0.0.1", target.http_port), timeout=60) as http:
                path = paths[number % len(paths)]
                http.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                )
                while http.recv(1 << 20):
                    pass


def half_monitoring(target: Target) -> None:
    """1,200 half requests to the monitoring port, which stay."""
    for _ in range(target.times(1_200)):
        http = socket.create_connection(("127.0.0.1", target.http_port), timeout=60)
        http.sendall(b"GET /varz HTTP/1.1\r\nHo")
        target.stay(http)


Hostile = Callable[[Target], None]
HOSTILE: Final[tuple[Hostile, ...]] = (
    same_subject, subscriptions_left_by_connect, wildcard_subscriptions, dead_ends,
    unlike_dead_ends, queue_names, large_fan_out, alternating, unknown_unsubscriptions, pings,
    changing_subjects, denied_messages, denied_subscriptions, connects, connections,
    busy_connections, no_responders, large_messages, many_headers, half_open, single_bytes,
    garbage, half_closed, wrong_passwords,
    logins_that_leave, slow_readers, unread_answers, unread_consumer, unread_snapshot, requests,
    acknowledgements, many_subjects, many_filters, dead_end_filters, wildcard_expectations,
    wildcard_reads, single_byte_restore, streams, consumers, waiting_pulls, last_per_subject,
    message_ids, half_batches, large_bodies, monitoring, half_monitoring,
)  # fmt: skip
TLS: Final[tuple[Hostile, ...]] = (tls_halves, tls_logins)
