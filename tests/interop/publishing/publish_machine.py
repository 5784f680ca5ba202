"""Random publishes to both servers: a hypothesis state machine over one stream at a time."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.interop.publishing.publish_scripts import (
    ID,
    INCR,
    LAST,
    LAST_ID,
    OTHER,
    ROLLUP,
    SOURCE,
    STREAM,
    SUBJECT,
    TTL,
)
from tests.interop.publishing.publish_wire import Api, Pub, RawClient, api, contents, published

# nats-server does not always get a name back at once after a delete.
NUMBERED = itertools.count()

SUBJECTS = st.sampled_from(["a", "b", "c.d"])
NUMBERS = st.integers(0, 12).map(str)
SEQUENCES = NUMBERS | st.sampled_from(["", "junk", "007"])
HEADERS = st.one_of(
    st.tuples(st.just(ID), st.sampled_from(["", "1", "2", "3", "4"])),
    st.tuples(st.just(LAST), SEQUENCES),
    st.tuples(st.just(SUBJECT), SEQUENCES),
    st.tuples(st.just(OTHER), st.sampled_from(["", "{S}.a", "{S}.*", "{S}.>", "{S}.c.d", "x"])),
    st.tuples(st.just(LAST_ID), st.sampled_from(["", "1", "2", "3"])),
    st.tuples(st.just(STREAM), st.sampled_from(["", "{S}", "X"])),
    st.tuples(st.just(ROLLUP), st.sampled_from(["", "sub", "all", "junk"])),
    st.tuples(st.just(TTL), st.sampled_from(["", "600", "1h", "never", "0", "junk"])),
    st.tuples(st.just(INCR), st.sampled_from(["", "1", "-3", "junk"])),
    st.tuples(st.just(SOURCE), st.sampled_from(["", "X"])),
    st.tuples(st.sampled_from(["Foo", "Nats-Foo"]), st.text("xyz", max_size=3)),
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_msgs": st.integers(1, 6),
        "max_bytes": st.integers(60, 400),
        "max_msgs_per_subject": st.integers(1, 4),
        "max_msg_size": st.integers(20, 80),
        "discard": st.sampled_from(["old", "new"]),
        "allow_rollup_hdrs": st.booleans(),
        "allow_msg_ttl": st.booleans(),
        "first_seq": st.sampled_from([1, 7]),
    },
)
COUNTERS = st.just({"allow_msg_counter": True})


class PublishMachine(RuleBasedStateMachine):
    """What one server answers, the other answers too."""

    ours: ClassVar[RawClient]
    theirs: ClassVar[RawClient]

    @initialize(config=LIMITS | COUNTERS)
    def make(self, config: dict[str, Any]) -> None:
        self.name = f"M{next(NUMBERED)}"
        body = {"name": self.name, "subjects": [f"{self.name}.>"]} | config
        for client in (self.ours, self.theirs):
            made = api(client, f"STREAM.CREATE.{self.name}", body)
            assert "error" not in made, made

    @rule(
        subject=SUBJECTS,
        size=st.integers(0, 40),
        headers=st.lists(HEADERS, max_size=3).map(tuple),
    )
    def publish(self, subject: str, size: int, headers: tuple[tuple[str, str], ...]) -> None:
        step = Pub(subject, b"x" * size, headers)
        assert published(self.ours, step, self.name) == published(self.theirs, step, self.name)

    @rule(seq=st.integers(1, 14))
    def delete(self, seq: int) -> None:
        self._both(Api(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq}))

    @rule(tokens=st.sampled_from(["", "a", "*", "c.d"]), keep=st.integers(0, 3))
    def purge(self, tokens: str, keep: int) -> None:
        body: dict[str, Any] = {"keep": keep}
        if tokens:
            body["filter"] = f"{self.name}.{tokens}"
        self._both(Api(f"STREAM.PURGE.{self.name}", body))

    def _both(self, step: Api) -> None:
        here = api(self.ours, step.verb, step.body)
        assert here == api(self.theirs, step.verb, step.body)

    def teardown(self) -> None:
        assert contents(self.ours, self.name) == contents(self.theirs, self.name)
        for client in (self.ours, self.theirs):
            api(client, f"STREAM.DELETE.{self.name}", None)
