"""The stream requests of ``$JS.API`` (wire.md, API requests and Streams)."""

from __future__ import annotations

import errno
import json

import msgspec
import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.conftest import Bench


def create(bench: Bench, body: bytes, name: bytes = b"S") -> dict[str, object]:
    answer = msgspec.json.decode(bench.request(b"STREAM.CREATE." + name, body))
    assert isinstance(answer, dict)
    return answer


def err_code(answer: dict[str, object]) -> object:
    error = answer["error"]
    assert isinstance(error, dict)
    return error["err_code"]


def test_a_stream_is_created_once_and_an_identical_request_succeeds(bench: Bench) -> None:
    """nats-server 2.15.1, observed: a repeated create says did_create as well."""
    body = b'{"name":"S","subjects":["s.>"]}'

    assert create(bench, body)["did_create"] is True
    assert create(bench, body)["did_create"] is True
    assert list(bench.engine.streams) == ["S"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"name":"T"}', 10056),
        (b"", 10056),
        (b'{"name":"S","nonsense":1}', 10025),
        (b'{"name":"S","subjects":["a..b"]}', 10052),
        (b'{"name":"S","subjects":["a.>","a.b"]}', 10052),
        (b'{"name":"S","subjects":["$JS.API.>"]}', 10052),
        (b'{"name":"S","subjects":["other.1"]}', 10065),
        (b'{"name":"S","num_replicas":3}', 10074),
        (b'{"name":"S","max_age":1}', 10052),
        (b'{"name":"S","mirror":{"name":"OTHER"},"subjects":["s"]}', 10034),
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_is_refused(bench: Bench, body: bytes, code: int) -> None:
    bench.create("OTHER", "other.>")

    assert err_code(create(bench, body)) == code


def test_a_different_configuration_for_the_same_name_is_refused(bench: Bench) -> None:
    create(bench, b'{"name":"S","subjects":["s.>"]}')

    assert err_code(create(bench, b'{"name":"S","subjects":["t.>"]}')) == 10058


@pytest.mark.parametrize("what", ['"mirror":{%s}', '"sources":[{%s}]'])
def test_a_remote_that_is_not_configured_is_refused_by_name(bench: Bench, what: str) -> None:
    external = '"name":"X","external":{"api":"$JS.h.API"}'
    answer = create(bench, b'{"name":"S",%b}' % (what % external).encode())

    assert err_code(answer) == 10052
    assert "X has external.api '$JS.h.API'" in str(answer["error"])
    assert "none is configured" in str(answer["error"])


def test_a_deleted_stream_stays_deleted_after_a_restart(bench: Bench) -> None:
    stream = bench.create()
    bench.store(stream, b"s.1", b"x")

    assert b'"success":true' in bench.request(b"STREAM.DELETE.S")
    assert b'"err_code":10059' in bench.request(b"STREAM.INFO.S")
    bench.restart()

    assert bench.engine.streams == {}


def test_a_stream_that_the_disk_cannot_delete_stays_and_says_so() -> None:
    """A deletion that is not durable is not answered with success."""
    disk = SimulatedDisk()
    bench = Bench(KeptPath("/store"), disk)
    stream = bench.create()
    bench.store(stream, b"s.1", b"x")
    disk.fail(1, errno.EIO)

    answer = json.loads(bench.request(b"STREAM.DELETE.S"))

    assert answer["error"] == {
        "code": 500, "err_code": 10050, "description": "store: Input/output error",
    }  # fmt: skip
    bench.store(stream, b"s.1", b"y")
    assert b'"messages":2' in bench.request(b"STREAM.INFO.S")
    bench.restart()
    assert b'"messages":2' in bench.request(b"STREAM.INFO.S")
    assert b'"success":true' in bench.request(b"STREAM.DELETE.S")
    bench.restart()
    assert bench.engine.streams == {}


def test_names_and_list_are_sorted_and_filtered_by_subject(bench: Bench) -> None:
    """Sorted by name; `subject` finds the streams that collide with it."""
    bench.create("B", "b.>")
    bench.create("A", "a.>")

    assert b'"streams":["A","B"]' in bench.request(b"STREAM.NAMES")
    assert b'"total":1,"offset":0,"limit":1024,"streams":["B"]' in bench.request(
        b"STREAM.NAMES", b'{"subject":"b.*"}'
    )
    assert b'"total":0,"offset":0,"limit":1024,"streams":null' in bench.request(
        b"STREAM.NAMES", b'{"subject":"c"}'
    )
    assert b'"total":2,"offset":1,"limit":256' in bench.request(b"STREAM.LIST", b'{"offset":1}')


def test_state_counts_what_a_released_server_counts(bench: Bench) -> None:
    """wire.md, Streams, byte accounting: 30 + subject + payload, + 4 + headers if any."""
    stream = bench.create()
    bench.store(stream, b"s.1", b"12345")
    bench.store(stream, b"s.2", b"12345", headers=b"NATS/1.0\r\nA: 1\r\n\r\n")

    state = msgspec.json.decode(bench.request(b"STREAM.INFO.S"))["state"]

    assert state["bytes"] == (30 + 3 + 5) + (30 + 3 + 5 + 4 + 18)
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, 1, 2)
    assert state["num_subjects"] == 2


def test_account_info_announces_the_api_level(bench: Bench) -> None:
    """Api.level 5."""
    bench.create()
    answer = msgspec.json.decode(bench.request(b"INFO"))

    assert answer["api"]["level"] == 5
    assert answer["streams"] == 1


def test_an_unknown_verb_gets_silence(bench: Bench) -> None:
    """The server owns `$JS.API.>` and says nothing."""
    from jetspark.engine.requests.dispatch import handle

    handle(bench.engine, b"STREAM.NONSENSE.S", b"", b"r", bench.now, bench.outbox)

    assert bench.sent() == []
