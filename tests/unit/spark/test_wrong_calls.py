"""Wrong uses of the functions of ``jetspark.spark``: one line that says what to do. No JVM."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from jetspark.errors import Error
from jetspark.spark import (
    decode_registered,
    encode_json,
    exactly_once,
    expect,
    file_table,
    foreach_batch_writer,
    infer_schema,
    kv_lookup,
    publish_progress,
    register_tables,
    registered_schema,
    schema_headers,
)
from jetspark.spark.stream.options import parse_source_options

URL = "nats://127.0.0.1:4222"


def _write(_rows: object, _batch: object) -> None:
    """Write nothing."""


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "exactly_once": (exactly_once, ("orders", _write)),
    "infer_schema": (infer_schema, ("ORDERS",)),
    "kv_lookup": (kv_lookup, ("key", "PRICES")),
    "publish_progress": (publish_progress, (None, "spark.progress")),
    "register_tables": (register_tables, (None,)),
    "registered_schema": (registered_schema, ("SCHEMAS", "orders")),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_without_servers_says_so_and_does_not_speak_of_tables(name: str) -> None:
    function, arguments = CALLS[name]
    with pytest.raises(ValueError, match=f"^{name}: servers is missing$"):
        function(*arguments)


@pytest.mark.parametrize("name", CALLS)
def test_servers_in_a_list_are_refused_with_the_form_that_is_expected(name: str) -> None:
    function, arguments = CALLS[name]
    expected = f"^{name}: servers must be a string, not list: separate several values by commas$"
    with pytest.raises(ValueError, match=expected):
        function(*arguments, servers=[URL])


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a writer that is no function": (
        lambda: exactly_once("orders", None, servers=URL),  # type: ignore[arg-type]
        "exactly_once: write is None: expected a function",
    ),
    "arguments in the wrong order": (
        lambda: exactly_once(_write, "orders", servers=URL),  # type: ignore[arg-type]
        "exactly_once: name is <function",
    ),
    "a table without a folder": (lambda: file_table(""), "the path is '': expected a folder"),
    "a table that readers do not see": (
        lambda: file_table("/t", batch_column="_batch"),
        "batch_column is '_batch': expected a name that folders",
    ),
    "a table in folders of folders": (
        lambda: file_table("/t", batch_column="a/b"),
        "batch_column is 'a/b': expected a name that folders",
    ),
    "credentials instead of their file": (
        lambda: infer_schema("S", servers=URL, credentialsFile="-----BEGIN JWT-----\nsecret\n"),
        "credentialsFile has the credentials themselves: expected the path[^\n]*name$",
    ),
    "credentials as long as real ones": (
        lambda: infer_schema("S", servers=URL, credentialsFile=f"-----BEGIN\n{'ey' * 400}\n"),
        "credentialsFile has the credentials themselves: expected the path[^\n]*name$",
    ),
    "a seed instead of its file": (
        lambda: infer_schema("S", servers=URL, credentialsFile="SUAM" * 14),
        "credentialsFile has the credentials themselves: expected the path[^\n]*name$",
    ),
    "credentials instead of their variable": (
        lambda: infer_schema("S", servers=URL, credentialsEnv="-----BEGIN JWT-----\nsecret\n"),
        r"credentialsEnv \(not shown\) is no name of a variable: expected the name[^\n]*path$",
    ),
    "a seed instead of its variable": (
        lambda: infer_schema("S", servers=URL, credentialsEnv="SUAM" * 14),
        r"credentialsEnv \(not shown\) is no name of a variable: expected the name[^\n]*path$",
    ),
    "a domain with a blank": (
        lambda: infer_schema("S", servers=URL, domain="a b"),
        r"domain 'a b' is not a JetStream domain: .* \$JS.<domain>.API",
    ),
    "a batch writer without a stream": (
        lambda: foreach_batch_writer("app", servers=URL),
        r"stream is missing \(or streams, subject\)",
    ),
    "a batch writer with an impossible id": (
        lambda: foreach_batch_writer("a b", servers=URL, stream="S"),
        "txnAppId 'a b' is not a subject",
    ),
    "rules without names": (
        lambda: expect(None, ["seq > 1"]),  # type: ignore[arg-type]
        r"expect: rules is \['seq > 1'\]: expected names and conditions",
    ),
    "a rule that is no condition": (
        lambda: expect(None, {"positive": True}),  # type: ignore[arg-type,dict-item]
        "expect: rule 'positive' is True: expected names and conditions",
    ),
    "rules that differ in case": (
        lambda: expect(None, {"R": "a", "r": "b"}),  # type: ignore[arg-type]
        "expect: SQL does not distinguish the names of rules 'R'",
    ),
    "a duration as text": (
        lambda: kv_lookup("key", "PRICES", max_staleness="5s", servers=URL),  # type: ignore[arg-type]
        "max_staleness is '5s': expected 0 or more seconds",
    ),
    "the name of a schema instead of it": (
        lambda: decode_registered("data", "orders"),  # type: ignore[arg-type]
        r"decode_registered: schema is 'orders': expected a registered schema, such as regis",
    ),
    "columns instead of a registered schema": (
        lambda: encode_json("row", "id long"),  # type: ignore[arg-type]
        "encode_json: schema is 'id long': expected a registered schema",
    ),
    "a header instead of a schema": (
        lambda: schema_headers("orders;1"),  # type: ignore[arg-type]
        "schema_headers: schema is 'orders;1': expected a registered schema",
    ),
    "progress to a wildcard": (
        lambda: publish_progress(None, "a.*", servers=URL),  # type: ignore[arg-type]
        r"publish_progress: 'a.\*' is not a subject",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_refused_at_once_and_named(case: str) -> None:
    call, expected = WRONG[case]
    with pytest.raises((ValueError, TypeError, Error), match=expected):
        call()


READS = {
    ("startingOffsets", '{"A": 1, "A": 2, "B": 1}'): "it names A twice",
    ("startingOffsets", '{"A": -2, "B": 1}'): "startingOffsets for A: '-2' is neither",
    ("startingOffsets", "{A: 1}"): 'must have the form {"A": 17, "B": 17}: it is not JSON',
    (
        "startingOffsetsByTimestamp",
        '{"A": {"0": 1000}, "B": {"0": 1}}',
    ): 'must have the form {"A": "2026-11-15T12:00:00Z", "B": "2026-11-15T12:00:00Z"}',
    ("startingOffsetsByTimestamp", '{"A": "?", "B": 1}'): "startingOffsetsByTimestamp for A: '?'",
    (
        "startingOffsetsByTimestamp",
        '{"A": "2027-01-01T00:00:00Z", "B": 1}',
    ): "2027-01-01T00:00:00Z is after the ending time 2026-01-01T00:00:00Z (of A)",
}


@pytest.mark.parametrize(("option", "text"), READS)
def test_a_wrong_value_of_one_stream_names_the_option_and_the_stream(
    option: str, text: str
) -> None:
    options = {"servers": URL, "streams": "A,B", option: text}
    if "Timestamp" in option:
        options["endingTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(ValueError) as refused:
        parse_source_options(options)
    assert READS[option, text] in str(refused.value)
