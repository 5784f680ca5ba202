from collections.abc import Callable

import pytest

from jetspark.client.jetstream.pages import Page
from jetspark.client.jetstream.scan import (
    Copies,
    Verdict,
    check_columns,
    check_filters,
    judge,
)
from jetspark.errors import BadSubject


def make_page(
    *,
    status: int = 204,
    last_seq: int = 0,
    past: bool = False,
    pending: int = 0,
    proof: int = 0,
    foreign: bool = False,
    text: bytes = b"",
) -> Page:
    nothing: Callable[[], None] = lambda: None  # noqa: E731
    page = Page(b"S", 100, True, True, True, True, nothing)
    page.status = status
    page.status_text = text
    page.last_seq = last_seq
    page.past = past
    page.pending = pending
    page.proof = proof
    page.foreign = foreign
    return page


@pytest.mark.parametrize(
    ("page", "copies", "verdict"),
    [
        pytest.param(make_page(last_seq=100), "stream", Verdict.COMPLETE, id="last row reached"),
        pytest.param(
            make_page(last_seq=90, past=True), "stream", Verdict.COMPLETE, id="row beyond the end"
        ),
        pytest.param(
            make_page(last_seq=50, pending=9), "stream", Verdict.MORE, id="more of it follows"
        ),
        pytest.param(
            make_page(pending=9), "stream", Verdict.ASK_LEADER, id="more but no row: no progress"
        ),
        pytest.param(
            make_page(last_seq=50), "stream", Verdict.ASK_LEADER, id="ends early without proof"
        ),
        pytest.param(
            make_page(last_seq=50, proof=99), "stream", Verdict.ASK_LEADER, id="proof too low"
        ),
        pytest.param(
            make_page(last_seq=50, proof=100), "stream", Verdict.COMPLETE, id="ends with proof"
        ),
        pytest.param(
            make_page(status=404), "stream", Verdict.ASK_LEADER, id="nothing without proof"
        ),
        pytest.param(
            make_page(status=404, proof=150), "stream", Verdict.COMPLETE, id="nothing with proof"
        ),
        pytest.param(
            make_page(last_seq=100, foreign=True), "stream", Verdict.NOT_OURS, id="mirror refused"
        ),
        pytest.param(
            make_page(last_seq=100, foreign=True), "any", Verdict.COMPLETE, id="mirror allowed"
        ),
        pytest.param(
            make_page(last_seq=100, foreign=True, proof=100),
            "stream",
            Verdict.COMPLETE,
            id="mirror proven",
        ),
        pytest.param(
            make_page(status=412, text=b"Min Last Sequence"),
            "stream",
            Verdict.HELD_BACK,
            id="behind",
        ),
        pytest.param(
            make_page(status=412, text=b"Required Api Level"),
            "stream",
            Verdict.REFUSED,
            id="another 412",
        ),
        pytest.param(make_page(status=503), "stream", Verdict.NO_DIRECT, id="no allow_direct"),
        pytest.param(make_page(status=408), "stream", Verdict.REFUSED, id="bad request"),
    ],
)
def test_a_page_is_trusted_only_with_proof(page: Page, copies: Copies, verdict: Verdict) -> None:
    """spark.md 6.2, "A page is trusted only with proof"; decisions.md, Read-after-write."""
    assert judge(page, last=100, proof=100, copies=copies) is verdict


def test_an_open_range_needs_no_leader_when_nothing_was_promised() -> None:
    page = make_page(last_seq=50)

    assert judge(page, last=2**63 - 1, proof=0, copies="any") is Verdict.COMPLETE


@pytest.mark.parametrize(("last_seq", "verdict"), [(50, "ASK_LEADER"), (60, "COMPLETE")])
def test_an_open_range_is_complete_when_a_row_reached_what_was_promised(
    last_seq: int, verdict: str
) -> None:
    page = make_page(last_seq=last_seq)

    assert judge(page, last=2**63 - 1, proof=60, copies="stream") is Verdict[verdict]


def test_overlapping_filters_are_refused() -> None:
    """Several filters are one scan each, overlap refused."""
    with pytest.raises(ValueError, match=r"'a\.\*' and 'a\.b' overlap"):
        check_filters(["a.*", "x", "a.b"])


def test_a_filter_must_be_a_subject() -> None:
    with pytest.raises(BadSubject, match="'a b'"):
        check_filters(["a b"])


def test_a_single_text_is_no_list_of_filters() -> None:
    with pytest.raises(TypeError, match=r"such as \['a.b'\]"):
        check_filters("a.b")


def test_unknown_columns_are_named() -> None:
    with pytest.raises(ValueError, match=r"unknown columns \['payload'\]: expected some of"):
        check_columns(["sequences", "payload"])
