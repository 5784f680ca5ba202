"""Which stream stores which subjects: there is a limit to how long the search for one may take."""

from __future__ import annotations

import itertools

import pytest

from jetspark.engine.refusal import Refusal
from jetspark.engine.wanted_subjects import Claim, WantedSubjects
from jetspark.subjects.sublist import WIDTH_MAX

HEADS = [".".join(tokens) for tokens in itertools.product("a*", repeat=16)]


def test_subjects_that_would_make_searches_longer_are_refused() -> None:
    wanted = WantedSubjects()
    claims: list[Claim] = []
    while wanted.claims.width() <= WIDTH_MAX:
        wanted.check_width(("other.*",), None)
        at = len(claims) * 8192
        # No two of them overlap.
        some = [f"{head}.{at + n}" for n, head in enumerate(HEADS[at : at + 8192])]
        claims.append(wanted.entered(tuple(some)))

    with pytest.raises(Refusal, match="10052"):
        wanted.check_width(("literal", "other.*"), None)
    wanted.check_width(("literal", "others"), None)
    for claim in claims:
        wanted.abandon(claim)
    while not wanted.clean():
        pass
    assert wanted.claims.width() == 1
    wanted.check_width(("other.*",), None)
