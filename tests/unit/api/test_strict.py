"""How ``$JS.API`` requests are read."""

import json
from pathlib import Path
from typing import Any

import pytest

from jetspark.api.base import ApiStruct
from jetspark.api.consumer import ConsumerCreateRequest, ConsumersRequest, PauseRequest
from jetspark.api.enums import AckPolicy, DeliverPolicy, Discard, PersistMode, Retention
from jetspark.api.message import MsgDeleteRequest, MsgGetRequest
from jetspark.api.stream import (
    PurgeRequest,
    RestoreRequest,
    SnapshotRequest,
    StreamCreateRequest,
    StreamInfoRequest,
    StreamNamesRequest,
)
from jetspark.api.strict import DEPTH_MAX, InvalidRequest, decode

MODELS: dict[str, type[ApiStruct]] = {
    "get": MsgGetRequest,
    "create": StreamCreateRequest,
    "consumer": ConsumerCreateRequest,
    "names": StreamNamesRequest,
    "purge": PurgeRequest,
    "info": StreamInfoRequest,
    "delete": MsgDeleteRequest,
    "pause": PauseRequest,
    "snapshot": SnapshotRequest,
    "restore": RestoreRequest,
    "list": ConsumersRequest,
}

# Bodies that nats-server 2.15.1 takes and we refuse, or the other way round, and why.
DIFFERENCES = {
    '{"seq":1}{"seq":2}': "contracts.md, JSON: nothing follows the value",
    '{"seq":1}null': "contracts.md, JSON: nothing follows the value",
    '{"start_time":"2020-01-01T00:00:00,5Z"}': "not RFC 3339",
    '{"start_time":"2020-01-01T0:00:00Z"}': "not RFC 3339",
    '{"start_time":"2020-01-01T00:00:00+24:00"}': "not RFC 3339",
    '{"min_last_seq":1,"seq":1}': "ADR-53",
    '{"stream_name":"A","config":{"min_last_seq":1}}': "ADR-53",
    '{"name":"S","rollup_hdrs":true}': "ADR-8",
    '{"name":"S","retention":"limi\\u0074s"}': "the same text",
}


def observed() -> list[dict[str, Any]]:
    text = (Path(__file__).parent / "verdicts.json").read_text(encoding="utf-8")
    verdicts: list[dict[str, Any]] = json.loads(text)["verdicts"]
    return verdicts


def body_of(verdict: dict[str, Any]) -> bytes:
    if "hex" in verdict:
        return bytes.fromhex(verdict["hex"])
    text: str = verdict["body"]
    return text.encode()


def refusal(body: bytes, model: type[ApiStruct]) -> str | None:
    try:
        decode(body, model)
    except InvalidRequest as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    "verdict", observed(), ids=lambda verdict: f"{verdict['request']} {body_of(verdict)!r}"
)
def test_verdict_is_that_of_the_released_server(verdict: dict[str, Any]) -> None:
    """Observed on nats-server 2.15.1: 10025 is a refusal, every other answer means it was read."""
    body = body_of(verdict)
    reason = refusal(body, MODELS[verdict["request"]])

    refused = verdict["err_code"] == 10025
    assert (reason is not None) == (refused != (body.decode("latin-1") in DIFFERENCES))


@pytest.mark.parametrize(
    "verdict",
    [one for one in observed() if "description" in one and one.get("body") not in DIFFERENCES],
    ids=lambda verdict: verdict.get("body", verdict.get("hex")),
)
def test_unknown_field_is_named_as_the_released_server_names_it(verdict: dict[str, Any]) -> None:
    reason = refusal(body_of(verdict), MODELS[verdict["request"]])

    assert verdict["description"] == f"invalid JSON: {reason}"


def test_every_listed_difference_was_observed() -> None:
    bodies = {verdict.get("body") for verdict in observed()}

    assert set(DIFFERENCES) <= bodies


@pytest.mark.parametrize("body", [b"", b"   ", b"\r\n", b"null", b" null "])
def test_nothing_is_a_request_with_all_defaults(body: bytes) -> None:
    """An empty body is no JSON error."""
    assert decode(body, MsgGetRequest) == MsgGetRequest()


def test_keys_match_in_any_case() -> None:
    config = decode(b'{"NAME":"S","Max_Msgs":5,"maX_age":7}', StreamCreateRequest)

    assert (config.name, config.max_msgs, config.max_age) == ("S", 5, 7)


@pytest.mark.parametrize(("key", "numbers"), [("\u017feq", (3, 0)), ("\u212aeep", (0, 3))])
def test_letters_that_fold_to_ascii_match(key: str, numbers: tuple[int, int]) -> None:
    request = decode(json.dumps({key: 3}, ensure_ascii=False).encode(), PurgeRequest)

    assert (request.seq, request.keep) == numbers


def test_sharp_s_is_not_two_letters() -> None:
    """Full case folding would take it for the two s of ``compression``."""
    assert refusal(b'{"compre\xc3\x9fion":"none"}', StreamCreateRequest) is not None


@pytest.mark.parametrize(
    ("body", "seq"),
    [
        (b'{"seq":1,"seq":2}', 2),
        (b'{"seq":1,"SEQ":2}', 2),
        (b'{"seq":1,"SEQ":2,"seq":3}', 3),
        (b'{"seq":4,"seq":null}', 4),
    ],
)
def test_last_of_doubled_keys_counts(body: bytes, seq: int) -> None:
    assert seq == decode(body, MsgGetRequest).seq


def test_a_bad_value_is_refused_even_if_a_good_one_follows() -> None:
    """Observed: the released server decodes every one of the doubled keys."""
    assert refusal(b'{"seq":"x","seq":2}', MsgGetRequest) is not None


def test_null_inside_arrays_and_maps_is_the_empty_value() -> None:
    config = decode(
        b'{"name":"S","subjects":["a",null],"metadata":{"k":null},"sources":[null]}',
        StreamCreateRequest,
    )

    assert config.subjects == ("a", "")
    assert config.metadata == {"k": ""}
    assert [source.name for source in config.sources] == [""]


def test_rollup_hdrs_is_an_alias() -> None:
    """ADR-8's name of the field is accepted and answered as the released one."""
    request = decode(b'{"name":"KV_b","Rollup_Hdrs":true}', StreamCreateRequest)

    assert request.allow_rollup_hdrs
    assert not hasattr(request.config(), "rollup_hdrs")


def test_rollup_hdrs_is_an_alias_inside_a_restore() -> None:
    request = decode(b'{"config":{"name":"KV_b","rollup_hdrs":true}}', RestoreRequest)

    assert request.config.allow_rollup_hdrs


def test_consumer_of_a_source_is_not_served() -> None:
    """The model has it for clients of clusters; our server would have to ignore it."""
    body = b'{"name":"S","mirror":{"name":"A","consumer":{"name":"x"}}}'

    assert refusal(body, StreamCreateRequest) == 'json: unknown field "consumer"'


def test_spellings_that_the_released_server_takes() -> None:
    stream = decode(b'{"discard":"NEW","persist_mode":""}', StreamCreateRequest)
    consumer = decode(b'{"config":{"deliver_policy":"undefined"}}', ConsumerCreateRequest)

    assert (stream.discard, stream.persist_mode) == (Discard.NEW, PersistMode.DEFAULT)
    assert consumer.config.deliver_policy is DeliverPolicy.ALL


def test_words_become_members() -> None:
    request = decode(
        b'{"stream_name":"A","config":{"ack_policy":"explicit"}}', ConsumerCreateRequest
    )

    assert request.config.ack_policy is AckPolicy.EXPLICIT
    assert decode(b'{"retention":"interest"}', StreamCreateRequest).retention is Retention.INTEREST


def test_unknown_word_says_which_ones_there_are() -> None:
    reason = refusal(b'{"name":"S","retention":"forever"}', StreamCreateRequest)

    assert reason == 'retention: expected one of "limits", "interest", "workqueue", got "forever"'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"seq":1e3}', "seq: expected an integer, got 1000.0"),
        (b'{"seq":true}', "seq: expected an integer, got true"),
        (b'{"seq":-1}', "seq: expected at least 0, got -1"),
        (b'{"seq":[1]}', "seq: expected an integer, got an array"),
        (b'{"no_hdr":1}', "no_hdr: expected true or false, got 1"),
        (b'{"last_by_subj":5}', "last_by_subj: expected text, got 5"),
        (b'{"multi_last":{}}', "multi_last: expected an array, got an object"),
        (b"[]", "the request: expected an object, got an array"),
        (b'{"seq":NaN}', "NaN is not JSON"),
        (b'{"seq":1} x', "Extra data at offset 10"),
        (b'{"seq":' + b"9" * 5000 + b"}", "a number is too long"),
    ],
)
def test_refusal_says_what_was_expected(body: bytes, reason: str) -> None:
    assert reason == refusal(body, MsgGetRequest)


def test_largest_sequences_are_cut_to_what_the_engine_counts() -> None:
    request = decode(b'{"multi_last":["a"],"up_to_seq":18446744073709551615}', MsgGetRequest)

    assert request.up_to_seq == 2**63 - 1


def test_far_future_stays_the_far_future() -> None:
    request = decode(b'{"pause_until":"9999-12-31T23:59:59Z"}', PauseRequest)

    assert request.pause_until == 2**63 - 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"x":' * 100_000,
        b'{"multi_last":' + b"[" * 9000 + b"]" * 9000 + b"}",
        b'{"seq":1,"x":"' + b"[" * 50 + b'","y":' + b"[" * 40,
    ],
)
def test_deep_nesting_is_refused_before_parsing(body: bytes) -> None:
    assert refusal(body, MsgGetRequest) == f"more than {DEPTH_MAX} levels of nesting"


def test_brackets_in_text_do_not_count_as_nesting() -> None:
    description = '[{\\"' * 100
    body = b'{"description":"%s"}' % description.encode()

    assert decode(body, StreamCreateRequest).description == '[{"' * 100


def test_wide_requests_are_not_deep() -> None:
    sources = [{"name": f"S{n}"} for n in range(100)]
    request = decode(json.dumps({"sources": sources}).encode(), StreamCreateRequest)

    assert len(request.sources) == 100


def test_large_request_is_refused_before_parsing() -> None:
    body = b'{"description":"%s"}' % (b"x" * 100)

    assert refusal(body, StreamCreateRequest) is None
    with pytest.raises(InvalidRequest, match="the limit is 50"):
        decode(body, StreamCreateRequest, size_max=50)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"last_by_subj":"\xff"}', "\ufffd"),
        (b'{"last_by_subj":"\\ud800"}', "\ufffd"),
        (b'{"last_by_subj":"\\uDC00x"}', "\ufffdx"),
        (b'{"last_by_subj":"\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"last_by_subj":"\\\\ud800"}', "\\ud800"),
    ],
)
def test_what_is_not_unicode_becomes_the_replacement_character(body: bytes, text: str) -> None:
    """Observed; and an answer that quotes the text can always be written."""
    assert text == decode(body, MsgGetRequest).last_by_subj


def test_quoted_keys_are_bounded() -> None:
    reason = refusal(b'{"%s":1}' % (b"k" * 5000), MsgGetRequest)

    assert reason == f'json: unknown field "{"k" * 64}"'
