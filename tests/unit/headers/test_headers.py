"""``Headers`` as users hold them."""

import copy
import pickle

import pytest

from jetspark.headers.headers import Headers

PAIRS = [("A", "1"), ("B", "2"), ("A", "3")]


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ((), []),
        (PAIRS, PAIRS),
        (iter(PAIRS), PAIRS),
        ({"A": "1", "B": ["2", "3"]}, [("A", "1"), ("B", "2"), ("B", "3")]),
        (Headers(PAIRS), PAIRS),
    ],
    ids=["nothing", "pairs", "iterator", "mapping", "headers"],
)
def test_headers_are_made_of_pairs_or_a_mapping(
    given: Headers | dict[str, str | list[str]] | list[tuple[str, str]],
    pairs: list[tuple[str, str]],
) -> None:
    assert Headers(given).items() == pairs


def test_one_value_is_the_last_value() -> None:
    """wire.md, point 12: clients must read the last value."""
    headers = Headers(PAIRS)

    assert headers["A"] == headers.get("A") == "3"
    assert headers.get_all("A") == ["1", "3"]


def test_names_are_case_sensitive() -> None:
    """wire.md, point 11."""
    headers = Headers(PAIRS)

    assert headers.get("a") is None
    assert "a" not in headers
    assert headers.get("a", "other") == "other"
    assert headers.get_all("a") == []


def test_a_missing_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        Headers(PAIRS)["nobody"]
    with pytest.raises(KeyError, match="nobody"):
        del Headers(PAIRS)["nobody"]


def test_length_and_iteration_count_values() -> None:
    headers = Headers(PAIRS)

    assert len(headers) == 3
    assert list(headers) == headers.keys() == ["A", "B", "A"]
    assert dict(headers) == {"A": "3", "B": "2"}
    assert not Headers()


def test_membership() -> None:
    assert "A" in Headers(PAIRS)
    assert 1 not in Headers(PAIRS)


def test_headers_are_equal_with_the_same_pairs_in_the_same_order() -> None:
    assert Headers(PAIRS) == Headers(PAIRS)
    assert Headers(PAIRS) != Headers(PAIRS[::-1])
    assert Headers(PAIRS) != PAIRS


def test_headers_can_change_so_they_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Headers())


def test_setting_replaces_every_value_in_the_place_of_the_first() -> None:
    headers = Headers(PAIRS)
    headers["A"] = "9"
    headers["C"] = "8"

    assert headers.items() == [("A", "9"), ("B", "2"), ("C", "8")]


def test_adding_keeps_earlier_values() -> None:
    headers = Headers(PAIRS)
    headers.add("A", "9")

    assert headers.get_all("A") == ["1", "3", "9"]


def test_deleting_removes_every_value() -> None:
    headers = Headers(PAIRS)
    del headers["A"]

    assert headers.items() == [("B", "2")]


def test_a_copy_is_independent() -> None:
    headers = Headers(PAIRS)
    headers.items().append(("X", "y"))
    Headers(headers).add("X", "y")
    copy.deepcopy(headers).add("X", "y")

    assert headers.items() == PAIRS


def test_headers_travel_between_processes() -> None:
    """What travels is not compiled."""
    headers = Headers([("A", "\udcff")])

    assert pickle.loads(pickle.dumps(headers)) == headers


def test_headers_show_what_is_in_them() -> None:
    assert repr(Headers([("A", "1")])) == "Headers([('A', '1')])"
