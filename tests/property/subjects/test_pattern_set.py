"""A set of patterns answers as each of its patterns would."""

from hypothesis import given
from hypothesis import strategies as st

from jetspark.subjects.match import is_subset, matches, overlaps
from jetspark.subjects.pattern_set import PatternSet

TOKENS = st.sampled_from([b"a", b"b", b"*", b">", b"c*", b""])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)


@given(st.lists(PATTERNS, max_size=8), PATTERNS, st.sets(st.integers(0, 7)), st.booleans())
def test_a_set_answers_as_its_patterns_one_by_one(
    patterns: list[bytes], asked: bytes, numbers: set[int], with_owner: bool
) -> None:
    owners = [bytearray(pattern) for pattern in patterns]
    found = PatternSet()
    for pattern, owner in zip(patterns, owners, strict=True):
        found.add(pattern, owner)
    gone = {number for number in numbers if number < len(patterns)}
    for number in gone:
        found.remove(patterns[number], owners[number])
    left = [number for number in range(len(patterns)) if number not in gone]
    but = owners[left[0]] if left and with_owner else None
    others = [patterns[number] for number in left if owners[number] is not but]

    valid = [pattern for pattern in others if b">" not in pattern.split(b".")[:-1]]
    if valid == others and b">" not in asked.split(b".")[:-1]:
        assert found.covers(asked, but) == any(is_subset(asked, other) for other in others)
        everybody = [patterns[number] for number in left]
        if all(b">" not in each.split(b".")[:-1] for each in everybody):
            assert found.matches(asked) == any(matches(asked, each) for each in everybody)
    owning = [owners[number] for number in left if overlaps(asked, patterns[number])]
    assert {id(each) for each in found.overlapping(asked)} == {id(each) for each in owning}
    assert found.overlaps(asked, but) == any(overlaps(asked, other) for other in others)
