"""Options of format ``nats_kv``: typed, checked all at once, none ignored."""

from collections.abc import Callable, Mapping

import pytest

pytest.importorskip("pyspark")

from jetspark.spark.kv.options import (
    DELTA_OPTIONS,
    Consistency,
    parse_kv_feed_options,
    parse_kv_options,
    parse_kv_sink_options,
)
from jetspark.spark.option_reader import InvalidOptions

Parse = Callable[[Mapping[str, str]], object]

NEEDED = {"servers": "nats://localhost:4222", "bucket": "PRICES"}


def test_a_snapshot_is_strict_and_of_now() -> None:
    options = parse_kv_options(NEEDED)

    assert options.stream == "KV_PRICES"
    assert options.consistency is Consistency.STRICT
    assert options.version_as_of is options.timestamp_as_of_ns is None


def test_a_feed_reads_the_stream_of_the_bucket() -> None:
    options = parse_kv_feed_options({**NEEDED, "keys": "a.*,b", "maxOffsetsPerTrigger": "5"})

    assert options.source.stream == "KV_PRICES"
    assert options.source.subjects == ("$KV.PRICES.a.*", "$KV.PRICES.b")
    assert options.source.from_latest
    assert options.source.trigger is not None
    assert options.source.trigger.max_offsets == 5
    assert not options.include_previous
    assert parse_kv_feed_options({**NEEDED, "includePrevious": "True"}).include_previous
    with pytest.raises(InvalidOptions, match="includePrevious 'maybe' is not a boolean"):
        parse_kv_feed_options({**NEEDED, "includePrevious": "maybe"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bucket": "a.b"}, "is not a bucket name"),
        ({"keys": "a..b"}, "is not a key or a pattern"),
        ({"keys": "a.>,a.b"}, "overlap"),
        ({"versionAsOf": "1", "timestampAsOf": "5"}, "mutually exclusive"),
        ({"consistency": "maybe"}, "neither strict nor best-effort"),
        ({"maxOffsetsPerTrigger": "1"}, "maxOffsetsPerTrigger is for readStream"),
    ],
)
def test_a_mistake_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptions, match=said):
        parse_kv_options({**NEEDED, **given})


def test_a_feed_has_one_beginning() -> None:
    with pytest.raises(InvalidOptions, match="excludes startingOffsets"):
        parse_kv_feed_options({**NEEDED, "initialSnapshot": "true", "startingOffsets": "latest"})
    with pytest.raises(InvalidOptions, match="versionAsOf is for read, not for readStream"):
        parse_kv_feed_options({**NEEDED, "versionAsOf": "3"})


def test_a_write_needs_a_bucket() -> None:
    with pytest.raises(InvalidOptions, match="bucket is missing"):
        parse_kv_sink_options({"servers": "nats://localhost:4222"}, streaming=False)


@pytest.mark.parametrize("option", sorted(DELTA_OPTIONS))
@pytest.mark.parametrize("parse", [parse_kv_options, parse_kv_feed_options])
def test_an_option_of_delta_is_refused_with_what_replaces_it(option: str, parse: Parse) -> None:
    with pytest.raises(InvalidOptions) as refused:
        parse({**NEEDED, option: "1"})

    assert str(refused.value) == (
        f"format 'nats_kv': {option!r} is an option of Delta: use {DELTA_OPTIONS[option]}"
    )
