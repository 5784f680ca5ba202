"""Random walks over push consumers, on nats-server 2.15.1 and on ours: the same messages arrive.

What is left in the stream when a message goes out (the last number of its reply) depends in
nats-server on when it counts, so it is left out here; the walk of pull consumers compares it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
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
STEPS = 40
# How long a server may take until everything that goes out has gone out.
SETTLED_S = 2.0
# A redelivery that is in flight shows in no count.
REDELIVERED_S = 0.01
HOUR = 3600 * 10**9

Step = tuple[Any, ...]
Pair = tuple[Wire, Wire]

pytestmark = pytest.mark.timeout(600)

numbers = itertools.count(1)
keys = st.sampled_from(["a", "b", "c.x", "c.y"])
acks = st.fixed_dictionaries(
    {"ack_policy": st.sampled_from(["explicit", "explicit", "all"]), "ack_wait": st.just(HOUR)},
    optional={"max_ack_pending": st.integers(1, 3)},
) | st.just({"ack_policy": "none"})
starts = st.sampled_from([
    {}, {"filter_subject": "a"}, {"filter_subject": "c.*"}, {"filter_subjects": ["a", "c.x"]},
    {"deliver_policy": "last"}, {"deliver_policy": "new"},
    {"deliver_policy": "last_per_subject", "filter_subject": ">"},
])  # fmt: skip
groups = st.sampled_from([{}, {}, {}, {"deliver_group": "g"}])
configs = st.builds(
    lambda ack, start, group, bare: (
        {"deliver_subject": "p", "inactive_threshold": HOUR, "headers_only": bare}
        | ack | start | group
    ),
    acks, starts, groups, st.booleans(),
)  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("put"), st.lists(keys, min_size=1, max_size=3)),
    st.tuples(st.just("put"), st.lists(keys, min_size=1, max_size=3)),
    st.tuples(
        st.just("ack"), st.integers(0, 9), st.sampled_from([b"", b"", b"-NAK", b"+TERM", b"+WPI"])
    ),
    st.tuples(st.just("ack"), st.integers(0, 9), st.just(b"")),
    st.tuples(st.just("listen")),
    st.tuples(st.just("leave")),
    st.tuples(st.just("make"), configs),
    st.tuples(st.just("limit"), st.integers(1, 4)),
)


@dataclass
class Receiver:
    """Takes the steps on one server, and keeps what was pushed."""

    session: Session
    config: dict[str, Any] = field(default_factory=dict)
    sid: bytes = b""
    pending: list[Message] = field(default_factory=list)
    got: list[Any] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Take a step."""
        match step:
            case ("put", wanted):
                self.session.put(*wanted)
            case ("ack", number, body) if self.pending:
                message = self.pending[number % len(self.pending)]
                self.session.ack(message, body)
                if body != b"+WPI":
                    self.pending.remove(message)
            case ("listen",) if not self.sid and self.config:
                subject = f"d.{self.session.stream}.p"
                self.sid = self.session.wire.subscribe(
                    subject, self.config.get("deliver_group", "")
                )
            case ("leave",):
                self.leave()
            case ("make", config):
                self.leave()
                if self.config:
                    self.session.ask("CONSUMER.DELETE", None, "c")
                self.pending = []
                self._consumer(config)
            case ("limit", most) if self.config.get("ack_policy", "none") != "none":
                self._consumer(self.config | {"max_ack_pending": most})

    def seen(self) -> tuple[list[Any], Any]:
        """What came since the last step, and how the consumer is now."""
        wire = self.session.wire
        wire.flush()
        if self.sid:
            for message in wire.taken(self.sid):
                to, reply, headers, payload = self.session.nameless(message.masked())
                self.got.append((to, reply.rpartition(b".")[0], headers, payload))
                if self.config["ack_policy"] != "none":
                    self.pending.append(message)
        info = self.session.info()
        self.session.said.pop()
        return self.got, info

    def is_quiet(self, info: dict[str, Any]) -> bool:
        """Say whether nothing more goes out before the next step."""
        if not self.sid or info["num_pending"] == 0:
            return True
        return bool(self.config["ack_policy"] != "none" and info["num_ack_pending"] >= self.most)

    @property
    def most(self) -> int:
        """How many messages may wait for their acknowledgement."""
        return int(self.config.get("max_ack_pending", 1000))

    def leave(self) -> None:
        """Listen no longer."""
        if self.sid:
            self.session.wire.unsubscribe(self.sid)
            self.sid = b""

    def _consumer(self, config: dict[str, Any]) -> None:
        self.config = config
        self.session.consumer(**config)
        self.session.said.pop()  # nats-server may know shortly after whether it is bound


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    with running_nats_server(tmp_path_factory.mktemp("theirs")) as address:
        pair = Wire(served.url), Wire(address)
        yield pair
        for wire in pair:
            wire.close()
    served.end()


@settings(
    max_examples=WALKS,
    deadline=None,
    phases=[Phase.generate],  # as in test_walk.py
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=configs, walk=st.lists(steps, min_size=STEPS, max_size=STEPS))
def test_the_same_messages_are_pushed(
    wires: Pair, first: dict[str, Any], walk: list[Step]
) -> None:
    stream = f"PW{next(numbers)}"
    ours, theirs = (Receiver(Session(wire, stream)) for wire in wires)
    for receiver in (ours, theirs):
        receiver.session.counted_s = 0
        receiver.session.make()
    taken: list[Step] = []
    for step in [("make", first), ("listen",), *walk]:
        taken.append(step)
        for receiver in (ours, theirs):
            receiver.take(step)
        assert ours.session.said == theirs.session.said, taken
        if step[0] == "listen" or b"-NAK" in step:
            time.sleep(REDELIVERED_S)
        deadline = time.monotonic() + SETTLED_S
        while time.monotonic() < deadline:
            mine, other = ours.seen(), theirs.seen()
            if mine == other and ours.is_quiet(mine[1]):
                break
            time.sleep(0.002)
        assert mine == other, taken
        for receiver in (ours, theirs):
            receiver.session.said.clear()
            receiver.got.clear()
    for receiver in (ours, theirs):
        receiver.leave()
        receiver.session.ask("STREAM.DELETE")
