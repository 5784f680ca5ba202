"""Matching, overlap and subset of patterns."""

import pytest

from jetspark.subjects.match import is_subset, matches, overlaps


@pytest.mark.parametrize(
    ("subject", "pattern"),
    [
        (b"a", b"a"),
        (b"a", b"*"),
        (b"a", b">"),
        (b"a.b", b"a.b"),
        (b"a.b", b"a.*"),
        (b"a.b", b"*.b"),
        (b"a.b", b"*.*"),
        (b"a.b", b"a.>"),
        (b"a.b.c", b"a.>"),
        (b"a.b.c", b"a.*.c"),
        (b"a.b.c", b"*.>"),
        (b"foo", b"*"),
        (b"f*o", b"f*o"),
        (b"a.*", b"a.*"),
        (b"a.>", b"a.*"),
        (b"a.>", b"a.>"),
        (b"*", b"*"),
        (b">", b"*"),
        (b"a.b*", b"a.b*"),
        (b"a.>x", b"a.>x"),
    ],
)
def test_matching_subjects(subject: bytes, pattern: bytes) -> None:
    """The rows with wildcards in the subject were observed on nats-server 2.15.1."""
    assert matches(subject, pattern)


@pytest.mark.parametrize(
    ("subject", "pattern"),
    [
        (b"a", b"b"),
        (b"a", b"a.>"),
        (b"a", b"a.*"),
        (b"a.b", b"a"),
        (b"a.b", b"*"),
        (b"a.b.c", b"a.*"),
        (b"a.b", b"a.*.c"),
        (b"foo", b"f*o"),
        (b"fo", b"foo"),
        (b"foo", b"fo"),
        (b"*.b", b"a.b"),
        (b"*", b"a"),
        (b"a..b", b">"),
        (b"a..b", b"a.>"),
        (b"a..b", b"a.*.b"),
        (b"a..b", b"a..b"),
        (b"a.", b"a.*"),
        (b"a.", b">"),
        (b".a", b"*.a"),
        (b".a", b">"),
        (b"", b""),
        (b"", b">"),
        (b"a", b""),
        (b"a.x.b", b"a.>.b"),
        (b"a.>.b", b"a.>.b"),
    ],
)
def test_subjects_that_do_not_match(subject: bytes, pattern: bytes) -> None:
    """A subject with an empty token has no receivers (observed); a bad pattern matches nothing."""
    assert not matches(subject, pattern)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (b"a", b"a", True),
        (b"a", b"b", False),
        (b"a.*", b"*.b", True),
        (b"a.*", b"b.*", False),
        (b"a.*", b"a.*.c", False),
        (b"a.>", b"*.b.c", True),
        (b"a.>", b"a", False),
        (b"a.>", b"a.*", True),
        (b">", b"*", True),
        (b">", b">", True),
        (b"a.b.>", b"a.*.c", True),
        (b"a.b.>", b"a.c.>", False),
        (b"*.*", b">", True),
        (b"f*o", b"foo", False),
        (b"a..b", b">", False),
        (b"a", b"", False),
    ],
)
def test_overlap(a: bytes, b: bytes, *, expected: bool) -> None:
    """wire.md, Streams: wildcards that merely collide overlap."""
    assert overlaps(a, b) is expected
    assert overlaps(b, a) is expected


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (b"a", b"a", True),
        (b"a", b"*", True),
        (b"a", b">", True),
        (b"*", b"a", False),
        (b"*", b"*", True),
        (b"*", b">", True),
        (b">", b"*", False),
        (b">", b">", True),
        (b"a.*", b"a.>", True),
        (b"a.>", b"a.*", False),
        (b"a.>", b">", True),
        (b"a.>", b"a.>", True),
        (b"a.>", b"*.>", True),
        (b"*.>", b"a.>", False),
        (b"a", b"a.>", False),
        (b"a.b", b"a.*.c", False),
        (b"a.*.c", b"*.*.*", True),
        (b"a..b", b">", False),
    ],
)
def test_subset(inner: bytes, outer: bytes, *, expected: bool) -> None:
    assert is_subset(inner, outer) is expected
