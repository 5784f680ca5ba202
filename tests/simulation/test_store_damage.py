"""Damage at rest, in every kind of file of a store.

These are the short forms; ``tools/torture.py`` calls the same functions for hours.
"""

import errno
from pathlib import Path
from random import Random

import pytest
from tests.campaigns.store.damage import Damaged, check_damage, flip, run_flips
from tests.campaigns.store.faults import run_faults
from tests.campaigns.store.mutations import run_mutations
from tests.support.store.model import Opened, Violation, messages
from tests.support.store.sample import CACHE_BUDGET, KINDS, SEGMENT_SIZE, Sample

from jetspark.store.format.segment import read_head
from jetspark.store.log.staged import FLAGS_AT

FLIPS = 500
MUTATIONS = 600


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_costs_at_most_its_record(kind: str) -> None:
    """R4: at most one record lost each, every loss reported, no stream lost, no wrong bytes."""
    done = run_flips(FLIPS, kind=kind)

    assert done.cases == FLIPS
    assert 0 < done.records_lost <= FLIPS
    assert done.reported >= done.records_lost


@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_that_flips_in_the_newest_segment_is_damage_not_a_batch(kind: str) -> None:
    """R4: frame words do not cover flags, and a batch that is not whole is dropped unreported."""
    sample, done = Sample(kind), Damaged()
    for path in sorted(sample.newest & sample.places.keys()):
        for place in sample.places[path]:
            for bit in range(8):
                flip(sample, path, (place.begin + FLAGS_AT) * 8 + bit, done)

    assert done.cases > 0


def test_the_samples_have_every_kind_of_file() -> None:
    names = {path.name if path.suffix not in {".seg", ".idx", ".bin"} else path.suffix
             for kind in KINDS for path in Sample(kind).files}  # fmt: skip

    assert names == {
        ".seg", ".idx", ".bin", "manifest.a", "manifest.b", "STORE", "reserve", "found.jsonl",
        "scrubbed",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["rewritten", "packed"])
def test_the_samples_have_rewritten_segments(kind: str) -> None:
    sample = Sample(kind)
    heads = [read_head(sample.disk.read_file(path)) for path in sample.places]

    assert any(head is not None and head[0].generation for head in heads)
    assert any(head is not None and head[0].packed for head in heads) == (kind == "packed")


@pytest.mark.parametrize("how", ["zeros", "garbage"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_page_costs_the_records_it_meets(kind: str, how: str) -> None:
    """R5: zeroed pages, in several sizes; in the plain sample at every place."""
    random = Random(3)
    sample = Sample(kind)
    for path in sorted(sample.places):
        content = sample.disk.read_file(path)
        for size in (1, 64, 512):
            stride = max(32, size // 4) * (1 if kind == "plain" else 5)
            for begin in range(random.randrange(stride), len(content), stride):
                end = min(begin + size, len(content))
                blank = bytes(end - begin) if how == "zeros" else random.randbytes(end - begin)
                if content[begin:end] == blank:
                    continue
                disk = sample.disk.survivor()
                disk.put(path, content[:begin] + blank + content[end:])
                check_damage(sample, disk, path, begin, end)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_truncated_at_any_byte_loses_only_what_was_truncated(kind: str) -> None:
    """R5: truncation at every byte offset; in the other samples at every seventh.

    After a segment that is full there is another one, so what is missing of it is reported. The
    newest one that is cut looks like a write that was interrupted: no one can tell.
    """
    sample = Sample(kind)
    for path in sorted(sample.places):
        content = sample.disk.read_file(path)
        for length in range(0, len(content), 1 if kind == "plain" else 7):
            disk = sample.disk.survivor()
            disk.put(path, content[:length])
            check_cut(sample, disk, path, length)


def check_cut(sample: Sample, opened_disk: object, path: Path, length: int) -> None:
    opened = Opened(opened_disk, SEGMENT_SIZE, CACHE_BUDGET)  # type: ignore[arg-type]
    for log in opened.logs:
        unreadable: set[int] = set()
        found = messages(log, unreadable)
        number = log.identity.stream_id
        cut = [
            p for p in sample.places[path] if log.segments.folder == path.parent and p.end > length
        ]
        missing = sample.messages[number].keys() - found.keys()
        lost = {seq for a, b in log.quarantine.lost for seq in range(a, b + 1)}

        assert missing <= {place.seq for place in cut}
        assert found.items() <= sample.published[number].items()
        assert path in sample.newest or missing <= lost | unreadable
        # What was removed is back only when its removal was truncated.
        back = found.keys() - sample.messages[number].keys()
        assert not back or any(place.removes for place in cut)
    opened.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_segment_can_be_cut_or_missing(kind: str) -> None:
    """Nothing but segments holds what cannot be created again."""
    sample = Sample(kind)
    for path, size in sample.files.items():
        if path in sample.places:
            continue
        content = sample.disk.read_file(path)
        for length in {-1, 0, size // 3, size - 1}:
            disk = sample.disk.survivor()
            if length < 0:
                disk.remove(path)
            else:
                disk.put(path, content[:length])
            check_damage(sample, disk, path, 0, size)


def test_mutated_files_raise_nothing_but_the_errors_of_the_store() -> None:
    """R9: no exception escapes, no wrong bytes, no end that never comes."""
    opened = run_mutations(MUTATIONS)

    assert opened > MUTATIONS


def test_a_segment_whose_messages_an_earlier_one_has_too_is_rewritten_in_its_place() -> None:
    # Bytes of a later segment in an earlier one: compaction put the rows of the later one before
    # their neighbours, and messages could not be found.
    run_mutations(1, seed=2_024_081_892)


def test_no_failing_step_loses_what_was_acknowledged() -> None:
    """R6: every step fails once, with every error."""
    runs = run_faults((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS))

    assert runs > 600


def test_a_judge_that_finds_something_names_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is interpreted in every build, so a broken promise can be put into it."""
    monkeypatch.setattr("tests.campaigns.store.damage.messages", lambda *_: {})

    with pytest.raises(Violation, match=r"plain: bit \d+ of .* are lost and were not hit"):
        run_flips(50)
