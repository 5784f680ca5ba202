"""Arguments are read as Go's strconv reads them; texts observed on nats-server 2.15.1."""

from __future__ import annotations

import pytest

from jetspark.server.monitor.arguments import Arguments, BadArgument


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_a_flag_is_set_by_what_go_takes_for_true(text: str) -> None:
    assert Arguments(f"auth={text}").flag("auth")


@pytest.mark.parametrize("query", ["", "auth=", "auth=0", "auth=False", "auth=f"])
def test_a_flag_is_off_when_missing_empty_or_false(query: str) -> None:
    assert not Arguments(query).flag("auth")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("auth=x", '"x": invalid syntax'),
        ("auth=tRUE", '"tRUE": invalid syntax'),
        ("auth=yes%22%0a", r'"yes\"\n": invalid syntax'),
    ],
)
def test_a_bad_flag_is_refused_in_the_words_of_nats_server(query: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        Arguments(query).flag("auth")

    assert str(refused.value) == (
        f"Error decoding boolean for 'auth': strconv.ParseBool: parsing {text}"
    )


@pytest.mark.parametrize(
    ("query", "value"),
    [("n=5", 5), ("n=-3", -3), ("n=%2B7", 7), ("n=007", 7), ("n=", 0), ("", 0), ("n=1&n=2", 1)],
)
def test_numbers_are_read_with_sign_and_the_first_counts(query: str, value: int) -> None:
    assert Arguments(query).integer("n") == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("1_0", "invalid syntax"),
        ("%205", "invalid syntax"),
        ("+5", "invalid syntax"),  # a plus in a query is a blank
        ("-", "invalid syntax"),
        ("%D9%A3", "invalid syntax"),  # a digit, but not an ASCII one
        ("99999999999999999999", "value out of range"),
        ("9223372036854775808", "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_bad_numbers_are_refused_with_gos_reason(text: str, problem: str) -> None:
    with pytest.raises(BadArgument, match=f"Error decoding int for 'n': .*: {problem}$"):
        Arguments(f"n={text}").integer("n")


def test_an_unsigned_number_has_no_sign() -> None:
    assert Arguments("cid=18446744073709551615").unsigned("cid") == 2**64 - 1
    for text in ("-1", "%2B3"):
        with pytest.raises(BadArgument, match=r"uint64 for 'cid': strconv\.ParseUint: .*syntax"):
            Arguments(f"cid={text}").unsigned("cid")
    with pytest.raises(BadArgument, match="value out of range"):
        Arguments("cid=18446744073709551616").unsigned("cid")
