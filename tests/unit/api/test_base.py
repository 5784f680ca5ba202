"""What the wire models are made of: times, always-shown fields, the envelope."""

import copy
import inspect
import json
import pickle
from typing import Any

import msgspec
import pytest

from jetspark.api import account, advisory, batch, consumer, message, stream
from jetspark.api.base import (
    ZERO_TIME,
    ApiErrorBody,
    ApiStruct,
    Success,
    Timestamp,
    decoder,
    encode,
    encode_request,
    shown,
)
from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import AckPolicy
from jetspark.api.message import MSG_GET, MsgGetResponse, StoredMessage, decode_msg_get_response
from jetspark.api.stream import (
    STREAM_CREATE,
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_PURGE,
    StreamConfig,
    StreamCreateRequest,
    StreamInfo,
    StreamSource,
)
from jetspark.units import seconds


class Example(ApiStruct, frozen=True, kw_only=True):
    always: int = shown(-1)
    once_set: int = 0
    at: Timestamp | None = None
    words: dict[str, str] = msgspec.field(default_factory=dict)


EXAMPLE = decoder(Example)


def every_model() -> list[type[ApiStruct]]:
    modules = (account, advisory, batch, consumer, message, stream)
    return sorted(
        {
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, ApiStruct) and value is not ApiStruct
        },
        key=lambda model: model.__qualname__,
    )


def test_shown_field_appears_while_unchanged() -> None:
    assert encode(Example()) == b'{"always":-1}'


def test_plain_default_appears_once_set() -> None:
    assert encode(Example(once_set=2)) == b'{"always":-1,"once_set":2}'


def test_value_read_from_the_wire_is_left_out_again_when_it_is_the_default() -> None:
    wire = b'{"always":-1,"once_set":0,"at":null,"words":{}}'

    assert encode(EXAMPLE.decode(wire)) == b'{"always":-1}'


def test_maps_are_sorted_as_the_released_server_sorts_them() -> None:
    assert (
        encode(Example(words={"b": "1", "a": "2"})) == b'{"always":-1,"words":{"a":"2","b":"1"}}'
    )


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("2026-11-15T09:34:20.13272399Z", 1_794_735_260_132_723_990),
        ("2020-01-01T00:00:00+02:00", 1_577_829_600_000_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59Z", 2**63 - 1),
        ("1000-01-01T00:00:00Z", -(2**63)),
        ("0000-02-29T00:00:00Z", -(2**63)),
    ],
)
def test_time_is_read_as_nanoseconds(text: str, ns: int) -> None:
    read = EXAMPLE.decode(json.dumps({"at": text}))

    assert read.at == ns
    assert type(read.at) is Timestamp


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1_794_735_260_132_723_990, "2026-11-15T09:34:20.13272399Z"),
        (1_577_829_600_000_000_000, "2019-12-31T22:00:00Z"),
        (0, "0001-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_time_is_written_as_rfc_3339(ns: int, text: str) -> None:
    """Nine digits at most, zeros trimmed, unset is the year 1."""
    assert json.loads(encode(Example(at=Timestamp(ns))))["at"] == text


@pytest.mark.parametrize("text", ["", "2020-01-01", "2020-01-01 00:00:00Z", "yesterday"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="expected a time as RFC 3339"):
        EXAMPLE.decode(json.dumps({"at": text}))


@pytest.mark.parametrize("day", ["2020-13-01", "2021-02-29", "1000-02-29", "0000-00-00"])
def test_days_that_do_not_exist_are_refused_in_any_year(day: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="bad time"):
        EXAMPLE.decode(json.dumps({"at": f"{day}T00:00:00Z"}))


def test_time_is_not_a_number_on_the_wire() -> None:
    with pytest.raises(msgspec.ValidationError, match="as RFC 3339 text, got 5"):
        EXAMPLE.decode(b'{"at":5}')


def test_forgetting_our_encoder_is_an_error() -> None:
    """A time must not slip out as a number."""
    with pytest.raises(TypeError):
        msgspec.json.encode(Example(at=Timestamp(5)))


def test_timestamp_says_what_it_is() -> None:
    assert str(Timestamp(1_000_000_000)) == "1970-01-01T00:00:01Z"
    assert repr(Timestamp(5)) == "Timestamp(5)"
    assert not ZERO_TIME


@pytest.mark.parametrize("model", every_model(), ids=lambda model: model.__qualname__)
def test_models_travel(model: type[ApiStruct]) -> None:
    """What travels pickles and copies."""
    value = model()

    assert value == pickle.loads(pickle.dumps(value))
    assert value == copy.deepcopy(value)


@pytest.mark.parametrize("model", every_model(), ids=lambda model: model.__qualname__)
def test_models_are_immutable_and_tolerant(model: type[ApiStruct]) -> None:
    """Frozen and keyword-only are repeated on every model."""
    config = model.__struct_config__
    arguments = inspect.signature(model).parameters.values()

    assert (config.frozen, config.omit_defaults, config.forbid_unknown_fields) == (
        True,
        True,
        False,
    )
    assert {argument.kind for argument in arguments} <= {inspect.Parameter.KEYWORD_ONLY}


def test_request_has_only_what_was_set() -> None:
    """Durations are nanoseconds, enums are words, defaults are left out."""
    config = StreamConfig(name="ORDERS", subjects=("orders.>",), max_age=seconds(3600))

    assert (
        encode_request(config)
        == b'{"name":"ORDERS","subjects":["orders.>"],"max_age":3600000000000}'
    )


def test_request_has_only_what_was_set_at_any_depth() -> None:
    config = StreamCreateRequest(
        name="M",
        mirror=StreamSource(name="A", opt_start_time=Timestamp(1_000_000_000)),
        sources=(StreamSource(name="B"),),
        metadata={"k": "v"},
    )

    assert json.loads(encode_request(config)) == {
        "name": "M",
        "mirror": {"name": "A", "opt_start_time": "1970-01-01T00:00:01Z"},
        "sources": [{"name": "B"}],
        "metadata": {"k": "v"},
    }


def test_request_says_a_word_that_is_not_the_default() -> None:
    config = ConsumerConfig(durable_name="d", ack_policy=AckPolicy.EXPLICIT)

    assert encode_request(config) == b'{"durable_name":"d","ack_policy":"explicit"}'


def test_create_request_gives_back_the_configuration() -> None:
    config = StreamConfig(name="A", max_msgs=5, metadata={"k": "v"})
    fields: dict[str, Any] = {name: getattr(config, name) for name in config.__struct_fields__}

    assert config == StreamCreateRequest(pedantic=True, **fields).config()
    assert type(StreamCreateRequest().config()) is StreamConfig


def test_answer_begins_with_its_type() -> None:
    assert (
        STREAM_DELETE.ok(Success(success=True))
        == b'{"type":"io.nats.jetstream.api.v1.stream_delete_response","success":true}'
    )


def test_answer_without_fields_is_its_type() -> None:
    assert (
        STREAM_DELETE.ok(Success())
        == b'{"type":"io.nats.jetstream.api.v1.stream_delete_response"}'
    )


def test_error_keeps_the_zero_fields_of_its_verb() -> None:
    body = b'{"code":404,"err_code":10059,"description":"stream not found"}'

    assert (
        STREAM_PURGE.error(body)
        == b'{"type":"io.nats.jetstream.api.v1.stream_purge_response","error":'
        + body
        + b',"purged":0}'
    )


def test_error_is_distinguished_from_an_answer() -> None:
    body = b'{"code":404,"err_code":10059,"description":"stream not found"}'
    error = ApiErrorBody(code=404, err_code=10059, description="stream not found")

    assert error == STREAM_INFO.decode(STREAM_INFO.error(body))
    assert StreamInfo() == STREAM_INFO.decode(STREAM_INFO.ok(StreamInfo()))


def test_paging_is_shown_only_by_info() -> None:
    info = json.loads(STREAM_INFO.ok(StreamInfo(total=0, offset=0, limit=0)))
    created = json.loads(STREAM_CREATE.ok(stream.StreamCreateResponse(did_create=True)))

    assert list(info)[:5] == ["type", "total", "offset", "limit", "config"]
    assert list(created)[:2] == ["type", "config"]
    assert list(created)[-1] == "did_create"


@pytest.mark.parametrize("wire", [b"", b"{", b"[]", b'{"error":5}', b'{"config":[]}'])
def test_what_is_no_answer_raises(wire: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        STREAM_INFO.decode(wire)


def test_proof_of_a_read_comes_with_message_and_error() -> None:
    """MSG.GET answers have ``min_last_seq`` next to message or error."""
    found = MsgGetResponse(message=StoredMessage(subject="a", seq=3), min_last_seq=7)
    missing = MsgGetResponse(
        error=ApiErrorBody(code=404, err_code=10037, description="no message found"),
        min_last_seq=7,
    )

    assert list(json.loads(MSG_GET.ok(found))) == ["type", "message", "min_last_seq"]
    assert list(json.loads(MSG_GET.ok(missing))) == ["type", "error", "min_last_seq"]
    assert missing == decode_msg_get_response(MSG_GET.ok(missing))
