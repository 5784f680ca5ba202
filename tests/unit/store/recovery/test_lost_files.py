"""Several files of one stream lost at once; ``tests/campaigns/store/lost_files.py`` runs long."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.campaigns.store.lost_files import Damage, Judge, Life, commit, open_store, run
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.reading import messages
from tests.support.store.sample import stream_identity


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


@pytest.mark.parametrize("after", [1, 2], ids=["at its end", "over its end"])
def test_what_is_written_where_a_cut_record_ended_is_served(after: int) -> None:
    """Whatever the length of the cut: also where a later record ends, and the next begins, there.

    The next start passed over all that lay within the length that the cut record claims.
    """
    whole = SimulatedDisk()
    store = open_store(whole)
    log = store.create(stream_identity(1))
    for text in (b"first", b"x" * 2_000):
        log.staged.add_message(b"s", 0, text + b"\r\n", 1_000)
        commit(whole, log)
    log.close()
    store.close()
    (path,) = (path for path in whole.paths() if path.suffix == ".seg")
    # What recovery writes and two small messages are within this.
    for cut in range(100, 350):
        disk = whole.survivor()
        disk.cut(path, len(whole.read_file(path).rstrip(b"\0")) - cut)
        served: list[set[int]] = []
        for publishes in (after, 0):
            store = open_store(disk)
            (log,) = store.open(lambda _identity, _recovery: None)
            for _ in range(publishes):
                log.staged.add_message(b"s.new", 0, b"new\r\n", 10_000)
                commit(disk, log)
            served.append(set(messages(log)))
            log.close()
            store.close()

        assert len(served[0]) == 1 + after
        assert served[1] == served[0], f"cut by {cut}"


@pytest.mark.parametrize("after", [1, 40])
def test_a_record_that_lies_inside_a_cut_one_is_served_by_every_start(after: int) -> None:
    """The next start passed over it, up to the mark of the one before."""
    disk = SimulatedDisk()
    store = open_store(disk)
    log = store.create(stream_identity(1))
    for group in ([b"first"], [b"x" * 2_000, b"third"]):
        for text in group:
            log.staged.add_message(b"s", 0, text + b"\r\n", 1_000)
        commit(disk, log)
    columns = log.index.segments[0]
    cut, third = (int(columns.offset_at(i)) for i in (1, 2))
    end = int(log.segments.end)
    log.close()
    store.close()
    (path,) = (path for path in disk.paths() if path.suffix == ".seg")
    content = disk.read_file(path)
    # As if sectors had been written in the wrong place.
    disk.put(path, content[: cut + 500] + content[third:end])
    served: list[set[int]] = []
    for publishes in (after, 0):
        store = open_store(disk)
        (log,) = store.open(lambda _identity, _recovery: None)
        for _ in range(publishes):
            log.staged.add_message(b"s.new", 0, b"new\r\n", 10_000)
            commit(disk, log)
        served.append(set(messages(log)))
        log.close()
        store.close()

    assert served[0] >= {1, 3}
    assert served[1] == served[0]


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
