"""Random walks over a stream, taken on nats-server 2.15.1 and on ours: every answer alike.

Hypothesis makes the walks, of 100 steps each; `make torture` takes more of them. Each has a stream
of its own on the same two servers.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.interop.api.script import Step, play
from tests.support.both_servers import nats_server
from tests.support.raw_requests import RawClient
from tests.support.served import Served

# JETSPARK_WALKS makes it longer (tools/torture.py).
WALKS = int(os.environ.get("JETSPARK_WALKS", "5"))
STEPS = 100

Pair = tuple[RawClient, RawClient]

numbers = itertools.count(1)
sequences = st.integers(min_value=0, max_value=60)
counts = st.integers(min_value=0, max_value=6)
keys = st.sampled_from(["a", "b", "c", "d.x", "d.y"])
patterns = st.sampled_from(["a", "b", "*", "d.*", ">", "none", "*.x"])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    ours = RawClient(served.url.removeprefix("nats://"))
    with nats_server(tmp_path_factory.mktemp("theirs")) as theirs:
        yield ours, theirs
    ours.close()
    served.end()


def body(**fields: object) -> bytes:
    return json.dumps({name: value for name, value in fields.items() if value}).encode()


# A step is made for a stream when the walk begins: NAME stands for its name. -----------------


def headers(expected: int | None, message_id: str | None) -> bytes:
    lines = ""
    if expected is not None:
        lines += f"Nats-Expected-Last-Subject-Sequence: {expected}\r\n"
    if message_id is not None:
        lines += f"Nats-Msg-Id: {message_id}\r\n"
    return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""


publishes = st.builds(
    lambda key, payload, block: Step(f"NAME.{key}", payload, block),
    keys,
    st.binary(max_size=6),
    st.builds(headers, st.none() | st.none() | counts, st.none() | st.sampled_from("xyz")),
)
deletes = st.builds(
    lambda seq: Step("$JS.API.STREAM.MSG.DELETE.NAME", body(seq=seq, no_erase=True)), sequences
)
purges = st.builds(
    lambda pattern, seq, keep: Step(
        "$JS.API.STREAM.PURGE.NAME", body(filter=pattern and f"NAME.{pattern}", seq=seq, keep=keep)
    ),
    st.none() | patterns,
    st.just(0) | sequences,
    st.just(0) | counts,
)
updates = st.builds(
    lambda max_msgs, max_bytes, per_subject, discard: Step(
        "$JS.API.STREAM.UPDATE.NAME",
        body(
            name="NAME",
            subjects=["NAME.>"],
            allow_direct=True,
            max_msgs=max_msgs,
            max_bytes=max_bytes,
            max_msgs_per_subject=per_subject,
            discard=discard,
        ),
    ),
    st.just(0) | counts,
    st.sampled_from([0, 0, 100, 200]),
    st.just(0) | counts,
    st.sampled_from(["old", "old", "new"]),
)
infos = st.builds(
    lambda pattern: Step(
        "$JS.API.STREAM.INFO.NAME",
        body(deleted_details=True, subjects_filter=pattern and f"NAME.{pattern}"),
    ),
    st.none() | patterns,
)
gets = st.builds(
    lambda verb, seq, last, following: Step(
        f"$JS.API.{verb}.NAME",
        body(
            seq=seq,
            last_by_subj=last and f"NAME.{last}",
            next_by_subj=following and f"NAME.{following}",
        ),
    ),
    st.sampled_from(["DIRECT.GET", "STREAM.MSG.GET"]),
    st.just(0) | sequences,
    st.none() | patterns,
    st.none() | patterns,
)
batches = st.builds(
    lambda seq, batch, pattern, limit: Step(
        "$JS.API.DIRECT.GET.NAME",
        body(seq=seq, batch=batch, next_by_subj=pattern and f"NAME.{pattern}", max_bytes=limit),
        many=True,
    ),
    st.integers(min_value=1, max_value=60),
    st.integers(min_value=1, max_value=9),
    st.none() | patterns,
    st.sampled_from([0, 0, 20]),
)
multis = st.builds(
    lambda chosen, seq, batch, limit: Step(
        "$JS.API.DIRECT.GET.NAME",
        body(
            multi_last=[f"NAME.{pattern}" for pattern in chosen],
            seq=seq,
            batch=batch,
            max_bytes=limit,
        ),
        many=True,
    ),
    st.lists(patterns, min_size=1, max_size=3),
    st.just(0) | sequences,
    counts,
    st.sampled_from([0, 0, 20]),
)
steps = st.one_of(publishes, publishes, publishes, deletes, purges, updates, infos, gets, batches,
                  multis)  # fmt: skip


@settings(
    max_examples=WALKS,
    deadline=None,
    phases=[Phase.generate],  # servers remember: a walk cannot be made shorter by repeating it
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(walk=st.lists(steps, min_size=STEPS, max_size=STEPS))
def test_a_walk_is_answered_alike(servers: Pair, walk: list[Step]) -> None:
    ours, theirs = servers
    name = f"W{next(numbers)}"
    made = Step(
        f"$JS.API.STREAM.CREATE.{name}",
        body(name=name, subjects=[f"{name}.>"], allow_direct=True),
    )
    # A new stream without messages says in nats-server that sequence 0 was deleted.
    first = Step(f"{name}.a", b"first")
    for step in (made, first):
        assert play(ours, step) == play(theirs, step)
    taken = []
    for step in walk:
        there = Step(
            step.subject.replace("NAME", name),
            step.body.replace(b"NAME", name.encode()),
            step.headers,
            step.many,
        )
        taken.append(str(there))
        assert play(ours, there) == play(theirs, there), taken
