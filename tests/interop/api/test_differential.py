"""The stream API and direct get, asked of nats-server 2.15.1 and of ours (wire.md).

Answers are compared whole, after times, names of servers and our own metadata were masked. What
differs on purpose stands in ``DIFFERENCES`` with its row of decisions.md; the test holds both
servers to it, so that a row that is no longer true fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pytest
from tests.interop.api.removal_script import REMOVAL_SCRIPT
from tests.interop.api.script import SCRIPT, Step, play
from tests.interop.api.stream_config_cases import BAD, EXISTING, GOOD
from tests.interop.api.stream_update_cases import UPDATES
from tests.support.both_servers import comparable, label, nats_server
from tests.support.raw_requests import RawClient

from jetspark.api.base import encode
from jetspark.api.levels import answered_metadata
from jetspark.api.stream import StreamConfig, StreamCreateRequest
from jetspark.api.strict import decode
from jetspark.engine.operations import Postponed, Turnstile
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.requests.request import Request
from jetspark.engine.requests.streams import wanted_config
from jetspark.engine.settings import EngineSettings
from jetspark.engine.stream.config import checked
from jetspark.engine.stream.config_update import updated
from jetspark.subjects.match import overlaps

# Step, and why ours answers otherwise. Both sides' answers to it are written down in
# `test_the_differences_are_those_that_were_decided`.
DIFFERENCES: Final = {
    b'{"multi_last":["s.>"],"up_to_seq":1000}': (
        "ADR-31: less than or equal; nats-server finds nothing beyond its last block"
    ),
}
# Configurations, the field that differs in the answer, ours, theirs, and the row.
DECIDED: Final[list[tuple[dict[str, Any], str, object, object, str]]] = [
    ({"max_msgs_per_subject": 5}, "allow_direct", True, False, "allow_direct when ..."),
    ({"max_msgs_per_subject": 5, "allow_direct": False}, "allow_direct", True, False, "same"),
    ({"allow_batched": True}, "_nats.req.level", "3", "4", "API level of allow_batched"),
    ({"rollup_hdrs": True}, "allow_rollup_hdrs", True, None, "rollup_hdrs"),
    ({"metadata": {"_nats.x": "1"}}, "_nats.x", None, "1", "`_nats.*` is the server's"),
]


# The requests of the script -----------------------------------------------------------------


@pytest.mark.parametrize("script", [SCRIPT, REMOVAL_SCRIPT], ids=["reading", "removing"])
def test_both_servers_answer_the_script_alike(
    ours: RawClient, theirs: RawClient, script: list[Step]
) -> None:
    assert len(script) >= 200
    differing = []
    for step in script:
        answers = play(ours, step), play(theirs, step)
        if (answers[0] != answers[1]) != (step.body in DIFFERENCES):
            differing.append((str(step), step.headers, *answers))

    assert differing == []


def test_more_than_1024_subjects_are_too_many(ours: RawClient, theirs: RawClient) -> None:
    """ADR-31, multi-subject requests: up to 1024 subjects, 413 beyond."""
    for client in (ours, theirs):
        client.ask(
            "$JS.API.STREAM.CREATE.M", b'{"name":"M","subjects":["m.*"],"allow_direct":true}'
        )
        for n in range(1024):
            client.ask(f"m.{n}", b"x")
    ask = Step("$JS.API.DIRECT.GET.M", b'{"multi_last":["m.*"]}', many=True)
    some = Step("$JS.API.DIRECT.GET.M", b'{"multi_last":["m.*"],"batch":3}', many=True)

    assert play(ours, ask) == play(theirs, ask)
    assert play(ours, some) == play(theirs, some)
    for client in (ours, theirs):
        client.ask("m.more", b"x")
        assert [r.headers for r in client.ask(ask.subject, ask.body, many=True)] == [
            b"NATS/1.0 413 Too Many Results\r\n\r\n"
        ]
    assert play(ours, some) == play(theirs, some)


# Configurations: our rules against their answers ------------------------------------------------


class Turns:
    """Takes all turns of a long request at once."""

    @property
    def long_requests(self) -> Turnstile:
        return Turnstile(lambda _operation: None)  # no one else exists

    def in_steps(self, _name: str, step: Callable[[], bool], *_finish: object) -> None:
        while not step():
            pass


class Streams:
    """The one stream that exists next to the one that is made."""

    def __init__(self) -> None:
        self.operations = Turns()
        made = msgspec.convert(EXISTING, StreamConfig)
        self.settings = EngineSettings()
        self.origin = checked(made, pedantic=False, find=lambda _name: None)

    def find(self, name: str) -> StreamConfig | None:
        return self.origin if name == "ORIGIN" else None

    def refuse_overlap(self, config: StreamConfig) -> StreamConfig:
        for subject in config.subjects:
            if overlaps(subject.encode(), b"origin.>"):
                raise Refusal(10065)
        return config


def our_verdict(config: dict[str, Any]) -> dict[str, Any]:
    """What our rules make of a create, whether or not this version can do it."""
    streams = Streams()
    request = Request("T", json.dumps(config).encode(), b"", 0, Outbox())
    while True:
        try:
            made = streams.refuse_overlap(wanted_config(streams, request))  # type: ignore[arg-type]
        except Postponed:
            continue
        except Refusal as refusal:
            return comparable(json.loads(refusal.body))
        return shown(made)


def our_update(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    streams = Streams()
    before = checked(msgspec.convert(old, StreamConfig), pedantic=False, find=streams.find)
    try:
        request = Request("T", json.dumps(new).encode(), b"", 0, Outbox())
        wanted = request.decoded(StreamCreateRequest)
        config = checked(wanted.config(), pedantic=wanted.pedantic, find=streams.find)
        if config.name != "T":
            raise Refusal(10056)
        return shown(streams.refuse_overlap(updated(before, config)))
    except Refusal as refusal:
        return comparable(json.loads(refusal.body))


def shown(config: StreamConfig) -> dict[str, Any]:
    metadata = answered_metadata(config.metadata)
    made: dict[str, Any] = json.loads(encode(msgspec.structs.replace(config, metadata=metadata)))
    return made


def their_verdict(client: RawClient, verb: str, config: dict[str, Any]) -> dict[str, Any]:
    (reply,) = client.ask(f"$JS.API.STREAM.{verb}.T", json.dumps(config).encode())
    answer: dict[str, Any] = json.loads(reply.payload)
    return comparable(answer["error"]) if "error" in answer else answer["config"]


@pytest.fixture(scope="module")
def with_origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with nats_server(tmp_path_factory.mktemp("judge")) as client:
        client.ask("$JS.API.STREAM.CREATE.ORIGIN", json.dumps(EXISTING).encode())
        yield client


@pytest.fixture
def judge(with_origin: RawClient) -> Iterator[RawClient]:
    """Nats-server with the other stream, and without the one that the test makes."""
    yield with_origin
    with_origin.ask("$JS.API.STREAM.DELETE.T")


@pytest.mark.parametrize("config", GOOD, ids=label)
def test_a_good_configuration_gets_the_same_defaults(
    judge: RawClient, config: dict[str, Any]
) -> None:
    made = our_verdict({"name": "T"} | config)

    assert "err_code" not in made
    assert made == their_verdict(judge, "CREATE", {"name": "T"} | config)


@pytest.mark.parametrize("config", BAD, ids=label)
def test_a_bad_configuration_is_refused_with_the_same_words(
    judge: RawClient, config: dict[str, Any]
) -> None:
    refused = our_verdict({"name": "T"} | config)

    assert "err_code" in refused
    assert refused == their_verdict(judge, "CREATE", {"name": "T"} | config)


@pytest.mark.parametrize(("old", "new"), UPDATES, ids=label)
def test_the_same_changes_are_legal(
    judge: RawClient, old: dict[str, Any], new: dict[str, Any]
) -> None:
    before = {"name": "T"} | old
    assert "err_code" not in their_verdict(judge, "CREATE", before)

    assert our_update(before, {"name": "T"} | new) == their_verdict(
        judge, "UPDATE", {"name": "T"} | new
    )


@pytest.mark.parametrize(("config", "field", "our", "their", "row"), DECIDED, ids=label)
def test_the_differences_are_those_that_were_decided(
    judge: RawClient, config: dict[str, Any], field: str, our: object, their: object, row: str
) -> None:
    """These rows, and nothing else about the same configuration."""
    assert row
    sides = []
    for made in (
        our_verdict({"name": "T"} | config),
        their_verdict(judge, "CREATE", {"name": "T"} | config),
    ):
        place = made.get("metadata", {}) if field.startswith("_nats.") else made
        sides.append((place.pop(field, None), made))

    assert [side[0] for side in sides] == [our, their]
    if "err_code" not in sides[1][1]:
        assert sides[0][1] == sides[1][1]


def test_every_configuration_is_read_as_strictly_as_theirs() -> None:
    """The alias of decisions.md is the only name that is not theirs."""
    assert decode(b'{"rollup_hdrs":true}', StreamCreateRequest).allow_rollup_hdrs
