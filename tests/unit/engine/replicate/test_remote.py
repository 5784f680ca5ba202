"""Copies of remote streams, with a remote that does what the test says (upstream.py)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.engine.replicate.conftest import CopyBench, rows, times
from tests.unit.engine.replicate.feeds import ScriptedFeed, ScriptedUpstreams

HUB = {"api": "$JS.hub.API", "deliver": ""}


@pytest.fixture
def hub() -> ScriptedUpstreams:
    return ScriptedUpstreams()


@pytest.fixture
def far(open_bench: Callable[..., CopyBench], hub: ScriptedUpstreams) -> CopyBench:
    bench = open_bench()
    bench.upstreams = hub
    bench.restart()
    return bench


def mirror_of(bench: CopyBench, hub: ScriptedUpstreams, **config: Any) -> ScriptedFeed:
    """A mirror M of the remote stream A, found and asked to read."""
    source = {"name": "A", "external": HUB} | config.pop("mirror", {})
    bench.make("M", mirror=source, **config)
    feed = hub.feeds[-1]
    feed.found(bench.now)
    bench.settle()
    return feed


def test_a_remote_mirror_has_sequences_times_and_gaps(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    feed = mirror_of(far, hub)

    feed.brings(1, 2, 5)
    far.settle()

    mirror = far.engine.streams["M"]
    assert feed.started == [(1, 0)]
    assert [(row[0], row[3]) for row in rows(mirror)] == [(1, b"1"), (2, b"2"), (5, b"5")]
    assert times(mirror) == [1000, 2000, 5000]
    assert feed.stored_up_to == 5


def test_nothing_is_read_before_the_remote_described_the_stream(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    far.make("M", mirror={"name": "A", "external": HUB})

    info = far.info("M")["mirror"]

    assert hub.feeds[0].started == []
    assert (info["active"], info["lag"], info["external"]) == (-1, 0, HUB)
    assert "error" not in info


def test_what_comes_twice_is_stored_once(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)

    feed.brings(1, 2)
    feed.brings(2, 3)
    far.settle()
    feed.brings(1, 2, 3, 4)
    far.settle()

    assert [row[0] for row in rows(far.engine.streams["M"])] == [1, 2, 3, 4]


def test_a_deleted_end_moves_the_last_sequence(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)

    feed.brings(1, through=7)
    far.settle()

    assert far.info("M")["state"]["last_seq"] == 7


def test_a_restart_reads_on_after_what_is_durable(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)
    feed.brings(1, 2, 3)
    far.settle()

    far.restart()
    hub.feeds[-1].found(far.now)
    far.settle()

    assert hub.feeds[-1].started == [(4, 0)]


def test_a_write_that_failed_is_read_again(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)
    feed.brings(1, 2, 3)
    far.turn()
    far.submit()

    far.fail(OSError(errno.ENOSPC, "full"))
    far.wait(30)
    far.settle()

    assert feed.started == [(1, 0), (1, 0)]
    feed.brings(1, 2, 3)
    far.settle()
    assert [row[0] for row in rows(far.engine.streams["M"])] == [1, 2, 3]


def test_a_mirror_of_a_stream_created_again_continues_after_its_own_last(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    feed = mirror_of(far, hub)
    feed.brings(1, 2, 3)
    far.settle()

    feed.found(far.now, created_ns=2)
    far.settle()

    assert feed.started == [(1, 0), (4, 0)]


def test_a_source_of_a_stream_created_again_begins_again(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    far.make("S", sources=[{"name": "A", "external": HUB}])
    feed = hub.feeds[-1]
    feed.found(far.now)
    far.settle()
    feed.brings(1, 2)
    far.settle()

    feed.found(far.now, created_ns=2)
    far.settle()
    feed.brings(1)
    far.settle()

    assert feed.started == [(1, 0), (1, 0)]
    assert [row[3] for row in rows(far.engine.streams["S"])] == [b"1", b"2", b"1"]


def test_a_source_reads_on_after_a_restart(far: CopyBench, hub: ScriptedUpstreams) -> None:
    far.make("S", sources=[{"name": "A", "external": HUB}])
    hub.feeds[-1].found(far.now)
    far.settle()
    hub.feeds[-1].brings(1, 5)
    far.settle()

    far.restart()
    hub.feeds[-1].found(far.now)
    far.settle()

    assert hub.feeds[-1].started == [(6, 0)]
    assert far.info("S")["sources"][0]["seq"] == 5


def test_lag_and_silence_are_reported(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)
    feed.lag = 40
    feed.brings(1, 2)
    far.turn()
    far.now += 3_000_000_000

    info = far.info("M")["mirror"]

    assert (info["lag"], info["active"]) == (42, 3_000_000_000)
    far.settle()
    assert far.info("M")["mirror"]["lag"] == 40


def test_a_problem_at_the_remote_is_reported(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)

    feed.error = b'{"code":500,"err_code":10029,"description":"remote hub: no connection"}'

    assert far.info("M")["mirror"]["error"]["description"] == "remote hub: no connection"


def test_starts_and_filters_are_the_remotes_business(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    by_seq = mirror_of(far, hub, mirror={"opt_start_seq": 9, "filter_subject": "a.>"})
    far.ask("STREAM.DELETE.M")
    by_time = mirror_of(far, hub, mirror={"opt_start_time": "1970-01-01T00:00:07Z"})

    assert (by_seq.started, by_seq.filters) == ([(9, 0)], [b"a.>"])
    assert by_time.started == [(1, 7_000_000_000)]


@pytest.mark.parametrize(
    ("config", "answers"),
    [
        ({"mirror_direct": True}, True),
        ({"mirror_direct": False}, False),
        ({"mirror_direct": True, "mirror": {"filter_subject": "a"}}, False),
        ({"mirror_direct": True, "subject_transform": {"src": "a", "dest": "b"}}, False),
    ],
)
def test_only_a_whole_mirror_answers_for_its_remote_origin(
    far: CopyBench, hub: ScriptedUpstreams, config: dict[str, Any], answers: bool
) -> None:
    """decisions.md, Direct get."""
    mirror_of(far, hub, **config)

    assert (far.engine.resolve(b"$JS.API.DIRECT.GET.A") is not None) == answers


def test_a_mirror_may_have_the_name_of_its_remote_origin(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    far.make("A", mirror={"name": "A", "external": HUB}, mirror_direct=True)

    assert far.engine.resolve(b"$JS.API.DIRECT.GET.A") is not None
    assert len(hub.feeds) == 1


def test_promotion_ends_the_feed_for_good(far: CopyBench, hub: ScriptedUpstreams) -> None:
    feed = mirror_of(far, hub)
    feed.brings(1, 2)
    far.settle()

    far.request(b"STREAM.UPDATE.M", b'{"name":"M","subjects":["m"]}')
    far.settle()
    far.put("M", b"m")

    assert feed.closed is True
    assert [row[0] for row in rows(far.engine.streams["M"])] == [1, 2, 3]


def test_a_remote_that_is_no_longer_configured_is_named_in_info(
    far: CopyBench, hub: ScriptedUpstreams
) -> None:
    mirror_of(far, hub).brings(1)
    far.settle()
    far.upstreams = None

    far.restart()
    far.settle()

    info = far.info("M")
    assert info["state"]["last_seq"] == 1
    assert "$JS.hub.API" in info["mirror"]["error"]["description"]


def test_an_unknown_remote_is_refused_and_the_known_ones_are_named(far: CopyBench) -> None:
    external = {"api": "$JS.nowhere.API"}

    answer = far.ask(
        "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "A", "external": external}}
    )

    assert answer["error"]["err_code"] == 10052
    assert "one of hub" in answer["error"]["description"]


@pytest.mark.parametrize("first", [2**63 - 2, 2**63 - 1, 2**63, 2**64 - 2])
def test_a_mirror_shows_that_its_origin_has_sequences_that_it_cannot_hold(
    far: CopyBench, hub: ScriptedUpstreams, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    feed = mirror_of(far, hub)
    feed.brings(7)
    far.settle()

    feed.brings(first, first + 1)
    far.settle()

    info = far.info("M")
    assert f"the origin is at sequence {first}" in info["mirror"]["error"]["description"]
    assert info["mirror"]["lag"] == 2
    assert info["state"]["last_seq"] == 7
    far.now = far.engine.next_deadline() or 0
    far.engine.expire(far.now, far.outbox)
    far.settle()
    assert far.info("M")["mirror"]["error"]
    assert [record.levelname for record in caplog.records] == ["ERROR"], "it is logged once"


@pytest.mark.parametrize("through", [2**63 - 1, 2**63, 2**64 - 1])
def test_a_mirror_shows_that_nothing_is_left_up_to_a_sequence_that_it_cannot_hold(
    far: CopyBench, hub: ScriptedUpstreams, through: int
) -> None:
    feed = mirror_of(far, hub)

    feed.brings(7, through=through)
    far.settle()

    info = far.info("M")
    assert f"the origin is at sequence {through}" in info["mirror"]["error"]["description"]
    assert info["state"]["last_seq"] == 7


@pytest.mark.parametrize("first", [2**63 - 2, 2**63 - 1, 2**63, 2**64 - 2])
def test_a_source_copies_messages_of_any_sequence(
    far: CopyBench, hub: ScriptedUpstreams, first: int
) -> None:
    far.make("M", sources=[{"name": "A", "external": HUB}])
    feed = hub.feeds[-1]
    feed.found(far.now)
    far.settle()

    feed.brings(first, first + 1)
    far.settle()

    (info,) = far.info("M")["sources"]
    assert ("error" in info, info["seq"]) == (False, first + 1)
    assert [row[3] for row in rows(far.engine.streams["M"])] == [
        b"%d" % first,
        b"%d" % (first + 1),
    ]


@pytest.mark.parametrize("time_ns", [2**63 - 1, 2**63, 2**64 - 1, 10**30])
def test_a_mirror_takes_messages_of_any_time(
    far: CopyBench, hub: ScriptedUpstreams, time_ns: int
) -> None:
    feed = mirror_of(far, hub)

    feed.brings(1)
    feed.waiting[-1].times[0] = time_ns
    far.settle()

    assert far.info("M")["state"]["last_seq"] == 1
    assert "error" not in far.info("M")["mirror"]


def test_an_unexpected_error_of_a_copy_is_shown(
    far: CopyBench, hub: ScriptedUpstreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = mirror_of(far, hub)

    def fails() -> None:
        raise TypeError("a wrong type")

    monkeypatch.setattr(feed, "take", fails)
    feed.woken()
    far.settle()

    error = far.info("M")["mirror"]["error"]["description"]
    assert "internal error" in error
    assert "a wrong type" in error
