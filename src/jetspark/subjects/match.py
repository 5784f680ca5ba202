"""Pattern matching: does a pattern match a subject, do two overlap, is one a subset of another."""

from mypy_extensions import i64

from jetspark.subjects.tokens import DOT, GREATER, STAR, has_empty_token, has_empty_token_from


def matches(subject: bytes, pattern: bytes) -> bool:
    """Return whether ``pattern`` matches the literal ``subject``.

    Wildcard characters in ``subject`` are literal (wire.md, Core protocol). A subject or a
    pattern with an empty token matches nothing.
    """
    subject_end: i64 = len(subject)
    pattern_end: i64 = len(pattern)
    at: i64 = 0
    want: i64 = 0
    while True:
        if at >= subject_end or want >= pattern_end:
            return False
        want_stop = token_end(pattern, want, pattern_end)
        wild = wildcard_at(pattern, want, want_stop)
        if wild == GREATER:
            return want_stop == pattern_end and not has_empty_token_from(subject, at)
        at_stop = token_end(subject, at, subject_end)
        if at_stop == at:
            return False
        if wild == 0 and not same_token(subject, at, at_stop, pattern, want, want_stop):
            return False
        if at_stop == subject_end or want_stop == pattern_end:
            return at_stop == subject_end and want_stop == pattern_end
        at = at_stop + 1
        want = want_stop + 1


def overlaps(a: bytes, b: bytes) -> bool:
    """Return whether some literal subject matches both patterns."""
    a_end: i64 = len(a)
    b_end: i64 = len(b)
    a_at: i64 = 0
    b_at: i64 = 0
    if has_empty_token(a) or has_empty_token(b):
        return False
    while True:
        a_stop = token_end(a, a_at, a_end)
        b_stop = token_end(b, b_at, b_end)
        a_wild = wildcard_at(a, a_at, a_stop)
        b_wild = wildcard_at(b, b_at, b_stop)
        if GREATER in (a_wild, b_wild):
            return True
        if a_wild == 0 and b_wild == 0 and not same_token(a, a_at, a_stop, b, b_at, b_stop):
            return False
        if a_stop == a_end or b_stop == b_end:
            return a_stop == a_end and b_stop == b_end
        a_at = a_stop + 1
        b_at = b_stop + 1


def is_subset(inner: bytes, outer: bytes) -> bool:
    """Return whether every literal subject that matches ``inner`` matches ``outer`` too."""
    inner_end: i64 = len(inner)
    outer_end: i64 = len(outer)
    inner_at: i64 = 0
    outer_at: i64 = 0
    if has_empty_token(inner) or has_empty_token(outer):
        return False
    while True:
        inner_stop = token_end(inner, inner_at, inner_end)
        outer_stop = token_end(outer, outer_at, outer_end)
        inner_wild = wildcard_at(inner, inner_at, inner_stop)
        outer_wild = wildcard_at(outer, outer_at, outer_stop)
        if outer_wild == GREATER:
            return True
        if inner_wild == GREATER:
            return False
        # A star of ``inner`` differs from every literal token of ``outer``, as it should.
        if outer_wild == 0 and not same_token(
            inner, inner_at, inner_stop, outer, outer_at, outer_stop
        ):
            return False
        if inner_stop == inner_end or outer_stop == outer_end:
            return inner_stop == inner_end and outer_stop == outer_end
        inner_at = inner_stop + 1
        outer_at = outer_stop + 1


def token_end(subject: bytes, start: i64, end: i64) -> i64:
    """Return the end of the token that starts at ``start``: the next dot, or ``end``."""
    index = start
    while index < end and subject[index] != DOT:
        index += 1
    return index


def wildcard_at(pattern: bytes, start: i64, stop: i64) -> i64:
    """Return ``STAR`` or ``GREATER`` if the token is that wildcard, else 0."""
    if stop != start + 1:
        return 0
    char: i64 = pattern[start]
    if char in (STAR, GREATER):
        return char
    return 0


def same_token(a: bytes, a_at: i64, a_stop: i64, b: bytes, b_at: i64, b_stop: i64) -> bool:
    """Return whether two tokens are the same bytes."""
    if a_stop - a_at != b_stop - b_at:
        return False
    while a_at < a_stop:
        if a[a_at] != b[b_at]:
            return False
        a_at += 1
        b_at += 1
    return True


def literal_head(pattern: bytes) -> bytes:
    """Return everything before the first wildcard, including the dot."""
    end: i64 = len(pattern)
    start: i64 = 0
    while start < end:
        stop = token_end(pattern, start, end)
        if wildcard_at(pattern, start, stop) != 0:
            break
        start = stop + 1
    return pattern[:start]
