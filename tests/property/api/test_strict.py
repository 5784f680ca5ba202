"""What holds for every request."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.base import INT64_MAX, Timestamp, encode
from jetspark.api.consumer import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.enums import AckPolicy, ConsumerAction, DeliverPolicy, Discard, Retention
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import (
    ConsumerLimits,
    ExternalStream,
    Republish,
    StreamConfig,
    StreamCreateRequest,
    StreamSource,
    SubjectTransform,
)
from jetspark.api.strict import InvalidRequest, decode
from jetspark.units import ByteCount, Nanoseconds

texts = st.text(max_size=12)
counts = st.integers(0, INT64_MAX)
numbers = st.integers(-(2**63), INT64_MAX)
durations = numbers.map(Nanoseconds)
# 0 is *not set*, and before 1678 times are cut.
times = st.integers(-(2**63) + 400 * 86400 * 10**9, INT64_MAX).filter(bool).map(Timestamp)
transforms = st.builds(SubjectTransform, src=texts, dest=texts)
sources = st.builds(
    StreamSource,
    name=texts,
    opt_start_seq=counts,
    opt_start_time=st.none() | times,
    subject_transforms=st.lists(transforms, max_size=2).map(tuple),
    external=st.none() | st.builds(ExternalStream, api=texts, deliver=texts),
)
stream_configs = st.builds(
    StreamCreateRequest,
    name=texts,
    subjects=st.lists(texts, max_size=3).map(tuple),
    retention=st.sampled_from(list(Retention)),
    max_msgs=numbers,
    max_bytes=numbers.map(ByteCount),
    max_age=durations,
    max_msg_size=st.integers(-(2**31), 2**31 - 1),
    discard=st.sampled_from(list(Discard)),
    mirror=st.none() | sources,
    sources=st.lists(sources, max_size=2).map(tuple),
    republish=st.none() | st.builds(Republish, src=texts, dest=texts, headers_only=st.booleans()),
    consumer_limits=st.builds(ConsumerLimits, max_ack_pending=numbers),
    allow_rollup_hdrs=st.booleans(),
    metadata=st.dictionaries(texts, texts, max_size=3),
    pedantic=st.booleans(),
)
consumer_requests = st.builds(
    ConsumerCreateRequest,
    stream_name=texts,
    config=st.builds(
        ConsumerConfig,
        durable_name=texts,
        deliver_policy=st.sampled_from(list(DeliverPolicy)),
        opt_start_time=st.none() | times,
        ack_policy=st.sampled_from(list(AckPolicy)),
        backoff=st.lists(durations, max_size=3).map(tuple),
        filter_subjects=st.lists(texts, max_size=3).map(tuple),
        metadata=st.dictionaries(texts, texts, max_size=3),
        min_last_seq=counts,
    ),
    action=st.sampled_from(list(ConsumerAction)),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
FIELDS = (*StreamCreateRequest.__struct_fields__, *MsgGetRequest.__struct_fields__)


@given(config=stream_configs)
def test_what_was_written_is_read(config: StreamCreateRequest) -> None:
    assert config == decode(encode(config), StreamCreateRequest)


@given(request=consumer_requests)
def test_what_was_written_about_consumers_is_read(request: ConsumerCreateRequest) -> None:
    assert request == decode(encode(request), ConsumerCreateRequest)


def recased(value: Any, upper: bool) -> Any:
    """Change the case of every key that is a field, leaving the user's maps alone."""
    if isinstance(value, list):
        return [recased(item, upper) for item in value]
    if isinstance(value, dict):
        return {
            key.upper() if upper else key.title(): item
            if key == "metadata"
            else recased(item, upper)
            for key, item in value.items()
        }
    return value


@given(config=stream_configs, upper=st.booleans())
def test_case_of_keys_does_not_matter(config: StreamCreateRequest, upper: bool) -> None:
    body = json.dumps(recased(json.loads(encode(config)), upper)).encode()

    assert config == decode(body, StreamCreateRequest)


def objects(value: Any) -> list[dict[str, Any]]:
    """List the objects whose keys are fields."""
    if isinstance(value, list):
        return [found for item in value for found in objects(item)]
    if isinstance(value, dict):
        inner = [
            found for key, item in value.items() if key != "metadata" for found in objects(item)
        ]
        return [value, *inner]
    return []


@given(config=stream_configs, data=st.data())
def test_unknown_key_is_named_wherever_it_is(
    config: StreamCreateRequest, data: st.DataObject
) -> None:
    body = json.loads(encode(config))
    target = data.draw(st.sampled_from(objects(body)))
    target["no_such_field"] = data.draw(json_values)

    with pytest.raises(InvalidRequest, match='json: unknown field "no_such_field"'):
        decode(json.dumps(body).encode(), StreamCreateRequest)


@given(
    body=st.binary(max_size=64)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4).map(
        lambda value: json.dumps(value).encode()
    ),
    model=st.sampled_from([StreamCreateRequest, ConsumerCreateRequest, MsgGetRequest]),
)
def test_anything_is_read_or_refused(
    body: bytes,
    model: type[StreamCreateRequest | ConsumerCreateRequest | MsgGetRequest],
) -> None:
    """No other exception; and what was read, and what is said about it, can be answered."""
    try:
        answer: object = decode(body, model)
    except InvalidRequest as refusal:
        answer = refusal.reason

    assert isinstance(answer, model | str)
    assert encode(answer)


@given(depth=st.integers(33, 5000), opening=st.sampled_from(["[", '{"config":', '{"sources":[']))
def test_depth_is_refused_whatever_it_is_made_of(depth: int, opening: str) -> None:
    with pytest.raises(InvalidRequest, match="levels of nesting"):
        decode((opening * depth).encode(), StreamCreateRequest)


@given(config=stream_configs)
def test_configuration_alone_is_the_same_configuration(config: StreamCreateRequest) -> None:
    alone = config.config()

    assert type(alone) is StreamConfig
    assert all(
        getattr(alone, name) == getattr(config, name) for name in StreamConfig.__struct_fields__
    )
