"""Random walks over consumers, taken on nats-server 2.15.1 and on ours: every answer alike.

Hypothesis makes the walks, of 100 steps each; `make torture` takes more of them. Each has a stream
of its own on the same two servers. Only what does not depend on time is walked: pulls that do not
wait, acknowledgements as requests, and changes of the stream and its consumers.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.interop.consumers.session import Session
from tests.support.both_servers import running_nats_server
from tests.support.consumer_wire import Message, Wire
from tests.support.served import Served

# JETSPARK_WALKS makes it longer (tools/torture.py).
WALKS = int(os.environ.get("JETSPARK_WALKS", "5"))
STEPS = 100
# How long nats-server may take to count what it acknowledged.
SETTLED_S = 2.0
LAST_OF_EACH = ("deliver_policy", "last_per_subject")

pytestmark = pytest.mark.timeout(600)

Step = tuple[Any, ...]
Pair = tuple[Wire, Wire]

numbers = itertools.count(1)
names = st.sampled_from(["p", "q"])
keys = st.sampled_from(["a", "b", "c.x", "c.y"])
filters = st.sampled_from([
    {}, {}, {"filter_subject": "a"}, {"filter_subject": "c.*"}, {"filter_subject": ">"},
    {"filter_subjects": ["a", "c.x"]}, {"filter_subject": "none"},
])  # fmt: skip
starts = st.sampled_from([
    {}, {}, {"deliver_policy": "last"}, {"deliver_policy": "new"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 30},
    {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    {"deliver_policy": "last_per_subject", "filter_subject": "c.*"},
])  # fmt: skip
configs = st.builds(
    lambda policy, deliver, wanted, start, bare: (
        {"ack_policy": policy, "ack_wait": 3600 * 10**9, "inactive_threshold": 3600 * 10**9}
        | ({"max_deliver": deliver} if deliver else {})
        | ({"headers_only": True} if bare else {})
        | wanted
        | start
    ),
    st.sampled_from(["explicit", "explicit", "explicit", "all", "none"]),
    st.sampled_from([0, 0, 1, 2, 3]),
    filters,
    starts,
    st.booleans(),
).filter(lambda config: not ("filter_subject" in config and "filter_subjects" in config))

steps = st.one_of(
    st.tuples(st.just("put"), st.lists(keys, min_size=1, max_size=4), st.binary(max_size=6)),
    st.tuples(st.just("put"), st.lists(keys, min_size=1, max_size=4), st.binary(max_size=6)),
    st.tuples(st.just("fetch"), names, st.integers(1, 6), st.sampled_from([0, 0, 0, 90, 200])),
    st.tuples(st.just("fetch"), names, st.integers(1, 6), st.just(0)),
    st.tuples(
        st.just("ack"),
        names,
        st.integers(0, 9),
        st.sampled_from([b"", b"+ACK", b"-NAK", b"-NAK", b"+TERM", b"+WPI", b"junk"]),
    ),
    st.tuples(
        st.just("ack"), names, st.integers(0, 9), st.sampled_from([b"", b"", b"-NAK", b"+TERM"])
    ),
    st.tuples(st.just("make"), names, configs),
    st.tuples(st.just("change"), names, filters, st.sampled_from([0, 2, 4])),
    st.tuples(st.just("remove"), st.integers(1, 40)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("reset"), names, st.integers(0, 20)),
)


@dataclass
class Walker:
    """Takes the steps on one server; what it needs to know it learned from that server."""

    session: Session
    retention: str = "limits"
    # By consumer: how it was made, and what it delivered and no one acknowledged.
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    pending: dict[str, list[Message]] = field(default_factory=dict)
    unacked: dict[str, int] = field(default_factory=dict)
    sized: dict[str, bool] = field(default_factory=dict)
    refused: dict[str, bool] = field(default_factory=dict)
    last: int = 0

    def take(self, step: Step) -> str:
        """Take a step; gives the consumer whose state is to be looked at."""
        if self.retention != "limits" and step[0] not in {"put", "fetch", "ack", "make"}:
            return ""  # when nats-server notices lost interest depends on time then
        match step:
            case ("put", wanted, payload):
                self.session.put(*wanted, payload=payload)
                self.last += len(wanted)
            case ("fetch", name, batch, size):
                self._fetch(name, batch, size)
                return str(name)
            case ("ack", name, number, body):
                self._ack(name, number, body)
                return str(name)
            case ("make", name, config):
                self._make(name, config)
                return str(name)
            case ("change", name, wanted, deliver):
                self._change(name, wanted, deliver)
                return str(name)
            case ("remove", seq):
                # In nats-server an ack of all then has acknowledged all before it, and
                # it counts down for the last of each subject whichever message it was.
                if not self._has("ack_policy", "all") and not self._has(*LAST_OF_EACH):
                    self.session.ask("STREAM.MSG.DELETE", {"seq": seq, "no_erase": True})
            case ("purge",):
                # Of everything: after other purges nats-server counts messages that were deleted,
                # forgets redeliveries, and moves floors of consumers that have nothing to do with
                # it; with messages that are not acknowledged it does so after any purge, and one
                # that wants the last of each subject misses messages.
                if not any(self.unacked.values()) and not self._has(*LAST_OF_EACH):
                    self.session.ask("STREAM.PURGE")
            case ("reset", name, seq):
                # With changed filters nats-server counts one that acknowledges all by the old
                # ones, the last of each wrongly, and continues after what was delivered as often
                # as it may be, although its ack floor does not say so.
                made = self.made.get(name, {"ack_policy": "all"})
                known = made["ack_policy"] != "all" and LAST_OF_EACH not in made.items()
                if known and "max_deliver" not in made:
                    self.pending[name] = []
                    # After the end it counts what comes before that place, too.
                    seq = min(seq, self.last)
                    self.session.ask("CONSUMER.RESET", {"seq": seq} if seq else None, name)
                return str(name)
        return ""

    def _has(self, field: str, value: str) -> bool:
        return any(config.get(field) == value for config in self.made.values())

    def _make(self, name: str, config: dict[str, Any]) -> None:
        if self.retention == "workqueue":
            config = {k: v for k, v in config.items() if not k.startswith(("deliver_", "opt_"))}
            config["ack_policy"] = "explicit"
        elif self.retention == "interest":
            # nats-server keeps some messages that no consumer will ever get: those that were
            # delivered as often as they may be, and all but the last of each subject.
            config = {k: v for k, v in config.items() if k != "max_deliver"}
            if LAST_OF_EACH in config.items():
                del config["deliver_policy"]
        if name in self.made:
            self.session.ask("CONSUMER.DELETE", None, name)
        if config.get("opt_start_seq", 0) > self.last:
            # nats-server then counts what comes before that, too.
            config = config | {"opt_start_seq": max(self.last, 1)}
        self.pending[name] = []
        self.sized[name] = self.refused[name] = False
        self.made.pop(name, None)
        if "error" not in self.session.consumer(name, **config):
            self.made[name] = config

    def _fetch(self, name: str, batch: int, size: int) -> None:
        if name not in self.made:
            return
        if LAST_OF_EACH in self.made[name].items() or self.refused[name]:
            size = 0  # a message that does not fit is lost to nats-server, or loses its place
        self.sized[name] |= size > 0
        options = {"max_bytes": size} if size else {}
        # With a limit of bytes even a full batch ends with a status.
        count = batch + 1 if size else batch
        got = self.session.pull({"batch": batch, "no_wait": True} | options, count, name, size)
        if self.made[name]["ack_policy"] != "none":
            self.pending[name].extend(got)

    def _ack(self, name: str, number: int, body: bytes) -> None:
        waiting = self.pending.get(name)
        if waiting:
            message = waiting[number % len(waiting)]
            self.session.ack(message, body)
            self.refused[name] |= body == b"-NAK"
            if body not in {b"+WPI", b"junk"}:
                waiting.remove(message)

    def _change(self, name: str, wanted: dict[str, Any], deliver: int) -> None:
        made = self.made.get(name)
        # nats-server keeps what is pending and matches no more, even when it is deleted; and a
        # message that had no room in a request is the next one, whatever the filters are now.
        if made is None or LAST_OF_EACH in made.items() or self.unacked[name] or self.sized[name]:
            return
        # Without filters nats-server continues counting by the old ones.
        wanted = wanted or {"filter_subject": ">"}
        kept = {k: v for k, v in made.items() if not k.startswith("filter") and k != "max_deliver"}
        made = kept | wanted | ({"max_deliver": deliver} if deliver else {})
        self.made[name] = made
        self.session.consumer(name, **made)


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    with running_nats_server(tmp_path_factory.mktemp("theirs")) as address:
        pair = Wire(served.url), Wire(address)
        yield pair
        for wire in pair:
            wire.close()
    served.end()


def kept(walker: Walker) -> tuple[int, int]:
    """How many messages the stream has, and its last sequence."""
    found = walker.session.wire.api(f"STREAM.INFO.{walker.session.stream}")["state"]
    return found["messages"], found["last_seq"]


def alike(look: Callable[[Walker], Any], ours: Walker, theirs: Walker, taken: list[Step]) -> None:
    """See the same on both, theirs when it had time to settle."""
    expected = look(ours)
    deadline = time.monotonic() + SETTLED_S
    while (found := look(theirs)) != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    assert expected == found, taken


def state(name: str, walker: Walker) -> Any:
    info = walker.session.info(name)
    walker.unacked[name] = info["num_ack_pending"]
    said = walker.session.said.pop()
    made = walker.made.get(name, {})
    if made.get("ack_policy") == "all" and "max_deliver" in made:
        # nats-server never forgets a message that was delivered as often as it may be, even after
        # an ack of all has acknowledged it.
        said.pop("num_redelivered", None)
    return said


@settings(
    max_examples=WALKS,
    deadline=None,
    phases=[Phase.generate],  # servers remember: a walk cannot be made shorter by repeating it
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    retention=st.sampled_from(["limits", "limits", "limits", "interest", "workqueue"]),
    first=configs,
    walk=st.lists(steps, min_size=STEPS, max_size=STEPS),
)
def test_a_walk_is_answered_alike(
    wires: Pair, retention: str, first: dict[str, Any], walk: list[Step]
) -> None:
    stream = f"CW{next(numbers)}"
    ours, theirs = (Walker(Session(wire, stream), retention) for wire in wires)
    for walker in (ours, theirs):
        walker.session.counted_s = 0  # their state is asked for until it is so
        walker.session.make(retention=retention)
    taken: list[Step] = [(retention,)]
    for step in [("make", "p", first), *walk]:
        taken.append(step)
        touched = ours.take(step)
        theirs.take(step)
        assert ours.session.said == theirs.session.said, taken
        for walker in (ours, theirs):
            walker.session.said.clear()
        # What touches none by name may touch all.
        for name in [touched] if touched in ours.made else sorted(ours.made):
            alike(partial(state, name), ours, theirs, taken)
        if retention != "limits":
            alike(kept, ours, theirs, taken)
    for walker in (ours, theirs):
        walker.session.ask("STREAM.DELETE")
