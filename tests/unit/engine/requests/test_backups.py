"""STREAM.SNAPSHOT and STREAM.RESTORE."""

from __future__ import annotations

import errno
import io
import json
import tarfile
from typing import Any

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.api.account import AccountLimits
from jetspark.engine.outbox import Entry
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.s2 import Unframer
from jetspark.engine.snapshot import FLOW_WAIT_NS, INTEREST_WAIT_NS

CONFIG = {"name": "S", "subjects": ["s.>"], "allow_direct": True, "allow_msg_ttl": True}
HEADERS = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n"


@pytest.fixture
def filled(bench: Bench) -> Bench:
    """A stream with headers, binary bodies, an empty body and holes."""
    bench.ports.subscribed = lambda _subject: True
    bench.request(b"STREAM.CREATE.S", json.dumps(CONFIG).encode())
    stream = bench.engine.streams["S"]
    for number in range(300):
        headers = HEADERS % number if number % 3 == 0 else b""
        bench.now += 1_000_000
        bench.store(stream, b"s.%d" % (number % 7), bytes([number % 256]) * number, headers)
    for gone in (1, 2, 50, 51, 52, 200, 300):
        bench.request(b"STREAM.MSG.DELETE.S", b'{"seq":%d}' % gone)
    return bench


def drain(bench: Bench) -> list[Entry]:
    """Let everything continue until it waits for someone; what was sent."""
    sent = bench.sent()
    while True:
        more = bench.engine.transfers.advance(bench.now, bench.outbox)
        if bench.engine.operations.has_ready():
            bench.engine.operations.handle_ready(bench.now, bench.outbox)
        bench.submit()
        while bench.on_the_way:
            bench.land()
        more = more or bench.engine.operations.has_ready()
        arrived = bench.sent()
        sent += arrived
        if not more and not arrived:
            return sent


def ask(bench: Bench, verb: bytes, body: Any = b"") -> tuple[dict[str, Any], list[Entry]]:
    """The answer to a request, and what else was sent."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    handle(bench.engine, verb, raw, b"r", bench.now, bench.outbox)
    sent = drain(bench)
    return json.loads(next(e[4] for e in sent if e[0] == b"r")), [e for e in sent if e[0] != b"r"]


def backup(bench: Bench, **options: object) -> tuple[dict[str, Any], bytes]:
    """A whole archive, with every chunk acknowledged, and the answer that came before it."""
    answer, sent = ask(bench, b"STREAM.SNAPSHOT.S", {"deliver_subject": "d", **options})
    archive = b""
    while True:
        for _, _, reply, headers, body in sent:
            if headers:
                assert headers == b"NATS/1.0 204\r\n\r\n"
                return answer, archive
            archive += body
            if reply:
                bench.engine.transfers.handle(reply, b"", b"", bench.now, bench.outbox)
        sent = drain(bench)


def send(bench: Bench, to: bytes, body: bytes) -> list[Entry]:
    bench.engine.transfers.handle(to, body, b"c", bench.now, bench.outbox)
    return drain(bench)


def begin(bench: Bench, answer: dict[str, Any], **changes: object) -> bytes:
    config = {**answer["config"], **changes}
    request = {"config": config, "state": answer["state"]}
    reply, _ = ask(bench, f"STREAM.RESTORE.{config['name']}".encode(), request)
    return str(reply["deliver_subject"]).encode()


def restore(bench: Bench, to: bytes, archive: bytes, piece: int = 10_000) -> dict[str, Any]:
    for at in range(0, len(archive), piece):
        assert send(bench, to, archive[at : at + piece]) == [(b"c", b"c", b"", b"", b"")]
    (reply,) = send(bench, to, b"")
    answer: dict[str, Any] = json.loads(reply[4])
    return answer


def contents(bench: Bench) -> list[tuple[bytes, ...]]:
    """Everything in the stream, and its state."""
    stream = bench.engine.streams["S"]
    state = json.loads(bench.request(b"STREAM.INFO.S", b'{"deleted_details":true}'))["state"]
    del state["last_ts"]  # the last message was deleted: the archive does not know its time
    found: list[tuple[bytes, ...]] = [(json.dumps(state, sort_keys=True).encode(),)]
    found += [
        (bench.request(b"STREAM.MSG.GET.S", b'{"seq":%d}' % seq),)
        for seq in range(1, int(stream.log.index.last_seq) + 1)
    ]
    return found


def stores(bench: Bench) -> int:
    """How many streams there are on disk."""
    listed = bench.files.list_folder
    accounts = [name for name in listed(bench.folder) if name.startswith("acct-")]
    return sum(len(listed(bench.folder / account)) for account in accounts)


def test_a_restored_stream_has_the_same_messages_and_the_same_holes(filled: Bench) -> None:
    before = contents(filled)
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")

    reply = restore(filled, begin(filled, answer), archive)

    assert reply["type"].endswith("stream_create_response")
    assert reply["state"]["messages"] == 293
    assert contents(filled) == before
    filled.restart()
    assert contents(filled) == before


@pytest.mark.parametrize("piece", [1, 7, 4096])
def test_an_archive_is_restored_with_and_without_framing_in_any_pieces(
    filled: Bench, piece: int
) -> None:
    before = contents(filled)
    answer, archive = backup(filled)

    for form in (archive, Unframer().feed(archive)):
        filled.request(b"STREAM.DELETE.S")
        to = begin(filled, answer)
        for at in range(0, 3000, piece):
            send(filled, to, form[at : min(at + piece, 3000)])
        restore(filled, to, form[3000:], 100_000)
        assert contents(filled) == before


def test_sequences_continue_after_the_restored_ones(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    restore(filled, begin(filled, answer), archive)

    filled.store(filled.engine.streams["S"], b"s.new", b"x")

    assert filled.engine.streams["S"].log.index.last_seq == 301


def test_the_archive_is_a_tar_in_s2_framing_that_says_what_is_in_it(filled: Bench) -> None:
    _, archive = backup(filled)

    with tarfile.open(fileobj=io.BytesIO(Unframer().feed(archive))) as tar:
        names = tar.getnames()
        index = tar.extractfile("messages-00000001.ndjson")
        assert index is not None
        lines = [json.loads(line) for line in index.read().splitlines()]

    assert names[0] == "jetspark-backup.json"
    assert names[-2:] == ["consumers.ndjson", "end.json"]
    assert [line["seq"] for line in lines] == sorted(
        set(range(1, 301)) - {1, 2, 50, 51, 52, 200, 300}
    )


def test_chunks_are_as_large_as_asked_and_wait_for_the_window(filled: Bench) -> None:
    _, sent = ask(
        filled,
        b"STREAM.SNAPSHOT.S",
        {"deliver_subject": "d", "chunk_size": 2048, "window_size": 4096},
    )

    assert [len(entry[4]) for entry in sent] == [2048, 2048]
    filled.engine.transfers.handle(sent[0][2], b"", b"", filled.now, filled.outbox)
    (third,) = drain(filled)
    assert third[2].endswith(b".2048.3")
    assert third[2].startswith(b"$JS.SNAPSHOT.ACK.S.")


def test_a_receiver_that_falls_silent_is_given_up(filled: Bench) -> None:
    ask(
        filled,
        b"STREAM.SNAPSHOT.S",
        {"deliver_subject": "d", "chunk_size": 1024, "window_size": 2048},
    )

    filled.now += FLOW_WAIT_NS
    assert filled.engine.next_deadline() == filled.now
    filled.engine.expire(filled.now, filled.outbox)

    assert [entry[3] for entry in drain(filled)] == [b"NATS/1.0 408 No Flow Response\r\n\r\n"]
    assert filled.engine.transfers.next_deadline() is None


def test_a_snapshot_waits_for_a_subscriber(filled: Bench) -> None:
    filled.ports.subscribed = lambda _subject: False
    _, before = ask(filled, b"STREAM.SNAPSHOT.S", {"deliver_subject": "d"})

    filled.now += INTEREST_WAIT_NS // 2
    filled.engine.expire(filled.now, filled.outbox)
    nobody = drain(filled)
    filled.ports.subscribed = lambda subject: subject == b"d"
    filled.now += INTEREST_WAIT_NS // 4
    filled.engine.expire(filled.now, filled.outbox)

    assert before == nobody == []
    assert drain(filled)[-1][3] == b"NATS/1.0 204\r\n\r\n"


def test_a_wildcard_alone_gets_a_snapshot_after_two_seconds(filled: Bench) -> None:
    filled.ports.subscribed = lambda _subject: False
    filled.ports.listening = lambda subject: subject == b"d"
    _, before = ask(filled, b"STREAM.SNAPSHOT.S", {"deliver_subject": "d"})

    filled.now += INTEREST_WAIT_NS - 1
    filled.engine.expire(filled.now, filled.outbox)
    early = drain(filled)
    filled.now += INTEREST_WAIT_NS
    filled.engine.expire(filled.now, filled.outbox)

    assert before == early == []
    assert drain(filled)[-1][3] == b"NATS/1.0 204\r\n\r\n"


def test_a_snapshot_without_a_subscriber_fails(filled: Bench) -> None:
    filled.ports.subscribed = lambda _subject: False
    ask(filled, b"STREAM.SNAPSHOT.S", {"deliver_subject": "d"})

    filled.now += INTEREST_WAIT_NS
    filled.engine.expire(filled.now, filled.outbox)

    assert [entry[3] for entry in drain(filled)] == [b"NATS/1.0 408 No Interest\r\n\r\n"]


def test_a_stream_that_is_deleted_ends_its_snapshot(filled: Bench) -> None:
    _, sent = ask(
        filled,
        b"STREAM.SNAPSHOT.S",
        {"deliver_subject": "d", "chunk_size": 1024, "window_size": 1024},
    )
    filled.request(b"STREAM.DELETE.S")

    filled.engine.transfers.handle(sent[0][2], b"", b"", filled.now, filled.outbox)

    assert [entry[3] for entry in drain(filled)] == [b"NATS/1.0 500 stream was deleted\r\n\r\n"]


@pytest.mark.parametrize("where", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_damaged_archive_leaves_nothing(filled: Bench, where: float) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    at = int(len(archive.rstrip(b"\0")) * where)
    broken = archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1 :]

    reply = restore(filled, begin(filled, answer), broken)

    assert reply["error"]["err_code"] == 10062
    assert filled.engine.streams == {}
    assert stores(filled) == 0


@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9, 0.98])
def test_half_an_archive_leaves_nothing(filled: Bench, where: float) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")

    reply = restore(filled, begin(filled, answer), archive[: int(len(archive) * where)])

    assert reply["error"]["err_code"] == 10062
    assert stores(filled) == 0


def test_an_archive_of_nats_server_is_refused_with_what_to_do(filled: Bench) -> None:
    answer, _ = backup(filled)
    filled.request(b"STREAM.DELETE.S")

    reply = restore(filled, begin(filled, answer), b"\xff\x06\x00\x00S2sTwO\x00>\x05\x00\xee")
    again = restore(filled, begin(filled, answer), tarfile.TarInfo("meta.inf").tobuf())

    assert "`jetspark stream export`" in reply["error"]["description"]
    assert "`jetspark stream export`" in again["error"]["description"]


def test_what_is_no_archive_is_refused(filled: Bench) -> None:
    answer, _ = backup(filled)
    filled.request(b"STREAM.DELETE.S")

    reply = restore(filled, begin(filled, answer), b"garbage" * 1000)

    assert "not a backup of jetspark" in reply["error"]["description"]


def test_an_entry_that_no_backup_has_is_named(filled: Bench) -> None:
    answer, archive = backup(filled)
    ask(filled, b"STREAM.DELETE.S")
    plain = Unframer().feed(archive)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        second = tar.getmembers()[1].offset
    foreign = tarfile.TarInfo("notes.txt").tobuf()

    reply = restore(filled, begin(filled, answer), plain[:second] + foreign)

    assert "has an entry 'notes.txt' that is not ours" in reply["error"]["description"]


def test_a_restore_is_not_seen_before_its_end(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    send(filled, to, archive)

    names = json.loads(filled.request(b"STREAM.NAMES"))

    assert names["streams"] is None
    assert filled.engine.resolve(b"s.1") is None


def test_a_crash_in_the_middle_leaves_nothing(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    send(filled, begin(filled, answer), archive[:-3000])
    filled.engine.transfers._restores.clear()

    filled.restart()

    assert filled.engine.streams == {}
    assert stores(filled) == 0


def test_the_end_is_answered_when_it_is_durable(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    send(filled, to, archive)

    filled.engine.transfers.handle(to, b"", b"c", filled.now, filled.outbox)
    filled.submit()
    before = filled.sent()
    filled.land()

    assert before == []
    assert b'"messages":293' in filled.sent()[0][4]


def test_a_full_disk_fails_the_restore(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    filled.engine.transfers.handle(to, archive[:-2000], b"c", filled.now, filled.outbox)
    filled.submit()

    filled.fail(OSError(errno.ENOSPC, "full"))
    filled.sent()
    (reply,) = send(filled, to, b"")

    assert json.loads(reply[4])["error"]["err_code"] == 10062
    assert stores(filled) == 0


def test_a_sender_that_falls_silent_is_given_up(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    send(filled, to, archive[:1000])

    deadline = filled.engine.next_deadline()
    assert deadline is not None
    filled.engine.expire(deadline, filled.outbox)

    assert not filled.engine.transfers.knows(to)
    assert stores(filled) == 0


def test_a_name_or_subjects_that_were_taken_meanwhile_are_refused(filled: Bench) -> None:
    answer, archive = backup(filled)
    taken = begin(filled, answer, name="T")

    reply = restore(filled, taken, archive)

    assert reply["error"]["err_code"] == 10065
    assert list(filled.engine.streams) == ["S"]


def test_restores_respect_the_limits_of_the_account(filled: Bench) -> None:
    answer, archive = backup(filled)
    to = begin(filled, answer, name="T", subjects=["t.>"])
    filled.engine.usage.change(AccountLimits(max_storage=50_000))

    reply = restore(filled, to, archive)

    assert reply["error"]["err_code"] == 10002


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 10003), (b"{}", 10003), (b"{", 10025), (b'{"deliver_subject":"a b"}', 10015),
        (b'{"deliver_subject":"a.*"}', 10015), (b'{"deliver_subject":"d","x":1}', 10025),
    ],
)  # fmt: skip
def test_bad_snapshots_are_refused(filled: Bench, body: bytes, code: int) -> None:
    answer, _ = ask(filled, b"STREAM.SNAPSHOT.S", body)

    assert answer["error"]["err_code"] == code


def test_consumers_travel_with_the_stream_unless_left_out(filled: Bench) -> None:
    config = {"name": "c", "durable_name": "c", "ack_policy": "explicit"}
    ask(filled, b"CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    before = json.loads(filled.request(b"CONSUMER.INFO.S.c"))

    answer, archive = backup(filled)
    _, without = backup(filled, no_consumers=True)
    filled.request(b"STREAM.DELETE.S")
    reply = restore(filled, begin(filled, answer), archive)
    after = json.loads(filled.request(b"CONSUMER.INFO.S.c"))
    filled.restart()
    again = json.loads(filled.request(b"CONSUMER.INFO.S.c"))

    assert reply["state"]["consumer_count"] == 1
    assert before == after == again
    assert b"consumers.ndjson" in archive
    assert b"consumers.ndjson" not in without


def test_generated_consumers_leave_nothing(filled: Bench) -> None:
    log = filled.engine.streams["S"].log
    log.staged.set_consumer(7, b"document")
    log.staged.set_consumer_state(7, True, b"whole")
    filled.engine.mark_dirty(filled.engine.streams["S"])
    drain(filled)
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")

    reply = restore(filled, begin(filled, answer), archive)

    assert "consumer 7 of the backup cannot be read" in reply["error"]["description"]
    assert stores(filled) == 0


def settle(bench: Bench) -> dict[bytes, int]:
    """All turns of the loop; what was answered then: the code of an error, or 0."""
    return {
        entry[0]: json.loads(entry[4]).get("error", {}).get("err_code", 0)
        for entry in drain(bench)
        if entry[0] in {b"c", b"made"}
    }


def test_a_stream_that_is_made_meanwhile_keeps_its_name_and_the_restore_is_refused(
    filled: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    send(filled, to, archive)
    held: list[tuple[Any, Any]] = []
    beside = filled.engine.operations._background
    with monkeypatch.context() as slow:
        slow.setattr(beside, "run", lambda work, finish, *_: held.append((work, finish)))
        config = b'{"name":"S","subjects":["s.>"],"description":"made"}'
        handle(filled.engine, b"STREAM.CREATE.S", config, b"made", filled.now, filled.outbox)
        filled.engine.transfers.handle(to, b"", b"c", filled.now, filled.outbox)
        for _ in range(3):
            filled.engine.operations.handle_ready(filled.now, filled.outbox)
            filled.submit()
            while filled.on_the_way:
                filled.land()
        assert filled.sent() == [], "the disk makes the stream"
    ((work, finish),) = held
    work()
    finish(None, filled.now, filled.outbox)

    assert settle(filled) == {b"made": 0, b"c": 10130}
    assert filled.engine.streams["S"].config.description == "made"
    assert stores(filled) == 1
    filled.request(b"STREAM.DELETE.S")
    assert restore(filled, begin(filled, answer), archive)["state"]["messages"] == 293


def test_a_restored_stream_waits_while_another_one_gets_very_many_subjects(filled: Bench) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    to = begin(filled, answer)
    send(filled, to, archive)
    many = json.dumps({"name": "MANY", "subjects": [*(f"m.{n}" for n in range(3_000)), "s.0"]})
    handle(filled.engine, b"STREAM.CREATE.MANY", many.encode(), b"made", filled.now, filled.outbox)
    subjects = filled.engine._subjects
    while not subjects.overlap(b"m.0", None):  # until some of them are entered, and s.0 is not
        assert "MANY" not in filled.engine.streams
        filled.engine.operations.handle_ready(filled.now, filled.outbox)
    filled.engine.transfers.handle(to, b"", b"c", filled.now, filled.outbox)

    found = settle(filled)

    assert sorted(found.values()) == [0, 10065], "one of the two has s.0"
    assert ("MANY" in filled.engine.streams) != ("S" in filled.engine.streams)


def test_a_restore_that_fails_unexpectedly_leaves_name_and_subjects_to_others(
    filled: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, archive = backup(filled)
    filled.request(b"STREAM.DELETE.S")
    many = ["s.>", *(f"m.{n}" for n in range(600))]

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    for subjects in (["s.>"], many):
        to = begin(filled, answer, subjects=subjects)
        send(filled, to, archive)
        with monkeypatch.context() as failing:
            failing.setattr(filled.engine.copies, "added", broken)
            filled.engine.transfers.handle(to, b"", b"c", filled.now, filled.outbox)
            assert settle(filled) == {b"c": 10051}
        assert filled.engine.streams == {}
        assert stores(filled) == 0
    again = begin(filled, answer, subjects=many)
    send(filled, again, archive)
    filled.engine.transfers.handle(again, b"", b"c", filled.now, filled.outbox)
    assert settle(filled) == {b"c": 0}
