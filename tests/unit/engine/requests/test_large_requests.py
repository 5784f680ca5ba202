"""Requests that are so large that they take turns: what others see and do meanwhile."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from jetspark.engine import operations
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.target import PUBLISH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.engine.conftest import Bench

    from jetspark.engine.outbox import Outbox

MANY = 2_000


def subjects(letter: str, count: int = MANY) -> list[str]:
    return [f"{letter}.{n}.*" for n in range(count)]


def send(bench: Bench, verb: str, reply: str, **body: Any) -> None:
    """A request comes; its answer goes to this subject."""
    data = json.dumps(body).encode() if body else b""
    handle(bench.engine, verb.encode(), data, reply.encode(), bench.now, bench.outbox)


def create(bench: Bench, name: str, wanted: list[str], reply: str = "") -> None:
    send(bench, f"STREAM.CREATE.{name}", reply or name, name=name, subjects=wanted)


def update(bench: Bench, name: str, wanted: list[str], reply: str) -> None:
    send(bench, f"STREAM.UPDATE.{name}", reply, name=name, subjects=wanted)


def turn(bench: Bench) -> bool:
    """One turn of the loop; False when there was nothing to do."""
    if not bench.engine.operations.has_ready():
        return False
    bench.engine.operations.handle_ready(bench.now, bench.outbox)
    return True


def answers(bench: Bench, each_turn: Callable[[], None] = lambda: None) -> dict[str, int]:
    """All turns, and what was answered then: the code of an error, or 0."""
    found: dict[str, int] = {}
    turns = 0
    while turn(bench):
        turns += 1
        assert turns < 10_000, "it never ends"
        each_turn()
    bench.submit()
    while bench.on_the_way:
        bench.land()
    for reply, _, _, _, body in bench.sent():
        if not reply.startswith(b"$JS."):
            answer = json.loads(body)
            found[reply.decode()] = answer.get("error", {}).get("err_code", 0)
    return found


def stored_by(bench: Bench, subject: bytes) -> str:
    target = bench.engine.resolve(subject)
    if target is None or target.kind != PUBLISH:
        return ""
    assert target.stream is not None
    return target.stream.config.name


class SlowDisk:
    """Holds back what is done in the background."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bench = bench
        self._held: list[tuple[Callable[[], None], Callable[..., None]]] = []
        monkeypatch.setattr(bench.engine.operations._background, "run", self._run)

    def _run(
        self, work: Callable[[], None], finish: Callable[..., None], _now: int, _outbox: Outbox
    ) -> None:
        self._held.append((work, finish))

    def go_on(self) -> None:
        held, self._held = self._held, []
        for work, finish in held:
            work()
            finish(None, self._bench.now, self._bench.outbox)


def test_a_stream_of_very_many_subjects_exists_for_all_of_them_at_once(bench: Bench) -> None:
    seen: list[set[str]] = []
    create(bench, "A", subjects("a"))
    assert "A" not in bench.engine.streams

    def look() -> None:
        some = (0, 1, MANY // 2, MANY - 1)
        seen.append({stored_by(bench, b"a.%d.x" % n) for n in some})

    assert answers(bench, look) == {"A": 0}
    assert len(seen) > 5, "it took turns"
    assert seen[0] == {""}
    assert seen[-1] == {"A"}
    assert all(len(each) == 1 for each in seen), "never some of them"
    bench.restart()
    assert stored_by(bench, b"a.7.x") == "A"


def test_an_update_changes_very_many_subjects_atomically(bench: Bench) -> None:
    both = ["both.>"]
    create(bench, "A", subjects("a") + both)
    answers(bench)
    seen: list[tuple[str, str, str]] = []
    update(bench, "A", subjects("b") + both, "u")

    def look() -> None:
        some = (b"a.7.x", b"b.7.x", b"both.x")
        seen.append(
            (stored_by(bench, some[0]), stored_by(bench, some[1]), stored_by(bench, some[2]))
        )

    assert answers(bench, look) == {"u": 0}
    assert set(seen) == {("A", "", "A"), ("", "A", "A")}
    assert seen == sorted(seen, reverse=True), "and never back"


def test_the_first_of_two_streams_that_want_the_same_subject_gets_it(bench: Bench) -> None:
    create(bench, "A", [*subjects("a"), "same.*"])
    create(bench, "B", [*subjects("b"), "same.x"])

    assert answers(bench) == {"A": 0, "B": 10065}
    assert "B" not in bench.engine.streams
    create(bench, "C", subjects("b"))
    assert answers(bench) == {"C": 0}, "what B wanted is free"


def test_few_subjects_wait_for_very_many_that_came_before_them(bench: Bench) -> None:
    create(bench, "A", [*subjects("a"), "same.*"])
    create(bench, "B", ["same.x"])
    create(bench, "C", ["c"])

    assert answers(bench) == {"A": 0, "B": 10065, "C": 0}


def test_few_subjects_get_what_very_many_could_not_have(bench: Bench) -> None:
    create(bench, "T", ["taken.>"])
    create(bench, "A", [*subjects("a"), "same.*", "taken.x"])
    create(bench, "B", ["same.x", "a.7.x"])

    assert answers(bench) == {"T": 0, "A": 10065, "B": 0}
    assert stored_by(bench, b"a.7.x") == "B"


def test_very_many_subjects_wait_for_few_that_are_being_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(bench, monkeypatch)
    create(bench, "B", ["same.x"])
    create(bench, "A", [*subjects("a"), "same.*"])
    assert answers(bench) == {}
    disk.go_on()

    assert answers(bench) == {"B": 0, "A": 10065}


def test_no_other_stream_gets_the_subjects_of_a_staged_stream(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(bench, monkeypatch)
    create(bench, "A", subjects("a"))
    assert answers(bench) == {}
    create(bench, "B", ["a.7.x"])
    create(bench, "C", [*subjects("c"), "a.8.x"])
    assert answers(bench) == {}
    disk.go_on()
    found = answers(bench)
    disk.go_on()

    assert {**found, **answers(bench)} == {"A": 0, "B": 10065, "C": 10065}


def test_requests_about_a_stream_wait_for_its_creation_and_keep_their_order(bench: Bench) -> None:
    create(bench, "A", subjects("a"), "first")
    create(bench, "A", subjects("b"), "second")
    send(bench, "STREAM.INFO.A", "info")
    send(bench, "STREAM.DELETE.A", "delete")
    create(bench, "A", ["other"], "third")
    send(bench, "STREAM.DELETE.A", "last")

    assert answers(bench) == {
        "first": 0, "second": 10058, "info": 0, "delete": 0, "third": 0, "last": 0,
    }  # fmt: skip
    assert bench.engine.streams == {}
    create(bench, "D", [*subjects("a"), "other"])
    assert answers(bench) == {"D": 0}, "nothing of it is left"


def test_subjects_of_a_stream_that_was_removed_are_free_although_that_takes_turns(
    bench: Bench,
) -> None:
    create(bench, "A", subjects("a"))
    answers(bench)
    send(bench, "STREAM.DELETE.A", "delete")
    create(bench, "B", ["a.7.x", "a.8.*"])
    create(bench, "C", subjects("a")[9:])
    seen: list[str] = []

    assert answers(bench, lambda: seen.append(stored_by(bench, b"a.7.x"))) == {
        "delete": 0, "B": 0, "C": 0,
    }  # fmt: skip
    assert set(seen) <= {"", "B"}, "what was removed stores nothing"


def test_a_refused_update_leaves_the_stream_its_subjects(bench: Bench) -> None:
    create(bench, "T", ["taken"])
    create(bench, "A", subjects("a"))
    answers(bench)
    update(bench, "A", [*subjects("b"), "taken"], "u")

    assert answers(bench) == {"u": 10065}
    assert (stored_by(bench, b"a.7.x"), stored_by(bench, b"b.7.x")) == ("A", "")
    update(bench, "A", [*subjects("b"), "a.7.x"], "again")
    assert answers(bench) == {"again": 0}


def test_streams_are_found_by_a_wildcard_among_very_many_subjects(bench: Bench) -> None:
    create(bench, "A", subjects("a"))
    create(bench, "B", ["b.*.x"])
    answers(bench)
    send(bench, "STREAM.NAMES", "names", subject="*.*.x")
    while turn(bench):
        pass
    ((_, _, _, _, body),) = bench.sent()

    assert json.loads(body)["streams"] == ["A", "B"]


@pytest.mark.parametrize(
    ("extra", "code"), [([], 0), (["s.7.x"], 10138), (["s..x"], 10052), ([""], 10139)], ids=str
)
def test_very_many_filters_are_checked_in_turns(bench: Bench, extra: list[str], code: int) -> None:
    stream = bench.create()
    bench.store(stream, b"s.7.x", b"1")
    bench.store(stream, b"s.none", b"2")
    config = {"name": "C", "filter_subjects": [*subjects("s"), *extra]}
    send(bench, "CONSUMER.CREATE.S.C", "c", stream_name="S", config=config)
    send(bench, "CONSUMER.INFO.S.C", "i")
    assert "C" not in stream.consumers

    assert answers(bench) == {"c": code, "i": 10014 if code else 0}
    if not code:
        cursor = stream.consumers["C"].state.cursor
        assert (int(cursor.catch_up()), cursor.matches(b"s.7.y")) == (1, True)
        changed = {"name": "C", "filter_subjects": subjects("t")}
        send(bench, "CONSUMER.CREATE.S.C", "u", stream_name="S", config=changed)
        assert answers(bench) == {"u": 0}
        assert (int(cursor.catch_up()), cursor.matches(b"s.7.y")) == (0, False)


def test_the_last_message_of_very_many_filters_is_found(bench: Bench) -> None:
    stream = bench.create()
    for n in (3, 9, 5):
        bench.store(stream, b"s.%d.x" % n, b"")
    bench.store(stream, b"s.none", b"")
    config = {"name": "C", "deliver_policy": "last", "filter_subjects": subjects("s")}
    send(bench, "CONSUMER.CREATE.S.C", "c", stream_name="S", config=config)

    assert answers(bench) == {"c": 0}
    assert int(stream.consumers["C"].state.cursor.peek()) == 3


def test_a_request_of_very_many_sources_is_refused(bench: Bench) -> None:
    sources = [{"name": f"s{n}"} for n in range(1_500)]
    send(bench, "STREAM.CREATE.A", "a", name="A", sources=sources)
    send(bench, "STREAM.CREATE.A", "b", name="A", sources=sources[:512])

    assert answers(bench) == {"a": 10025, "b": 0}
    assert len(bench.engine.streams["A"].copies) == 512


def test_requests_that_hold_no_list_are_not_read_when_they_are_long(bench: Bench) -> None:
    bench.create()
    body = b'{"subjects_filter":"%b"}' % (b"a" * 20_000)
    answer = json.loads(bench.request(b"STREAM.INFO.S", body))

    assert answer["error"]["err_code"] == 10025
    assert "the limit is 16384" in answer["error"]["description"]


def test_long_requests_are_carried_out_one_after_the_other(bench: Bench) -> None:
    """Many at a time would take thirty times their size in memory."""
    order: list[str] = []
    names = ["A", "B", "C"]
    for name, count in zip(names, (6_000, 2_000, 2_000), strict=True):
        bench.create(name, f"{name}.>")
        config = {"name": "c", "filter_subjects": subjects(name, count)}
        send(bench, f"CONSUMER.CREATE.{name}.c", name, stream_name=name, config=config)
    send(bench, "STREAM.INFO.C", "info")
    send(bench, "STREAM.INFO.A", "other")

    def look() -> None:
        bench.submit()
        while bench.on_the_way:
            bench.land()
        order.extend(entry[0].decode() for entry in bench.sent() if entry[0][:1] != b"$")

    assert answers(bench, look) == {}
    assert [each for each in order if each in names] == names
    assert order.index("info") > order.index("C"), "it came after it"


def test_a_long_request_that_cannot_be_read_lets_the_next_one_pass(bench: Bench) -> None:
    bench.create()
    bad = b'{"stream_name":"S","config":{"name":"C","filter_subjects":["%b"' % (b"s" * 20_000)
    for reply in (b"1", b"2"):
        handle(bench.engine, b"CONSUMER.CREATE.S.C", bad, reply, bench.now, bench.outbox)
    config = {"name": "C", "filter_subjects": subjects("s")}
    send(bench, "CONSUMER.CREATE.S.C", "3", stream_name="S", config=config)

    assert answers(bench) == {"1": 10025, "2": 10025, "3": 0}


@pytest.mark.parametrize("count", [3, MANY])
def test_a_stream_that_cannot_be_shown_leaves_its_subjects_to_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    for owner, method in ((bench.engine.copies, "added"), (bench.engine, "hidden")):
        with monkeypatch.context() as failing:
            failing.setattr(owner, method, broken)
            create(bench, "A", subjects("a", count))
            assert answers(bench) == {"A": 10051}
        assert bench.engine.streams == {}
    bench.restart()
    assert bench.engine.streams == {}, "it was refused"
    create(bench, "B", subjects("a", count))
    assert answers(bench) == {"B": 0}


def test_an_update_that_fails_unexpectedly_lets_others_have_streams(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(bench, "A", subjects("a"))
    answers(bench)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as failing:
        failing.setattr(bench.engine.copies, "changed", broken)
        update(bench, "A", subjects("b"), "u")
        assert answers(bench) == {"u": 10051}
    create(bench, "C", subjects("c"))
    create(bench, "D", ["d"])
    assert answers(bench) == {"C": 0, "D": 0}


LONG_AND_WRONG: dict[str, tuple[str, dict[str, Any], int]] = {
    "overlapping": ("CONSUMER.CREATE.S.C", {"filter_subjects": [*subjects("s"), "s.>"]}, 10138),
    "of the wrong type": ("CONSUMER.CREATE.S.C", {"filter_subjects": [*subjects("s"), 1]}, 10025),
    "unknown": ("CONSUMER.CREATE.S.C", {"filter_subjects": subjects("s"), "x": 1}, 10025),
    "invalid": ("STREAM.CREATE.A", {"subjects": [*subjects("a"), "a..b"]}, 10052),
    "taken": ("STREAM.CREATE.A", {"subjects": [*subjects("a"), "s.x"]}, 10065),
}


@pytest.mark.parametrize("kind", LONG_AND_WRONG)
def test_nothing_is_left_of_a_long_request_that_was_refused(bench: Bench, kind: str) -> None:
    """What it had become is megabytes, and the garbage collector comes rarely."""
    bench.create()
    verb, config, code = LONG_AND_WRONG[kind]
    name = verb.split(".")[2]
    body = {"name": name, **config} if name == "A" else {"stream_name": name, "config": config}

    def refuse() -> None:
        send(bench, verb, "r", **body)
        assert answers(bench) == {"r": code}

    refuse()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(4):
            refuse()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 200_000


def test_few_subjects_wait_for_one_large_request_and_not_for_those_after_it(bench: Bench) -> None:
    answered: list[str] = []

    def note() -> None:
        answered.extend(entry[0].decode() for entry in bench.sent())

    for n in range(5):
        create(bench, f"L{n}", subjects(f"large{n}"))
    for n in range(5):
        create(bench, f"S{n}", [f"small{n}"])
    while turn(bench):
        note()

    streams = [reply for reply in answered if not reply.startswith("$JS.")]
    assert streams == ["L0", "S0", "S1", "S2", "S3", "S4", "L1", "L2", "L3", "L4"]


def test_few_subjects_are_not_refused_because_large_requests_take_all_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(json.dumps({"name": "L0", "subjects": subjects("large0")}).encode())
    # For the one that is carried out and the next one.
    monkeypatch.setattr(operations, "LARGE_BYTES_MAX", 2 * size)
    for n in range(10):
        create(bench, f"L{n}", subjects(f"large{n}"))
    create(bench, "S", ["small"])

    found = answers(bench)

    assert found["S"] == 0
    assert found["L0"] == found["L1"] == 0
    assert found["L9"] == 10023
