"""A request that is read in steps is read as one that is read at once."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.consumer import ConsumerCreateRequest
from jetspark.api.stream import RestoreRequest, StreamCreateRequest
from jetspark.api.strict import InvalidRequest, decode, decoding
from jetspark.steps import at_once

NAMES = ["name", "subjects", "Subjects", "max_age", "sources", "metadata", "config", "state", "x"]
# Not any text: what Hypothesis knows of Unicode takes many seconds to load.
TEXTS = [
    "",
    "a.b",
    'quo"ted',
    "back\\slash",
    "\u00e9",
    "\ud800",
    "\ud83d\ude00",
    "\U0001f600",
    "\n",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(TEXTS),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
MODELS = st.sampled_from([StreamCreateRequest, ConsumerCreateRequest, RestoreRequest])
SEPARATORS = st.sampled_from([(",", ":"), (", ", " : "), ("\n,\t", ":\r\n")])


def read(body: bytes, model: type[Any], *, in_steps: bool) -> object:
    try:
        return at_once(decoding(body, model)) if in_steps else decode(body, model)
    except InvalidRequest as problem:
        return problem.reason


@given(OBJECTS, MODELS, SEPARATORS, st.booleans())
def test_requests_and_refusals_are_the_same(
    value: object, model: type[Any], separators: tuple[str, str], ascii_only: bool
) -> None:
    body = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode(
        errors="surrogatepass"
    )

    assert read(body, model, in_steps=True) == read(body, model, in_steps=False)


@given(OBJECTS, MODELS, st.data())
def test_broken_bodies_are_refused_in_the_same_words(
    value: object, model: type[Any], data: st.DataObject
) -> None:
    body = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1)) if body else 0
        part = data.draw(
            st.sampled_from([b"", b",", b"]", b"}", b'"', b"{", b"\\", b"\xff", b"N"])
        )
        body[at : at + 1] = part

    assert read(bytes(body), model, in_steps=True) == read(bytes(body), model, in_steps=False)
