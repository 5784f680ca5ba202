"""The quick reader of direct get requests says what the slow one says, or nothing."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from jetspark.api.message import MsgGetRequest
from jetspark.engine.direct.read import Selection
from jetspark.engine.direct.request import parse_request

NUMBERS = st.integers(min_value=-5, max_value=2**66) | st.integers(min_value=0, max_value=20)
SUBJECTS = st.text(alphabet='ab.*>$"\\ \n\x00é~', max_size=8)
FIELDS = st.dictionaries(
    st.sampled_from(["seq", "last_by_subj", "next_by_subj", "batch", "no_hdr", "SEQ", "x"]),
    NUMBERS | SUBJECTS | st.booleans() | st.none(),
    max_size=4,
)


def agrees(body: bytes) -> None:
    wanted = Selection()
    if not wanted.parse(body):
        return
    request = parse_request(body, "")
    assert request == MsgGetRequest(
        seq=int(wanted.seq),
        last_by_subj=wanted.last_by.decode(),
        next_by_subj=wanted.next_by.decode(),
    )


@given(FIELDS, st.sampled_from([(",", ":"), (", ", ": ")]))
def test_whole_requests_are_read_alike(
    fields: dict[str, object], separators: tuple[str, str]
) -> None:
    agrees(json.dumps(fields, separators=separators).encode())
    agrees(json.dumps(fields, separators=separators, ensure_ascii=False).encode())


@example(b'{"next_by_subj":"a","seq":3}', 17, 10, b"")
@given(
    st.sampled_from([b'{"seq":12}', b'{"last_by_subj":"a.b"}', b'{"next_by_subj":"a","seq":3}']),
    st.integers(min_value=0, max_value=30),
    st.integers(min_value=0, max_value=30),
    st.binary(max_size=3),
)
def test_damaged_requests_are_read_alike(
    body: bytes, start: int, length: int, instead: bytes
) -> None:
    agrees(body[:start] + instead + body[start + length :])


def test_the_common_requests_are_quick() -> None:
    """Otherwise the properties above would hold for a reader that reads nothing."""
    for body in (
        b'{"seq":1}',
        b'{"seq":123456789012345678}',
        b'{"last_by_subj":"$KV.b.key"}',
        b'{"next_by_subj":"a.>"}',
        b'{"next_by_subj":"a.>","seq":7}',
        b'{"seq":7,"next_by_subj":"a.>"}',
    ):
        assert Selection().parse(body), body
    for body in (b"", b"{}", b'{"seq":0}', b'{"seq":1,"seq":2}', b'{"seq":1}}', b'{"seq":1},'):
        assert not Selection().parse(body), body
