"""Consumer configurations, judged by nats-server 2.15.1 and by our rules (wire.md, Consumers).

Ours are pure functions, so this compares what CONSUMER.CREATE decides: the configuration that the
consumer gets, or the refusal, word by word. What differs on purpose stands in ``DECIDED``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pytest
from tests.interop.consumers.config_cases import SEQUENCES, SINGLE, STREAMS, Ask
from tests.support.both_servers import comparable, label, nats_server
from tests.support.raw_requests import RawClient

from jetspark.api.base import encode
from jetspark.api.consumer import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.levels import answered_metadata
from jetspark.api.stream import StreamConfig
from jetspark.api.strict import InvalidRequest, decode
from jetspark.engine.consumer.admission import admitted, named
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.config import checked
from jetspark.errors.codes import ErrCode

CASES: Final = [("limits", [ask]) for ask in SINGLE] + SEQUENCES

# Configurations, ours, theirs, and why.
DECIDED: Final[list[tuple[dict[str, Any], object, object, str]]] = [
    ({"min_last_seq": 5}, 5, 10025, "ADR-53 is in no released server"),
    ({"ack_policy": "flow_control", "deliver_subject": "d"}, 10025, None,
     "an ack policy that only servers use among each other"),
    ({"sourcing": True, "deliver_subject": "d"}, 10052, None,
     "a kind of consumer that only servers use among each other"),
    ({"metadata": {"_nats.x": "1"}}, None, None, "`_nats.*` is the server's"),
]  # fmt: skip


@dataclass
class Made:
    """A consumer as far as the decision about another one needs it."""

    config: ConsumerConfig

    def bound(self) -> bool:
        return False


class Ours:
    """Decides as the handler of CONSUMER.CREATE does, and remembers."""

    def __init__(self, name: str) -> None:
        config = msgspec.convert({"name": name} | STREAMS[name], StreamConfig)
        self.stream = checked(config, pedantic=False, find=lambda _name: None)
        self.consumers: dict[str, Made] = {}

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        tokens = subject.split(".")
        durable = tokens[0] == "DURABLE"
        rest = tokens[3:] if durable else tokens[2:]
        try:
            wanted = named(
                read(json.dumps(body).encode()),
                self.stream.name,
                rest[0] if rest else "",
                ".".join(rest[1:]),
                durable=durable,
            )
            config = admitted(wanted, self.stream, self.consumers)
        except Refusal as refusal:
            return comparable(json.loads(refusal.body))
        name = config.durable_name or config.name or f"generated{len(self.consumers)}"
        self.consumers[name] = Made(config)
        return shown(config)


def read(body: bytes) -> ConsumerCreateRequest:
    """The body of a request, in one go however long it is."""
    try:
        return decode(body, ConsumerCreateRequest)
    except InvalidRequest as problem:
        raise Refusal(ErrCode.INVALID_JSON, err=problem) from None


def shown(config: ConsumerConfig) -> dict[str, Any]:
    metadata = answered_metadata(config.metadata)
    made: dict[str, Any] = json.loads(encode(msgspec.structs.replace(config, metadata=metadata)))
    return made


def theirs(client: RawClient, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    (reply,) = client.ask(f"$JS.API.CONSUMER.{subject}", json.dumps(body).encode())
    answer: dict[str, Any] = json.loads(reply.payload)
    return comparable(answer["error"]) if "error" in answer else answer["config"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with nats_server(tmp_path_factory.mktemp("judge")) as client:
        for name, config in STREAMS.items():
            body = json.dumps({"name": name} | config).encode()
            client.ask(f"$JS.API.STREAM.CREATE.{name}", body)
        yield client


@pytest.fixture
def judge(server: RawClient) -> Iterator[RawClient]:
    """Nats-server with the streams and without consumers."""
    yield server
    for name in STREAMS:
        # NAMES does not say what is `direct`, so those have the names of the cases.
        (reply,) = server.ask(f"$JS.API.CONSUMER.NAMES.{name}")
        for consumer in {*json.loads(reply.payload)["consumers"], "a", "c"}:
            server.ask(f"$JS.API.CONSUMER.DELETE.{name}.{consumer}")


def request_of(stream: str, ask: Ask) -> tuple[str, dict[str, Any]]:
    subject, config, more = ask
    verb, _, rest = subject.partition("S")
    return f"{verb}{stream}{rest}", {"stream_name": stream, "config": config} | more


def test_there_are_enough_cases() -> None:
    assert sum(len(asks) for _, asks in CASES) >= 250


@pytest.mark.parametrize(("stream", "asks"), CASES, ids=label)
def test_the_same_consumers_are_made_and_refused(
    judge: RawClient, stream: str, asks: list[Ask]
) -> None:
    ours = Ours(stream)
    for ask in asks:
        subject, body = request_of(stream, ask)

        assert ours.ask(subject, body) == theirs(judge, subject, body), body


@pytest.mark.parametrize(("config", "our", "their", "why"), DECIDED, ids=label)
def test_the_differences_are_those_that_were_decided(
    judge: RawClient, config: dict[str, Any], our: object, their: object, why: str
) -> None:
    assert why
    body = {"stream_name": "limits", "config": config}
    made = Ours("limits").ask("CREATE.limits.c", body)
    told = theirs(judge, "CREATE.limits.c", body)

    assert made.get("err_code", made.get("min_last_seq")) == our
    assert told.get("err_code") == their
    if "metadata" in config:
        assert (made["metadata"].get("_nats.x"), told["metadata"]["_nats.x"]) == (None, "1")


def test_a_name_that_is_too_long_is_refused_for_ephemeral_consumers_too(judge: RawClient) -> None:
    """nats-server checks it for durable ones, and then cannot make the folder (10012)."""
    body = {"stream_name": "limits", "config": {}}
    subject = "CREATE.limits." + "c" * 256

    assert Ours("limits").ask(subject, body)["err_code"] == 10102
    assert theirs(judge, subject, body)["err_code"] == 10012


def test_a_start_time_is_answered_in_utc(judge: RawClient) -> None:
    """nats-server keeps the offset it was given; ours keeps the point in time."""
    config = {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T02:00:00+02:00"}
    body = {"stream_name": "limits", "config": config}
    made = Ours("limits").ask("CREATE.limits.c", body)
    told = theirs(judge, "CREATE.limits.c", body)

    assert made.pop("opt_start_time") == "2026-01-01T00:00:00Z"
    assert told.pop("opt_start_time") == "2026-01-01T02:00:00+02:00"
    assert made == told
