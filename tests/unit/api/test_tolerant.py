"""The decoder of direct gets and pulls reads numbers as nats-server 2.15.1 does."""

import msgspec
import pytest

from jetspark.api.consumer import PullRequest
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import PurgeRequest
from jetspark.api.strict import InvalidRequest, decode
from jetspark.api.tolerant import Tolerant

LONG = b'"x":"' + b"y" * 20_000 + b'",'


@pytest.mark.parametrize("rest", [b"", LONG], ids=["short", "long"])
def test_minus_zero_is_no_unsigned_number(rest: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        Tolerant(MsgGetRequest).decode(b'{%b"seq":-0,"next_by_subj":"s"}' % rest)


@pytest.mark.parametrize("rest", [b"", LONG], ids=["short", "long"])
@pytest.mark.parametrize("number", [b"-0", b"0", b"5"])
def test_minus_zero_is_a_signed_number(number: bytes, rest: bytes) -> None:
    found = Tolerant(PullRequest).decode(b'{%b"batch":%b,"no_wait":true}' % (rest, number))
    assert found.batch == int(number)


def test_a_text_with_minus_zero_is_a_text() -> None:
    body = b'{"seq":1,"next_by_subj":"a-0,b:-0}"}'
    assert Tolerant(MsgGetRequest).decode(body).next_by_subj == "a-0,b:-0}"


def test_a_refused_minus_zero_is_quoted() -> None:
    with pytest.raises(InvalidRequest, match="keep: expected at least 0, got -0"):
        decode(b'{"keep": -0 }', PurgeRequest)
