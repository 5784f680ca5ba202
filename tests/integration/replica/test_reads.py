"""Reads at a replica: ADR-31's forms, ADR-53's follower, proof, Nats-Forwarded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.replicas import Stall, ask, ask_many, copied, replica_of
from tests.support.servers import ServerProcess
from tests.support.waiting import until

import jetspark
from jetspark import Client, KeyValue, KeyValueConfig
from jetspark.client.message import Message
from jetspark.engine.target import Target
from jetspark.errors import KeyNotFound, MinLastSequence, NoResponders
from jetspark.replica import ReplicaServer
from jetspark.server.routing.account_engine import AccountEngine, ServerWithoutJetStream

DIRECT = "$JS.API.DIRECT.GET.KV_cfg"
GET = "$JS.API.STREAM.MSG.GET.KV_cfg"


class Silent(ServerWithoutJetStream):
    """An engine that never answers."""

    def __init__(self, whole: AccountEngine) -> None:
        self._whole = whole

    def resolve(self, subject: bytes, /) -> Target | None:
        return self._whole.resolve(subject)


class Pair(NamedTuple):
    """A leader with the bucket cfg (a 1, b 1, a 2), a replica of it, and a client of each."""

    leader: jetspark.Server
    replica: ReplicaServer
    at_leader: Client
    at_replica: Client
    kv: KeyValue


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[Pair]:
    async with (
        jetspark.Server(min_last_seq_wait="100ms") as leader,
        replica_of(leader.client_url, **options) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as at_replica,
    ):
        js = at_leader.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="cfg", history=5))
        await kv.put("a", b"1")
        await kv.put("b", b"1")
        await kv.put("a", b"2")
        await copied(replica, "KV_cfg", 3)
        yield Pair(leader, replica, at_leader, at_replica, kv)


FORMS = [
    ("", b'{"seq":2}'),
    ("", b'{"seq":9}'),
    ("", b'{"last_by_subj":"$KV.cfg.a"}'),
    ("", b'{"next_by_subj":"$KV.cfg.*","seq":2}'),
    ("", b'{"start_time":"2020-01-01T00:00:00Z"}'),
    ("", b""),
    ("", b"{"),
    ("", b'{"seq":1,"last_by_subj":"$KV.cfg.a"}'),
    (".$KV.cfg.a", b""),
    (".$KV.cfg.nope", b""),
    (".$KV.cfg.a", b'{"seq":1}'),
    (".$KV.cfg.a", b'{"min_last_seq":3}'),
    ("", b'{"seq":1,"no_hdr":true}'),
]
BATCHES = [
    b'{"batch":2,"seq":1,"next_by_subj":"$KV.cfg.>"}',
    b'{"batch":5,"start_time":"2020-01-01T00:00:00Z","next_by_subj":"$KV.cfg.a"}',
    b'{"multi_last":["$KV.cfg.>"]}',
    b'{"multi_last":["$KV.cfg.>"],"up_to_seq":2,"min_last_seq":3}',
    b'{"multi_last":["$KV.cfg.x"]}',
]


async def test_every_form_of_a_direct_get_is_answered_here_as_the_leader_would() -> None:
    async with pair() as at:
        for appended, body in FORMS:
            theirs = await ask(at.at_leader, DIRECT + appended, body)
            ours = await ask(at.at_replica, DIRECT + appended, body)

            assert (ours.header_block, ours.data) == (theirs.header_block, theirs.data), body
        for body in BATCHES:
            expected = await ask_many(at.at_leader, DIRECT, body)
            assert await ask_many(at.at_replica, DIRECT, body) == expected, body
        assert at.replica.reads_answered == len(FORMS) + len(BATCHES)
        assert at.replica.reads_passed == 0


async def test_a_get_by_the_leaders_api_is_answered_here_only_with_a_sequence_to_prove() -> None:
    async with pair() as at:
        proven = await ask(at.at_replica, GET, b'{"last_by_subj":"$KV.cfg.a","min_last_seq":3}')
        here = at.replica.reads_answered
        plain = await ask(at.at_replica, GET, b'{"last_by_subj":"$KV.cfg.a"}')
        theirs = await ask(at.at_leader, GET, b'{"last_by_subj":"$KV.cfg.a"}')

        assert json.loads(proven.data)["min_last_seq"] == 3
        assert plain.data == theirs.data
        assert (here, at.replica.reads_answered) == (1, 1)


async def heard(client: Client, subject: str) -> list[Message]:
    """What passes on a subject, from now on."""
    messages: list[Message] = []
    await client.subscribe(subject, callback=messages.append)
    await client.flush()
    return messages


async def test_a_read_that_the_copy_cannot_answer_is_passed_on_once() -> None:
    async with pair() as at:
        passing = await heard(at.at_leader, f"{DIRECT}.>")
        Stall(at.replica).begin()
        await at.kv.put("a", b"3")

        fresh = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":4}')
        forwarded = await ask(
            at.at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":4}', {"Nats-Forwarded": "1"}
        )
        seen = [message.headers["Nats-Forwarded"] for message in passing]
        stale = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a")

        assert fresh.data == b"3"
        assert fresh.headers["Nats-Min-Last-Sequence"] == "4"
        assert seen == ["1"]
        assert (forwarded.status, forwarded.headers["Nats-Min-Last-Sequence"]) == (412, "3")
        # What the leader read for a client of this replica is not taken back.
        assert stale.data == b"3"


async def test_a_batch_that_the_copy_cannot_answer_comes_from_the_leader_whole() -> None:
    async with pair() as at:
        Stall(at.replica).begin()
        await at.kv.put("c", b"1")
        body = b'{"multi_last":["$KV.cfg.>"],"min_last_seq":4}'

        expected = await ask_many(at.at_leader, DIRECT, body)
        assert await ask_many(at.at_replica, DIRECT, body) == expected
        assert len(expected) == 4


async def test_a_read_waits_for_the_leader_and_then_gets_412() -> None:
    async with pair() as at:
        unmet = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":9}')
        refused = await ask(at.at_replica, GET, b'{"seq":1,"min_last_seq":9}')

        assert (unmet.status, unmet.headers["Nats-Min-Last-Sequence"]) == (412, "3")
        assert json.loads(refused.data)["error"]["err_code"] == 10180


async def test_what_a_client_wrote_through_the_replica_it_reads_there() -> None:
    """Not ADR-53's promise, which needs min_last_seq, but what users of one server expect."""
    async with pair() as at:
        kv = await at.at_replica.jetstream().key_value("cfg")
        Stall(at.replica).begin()
        for n in range(5):
            await kv.put("mine", b"%d" % n)
            assert (await kv.get("mine")).value == b"%d" % n
        await kv.delete("mine")

        with pytest.raises(KeyNotFound):
            await kv.get("mine")


async def test_a_forged_acknowledgement_does_not_keep_a_copy_from_being_read() -> None:
    async with pair() as at:
        heard = await at.at_replica.subscribe("a")
        await at.at_replica.flush()
        at.at_leader.publish("a", b'{"stream":"KV_cfg","seq":99}')
        await heard.next()
        assert at.replica.followed["KV_cfg"].shown == 99

        assert (await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a")).data == b"2"
        await until(lambda: at.replica.followed["KV_cfg"].shown == 3)


async def test_without_its_leader_a_replica_answers_what_it_can_and_says_no_in_time() -> None:
    async with pair() as at:
        kv = await at.at_replica.jetstream().key_value("cfg")
        await at.leader.close()
        await until(lambda: not at.replica.leader_is_up)

        assert (await kv.get("a")).value == b"2"
        assert (await kv.get("a", min_last_revision=3)).value == b"2"
        proven = await ask(at.at_replica, GET, b'{"seq":1,"min_last_seq":3}')
        assert json.loads(proven.data)["message"]["seq"] == 1
        started = asyncio.get_running_loop().time()
        unmet = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":4}')
        refused = await ask(at.at_replica, GET, b'{"seq":1,"min_last_seq":4}')
        with pytest.raises(MinLastSequence):
            await kv.get("a", min_last_revision=4, timeout=0.3)
        with pytest.raises(NoResponders):
            await at.at_replica.request("$KV.cfg.a", b"3")
        assert (unmet.status, json.loads(refused.data)["error"]["err_code"]) == (412, 10180)
        assert asyncio.get_running_loop().time() - started < 2


async def test_the_leaders_word_is_never_a_value_from_before_it_went() -> None:
    """The last writes before a leader goes may be missing here, and the copy cannot know."""
    async with pair() as at:
        stall = Stall(at.replica)
        stall.begin()
        await at.kv.put("a", b"3")
        await at.leader.close()
        await until(lambda: not at.replica.leader_is_up)
        for body in (b'{"last_by_subj":"$KV.cfg.a"}', b'{"seq":1}', b'{"next_by_subj":">"}'):
            for headers in (None, {"Nats-Forwarded": "1"}):
                assert (await ask(at.at_replica, GET, body, headers)).status == 503
        stall.end()


async def test_without_its_leader_a_bucket_can_be_opened_and_read_at_a_replica() -> None:
    async with pair() as at:
        before = await (await at.at_replica.jetstream().stream("KV_cfg")).info()
        await at.leader.close()
        await until(lambda: not at.replica.leader_is_up)
        async with await jetspark.connect(at.replica.client_url) as late:
            js = late.jetstream()

            kv = await js.key_value("cfg")
            info = await (await js.stream("KV_cfg")).info()
            missing = await ask(late, "$JS.API.STREAM.INFO.OTHER")

            assert (await kv.get("a")).value == b"2"
            # The list of streams, from which the replica knows it, has less in the metadata.
            same = before.config.replace(metadata=info.config.metadata)
            assert (info.config, info.created) == (same, before.created)
            assert info.state.last_seq == before.state.last_seq
            assert missing.status == 503


async def test_a_frozen_leader_does_not_keep_reads_waiting() -> None:
    """The connection exists and nothing comes: the read is refused like any unmet one."""
    async with pair() as at:
        assert at.leader._inner.default_account.driver is not None
        router = at.leader._inner.default_account.router
        router.engine = Silent(router.engine)

        unmet = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":4}')

        assert (unmet.status, unmet.headers["Nats-Min-Last-Sequence"]) == (412, "3")


async def test_streams_that_are_not_to_be_read_here_are_the_leaders() -> None:
    async with pair(no_reads=["KV_cfg"]) as at:
        reply = await ask(at.at_replica, f"{DIRECT}.$KV.cfg.a")

        assert reply.data == b"2"
        assert at.replica.reads_answered == 0


async def test_replicas_of_each_other_pass_nothing_on_and_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with jetspark.Server() as elsewhere:
        port = elsewhere.port
    async with replica_of(f"nats://127.0.0.1:{port}", store_dir=tmp_path / "one") as one:
        url = one.client_url
        async with (
            replica_of(url, port=port, store_dir=tmp_path / "two") as two,
            await jetspark.connect(url) as client,
        ):
            await until(lambda: caplog.text.count("or a replica of it") == 2)

            assert not one.leader_is_up
            assert not two.leader_is_up
            with pytest.raises(NoResponders):
                await client.request("$JS.API.INFO", timeout=1)
            answer = await ask(client, DIRECT, b'{"seq":1}', {"Nats-Forwarded": "1"})
            assert answer.status == 503


async def test_a_leader_without_min_last_seq_is_asked_by_info_and_msg_get(tmp_path: Path) -> None:
    """Nats-server refuses the field."""
    leader = ServerProcess("nats-server", tmp_path / "leader", "-js")
    try:
        async with (
            replica_of(leader.url, store_dir=tmp_path / "replica") as replica,
            await jetspark.connect(leader.url) as at_leader,
            await jetspark.connect(replica.client_url) as at_replica,
        ):
            kv = await at_leader.jetstream().create_key_value(KeyValueConfig(bucket="cfg"))
            await kv.put("a", b"1")
            await copied(replica, "KV_cfg", 1)
            Stall(replica).begin()
            await kv.put("a", b"2")
            info = await heard(at_leader, "$JS.API.STREAM.INFO.KV_cfg")

            direct = await ask(at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":2}')
            by_api = await ask(at_replica, GET, b'{"seq":2,"min_last_seq":2}')
            missing = await ask(at_replica, f"{DIRECT}.$KV.cfg.x", b'{"min_last_seq":2}')
            unmet = await ask(at_replica, f"{DIRECT}.$KV.cfg.a", b'{"min_last_seq":3}')
            batch = await ask_many(at_replica, DIRECT, b'{"multi_last":[">"],"min_last_seq":2}')

            theirs = await ask(at_leader, f"{DIRECT}.$KV.cfg.a")
            assert direct.header_block == theirs.header_block[:-2] + (
                b"Nats-Min-Last-Sequence: 2\r\n\r\n"
            )
            assert direct.data == b"2"
            assert json.loads(by_api.data)["min_last_seq"] == 2
            assert (missing.status, missing.headers["Nats-Min-Last-Sequence"]) == (404, "2")
            assert (unmet.status, unmet.headers["Nats-Min-Last-Sequence"]) == (412, "1")
            assert batch[-1][0].startswith(b"NATS/1.0 412")
            assert info
    finally:
        leader.kill()
