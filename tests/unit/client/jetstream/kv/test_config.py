"""A bucket as the configuration of a stream, and back (ADR-8, "Buckets")."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import KeyValueConfig, Placement, Republish, StreamSource
from jetspark.api.enums import Compression, Discard, Storage
from jetspark.client.jetstream.kv.config import (
    check_bucket,
    check_filter,
    check_key,
    from_stream_config,
    to_stream_config,
)
from jetspark.client.models.base import to_wire
from jetspark.errors import BadName, NotSupported
from jetspark.units import kib, mib, minutes, seconds

LEVEL = 5


def test_the_example_of_the_document() -> None:
    stream = to_stream_config(KeyValueConfig(bucket="CONFIGURATION", history=5), LEVEL)

    assert (stream.name, stream.subjects) == ("KV_CONFIGURATION", ("$KV.CONFIGURATION.>",))
    assert (stream.max_consumers, stream.max_msgs_per_subject) == (-1, 5)
    assert (stream.max_msgs, stream.max_bytes, stream.max_age) == (-1, -1, 0)
    assert (stream.max_msg_size, stream.storage, stream.num_replicas) == (-1, Storage.FILE, 1)
    assert stream.duplicate_window == minutes(2)
    assert stream.allow_rollup_hdrs
    assert stream.deny_delete
    # Released clients have it so, since a full bucket refuses instead of forgetting keys.
    assert stream.discard is Discard.NEW


def test_every_setting_reaches_the_stream() -> None:
    placement = Placement(cluster="c", tags=("ssd",))
    republish = Republish(src=">", dest="copy.>", headers_only=True)
    stream = to_stream_config(
        KeyValueConfig(
            bucket="b",
            description="d",
            ttl=300,
            max_value_size=kib(4),
            max_bytes=mib(9),
            storage=Storage.MEMORY,
            replicas=3,
            placement=placement,
            republish=republish,
            compression=True,
            metadata={"team": "a"},
            limit_marker_ttl=7,
        ),
        LEVEL,
    )

    assert (stream.description, stream.max_age, stream.duplicate_window) == (
        "d",
        minutes(5),
        minutes(2),
    )
    assert (stream.max_msg_size, stream.max_bytes) == (kib(4), mib(9))
    assert (stream.storage, stream.num_replicas) == (Storage.MEMORY, 3)
    assert (stream.placement, stream.republish) == (to_wire(placement), republish)
    assert stream.compression is Compression.S2
    assert stream.metadata == {"team": "a"}
    assert stream.allow_msg_ttl
    assert stream.subject_delete_marker_ttl == seconds(7)


@pytest.mark.parametrize(
    ("ttl", "window"), [(seconds(30), seconds(30)), (minutes(2), minutes(2)), (0, minutes(2))]
)
def test_the_duplicate_window_is_not_longer_than_the_age(ttl: int, window: int) -> None:
    """ADR-8: it must be the same as max_age when that is less than two minutes."""
    stream = to_stream_config(KeyValueConfig(bucket="b", ttl=ttl / 1e9), LEVEL)

    assert stream.duplicate_window == window


def test_a_mirror_has_no_subjects_and_a_source_is_renamed() -> None:
    mirror = to_stream_config(
        KeyValueConfig(bucket="b", mirror=StreamSource(name="origin")), LEVEL
    )
    both = to_stream_config(
        KeyValueConfig(bucket="b", sources=(StreamSource(name="x"), StreamSource(name="KV_y"))),
        LEVEL,
    )

    assert mirror.subjects == ()
    assert mirror.mirror is not None
    assert (mirror.mirror.name, mirror.mirror_direct) == ("KV_origin", True)
    assert not mirror.allow_atomic
    assert [source.name for source in both.sources] == ["KV_x", "KV_y"]
    assert [source.subject_transforms[0].src for source in both.sources] == ["$KV.x.>", "$KV.y.>"]
    assert {source.subject_transforms[0].dest for source in both.sources} == {"$KV.b.>"}
    with pytest.raises(ValueError, match="both given"):
        to_stream_config(
            KeyValueConfig(
                bucket="b", mirror=StreamSource(name="x"), sources=(StreamSource(name="y"),)
            ),
            LEVEL,
        )


@pytest.mark.parametrize(
    ("level", "atomic", "ttl"), [(0, False, False), (1, False, True), (2, True, True)]
)
def test_older_servers_are_not_shown_what_they_do_not_know(
    level: int, atomic: bool, ttl: bool
) -> None:
    """decisions.md, Buckets that our client creates."""
    stream = to_stream_config(KeyValueConfig(bucket="b"), level)

    assert (stream.allow_atomic, stream.allow_msg_ttl) == (atomic, ttl)
    if not ttl:
        with pytest.raises(NotSupported, match=r"2\.11"):
            to_stream_config(KeyValueConfig(bucket="b", limit_marker_ttl=1), level)


def test_a_configuration_comes_back() -> None:
    config = KeyValueConfig(bucket="b", history=9, ttl=540, max_bytes=mib(1), metadata={"a": "b"})

    assert from_stream_config(to_stream_config(config, LEVEL)) == config


@given(st.text(string.ascii_letters + string.digits + "-/_=. ä*>\n", max_size=8))
def test_keys_are_those_of_the_document(key: str) -> None:
    r"""ADR-8: `\A[-/_=\.a-zA-Z0-9]+\z`, no dot at either end, `_kv` at the start is reserved."""
    valid = (
        re.fullmatch(r"[-/_=.a-zA-Z0-9]+", key) is not None
        and not key.startswith((".", "_kv"))
        and not key.endswith(".")
        and ".." not in key
    )

    assert _passes(check_key, key) == valid


@given(st.text(string.ascii_letters + string.digits + "-_. /", max_size=6))
def test_buckets_are_those_of_the_document(name: str) -> None:
    r"""ADR-8: `\A[a-zA-Z0-9_-]+\z`."""
    assert _passes(check_bucket, name) == (re.fullmatch(r"[a-zA-Z0-9_-]+", name) is not None)


@pytest.mark.parametrize("pattern", ["", ">", "a", "a.*", "*.b.>", "a.>"])
def test_filters_are_keys_and_ranges(pattern: str) -> None:
    assert check_filter(pattern) == (pattern or ">")


@pytest.mark.parametrize("pattern", ["a b", "a..b", ">.a", "a.b*"])
def test_a_filter_that_matches_no_key_is_refused(pattern: str) -> None:
    with pytest.raises(BadName):
        check_filter(pattern)


def _passes(check: object, text: str) -> bool:
    assert callable(check)
    try:
        check(text)
    except BadName:
        return False
    return True
