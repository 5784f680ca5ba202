"""What users with permissions may see and do, over sockets (docs/server.md, users)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.replicas import ask

import jetspark
from jetspark import Client, StreamConfig
from jetspark.errors import Error


@asynccontextmanager
async def served(
    folder: Path, permissions: str, padding: bytes = b""
) -> AsyncIterator[tuple[Client, Client]]:
    """A server with an administrator and ``eve``, who has these permissions; a client of each."""
    file = folder / "server.conf"
    file.write_text(
        "port: -1\nhost: 127.0.0.1\njetstream: enabled\n"
        "authorization { users [ { user: admin, password: pw }\n"
        f"  {{ user: eve, password: pw, permissions {{ {permissions} }} }} ] }}\n"
    )
    async with (
        jetspark.Server(config=file, store_dir=folder / "store") as server,
        await jetspark.connect(server.client_url, user="admin", password="pw") as admin,
        await jetspark.connect(server.client_url, user="eve", password="pw") as eve,
    ):
        js = admin.jetstream()
        await js.create_stream(StreamConfig(name="S", subjects=("s.>",), allow_direct=True))
        await js.publish("s.open", b"open" + padding)
        await js.publish("s.secret", b"secret" + padding)
        yield admin, eve


async def denied(client: Client, subject: str, body: bytes = b"") -> bool:
    """Whether a request is refused as not permitted."""
    try:
        await ask(client, subject, body)
    except Error as error:
        return "ermission" in str(error)
    return False


async def test_a_wildcard_does_not_read_what_the_same_request_may_not_name(tmp_path: Path) -> None:
    deny = (
        'publish { deny: ["$JS.API.DIRECT.GET.S.s.secret", '
        '"$JS.API.CONSUMER.CREATE.S.*.s.secret"] }'
    )
    async with served(tmp_path, deny) as (_, eve):
        direct = "$JS.API.DIRECT.GET.S"
        assert (await ask(eve, f"{direct}.s.open")).data == b"open"
        for appended in ("s.secret", "s.*", "s.>", "*.secret", "*.*", ">"):
            assert await denied(eve, f"{direct}.{appended}"), appended
        for kept in ("s.secret", "s.*", "s.>", "*.*", ">"):
            body = {"stream_name": "S", "config": {"name": "c", "filter_subject": kept}}
            subject = f"$JS.API.CONSUMER.CREATE.S.c.{kept}"
            assert await denied(eve, subject, json.dumps(body).encode()), kept


async def test_an_allowed_wildcard_covers_no_deeper_one(tmp_path: Path) -> None:
    allow = 'publish { allow: "$JS.API.DIRECT.GET.S.s.*" }'
    async with served(tmp_path, allow) as (_, eve):
        assert (await ask(eve, "$JS.API.DIRECT.GET.S.s.*")).data == b"secret"
        assert await denied(eve, "$JS.API.DIRECT.GET.S.s.>")


async def test_an_answer_of_a_service_cannot_be_made_a_request_that_is_not_permitted(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, 'publish { deny: "$JS.API.STREAM.DELETE.>" }') as (admin, eve):
        await admin.subscribe("svc", callback=lambda message: message.respond(b""))
        await admin.flush()
        eve.publish("svc", reply="$JS.API.STREAM.DELETE.S")
        await eve.flush()
        assert (await eve.request("svc")).data == b""

        assert (await (await admin.jetstream().stream("S")).info()).state.messages == 2


async def test_a_tap_does_not_wake_a_push_consumer(tmp_path: Path) -> None:
    async with served(tmp_path, 'publish { deny: ">" }') as (admin, eve):
        tap = await eve.subscribe(">")
        await eve.flush()
        body = {
            "stream_name": "S",
            "config": {"durable_name": "p", "deliver_subject": "d", "ack_policy": "explicit"},
        }
        await admin.request("$JS.API.CONSUMER.DURABLE.CREATE.S.p", json.dumps(body).encode())
        await admin.flush()
        await eve.flush()
        info = json.loads((await admin.request("$JS.API.CONSUMER.INFO.S.p")).data)
        seen = []
        while tap.pending_msgs:
            seen.append((await tap.next()).subject)

        assert info["delivered"]["consumer_seq"] == 0
        assert not info.get("push_bound")
        assert not [subject for subject in seen if subject.startswith("s.")]


@pytest.mark.parametrize("padding", [b"", bytes(600_000)], ids=["small", "large"])
async def test_what_is_sent_to_a_denied_inbox_is_not_seen_by_a_tap(
    tmp_path: Path, padding: bytes
) -> None:
    """Consumers send messages under the subjects that they were stored with."""
    deny = 'subscribe { deny: "_INBOX.private.>" }'
    async with served(tmp_path, deny, padding) as (admin, eve):
        taps = [await eve.subscribe(">"), await eve.subscribe(">", queue="q")]
        await eve.flush()
        private = await admin.subscribe("_INBOX.private.1")
        pushed = await admin.subscribe("_INBOX.private.2")
        for name, config in (("c", {}), ("p", {"deliver_subject": "_INBOX.private.2"})):
            body = {"stream_name": "S", "config": {"name": name, **config}}
            subject = f"$JS.API.CONSUMER.CREATE.S.{name}"
            await admin.request(subject, json.dumps(body).encode())
        admin.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":2}', reply="_INBOX.private.1")
        admin.publish("$JS.API.DIRECT.GET.S.s.open", b"", reply="_INBOX.private.1")
        for subscription, count in ((private, 3), (pushed, 2)):
            for _ in range(count):
                await subscription.next()
        await eve.flush()
        seen = []
        for tap in taps:
            while tap.pending_msgs:
                seen.append((await tap.next()).data)

        assert not {b"open" + padding, b"secret" + padding} & set(seen)


async def test_a_large_message_is_delivered_to_none_who_may_not_have_its_subject(
    tmp_path: Path,
) -> None:
    """Read back without a copy, to the only subscriber of an inbox and to one of several."""
    padding = bytes(600_000)
    async with served(tmp_path, 'subscribe { deny: "s.secret" }', padding) as (admin, eve):
        await eve.subscribe("s.*")  # as on nats-server, only then are deliveries checked
        for taps in range(2):
            if taps:
                await admin.subscribe("_INBOX.eve.>")
                await admin.flush()
            inbox = await eve.subscribe(f"_INBOX.eve.{taps}")
            await eve.flush()
            push = {"name": f"p{taps}", "deliver_subject": f"_INBOX.eve.{taps}"}
            body = json.dumps({"stream_name": "S", "config": push}).encode()
            await admin.request(f"$JS.API.CONSUMER.CREATE.S.p{taps}", body)
            body = json.dumps({"stream_name": "S", "config": {"name": f"c{taps}"}}).encode()
            await admin.request(f"$JS.API.CONSUMER.CREATE.S.c{taps}", body)
            next_of = f"$JS.API.CONSUMER.MSG.NEXT.S.c{taps}"
            admin.publish(next_of, b'{"batch":2}', reply=f"_INBOX.eve.{taps}")
            seen = [(await inbox.next()).data for _ in range(2)]  # one of each consumer
            await admin.flush()
            await eve.flush()
            while inbox.pending_msgs:
                seen.append((await inbox.next()).data)

            assert {data[:6].rstrip(b"\0") for data in seen} == {b"open"}


async def test_a_user_without_the_subject_gets_no_advisories(tmp_path: Path) -> None:
    async with served(tmp_path, 'subscribe { deny: "$JS.EVENT.>" }') as (admin, eve):
        heard = await admin.subscribe("$JS.EVENT.>")
        tap = await eve.subscribe(">")
        await admin.flush()
        await eve.flush()
        await admin.jetstream().create_stream(StreamConfig(name="T", subjects=("t.>",)))
        await heard.next()
        await eve.flush()
        seen = []
        while tap.pending_msgs:
            seen.append((await tap.next()).subject)

        assert [subject for subject in seen if subject.startswith("$JS.EVENT.")] == []
        assert any(subject.startswith("$JS.API.STREAM.CREATE.") for subject in seen)


async def test_who_may_create_streams_reads_what_they_copy(tmp_path: Path) -> None:
    allow = 'publish: ["$JS.API.STREAM.CREATE.*", "$JS.API.DIRECT.GET.COPY"]'
    async with served(tmp_path, allow) as (_, eve):
        assert await denied(eve, "$JS.API.DIRECT.GET.S", b'{"seq":2}')
        copy = json.dumps({"name": "COPY", "mirror": {"name": "S"}, "allow_direct": True})
        assert b'"error"' not in (await ask(eve, "$JS.API.STREAM.CREATE.COPY", copy.encode())).data
        while (found := await ask(eve, "$JS.API.DIRECT.GET.COPY", b'{"seq":2}')).data != b"secret":
            assert found.data == b""


@pytest.mark.parametrize("subject", ["s.*", ">"])
async def test_without_publish_rules_wildcards_read_as_before(
    tmp_path: Path, subject: str
) -> None:
    async with served(tmp_path, 'subscribe { deny: "nothing" }') as (_, eve):
        assert (await ask(eve, f"$JS.API.DIRECT.GET.S.{subject}")).data == b"secret"
