"""Random walks over consumers, taken on nats-server 2.15.1 and on ours: every answer alike.

Hypothesis makes the walks, 5,000 steps in all; each has a stream of its own on the same two
servers. Only what does not depend on time is walked: pulls that do not wait, acknowledgements as
requests, and changes of the stream and its consumers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.campaigns.served import Served
from tests.interop.consumer_session import Session
from tests.interop.consumer_wire import Message, Wire
from tests.interop.test_jetstream_api_differential import running_nats_server

WALKS = 50
STEPS = 100
# How long nats-server may take to count what it acknowledged.
SETTLED_S = 2.0

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
    st.tuples(st.just("purge"), st.none() | keys, st.integers(0, 30), st.integers(0, 3)),
    st.tuples(st.just("reset"), names, st.integers(0, 20)),
)


@dataclass
class Walker:
    """Takes the steps on one server; what it needs to know it learned from that server."""

    session: Session
    # By consumer: how it was made, and what it delivered and nobody acknowledged.
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    pending: dict[str, list[Message]] = field(default_factory=dict)
    last: int = 0

    def take(self, step: Step) -> str:
        """Take a step; gives the consumer whose state is to be looked at."""
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
                self.session.ask("STREAM.MSG.DELETE", {"seq": seq, "no_erase": True})
            case ("purge", key, seq, keep):
                self._purge(key, seq, keep)
            case ("reset", name, seq):
                if name in self.made:
                    self.pending[name] = []
                    self.session.ask("CONSUMER.RESET", {"seq": seq} if seq else None, name)
                return str(name)
        return ""

    def _make(self, name: str, config: dict[str, Any]) -> None:
        if name in self.made:
            self.session.ask("CONSUMER.DELETE", None, name)
        if config.get("opt_start_seq", 0) > self.last:
            # nats-server then counts what comes before that, too.
            config = config | {"opt_start_seq": max(self.last, 1)}
        self.made[name] = config
        self.pending[name] = []
        self.session.consumer(name, **config)

    def _fetch(self, name: str, batch: int, size: int) -> None:
        if name not in self.made:
            return
        if self.made[name].get("deliver_policy") == "last_per_subject":
            size = 0  # a message that does not fit is lost to nats-server then
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
            if body not in {b"+WPI", b"junk"}:
                waiting.remove(message)

    def _change(self, name: str, wanted: dict[str, Any], deliver: int) -> None:
        made = self.made.get(name)
        if made is None or "last_per_subject" in made.values():
            return
        kept = {k: v for k, v in made.items() if not k.startswith("filter") and k != "max_deliver"}
        made = kept | wanted | ({"max_deliver": deliver} if deliver else {})
        self.made[name] = made
        self.session.consumer(name, **made)

    def _purge(self, key: str | None, seq: int, keep: int) -> None:
        body: dict[str, Any] = {"seq": seq} if seq else {"keep": keep}
        if key:
            body["filter"] = f"{self.session.stream}.{key}"
        self.session.ask("STREAM.PURGE", body)


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    with running_nats_server(tmp_path_factory.mktemp("theirs")) as address:
        pair = Wire(served.url), Wire(address)
        yield pair
        for wire in pair:
            wire.close()
    served.end()


def state(walker: Walker, name: str) -> Any:
    walker.session.info(name)
    return walker.session.said.pop()


@settings(
    max_examples=WALKS,
    deadline=None,
    phases=[Phase.generate],  # servers remember: a walk cannot be made shorter by repeating it
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    first=configs,
    walk=st.lists(steps, min_size=STEPS, max_size=STEPS),
)
def test_a_walk_is_answered_alike(wires: Pair, first: dict[str, Any], walk: list[Step]) -> None:
    stream = f"CW{next(numbers)}"
    ours, theirs = (Walker(Session(wire, stream)) for wire in wires)
    for walker in (ours, theirs):
        walker.session.counted_s = 0  # their state is asked for until it is so
        walker.session.make()
    taken: list[Step] = []
    for step in [("make", "p", first), *walk]:
        taken.append(step)
        touched = {walker.take(step) for walker in (ours, theirs)}
        assert len(touched) == 1
        assert ours.session.said == theirs.session.said, taken
        for walker in (ours, theirs):
            walker.session.said.clear()
        for name in sorted(ours.made):
            expected = state(ours, name)
            deadline = time.monotonic() + SETTLED_S
            while (found := state(theirs, name)) != expected and time.monotonic() < deadline:
                time.sleep(0.001)
            assert expected == found, taken
    for walker in (ours, theirs):
        walker.session.ask("STREAM.DELETE")
