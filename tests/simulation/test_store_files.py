"""Files that are missing, cut, foreign, exchanged or unreadable, at random.

This is the short form; ``tools/torture.py`` calls the same function for hours.
"""

import pytest
from tests.campaigns.store.files import Life, run_file_faults
from tests.support.store.model import Violation

RUNS = 60
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_to_a_file_is_reported_and_no_sequence_is_used_twice(part: int) -> None:
    met = run_file_faults(RUNS, seed=part * 1_000_000)

    assert sum(met.values()) == RUNS
    assert len(met) >= 8, "every kind of thing happened"


def test_a_violation_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign is interpreted in every build, so a broken promise can be put into it."""

    def broken(_life: Life, _kind: str) -> None:
        raise KeyError("a promise was broken")

    monkeypatch.setattr(Life, "check", broken)

    with pytest.raises(Violation, match="seed 5: "):
        run_file_faults(3, seed=5)


def test_unreadable_messages_come_back_although_a_segment_was_started_meanwhile() -> None:
    """The new segment said that the stream begins after it, and the next start removed it."""
    assert run_file_faults(1, seed=20262257) == {"no reads": 1}
