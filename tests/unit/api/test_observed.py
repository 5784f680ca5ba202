"""The JSON that nats-server 2.15.1 answered, byte for byte (wire.md, API requests).

``observed.json`` holds it with Go's escapes of ``<``, ``>`` and ``&`` undone and without the blank
that the server writes into one kind of PubAck; key order and presence are untouched.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from jetspark.api import account, advisory, batch, consumer, message, stream
from jetspark.api.base import ApiErrorBody, ApiStruct, Response, decoder, encode

MODULES = (account, advisory, batch, consumer, message, stream)


def observed() -> list[dict[str, str]]:
    text = (Path(__file__).parent / "observed.json").read_text(encoding="utf-8")
    replies: list[dict[str, str]] = json.loads(text)["replies"]
    return replies


def kind(name: str) -> Any:
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def name_of(reply: dict[str, str]) -> str:
    return reply["name"]


@pytest.mark.parametrize(
    "reply", [one for one in observed() if one["kind"].isupper()], ids=name_of
)
def test_answer_is_read_and_written_alike(reply: dict[str, str]) -> None:
    response: Response[ApiStruct] = kind(reply["kind"])
    wire = reply["json"].encode()
    answer = response.decode(wire)

    if isinstance(answer, ApiErrorBody):
        assert wire == response.error(encode(answer))
    else:
        assert wire == response.ok(answer)


@pytest.mark.parametrize(
    "reply", [one for one in observed() if not one["kind"].isupper()], ids=name_of
)
def test_message_is_read_and_written_alike(reply: dict[str, str]) -> None:
    model: type[ApiStruct] = kind(reply["kind"])
    wire = reply["json"].encode()

    assert wire == encode(decoder(model).decode(wire))


@pytest.mark.parametrize("reply", [one for one in observed() if "subject" in one], ids=name_of)
def test_event_is_published_where_the_released_server_publishes_it(reply: dict[str, str]) -> None:
    event = decoder(kind(reply["kind"])).decode(reply["json"])

    assert reply["subject"] == event.published_on()


@pytest.mark.parametrize(
    "reply",
    [one for one in observed() if "subject" in one and one["kind"] != "BatchAbandoned"],
    ids=name_of,
)
def test_event_has_the_type_of_the_released_server(reply: dict[str, str]) -> None:
    assert json.loads(reply["json"])["type"] == kind(reply["kind"])().type


def test_abandoned_batch_has_the_type_of_the_specification() -> None:
    """decisions.md, Batches."""
    assert advisory.BatchAbandoned().type == "io.nats.jetstream.advisory.v1.batch_abandoned"


def test_every_kind_of_answer_was_observed() -> None:
    answers = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, Response)
    }

    # No one else answers this one (docs/compatibility.md).
    assert answers - {"CONSUMER_EXPLAIN"} == {
        reply["kind"] for reply in observed() if reply["kind"].isupper()
    }


@pytest.mark.parametrize("reply", observed(), ids=name_of)
def test_unknown_fields_are_ignored(reply: dict[str, str]) -> None:
    """A client reads what a newer server writes."""
    found = kind(reply["kind"])
    read = found.decode if isinstance(found, Response) else decoder(found).decode
    newer = b'{"new_field":{"x":[1,null]},' + reply["json"].encode()[1:]

    assert read(reply["json"].encode()) == read(newer)


@pytest.mark.parametrize("name", sorted({reply["kind"] for reply in observed()}))
def test_missing_fields_have_defaults(name: str) -> None:
    """A client reads what an older server writes."""
    found = kind(name)
    model = found.model if isinstance(found, Response) else found

    assert model() == decoder(model).decode(b"{}")
