"""Exactly once does not depend on how rows are spread over partitions.

The short form of ``tests/campaigns/spark/replays.py``: random epochs with many equal rows, another
layout for each run, runs that die anywhere. In the end the stream has the rows, exactly.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from tests.campaigns.spark.replays import STRENGTHS, Model, driven, play

from jetspark import sync
from jetspark.spark.stream.sink.epoch_ledger import Superseded


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("seed", range(2))
def test_the_rows_are_exact_whatever_the_layouts_and_the_kills(
    url: str, jetstream: sync.JetStream, strength: str, seed: int
) -> None:
    played = play(url, jetstream, strength, seed, epochs=2, zombies=False)

    assert played.runs >= 2


@pytest.fixture
def stand_ins(strength: str) -> Iterator[None]:
    with driven(strength):
        yield


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_task_of_a_dead_run_stops_when_a_later_run_has_started(
    url: str, jetstream: sync.JetStream, strength: str
) -> None:
    model = Model(url, jetstream, f"ZOMBIE_{strength}", strength)
    rows = [str(number % 70) for number in range(200)]
    dead, late = model.run(), model.run()
    model.write(dead, 0, 0, rows[:100])

    messages = [model.write(late, 0, at, rows[at::3]) for at in range(3)]
    if strength != "epoch":  # there only the driver writes
        with pytest.raises(Superseded, match="another run of the same query has taken over"):
            model.write(dead, 0, 1, rows[100:])
    model.commit(messages)
    assert model.stored() == Counter(rows)
