"""The blob cache: newest groups, under a budget (hot-path.md, Rules)."""

from hypothesis import given
from hypothesis import strategies as st

from jetspark.store.log.cache import BlobCache


@given(
    sizes=st.lists(st.integers(1, 40), max_size=60),
    budget=st.integers(1, 200),
    gaps=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_what_is_found_is_what_was_added(sizes: list[int], budget: int, gaps: list[bool]) -> None:
    cache = BlobCache(budget)
    where = 100
    content: dict[int, int] = {}
    for number, size in enumerate(sizes):
        cache.add(where, bytes([number]) * size)
        content |= dict.fromkeys(range(where, where + size), number)
        where += size + (7 if gaps[number] else 0)
        # One blob may be larger than the budget; two never are.
        assert cache.size <= budget or len(cache.blobs) == 1
        assert cache.size == sum(map(len, cache.blobs))
    newest = where
    for place in range(90, where + 10):
        blob, at = cache.find(place)
        if blob:
            assert blob[at] == content[place]
    if sizes:
        assert cache.find(max(content))[0]
    assert cache.find(newest + 100) == (b"", 0)


def test_the_oldest_blobs_go_first() -> None:
    cache = BlobCache(100)
    for number in range(11):
        cache.add(number * 10, bytes(10))

    assert cache.size <= 100
    assert cache.find(0) == (b"", 0)
    assert cache.find(105) == (bytes(10), 5)


def test_an_empty_cache_finds_nothing() -> None:
    assert BlobCache(10).find(0) == (b"", 0)
