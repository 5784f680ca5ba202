"""What accounts may store together, and who is asked (wire.md, API requests)."""

from __future__ import annotations

import json

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.api.account import AccountLimits
from jetspark.api.enums import Storage
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.usage import AccountUsage, ServerUsage
from jetspark.units import ByteCount

CREATE = b'{"name":"S","subjects":["s.>"]%s}'


def refused(bench: Bench, subject: bytes, payload: bytes) -> int:
    """The error code of a publish; 0 when it was stored."""
    stream = bench.engine.streams["S"]
    bench.publish(stream, subject, payload, b"r")
    bench.submit()
    while bench.on_the_way:
        bench.land()
    (reply,) = bench.sent()
    error: dict[str, int] = json.loads(reply[4]).get("error", {})
    return error.get("err_code", 0)


def test_a_stream_without_limits_around_it_is_never_asked(bench: Bench) -> None:
    stream = bench.create()

    assert stream.checks.quota is None
    assert stream.rules.open


def test_a_message_that_was_just_staged_counts(bench: Bench) -> None:
    bench.engine.usage.change(AccountLimits(max_storage=100))
    stream = bench.create()
    bench.publish(stream, b"s.a", b"x" * 60, b"first")

    bench.publish(stream, b"s.a", b"x" * 10, b"second")
    bench.submit()
    bench.land()

    replies = {entry[0]: json.loads(entry[4]) for entry in bench.sent()}
    assert replies[b"first"]["seq"] == 1
    assert replies[b"second"]["error"]["err_code"] == 10002


def test_use_is_known_again_after_a_restart(bench: Bench) -> None:
    stream = bench.create()
    bench.store(stream, b"s.a", b"x" * 60)

    bench.restart()

    assert bench.engine.usage.used[Storage.FILE] == 30 + 3 + 60


def test_removing_a_stream_frees_what_it_had(bench: Bench) -> None:
    stream = bench.create()
    bench.store(stream, b"s.a", b"x" * 60)

    bench.request(b"STREAM.DELETE.S")

    assert bench.engine.usage.used[Storage.FILE] == 0
    assert bench.engine.usage.reserved(Storage.FILE) == 0


def test_a_lower_limit_stops_new_messages_and_keeps_existing_ones(bench: Bench) -> None:
    stream = bench.create()
    bench.store(stream, b"s.a", b"x" * 60)

    bench.engine.usage.change(AccountLimits(max_storage=50))
    stopped = refused(bench, b"s.a", b"x")
    bench.engine.usage.change(AccountLimits())

    assert stopped == 10002
    assert stream.log.index.messages == 1
    assert refused(bench, b"s.a", b"x") == 0
    assert stream.checks.quota is None


def test_a_server_over_its_budget_stops_every_account(bench: Bench) -> None:
    server = ServerUsage(max_storage=50)
    bench.engine.usage = AccountUsage(server=server)
    stream = bench.create()
    bench.store(stream, b"s.a", b"x" * 60)

    stopped = refused(bench, b"s.a", b"x")
    bench.request(b"STREAM.PURGE.S")

    assert stopped == 10023
    assert refused(bench, b"s.a", b"x") == 0


def test_what_an_account_may_take_is_promised_by_the_server() -> None:
    server = ServerUsage(max_storage=1000)
    AccountUsage(AccountLimits(max_storage=900), server)
    other = AccountUsage(server=server)

    other.admit(StreamConfig(name="A", max_bytes=ByteCount(100)))
    with pytest.raises(Refusal) as refusal:
        other.admit(StreamConfig(name="A", max_bytes=ByteCount(101)))

    assert b"10047" in refusal.value.body


def test_account_info_tells_limits_and_use(bench: Bench) -> None:
    bench.engine.usage.change(AccountLimits(max_storage=5000, max_streams=3))
    bench.request(b"STREAM.CREATE.S", CREATE % b',"max_bytes":700')
    bench.store(bench.engine.streams["S"], b"s.a", b"x" * 60)

    info = json.loads(bench.request(b"INFO"))

    assert (info["storage"], info["reserved_storage"], info["streams"]) == (93, 700, 1)
    assert info["limits"]["max_storage"] == 5000
    assert info["limits"]["max_streams"] == 3
    assert "tiers" not in info


def test_what_is_reserved_is_the_sum_of_all_streams(bench: Bench) -> None:
    """Whatever is created, changed, refused by the disk, and deleted: it is not added up again."""

    def check() -> None:
        for storage in Storage:
            streams = bench.engine.streams.values()
            sizes = [s.config.max_bytes for s in streams if s.config.storage == storage]
            assert bench.engine.usage.reserved(storage) == sum(max(size, 0) for size in sizes)

    def change(action: bytes, name: bytes, rest: bytes = b"") -> None:
        body = b'{"name":"%b","subjects":["%b"]%b}' % (name, name, rest) if rest else b""
        bench.request(b"STREAM.%b.%b" % (action, name), body)
        bench.submit()
        while bench.on_the_way:
            bench.land()
        check()

    change(b"CREATE", b"A", b',"max_bytes":1000')
    change(b"CREATE", b"B", b',"max_bytes":-1')
    change(b"CREATE", b"M", b',"max_bytes":70,"storage":"memory"')
    change(b"UPDATE", b"A", b',"max_bytes":5000')
    change(b"UPDATE", b"A", b',"max_bytes":10')
    change(b"UPDATE", b"B", b',"max_bytes":30')
    change(b"DELETE", b"A")
    change(b"DELETE", b"M")
    assert bench.engine.usage.reserved(Storage.FILE) == 30
    bench.restart()
    check()


def test_the_names_of_streams_are_sorted_once(bench: Bench) -> None:
    """A list of ten thousand streams is requested in many pages."""
    for name in (b"B", b"A"):
        bench.request(b"STREAM.CREATE." + name, b'{"name":"%b","subjects":["%b"]}' % (name, name))
    names = bench.engine.names()

    assert names == ["A", "B"]
    assert bench.engine.names() is names
    bench.request(b"STREAM.DELETE.A")
    assert bench.engine.names() == ["B"]


def test_the_memory_of_a_removed_stream_is_counted_once_it_is_free(bench: Bench) -> None:
    stream = bench.create()
    for number in range(3):
        bench.store(stream, b"s.%d" % number, b"x")
    del stream
    assert bench.engine.take_freed() == 0

    bench.request(b"STREAM.DELETE.S")
    while bench.engine.operations.handle_ready(bench.now, bench.outbox):
        pass

    assert bench.engine.take_freed() > 3 * 142
    assert bench.engine.take_freed() == 0
