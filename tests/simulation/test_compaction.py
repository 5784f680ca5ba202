"""Rewritten segments replay to exactly what existed."""

import pytest
from tests.campaigns.store.crashes import run_crashes
from tests.campaigns.store.rewrites import run_rewrites
from tests.support.store.model import Violation

from jetspark.store.upkeep.compaction import Compactor


def test_no_rewriting_changes_what_a_start_finds() -> None:
    done = run_rewrites(30)

    assert done.rewritten > 1_000
    assert done.merged > 100
    assert done.states > 500


def test_no_crash_among_rewritten_segments_loses_what_was_acknowledged() -> None:
    done = run_crashes(4_000, seed=100, segment_size=600)

    assert done.acked > 100


def test_without_the_list_of_deleted_messages_they_would_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The campaign finds the mistake that it is for (the compactor is never compiled)."""
    monkeypatch.setattr(Compactor, "_name_removed", lambda *_: None)

    with pytest.raises(Violation, match="back"):
        run_rewrites(30)


def test_no_rewriting_outlives_the_record_that_took_a_message_away() -> None:
    """At the lower levels that record may not be on the disk yet; this life had such a cut."""
    run_crashes(1, seed=3_000_005, segment_size=600)


def test_limits_of_a_rewritten_segment_evict_nothing_before_its_list_of_deleted_messages() -> None:
    """The newest message of a subject was deleted, then the limit per subject became one."""
    run_rewrites(1, seed=953_452_410)
