"""A hostile account next to another one: it learns nothing and changes nothing there.

Every request that the server knows is sent about a stream of the other account, and about a stream
that exists nowhere: the answers must be the same.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.campaigns.rights import Wire
from tests.support.waiting import until

from jetspark.engine.requests import consumers, dispatch
from jetspark.replica import connect_remote
from jetspark.server.config.loader import load_text
from jetspark.server.server import Server

VICTIM, NOWHERE = "VAULT", "NIHIL"
CONFIG = """
listen: "127.0.0.1:-1"
jetstream { store_dir: "%s" }
accounts {
  V { jetstream: enabled, users [ { user: victim, password: pw } ] }
  H { jetstream: enabled, users [ { user: hostile, password: pw }
      { user: limited, password: pw, permissions {
          publish { allow: ["own.>", "$JS.API.CONSUMER.CREATE.OWN.>", "$JS.API.STREAM.CREATE.*",
                            "$JS.API.STREAM.SNAPSHOT.OWN", "$JS.API.CONSUMER.MSG.NEXT.OWN.*",
                            "$JS.API.DIRECT.GET.OWN"] }
          subscribe { deny: ["secret.>"] } } } ] }
}
jetspark { remotes { hub { url: "nats://127.0.0.1:1", accounts: [V] } } }
"""
BODIES = (
    "", "{}", '{"seq":1}', '{"last_by_subj":"vault.a"}', '{"deliver_subject":"leak"}',
    '{"name":"{S}","subjects":["vault.>"]}', '{"stream_name":"{S}","config":{"name":"PULL"}}',
    '{"stream_name":"{S}","config":{"deliver_subject":"leak"}}', '{"multi_last":[">"]}',
    '{"config":{"name":"{S}","subjects":["vault.>"]},"state":{}}', '{"batch":5,"no_wait":true}',
    '{"name":"COPY","mirror":{"name":"{S}"}}', '{"subject":"vault.a"}', '{"subject":">"}',
    '{"name":"COPY","sources":[{"name":"{S}","external":{"api":"$JS.V.API"}}]}',
    '{"name":"COPY","mirror":{"name":"{S}","external":{"api":"$JS.hub.API"}}}',
)  # fmt: skip
VARYING = re.compile(
    r'\d{4}-\d\d-\d\dT[\d:.]+Z|"active":\s?-?\d+|\w{22}|"total":\s?\d+,\s?"errors":\s?\d+|'
    r'"name":\s?"\w{8}"'
)
# A request about a consumer that does not exist is not answered, as on nats-server.
UNANSWERED = ("$JS.API.CONSUMER.RESET.", "$JS.API.CONSUMER.UNPIN.")


def verbs() -> Iterator[str]:
    """Every request about a stream or a consumer, as the server itself knows them."""
    for name in dispatch._NAMED:
        yield f"{name.decode()}.{{S}}"
    yield from (name.decode() for name in dispatch._WHOLE)
    for verb, (_, _, count) in consumers._VERBS.items():
        yield f"CONSUMER.{verb}.{{S}}" + ".PULL" * (count - 1)
    for pair in consumers._TWO_WORDS:
        yield f"CONSUMER.{'.'.join(pair)}.{{S}}.PULL"
    yield from (
        "CONSUMER.CREATE.{S}", "CONSUMER.CREATE.{S}.PULL", "CONSUMER.CREATE.{S}.NEW.vault.a",
        "CONSUMER.MSG.NEXT.{S}.PULL", "DIRECT.GET.{S}", "DIRECT.GET.{S}.vault.a",
    )  # fmt: skip


class Client:
    """A connection that taps everything, and asks."""

    def __init__(self, wire: Wire, user: str) -> None:
        self.wire = wire
        self._user = user
        self._asked = 0

    @classmethod
    async def open(cls, server: Server, user: str, *taps: str) -> Client:
        client = cls(await Wire.open(server.port, user), user)
        for sid, tap in enumerate((*taps, "_ask.>")):
            client.wire.send(f"SUB {tap} {sid + 1}")
        await client.wire.flush()
        return client

    async def ask(self, subject: str, body: bytes = b"") -> str:
        """The first answer; empty if none comes in time."""
        inbox, sentinel = self._inbox(), self._inbox()
        self.wire.publish(subject, body, inbox)
        if subject.startswith(UNANSWERED):
            self.wire.publish("$JS.API.STREAM.NAMES", b"", sentinel)
        await self.wire.until(lambda: bool(self._answers(inbox) or self._answers(sentinel)))
        return (*self._answers(inbox), b"")[0].decode(errors="replace")

    def _inbox(self) -> str:
        self._asked += 1
        return f"_ask.{self._user}.{self._asked}"

    def _answers(self, inbox: str) -> list[bytes]:
        return [got.payload for got in self.wire.got if got.subject == inbox]

    async def api(self, verb: str, body: object = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        found: dict[str, Any] = json.loads(await self.ask(f"$JS.API.{verb}", data))
        return found

    async def made(self, verb: str, body: object = None) -> dict[str, Any]:
        answer = await self.api(verb, body)
        assert "error" not in answer, answer
        return answer


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Server]:
    settings = load_text(CONFIG % folder, {})
    async with Server(config=settings, upstreams=connect_remote) as server:
        yield server


async def furnish(victim: Client) -> None:
    """What there is to steal: a stream with a secret, consumers, a service, inboxes."""
    config = {"name": VICTIM, "subjects": ["vault.>"], "allow_direct": True}
    await victim.made(
        f"STREAM.CREATE.{VICTIM}", {**config, "republish": {"src": ">", "dest": "again.>"}}
    )
    pushed = {"deliver_subject": "pushed"}
    for name, more in (("PULL", {}), ("PUSH", pushed)):
        await victim.made(
            f"CONSUMER.CREATE.{VICTIM}.{name}",
            {"stream_name": VICTIM, "config": {"name": name, "ack_policy": "explicit", **more}},
        )
    for subject in ("vault.a", "vault.b"):
        await victim.ask(subject, b"SECRET")


async def state(victim: Client) -> list[str]:
    """Everything about it that could change."""
    found = [
        await victim.api("STREAM.LIST", {}),
        await victim.api(f"STREAM.INFO.{VICTIM}", {"subjects_filter": ">"}),
        await victim.api(f"CONSUMER.LIST.{VICTIM}", {}),
        await victim.api(f"STREAM.MSG.GET.{VICTIM}", {"seq": 1}),
        (await victim.api("INFO"))["streams"],
    ]
    return [VARYING.sub("T", json.dumps(each)) for each in found]


def scrubbed(text: str, name: str) -> str:
    return VARYING.sub("T", text.replace(name, "{S}"))


async def clean(hostile: Client) -> None:
    for name in (await hostile.api("STREAM.NAMES"))["streams"] or ():
        await hostile.api(f"STREAM.DELETE.{name}")


async def test_requests_about_another_account_find_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        victim = await Client.open(server, "victim", ">")
        await furnish(victim)
        before = await state(victim)
        hostile = await Client.open(server, "hostile")
        for verb, body in itertools.product(sorted(set(verbs())), BODIES):
            answers = []
            for name in (VICTIM, NOWHERE):
                subject = "$JS.API." + verb.replace("{S}", name)
                data = body.replace("{S}", name).encode()
                answers.append(scrubbed(await hostile.ask(subject, data), name))
                if "CREATE" in verb or "RESTORE" in verb:
                    await clean(hostile)
            assert answers[0] == answers[1], (verb, body)

        assert await state(victim) == before
        assert [got for got in hostile.wire.got if b"SECRET" in got.payload] == []
        await victim.wire.close()
        await hostile.wire.close()


# What the server itself publishes or answers on behalf of a client.
SERVER_SUBJECTS = (
    "pushed", "again.vault.a", "vault.a", "svc", "_ask.victim.1", "_ask.victim.9", "_INBOX.x",
    "$JS.ACK.VAULT.PULL.1.1.1.1.1", "$JS.ACK.VAULT.PUSH.1.1.1.1.1", "$JS.FC.VAULT.PUSH.x",
    "$JS.SNAPSHOT.ACK.VAULT.x", "$JS.SNAPSHOT.RESTORE.VAULT.x",
    "$JS.EVENT.ADVISORY.API", "$JS.EVENT.ADVISORY.STREAM.CREATED.VAULT",
    "$JS.EVENT.METRIC.CONSUMER.ACK.VAULT.PULL", "$JS.V.API.STREAM.DELETE.VAULT",
    "$JS.hub.API.STREAM.DELETE.VAULT", "$JS.API.STREAM.DELETE.VAULT", "$SRV.PING",
    "$SYS.REQ.ACCOUNT.V.JSZ", "$SYS.REQ.SERVER.PING", "$SYS.ACCOUNT.V.CONNECT",
    "$SYS.REQ.USER.INFO", "$G.vault.a", "V.vault.a", "_R_.x", "$NRG.x",
)  # fmt: skip
TAPS = (">", "$JS.>", "$SYS.>", "_INBOX.>", "_ask.>", "*.>", "$JS.EVENT.>", "$JS.ACK.>", "$SRV.>")


async def test_nothing_that_an_account_sends_reaches_another(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        hostile = await Client.open(server, "hostile", *TAPS)
        victim = await Client.open(server, "victim", ">", "$JS.EVENT.>", "pushed", "svc")
        await furnish(victim)
        pull = f"$JS.API.CONSUMER.MSG.NEXT.{VICTIM}.PULL"
        # A waiting pull, and a message that is not acknowledged, for others to answer.
        victim.wire.publish(pull, b'{"batch":1}', "_ask.victim.pull")
        await victim.wire.until(lambda: any(".PULL." in got.reply for got in victim.wire.got))
        victim.wire.publish(pull, b'{"batch":9,"expires":60000000000}', "_ask.victim.pull")
        await victim.wire.flush()
        await victim.ask("$SYS.REQ.USER.INFO")
        before = await state(victim)
        heard = len(victim.wire.got)
        for subject, verdict in itertools.product(SERVER_SUBJECTS, (b"ATTACK", b"+ACK", b"+TERM")):
            hostile.wire.publish(subject, verdict + b" ATTACK", "_ask.victim.1")
            hostile.wire.publish(subject, verdict)
        for name in ("OWN", VICTIM):
            config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
            config["republish"] = {"src": ">", "dest": "pushed.>"}
            await hostile.made(f"STREAM.CREATE.{name}", config)
            await hostile.ask(f"{name}.x", b"ATTACK")
            push = {"name": "P", "deliver_subject": "pushed", "ack_policy": "none"}
            await hostile.made(f"CONSUMER.CREATE.{name}.P", {"stream_name": name, "config": push})
            await hostile.ask(f"$JS.API.DIRECT.GET.{name}", b'{"seq":1}')
        await hostile.wire.flush()
        assert await state(victim) == before
        await victim.ask("vault.c", b"SECRET")
        await hostile.wire.flush()

        assert [got for got in hostile.wire.got if b"SECRET" in got.payload] == []
        assert [got for got in hostile.wire.got if VICTIM in got.subject and "EVENT" in got.subject
                and b"vault" in got.payload] == []  # fmt: skip
        later = victim.wire.got[heard:]
        assert [got for got in later if b"ATTACK" in got.payload] == []
        await victim.wire.close()
        await hostile.wire.close()


DELETE = "$JS.API.STREAM.DELETE.OTHER"


async def test_the_server_asks_nothing_in_the_name_of_a_user(tmp_path: Path) -> None:
    """A user that may not delete a stream makes the server send messages to that request."""
    async with served(tmp_path) as server:
        admin = await Client.open(server, "hostile")
        for name in ("OWN", "OTHER"):
            own = {"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True}
            await admin.made(f"STREAM.CREATE.{name}", own)
        await admin.made(
            "CONSUMER.CREATE.OWN.PULL",
            {"stream_name": "OWN", "config": {"name": "PULL", "ack_policy": "none"}},
        )
        user = await Client.open(server, "limited")
        await user.ask("own.a", b"{}")
        # By the reply of a publish, a request, a pull and a direct get.
        user.wire.publish("own.b", b"{}", DELETE)
        user.wire.publish("$JS.API.CONSUMER.MSG.NEXT.OWN.PULL", b"5", DELETE)
        user.wire.publish("$JS.API.DIRECT.GET.OWN", b'{"seq":1}', DELETE)
        # By a deliver subject, of a consumer and of a snapshot. Someone listens, so they are sent.
        admin.wire.send(f"SUB {DELETE} 50")
        await admin.wire.flush()
        push = {"name": "P", "deliver_subject": DELETE, "ack_policy": "none"}
        await user.made("CONSUMER.CREATE.OWN.P", {"stream_name": "OWN", "config": push})
        await user.made("STREAM.SNAPSHOT.OWN", {"deliver_subject": DELETE})
        # By republishing, and by a transform.
        delete = "$JS.API.STREAM.DELETE.{{wildcard(1)}}"
        for name, more in (
            ("R1", {"republish": {"src": "r1.*", "dest": delete}}),
            ("R2", {"subject_transform": {"src": "r2.*", "dest": delete}}),
        ):
            config: dict[str, Any] = {"name": name, "subjects": [f"{name.lower()}.>"], **more}
            await user.made(f"STREAM.CREATE.{name}", config)
            await admin.ask(f"{name.lower()}.OTHER", b"{}")
        await admin.wire.until(lambda: sum(got.sid == "50" for got in admin.wire.got) >= 3)
        await user.wire.flush()

        found = await admin.made("STREAM.INFO.OTHER")
        assert found["config"]["name"] == "OTHER"
        denied = [each for each in user.wire.errors if "STREAM.DELETE" in each]
        assert len(denied) == 3
        await user.wire.close()
        await admin.wire.close()


async def test_what_the_server_delivers_passes_the_denials_of_each_receiver(
    tmp_path: Path,
) -> None:
    """What is republished, transformed, pushed or a snapshot, to a user that may not have it."""
    async with served(tmp_path) as server:
        admin = await Client.open(server, "hostile", "secret.>")
        user = await Client.open(server, "limited", ">", "secret.>", "secret.push", "*.push")
        republish = {"src": ">", "dest": "secret.again.>"}
        await admin.made(
            "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "republish": republish}
        )
        push = {"name": "P", "deliver_subject": "secret.push", "ack_policy": "none"}
        await admin.made("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": push})
        admin.wire.send("SUB secret.push 99")
        for number in range(5):
            await admin.ask(f"s.{number}", b"TOP SECRET")
        await until(lambda: sum("$JS.ACK." in got.reply for got in admin.wire.got) >= 5)
        transform = {"src": "t.*", "dest": "secret.t.{{wildcard(1)}}"}
        await admin.made(
            "STREAM.CREATE.T",
            {"name": "T", "subjects": ["t.>"], "subject_transform": transform},
        )
        pushed = {"name": "P", "deliver_subject": "open.push", "ack_policy": "none"}
        await admin.made("CONSUMER.CREATE.T.P", {"stream_name": "T", "config": pushed})
        admin.wire.send("SUB open.push 100")
        await admin.ask("t.1", b"TOP SECRET")
        await admin.made("STREAM.SNAPSHOT.S", {"deliver_subject": "secret.snapshot"})
        for subject in ("secret.t.1", "secret.snapshot"):

            def arrived(subject: str = subject) -> bool:
                return any(got.subject == subject for got in admin.wire.got)

            await until(arrived)
        await user.wire.flush()

        assert any(got.subject.startswith("secret.again.") for got in admin.wire.got)
        assert any(got.subject == "s.4" for got in user.wire.got)
        delivered = [got.subject for got in user.wire.got if "$JS.ACK." in got.reply]
        republished = [got.subject for got in user.wire.got if got.subject.startswith("secret")]
        assert (delivered, republished) == ([], [])
        assert len([each for each in user.wire.errors if "secret" in each]) == 2
        await user.wire.close()
        await admin.wire.close()
