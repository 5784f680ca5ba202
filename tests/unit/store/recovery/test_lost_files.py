"""Several files of one stream lost at once; the long form is ``tests/campaigns/lost_files.py``."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.campaigns.lost_files import Damage, Judge, Life, open_store, run


@pytest.mark.parametrize("seed", range(100, 104))
def test_no_pair_or_triple_of_lost_files_costs_anything_silently(seed: int) -> None:
    assert run(1, seed) == 10


def newest(files: list[Path]) -> Path:
    return [path for path in files if path.suffix == ".seg"][-1]


def manifests(files: list[Path]) -> list[Path]:
    return [path for path in files if path.name.startswith("manifest.")]


@pytest.mark.parametrize(
    "lost",
    [
        lambda files: {manifests(files)[0]: "missing", newest(files): "missing"},
        lambda files: {manifests(files)[1]: "missing", newest(files): "missing"},
        lambda files: {manifests(files)[0]: "zeroed", newest(files): "cut"},
        lambda files: {manifests(files)[1]: "zeroed", newest(files): "cut"},
        lambda files: dict.fromkeys([*manifests(files), newest(files)], "missing"),
        lambda files: dict.fromkeys([*manifests(files), newest(files)], "zeroed"),
        lambda files: dict.fromkeys([*manifests(files), newest(files)], "foreign"),
    ],
    ids=["a-gone", "b-gone", "a-cut", "b-cut", "all-gone", "all-zeroed", "all-foreign"],
)
def test_no_sequence_is_used_again_when_manifests_and_the_newest_segment_are_lost(
    lost: Callable[[list[Path]], dict[Path, str]],
) -> None:
    """The copy of the manifest that was left knew the sequences of half a minute before."""
    for seed in range(3):
        random = Random(seed)
        life = Life(random)
        Judge(life, Damage(life, lost(life.files()), random)).check()


@pytest.mark.parametrize("seed", [20262017, 20262925], ids=["a message", "what recovery notes"])
def test_what_is_written_after_a_cut_is_not_taken_for_what_was_indexed_before_it(
    seed: int,
) -> None:
    """It was acknowledged, and the next start began to read in the middle of its record."""
    assert run(1, seed) == 10


def test_a_folder_with_nothing_but_files_of_another_stream_is_a_copy_of_that_stream() -> None:
    """The server reports it and serves the original (``test_unserved_streams.py``)."""
    assert run(1, 1000455) == 10


def test_a_start_that_stores_nothing_keeps_sequences_from_being_used_again() -> None:
    """The next start found manifests and segments that were whole, and no reason for that."""
    random = Random(156)
    life = Life(random)
    files = life.files()
    kinds = dict.fromkeys([*manifests(files), newest(files)], "cut")
    damage = Damage(life, kinds, random)
    for _ in range(3):
        store = open_store(damage.disk)
        logs = store.open(lambda _identity, _recovery: None, lambda _folder, _error: None)
        (log,) = (log for log in logs if log.identity.stream_id == 1)
        used = log.staged.seq
        for each in logs:
            each.close()
        store.close()

        assert used >= life.used
