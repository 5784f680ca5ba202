"""Random permissions and random actions over sockets, next to a naive model of who may see what.

Users of one account subscribe, publish, ask and consume, at a server or at a replica of one.
Every message has a number of its own, so each one that arrives can be traced to where it was
published or stored; the model says who must get it, and everything else that arrives must be
permitted, too.
Nothing of ``jetspark.subjects`` or ``jetspark.server.auth`` is used in the model.
The short form is `tests/integration/security/test_rights_campaign.py`; `tools/torture.py` runs it
for long.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.replicas import FAST
from tests.support.waiting import until

import jetspark
from jetspark.replica import ReplicaServer

WORDS = ("a", "b", "c")
USERS = ("u0", "u1", "u2")
STREAM = "S"
STORED = "c.>"
DIRECT = f"$JS.API.DIRECT.GET.{STREAM}"
CREATE = f"$JS.API.CONSUMER.CREATE.{STREAM}"
NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}"
# What users may never do, so that what they may read is what the lists say about subjects.
FORBIDDEN = (
    DIRECT, f"$JS.API.STREAM.MSG.GET.{STREAM}", CREATE, f"{CREATE}.*",
    "$JS.API.CONSUMER.DURABLE.CREATE.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>",
    "$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>",
    "$JS.API.STREAM.RESTORE.>", "$JS.API.STREAM.SNAPSHOT.>", "$JS.API.CONSUMER.RESET.>",
)  # fmt: skip
ATTACKS = (
    (f"$JS.API.STREAM.DELETE.{STREAM}", ""),
    (f"$JS.API.STREAM.PURGE.{STREAM}", ""),
    (f"$JS.any.API.STREAM.DELETE.{STREAM}", ""),
    (f"{DIRECT}", ""),
    ("svc", f"$JS.API.STREAM.DELETE.{STREAM}"),
    ("svc", f"$JS.API.STREAM.PURGE.{STREAM}"),
    ("$JS.API.INFO", f"$JS.API.STREAM.DELETE.{STREAM}"),
)
SECONDS = 10.0


# What lists mean ------------------------------------------------------------------------------


def reads_as(pattern: str, text: str) -> bool:
    """The pattern matches a text whose wildcards are words like all others."""
    return _reads(pattern.split("."), text.split("."))


def _reads(pattern: list[str], words: list[str]) -> bool:
    if not pattern or not words:
        return not pattern and not words
    if pattern[0] == ">":
        return True
    return pattern[0] in {"*", words[0]} and _reads(pattern[1:], words[1:])


def covers(outer: str, inner: str) -> bool:
    """Everything that ``inner`` stands for, ``outer`` does."""
    return _covers(outer.split("."), inner.split("."))


def _covers(outer: list[str], inner: list[str]) -> bool:
    if not outer or not inner:
        return not outer and not inner
    if outer[0] == ">":
        return True
    if inner[0] == ">" or (inner[0] == "*" and outer[0] != "*"):
        return False
    return outer[0] in {"*", inner[0]} and _covers(outer[1:], inner[1:])


def overlaps(one: str, other: str) -> bool:
    """Both stand for some subject."""
    return _overlaps(one.split("."), other.split("."))


def _overlaps(one: list[str], other: list[str]) -> bool:
    if not one or not other:
        return not one and not other
    if ">" in (one[0], other[0]):
        return True
    return (one[0] == other[0] or "*" in (one[0], other[0])) and _overlaps(one[1:], other[1:])


def is_wild(subject: str) -> bool:
    return bool({"*", ">"} & set(subject.split(".")))


@dataclass
class Rights:
    """The lists of one user; None allows everything."""

    publish_allow: list[str] | None
    publish_deny: list[str]
    subscribe_allow: list[str] | None
    subscribe_deny: list[str]

    def may_publish(self, subject: str) -> bool:
        allow, deny = self.publish_allow, self.publish_deny
        if subject.startswith("$JS.") and is_wild(subject):
            return (allow is None or any(covers(each, subject) for each in allow)) and not any(
                overlaps(each, subject) for each in deny
            )
        return (allow is None or any(reads_as(each, subject) for each in allow)) and not any(
            reads_as(each, subject) for each in deny
        )

    def may_ask(self, subject: str, reply: str) -> bool:
        return self.may_publish(subject) and (
            not reply.startswith("$JS.") or self.may_publish(reply)
        )

    def may_subscribe(self, subject: str) -> bool:
        allow = self.subscribe_allow
        if any(reads_as(each, subject) for each in self.subscribe_deny):
            return False
        return allow is None or any(covers(each, subject) for each in allow)

    def may_get(self, subject: str) -> bool:
        return not any(reads_as(each, subject) for each in self.subscribe_deny)

    def reaches_denied(self, pattern: str) -> bool:
        return is_wild(pattern) and any(overlaps(each, pattern) for each in self.subscribe_deny)

    def block(self) -> str:
        """As the configuration says it."""
        sides = []
        for name, allow, deny in (
            ("publish", self.publish_allow, self.publish_deny),
            ("subscribe", self.subscribe_allow, self.subscribe_deny),
        ):
            allowed = f"allow: {json.dumps(allow)}, " if allow is not None else ""
            sides.append(f"{name} {{ {allowed}deny: {json.dumps(deny)} }}")
        return f"permissions {{ {', '.join(sides)} }}"


class Maker:
    """Random lists and subjects."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def subject(self) -> str:
        return ".".join(self.random.choices(WORDS, k=self.random.randint(1, 3)))

    def stored(self) -> str:
        return ".".join(["c", *self.random.choices(WORDS, k=self.random.randint(1, 2))])

    def pattern(self) -> str:
        words = self.random.choices((*WORDS, "*", "*"), k=self.random.randint(1, 3))
        if self.random.random() < 0.5:
            words[-1] = ">"
        return ".".join(words)

    def filter(self) -> str:
        return self.stored() if self.random.random() < 0.4 else self.pattern()

    def patterns(self, most: int) -> list[str]:
        return [self.pattern() for _ in range(self.random.randint(0, most))]

    def rights(self, user: str) -> Rights:
        others = [other for other in USERS if other != user]
        allow = None
        if self.random.random() < 0.5:
            allow = [*self.patterns(4), f"{NEXT}.{user}", "svc"]
            for each in self.patterns(3):
                allow += [f"{DIRECT}.{each}", f"{CREATE}.{user}.{each}"]
        deny = [self.stored(), *FORBIDDEN]
        deny += [f"{NEXT}.{other}" for other in others]
        deny += [f"{CREATE}.{other}.>" for other in others]
        for each in self.patterns(2):
            deny += [f"{DIRECT}.{each}", f"{CREATE}.{user}.{each}"]
        hear = [*self.patterns(4), f"_INBOX.{user}.>"] if self.random.random() < 0.4 else None
        silent = [self.filter(), *(f"_INBOX.{other}.>" for other in others)]
        return Rights(allow, deny, hear, [each for each in silent if each[0] not in "*>"])


# The wire -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Got:
    """A message that arrived."""

    sid: str
    subject: str
    reply: str
    payload: bytes


class Wire:
    """A raw connection that keeps what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pongs = 0
        self._came = asyncio.Event()
        self.got: list[Got] = []
        self.errors: list[str] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    @classmethod
    async def open(cls, port: int, user: str) -> Wire:
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        options = {
            "user": user, "pass": "pw", "verbose": False, "pedantic": False, "headers": True,
            "no_responders": True,
        }  # fmt: skip
        wire.send(f"CONNECT {json.dumps(options)}")
        await wire.flush()
        return wire

    def send(self, line: str, payload: bytes | None = None) -> None:
        self._writer.write(line.encode() + b"\r\n")
        if payload is not None:
            self._writer.write(payload + b"\r\n")

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        self.send(f"PUB {subject} {reply} {len(payload)}", payload)

    async def flush(self) -> None:
        """Wait until the server has seen everything, and what it sent before that came."""
        wanted = self._pongs + 1
        self.send("PING")
        await self.until(lambda: self._pongs >= wanted)

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not reached():
                self._came.clear()
                await self._came.wait()

    async def close(self) -> None:
        self._writer.close()
        await self._task

    async def _run(self) -> None:
        while line := await self._reader.readline():
            words = line.decode().split()
            if words[0] in {"MSG", "HMSG"}:
                await self._take(words)
            elif words[0] == "PING":
                self.send("PONG")
            elif words[0] == "PONG":
                self._pongs += 1
            elif words[0] == "-ERR":
                self.errors.append(line.decode().strip())
            self._came.set()

    async def _take(self, words: list[str]) -> None:
        sizes = 2 if words[0] == "HMSG" else 1
        reply = words[3] if len(words) > 3 + sizes else ""
        data = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
        payload = data[int(words[-2]) :] if sizes == 2 else data
        self.got.append(Got(words[2], words[1], reply, payload))


# The campaign ---------------------------------------------------------------------------------


@dataclass
class User:
    """One user: its lists, its connection, and what it subscribed to."""

    name: str
    rights: Rights
    wire: Wire
    # By sid: pattern and queue; those that ended stay in ``ended``.
    subscribed: dict[str, tuple[str, str]] = field(default_factory=dict)
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Whether it once subscribed to something that reaches into what is denied.
    checked: bool = False


class Campaign:
    """Users of one server with random operations; raises AssertionError."""

    def __init__(self, seed: int, *, replica: bool) -> None:
        self.seed = seed
        self.replica = replica
        self.make = Maker(seed)
        self.rights = {user: self.make.rights(user) for user in USERS}
        self.users: list[User] = []
        self.stored: list[tuple[str, bytes]] = []
        self.actions = self.delivered = self.denied = 0
        self._numbers = 0
        self._sids = 0

    async def run(self, folder: Path, actions: int) -> None:
        """Make a server of these users and act."""
        async with self._served(folder) as port:
            self.admin = await Wire.open(port, "admin")
            self.admin.send("SUB _INBOX.admin.> 1")
            await self._make_stream()
            for name in USERS:
                user = User(name, self.rights[name], await Wire.open(port, name))
                self.users.append(user)
                await self._subscribe(user, f"_INBOX.{name}.>", "")
            try:
                for _ in range(actions):
                    self.actions += 1
                    await self.make.random.choice(self._choices())()
                await self._check_stored()
            finally:
                for wire in (self.admin, *(user.wire for user in self.users)):
                    await wire.close()

    @asynccontextmanager
    async def _served(self, folder: Path) -> AsyncIterator[int]:
        users = ", ".join(
            f"{{ user: {name}, password: pw, {rights.block()} }}"
            for name, rights in self.rights.items()
        )
        text = (
            "port: -1\nhost: 127.0.0.1\njetstream: enabled\n"
            f"authorization {{ users [ {{ user: admin, password: pw }}, {users} ] }}\n"
        )
        file = folder / "server.conf"
        if not self.replica:
            file.write_text(text)
            async with jetspark.Server(config=file, store_dir=folder / "store") as server:
                yield server.port
            return
        async with jetspark.Server() as leader:
            file.write_text(f'{text}jetspark {{ replica {{ of: "{leader.client_url}" }} }}\n')
            copies = folder / "copies"
            async with ReplicaServer(config=file, store_dir=copies, times=FAST) as replica:
                self._copied = replica
                yield replica.port

    async def _make_stream(self) -> None:
        config = {"name": STREAM, "subjects": [STORED], "allow_direct": True}
        await self._ask_admin(f"STREAM.CREATE.{STREAM}", config)
        if self.replica:
            followed = self._copied.followed
            await until(lambda: STREAM in followed and followed[STREAM].whole)

    def _choices(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        return [
            self._sub, self._sub, self._unsub, self._pub, self._pub, self._pub, self._direct_get,
            self._direct_get, self._consume, self._race, self._attack,
        ]  # fmt: skip

    # Actions ----------------------------------------------------------------------------------

    def _anybody(self) -> User:
        return self.make.random.choice(self.users)

    async def _sub(self) -> None:
        queue = self.make.random.choice(("", "", "q1", "q2"))
        pattern = self.make.subject() if self.make.random.random() < 0.3 else self.make.pattern()
        await self._subscribe(self._anybody(), pattern, queue)

    async def _subscribe(self, user: User, pattern: str, queue: str) -> str:
        self._sids += 1
        sid = f"{self._sids}"
        before = len(user.wire.errors)
        user.wire.send(f"SUB {pattern} {queue} {sid}")
        await user.wire.flush()
        accepted = len(user.wire.errors) == before
        assert accepted == user.rights.may_subscribe(pattern), self._context(user, "SUB", pattern)
        if accepted:
            user.subscribed[sid] = (pattern, queue)
            user.checked = user.checked or user.rights.reaches_denied(pattern)
        else:
            self.denied += 1
        return sid if accepted else ""

    async def _unsub(self) -> None:
        user = self._anybody()
        sids = [sid for sid, (pattern, _) in user.subscribed.items() if "_INBOX" not in pattern]
        if sids:
            self._end(user, self.make.random.choice(sids))
            await user.wire.flush()

    def _end(self, user: User, sid: str) -> None:
        user.wire.send(f"UNSUB {sid}")
        user.ended[sid] = user.subscribed.pop(sid)

    async def _pub(self) -> None:
        user = self._anybody() if self.make.random.random() < 0.6 else None
        subject = self.make.stored() if self.make.random.random() < 0.5 else self.make.subject()
        await self._settle()
        payload = self._number()
        wire = self.admin if user is None else user.wire
        before = len(wire.errors)
        wire.publish(subject, payload)
        await wire.flush()
        accepted = len(wire.errors) == before
        if user is not None:
            assert accepted == user.rights.may_publish(subject), self._context(
                user, "PUB", subject
            )
        if not accepted:
            self.denied += 1
        elif reads_as(STORED, subject):
            self.stored.append((subject, payload))
            await self._reach()
        await self._expect([(subject, subject, payload)] if accepted else [])

    async def _direct_get(self) -> None:
        user = self._anybody()
        wanted = self.make.filter()
        reply = f"_INBOX.{user.name}.{self._sids}"
        accepted = await self._ask(user, f"{DIRECT}.{wanted}", b"", reply)
        found = [each for each in self.stored if reads_as(wanted, each[0])]
        await self._expect([(reply, reply, found[-1][1])] if accepted and found else [])

    async def _consume(self) -> None:
        user = self._anybody()
        wanted = self.make.filter()
        reply = f"_INBOX.{user.name}.{self._sids}"
        config = {"name": user.name, "filter_subject": wanted, "mem_storage": True}
        body = json.dumps({"stream_name": STREAM, "config": config}).encode()
        made = await self._ask(user, f"{CREATE}.{user.name}.{wanted}", body, reply)
        names = (await self._ask_admin(f"CONSUMER.NAMES.{STREAM}"))["consumers"]
        assert (user.name in names) == made, self._context(user, "CREATE", wanted)
        if not made:
            await self._expect([])
            return
        pull = b'{"batch":1000,"no_wait":true}'
        accepted = await self._ask(user, f"{NEXT}.{user.name}", pull, reply)
        await self._ask_admin(f"CONSUMER.INFO.{STREAM}.{user.name}")
        found = [each for each in self.stored if reads_as(wanted, each[0])] if accepted else []
        await self._expect([(reply, subject, payload) for subject, payload in found])
        await self._ask_admin(f"CONSUMER.DELETE.{STREAM}.{user.name}")

    async def _race(self) -> None:
        """Subscribe, and leave while messages are in flight."""
        user = self._anybody()
        sid = await self._subscribe(user, self.make.pattern(), "")
        await self._settle()
        for _ in range(5):
            subject = self.make.stored() if self.make.random.random() < 0.5 else "b"
            payload = self._number()
            self.admin.publish(subject, payload)
            if reads_as(STORED, subject):
                self.stored.append((subject, payload))
        if sid:
            self._end(user, sid)
        await self.admin.flush()
        await self._reach()
        await self._flush()
        for each in self.users:
            self._check_permitted(each, each.wire.got)
            each.wire.got.clear()

    async def _attack(self) -> None:
        user = self._anybody()
        subject, reply = self.make.random.choice(ATTACKS)
        await self._ask(user, subject, b"", reply)
        await self._expect([])

    async def _ask(self, user: User, subject: str, body: bytes, reply: str) -> bool:
        """Send a request; whether it was let through, which must be as the model says."""
        await self._settle()
        before = len(user.wire.errors)
        user.wire.publish(subject, body, reply)
        await user.wire.flush()
        accepted = len(user.wire.errors) == before
        assert accepted == user.rights.may_ask(subject, reply), self._context(user, subject, reply)
        self.denied += not accepted
        # Answers come after what waits for the disk: the same stream is asked once more.
        await self._ask_admin(f"STREAM.INFO.{STREAM}")
        return accepted

    # What must be, and what may be --------------------------------------------------------------

    async def _expect(self, events: list[tuple[str, str, bytes]]) -> None:
        """Each event is where it is sent, the subject that it has, and its number."""
        await self._flush()
        numbers = {payload for _, _, payload in events}
        seen = {
            user.name: Counter(got.sid for got in user.wire.got if got.payload in numbers)
            for user in self.users
        }
        wanted: dict[str, Counter[str]] = {user.name: Counter() for user in self.users}
        chosen: list[list[tuple[str, str]]] = []
        for route, subject, _ in events:
            queues: dict[str, list[tuple[str, str]]] = {}
            for user in self.users:
                for sid, (pattern, queue) in user.subscribed.items():
                    if not self._gets(user, pattern, route, subject):
                        continue
                    if queue:
                        queues.setdefault(queue, []).append((user.name, sid))
                    else:
                        wanted[user.name][sid] += 1
            chosen += queues.values()
        for user in self.users:
            self._check_permitted(user, user.wire.got)
            plain = {sid for sid, (_, queue) in user.subscribed.items() if not queue}
            got = Counter({s: n for s, n in seen[user.name].items() if s in plain})
            assert got == wanted[user.name], self._context(
                user, f"{events} {got}", wanted[user.name]
            )
            self.delivered += sum(got.values())
            user.wire.got.clear()
        in_queues = sum(
            count
            for user in self.users
            for sid, count in seen[user.name].items()
            if user.subscribed.get(sid, ("", ""))[1]
        )
        assert in_queues == len(chosen), (self.seed, events, seen, chosen)

    def _gets(self, user: User, pattern: str, route: str, subject: str) -> bool:
        rights = user.rights
        if not reads_as(pattern, route):
            return False
        if not user.checked:
            return True
        if self.replica and route != subject and rights.reaches_denied(pattern):
            return False
        return rights.may_get(route) and rights.may_get(subject)

    def _check_permitted(self, user: User, messages: list[Got]) -> None:
        """Whatever arrived came by a subscription that was permitted, and is not denied to it."""
        where = {payload: subject for subject, payload in self.stored}
        for got in messages:
            pattern, _ = user.subscribed.get(got.sid) or user.ended[got.sid]
            context = self._context(user, str(got), pattern)
            delivered = got.reply.startswith("$JS.ACK.")
            assert delivered or reads_as(pattern, got.subject), context
            if user.checked and is_wild(pattern):
                assert user.rights.may_get(got.subject), context
            if delivered or got.subject.startswith("_INBOX."):
                stored = where.get(got.payload, "")
                own = got.subject.startswith(f"_INBOX.{user.name}.") or delivered
                assert not stored or not user.checked or own, context

    async def _settle(self) -> None:
        """Nothing is in flight from before."""
        await self._flush()
        for user in self.users:
            self._check_permitted(user, user.wire.got)
            user.wire.got.clear()

    async def _flush(self) -> None:
        for wire in (self.admin, *(user.wire for user in self.users)):
            await wire.flush()

    async def _reach(self) -> None:
        """The stream has everything that was published; at a replica its clients know that."""
        async with asyncio.timeout(SECONDS):
            while True:
                info = await self._ask_admin(f"STREAM.INFO.{STREAM}")
                if info["state"]["last_seq"] >= len(self.stored):
                    return

    async def _check_stored(self) -> None:
        info = await self._ask_admin(f"STREAM.INFO.{STREAM}")
        assert info["state"]["messages"] == len(self.stored), (self.seed, info)

    async def _ask_admin(self, verb: str, body: object = None) -> dict[str, Any]:
        self._numbers += 1
        reply = f"_INBOX.admin.{self._numbers}"
        payload = b"" if body is None else json.dumps(body).encode()
        self.admin.publish(f"$JS.API.{verb}", payload, reply)

        def answers() -> list[Got]:
            return [got for got in self.admin.got if got.subject == reply]

        await self.admin.until(lambda: bool(answers()))
        answer: dict[str, Any] = json.loads(answers()[0].payload)
        self.admin.got.clear()
        return answer

    def _number(self) -> bytes:
        self._numbers += 1
        return b"number %d of %d" % (self._numbers, self.seed)

    def _context(self, user: User, what: str, more: object) -> str:
        return f"seed {self.seed}, action {self.actions}, {user.name} {user.rights}: {what} {more}"
