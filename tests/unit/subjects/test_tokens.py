"""Which subjects and names are valid."""

import pytest

from jetspark.subjects.tokens import (
    bucket_name_problem,
    consumer_name_problem,
    has_empty_token,
    has_empty_token_from,
    is_literal,
    is_valid_literal,
    is_valid_subject,
    key_filter_problem,
    key_problem,
    stream_name_problem,
)


@pytest.mark.parametrize(
    "subject",
    [b"a", b"a.b.c", b"f*o", b"a.b*", b"*a", b"a.>x", b">>", b"**", b"a.**.b", b"", b"a..b", b"."],
)
def test_a_wildcard_counts_only_as_a_whole_token(subject: bytes) -> None:
    """wire.md, Core protocol: ``f*o`` is a literal."""
    assert is_literal(subject)


@pytest.mark.parametrize("subject", [b"*", b">", b"a.*", b"*.a", b"a.*.b", b"a.>", b".*", b"*."])
def test_a_whole_token_wildcard_is_found(subject: bytes) -> None:
    assert not is_literal(subject)


@pytest.mark.parametrize(
    "subject",
    [
        b"a",
        b"a.b.c",
        b"*",
        b">",
        b"a.*.c",
        b"*.*.>",
        b"f*o.>x",
        b"$JS.API.>",
        b"a.\xff\xfe",
        b"\xd0\xba.1",
        b"a\x00b",
        b"a\x0bb",
    ],
)
def test_valid_subjects(subject: bytes) -> None:
    assert is_valid_subject(subject)


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b".",
        b".a",
        b"a.",
        b"a..b",
        b">.a",
        b"a.>.b",
        b"a.>.",
        b"a b",
        b"a.b\t",
        b"a\r",
        b"\na",
        b"a\x0cb",
        b" ",
    ],
)
def test_invalid_subjects(subject: bytes) -> None:
    """wire.md, Core protocol: empty tokens, ``>`` before the end and blanks are refused."""
    assert not is_valid_subject(subject)
    assert not is_valid_literal(subject)


def test_a_valid_literal_has_no_wildcard() -> None:
    assert is_valid_literal(b"a.f*o.b")
    assert not is_valid_literal(b"a.*.b")
    assert not is_valid_literal(b"a.>")


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b"])
def test_empty_tokens_are_found(subject: bytes) -> None:
    assert has_empty_token(subject)


def test_the_rest_of_a_subject_is_looked_at_alone() -> None:
    assert not has_empty_token_from(b"a..b.c", 3)
    assert has_empty_token_from(b"a..b.c", 2)
    assert has_empty_token_from(b"a.b", 3)


@pytest.mark.parametrize("name", ["ORDERS", "a-b_c", "$x", "a" * 255, "ключ", "a\x00b"])
def test_names_that_streams_and_consumers_may_have(name: str) -> None:
    assert stream_name_problem(name) is None
    assert consumer_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty"),
        ("a.b", "character 1 is '.'"),
        ("a*", "character 1 is '*'"),
        (">", "character 0 is '>'"),
        ("a b", "character 1 is ' '"),
        ("a\tb", r"character 1 is '\t'"),
        ("ab\n", r"character 2 is '\n'"),
        ("a\x0cb", r"character 1 is '\x0c'"),
        ("a/b", "character 1 is '/'"),
        ("a\\b", r"character 1 is '\\'"),
        ("a" * 256, "it has 256 bytes; 255 are allowed"),
        ("é" * 128, "it has 256 bytes; 255 are allowed"),
    ],
)
def test_names_that_they_may_not_have(name: str, problem: str) -> None:
    r"""wire.md, Streams: empty, with ``.*>\/`` or blanks, longer than 255."""
    for found in (stream_name_problem(name), consumer_name_problem(name)):
        assert found is not None
        assert problem in found


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cfg", None),
        ("A-b_9", None),
        ("", "it is empty"),
        ("a.b", "character 1 is '.'"),
        ("a b", "character 1 is ' '"),
        ("a\n", r"character 1 is '\n'"),
        ("é", "character 0 is 'é'"),
    ],
)
def test_bucket_names(name: str, problem: str | None) -> None:
    r"""ADR-8, 1.0: valid buckets are ``\A[a-zA-Z0-9_-]+\z``."""
    found = bucket_name_problem(name)

    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("a", None),
        ("a.b/c=d_e-F9", None),
        ("kv", None),
        ("", "it is empty"),
        (".a", "starts with a dot"),
        ("a.", "ends with a dot"),
        ("a..b", "two dots in a row"),
        ("a b", "character 1 is ' '"),
        ("a\n", r"character 1 is '\n'"),
        ("a.*", "character 2 is '*'"),
        (">", "character 0 is '>'"),
        ("é", "character 0 is 'é'"),
        ("_kv", "reserved"),
        ("_kv.a", "reserved"),
    ],
)
def test_keys(key: str, problem: str | None) -> None:
    r"""ADR-8, 1.0: ``\A[-/_=\.a-zA-Z0-9]+\z``, no dot at an end, ``_kv`` reserved."""
    found = key_problem(key)

    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (">", None),
        ("*", None),
        ("a.*.b", None),
        ("a.>", None),
        ("a.b", None),
        ("", "it is empty"),
        ("a.>.b", "'>' is not the last token"),
        ("a.b*", "token 2 is 'b*'"),
        ("a..>", "two dots in a row"),
        ("a b", "character 1 is ' '"),
    ],
)
def test_patterns_of_keys(pattern: str, problem: str | None) -> None:
    """ADR-8, 1.0: watches take ranges of keys by NATS wildcards."""
    found = key_filter_problem(pattern)

    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")
