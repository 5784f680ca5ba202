"""An option of another use of a format is refused, and the error says where it belongs."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

pytest.importorskip("pyspark")

from jetspark.spark.kv.options import (
    parse_kv_feed_options,
    parse_kv_options,
    parse_kv_sink_options,
)
from jetspark.spark.objects.options import parse_object_options
from jetspark.spark.option_reader import InvalidOptions, Use
from jetspark.spark.stream.options import parse_source_options
from jetspark.spark.stream.sink.options import parse_sink_options

Parse = Callable[[Mapping[str, str]], object]

STREAM: dict[str, Parse] = {
    "read": partial(parse_source_options, streaming=False),
    "readStream": partial(parse_source_options, streaming=True),
    "write": partial(parse_sink_options, streaming=False),
    "writeStream": partial(parse_sink_options, streaming=True),
}
BUCKET: dict[str, Parse] = {
    "read": parse_kv_options,
    "readStream": parse_kv_feed_options,
    "write": partial(parse_kv_sink_options, streaming=False),
    "writeStream": partial(parse_kv_sink_options, streaming=True),
}
OBJECTS: dict[str, Parse] = {
    "read": partial(parse_object_options, use=Use.READ),
    "write": partial(parse_object_options, use=Use.WRITE),
    "writeStream": partial(parse_object_options, use=Use.WRITE_STREAM),
}
BASE = {"servers": "nats://127.0.0.1:4222"}


def refusal(parse: Parse, options: dict[str, str]) -> str:
    with pytest.raises(InvalidOptions) as refused:
        parse(BASE | options)
    return str(refused.value)


@pytest.mark.parametrize(
    ("uses", "given", "option", "belongs"),
    [
        (STREAM, "read", "maxOffsetsPerTrigger", "readStream"),
        (STREAM, "read", "onCommit", "readStream"),
        (STREAM, "read", "publishMode", "write and writeStream"),
        (STREAM, "read", "checkpointLocation", "writeStream"),
        (STREAM, "readStream", "endingOffsets", "read"),
        (STREAM, "readStream", "delivery", "write and writeStream"),
        (STREAM, "write", "startingOffsets", "read and readStream"),
        (STREAM, "write", "checkpointLocation", "writeStream"),
        (STREAM, "writeStream", "txnAppId", "write"),
        (STREAM, "writeStream", "maxOffsetsPerTrigger", "readStream"),
        (BUCKET, "read", "initialSnapshot", "readStream"),
        (BUCKET, "read", "orderBy", "write and writeStream"),
        (BUCKET, "readStream", "versionAsOf", "read"),
        (BUCKET, "write", "keys", "read and readStream"),
        (BUCKET, "write", "checkpointLocation", "writeStream"),
        (BUCKET, "writeStream", "initialSnapshot", "readStream"),
        (OBJECTS, "read", "checkpointLocation", "writeStream"),
        (OBJECTS, "write", "pathGlobFilter", "read"),
        (OBJECTS, "write", "queryName", "writeStream"),
        (OBJECTS, "writeStream", "minPartitions", "read"),
    ],
)
def test_an_option_of_another_use_is_refused_with_the_use_that_has_it(
    uses: dict[str, Parse], given: str, option: str, belongs: str
) -> None:
    name = "stream" if uses is STREAM else "bucket"

    text = refusal(uses[given], {name: "ORDERS", option: "1"})

    assert f"{option} is for {belongs}, not for {given}" in text
    assert "unknown" not in text


@pytest.mark.parametrize(
    ("given", "option", "meant", "belongs"),
    [
        ("read", "maxOffsetPerTrigger", "maxOffsetsPerTrigger", "readStream"),
        ("readStream", "endingOffset", "endingOffsets", "read"),
        ("write", "startingOffset", "startingOffsets", "read and readStream"),
        ("writeStream", "txnVersions", "txnVersion", "write"),
    ],
)
def test_a_misspelt_option_of_another_use_is_recognised(
    given: str, option: str, meant: str, belongs: str
) -> None:
    text = refusal(STREAM[given], {"stream": "ORDERS", option: "1"})

    assert f"unknown option {option.lower()!r}: did you mean {meant}? " in text
    assert f"{meant} is for {belongs}, not for {given}" in text


def test_a_misspelt_option_of_the_same_use_comes_first() -> None:
    text = refusal(STREAM["read"], {"stream": "ORDERS", "startingOffset": "1"})

    assert text.endswith("unknown option 'startingoffset': did you mean startingOffsets?")


@pytest.mark.parametrize(("uses", "right"), [(STREAM, "stream"), (BUCKET, "bucket")])
def test_a_path_and_the_target_of_another_format_name_the_own_option(
    uses: dict[str, Parse], right: str
) -> None:
    wrong = "bucket" if right == "stream" else "stream"

    assert f'load() does not support a path: set option("{right}", ...)' in refusal(
        uses["read"], {"path": "ORDERS"}
    )
    assert f"unknown option '{wrong}': format " in refusal(uses["read"], {wrong: "ORDERS"})
    assert f"has the option {right}" in refusal(uses["write"], {wrong: "ORDERS"})
