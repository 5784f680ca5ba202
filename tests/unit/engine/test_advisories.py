"""What the engine tells about itself (wire.md, Advisories), and when (contracts.md, Commit)."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.api.advisory import ClientInfo, MaxDeliveries
from jetspark.api.stream import StreamConfig
from jetspark.engine.outbox import Entry
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.config import prepared

CREATE = b'{"name":"S","subjects":["s.>"]}'


class Somebody:
    def client_info(self) -> ClientInfo:
        return ClientInfo(name="me", acc="$G", kind="Client")


@pytest.fixture
def heard(bench: Bench) -> Bench:
    """Someone listens to everything."""
    bench.ports.listening = lambda _subject: True
    return bench


def ask(bench: Bench, verb: bytes, body: bytes = b"") -> list[Entry]:
    handle(bench.engine, verb, body, b"r", bench.now, bench.outbox, requester=Somebody())
    return bench.sent()


def events(entries: list[Entry]) -> dict[str, dict[str, Any]]:
    return {
        entry[1].decode(): json.loads(entry[4])
        for entry in entries
        if entry[1].startswith(b"$JS.EVENT.")
    }


def test_a_new_stream_is_reported_with_its_audit(heard: Bench) -> None:
    told = events(ask(heard, b"STREAM.CREATE.S", CREATE))

    assert list(told) == ["$JS.EVENT.ADVISORY.STREAM.CREATED.S", "$JS.EVENT.ADVISORY.API"]
    created = told["$JS.EVENT.ADVISORY.STREAM.CREATED.S"]
    assert list(created) == ["type", "id", "timestamp", "stream", "action"]
    assert created["type"] == "io.nats.jetstream.advisory.v1.stream_action"
    assert (created["stream"], created["action"]) == ("S", "create")
    assert len(created["id"]) == 22
    audit = told["$JS.EVENT.ADVISORY.API"]
    assert audit["subject"] == "$JS.API.STREAM.CREATE.S"
    assert audit["request"] == CREATE.decode()
    assert json.loads(audit["response"])["did_create"] is True
    assert audit["client"] == {"acc": "$G", "name": "me", "kind": "Client"}


def test_repeating_a_create_tells_only_of_the_request(heard: Bench) -> None:
    ask(heard, b"STREAM.CREATE.S", CREATE)

    assert list(events(ask(heard, b"STREAM.CREATE.S", CREATE))) == ["$JS.EVENT.ADVISORY.API"]


def test_no_advisory_is_sent_without_a_subscriber(bench: Bench) -> None:
    assert [entry[1] for entry in ask(bench, b"STREAM.CREATE.S", CREATE)] == [b"r"]


def test_an_update_is_reported_when_it_is_durable(heard: Bench) -> None:
    ask(heard, b"STREAM.CREATE.S", CREATE)

    before = ask(heard, b"STREAM.UPDATE.S", b'{"name":"S","subjects":["t.>"]}')
    heard.submit()
    heard.land()

    assert before == []
    told = events(heard.sent())
    assert told["$JS.EVENT.ADVISORY.STREAM.UPDATED.S"]["action"] == "modify"
    assert json.loads(told["$JS.EVENT.ADVISORY.API"]["response"])["config"]["subjects"] == ["t.>"]


def test_an_update_that_the_disk_refused_is_reported_as_a_failure(heard: Bench) -> None:
    ask(heard, b"STREAM.CREATE.S", CREATE)
    ask(heard, b"STREAM.UPDATE.S", b'{"name":"S","subjects":["t.>"]}')
    heard.submit()

    heard.fail(OSError(errno.ENOSPC, "full"))

    told = events(heard.sent())
    assert list(told) == ["$JS.EVENT.ADVISORY.API"]
    answer = json.loads(told["$JS.EVENT.ADVISORY.API"]["response"])
    assert answer["error"]["err_code"] == 10023


def test_a_read_message_is_not_audited_and_a_missing_one_is(heard: Bench) -> None:
    stream = heard.create()
    heard.store(stream, b"s.a", b"x")

    read = events(ask(heard, b"STREAM.MSG.GET.S", b'{"seq":1}'))
    missing = events(ask(heard, b"STREAM.MSG.GET.S", b'{"seq":9}'))

    assert read == {}
    assert list(missing) == ["$JS.EVENT.ADVISORY.API"]


def test_an_unknown_verb_is_not_audited(heard: Bench) -> None:
    assert ask(heard, b"STREAM.NONSENSE.S") == []


def test_a_stream_can_keep_advisories(bench: Bench) -> None:
    kept = bench.engine.create_stream(
        prepared(StreamConfig(name="EVENTS", subjects=("$JS.EVENT.ADVISORY.STREAM.>",))),
        bench.now,
    )
    bench.ports.listening = lambda subject: bench.engine.resolve(subject) is not None

    ask(bench, b"STREAM.CREATE.S", CREATE)
    bench.submit()
    bench.land()

    assert kept.log.index.messages == 1
    (message,) = bench.get(kept, b"", b"$JS.EVENT.ADVISORY.STREAM.CREATED.S")
    assert json.loads(message[4])["stream"] == "S"


def test_an_advisory_about_a_record_waits_for_it(heard: Bench) -> None:
    stream = heard.create()
    heard.publish(stream, b"s.a", b"x")
    event = MaxDeliveries(stream="S", consumer="c", stream_seq=1, deliveries=2)

    heard.engine.advisories.hold(event, stream, heard.now, heard.outbox)
    before = heard.sent()
    heard.submit()
    heard.land()

    assert before == []
    assert list(events(heard.sent())) == ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.c"]
