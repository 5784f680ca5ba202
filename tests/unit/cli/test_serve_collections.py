"""How many objects one pass of the garbage collector looks at while a server runs."""

from __future__ import annotations

import gc

from jetspark.cli.serve.running import GC_THRESHOLD

# A pass over this many takes 3 to 8 ms; while old objects are freed it looks at several times as
# many, and no client may wait for 100 ms.
OBJECTS_MAX = 10_000


def test_no_frequent_pass_of_the_collector_is_long() -> None:
    """A flood of clients leaves very many objects that live for some seconds."""
    looked_at: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] < 2:
            looked_at.append(gc.get_count()[0] + young_before[0])
        if phase == "stop":
            young_before[0] = len(gc.get_objects(generation=1))

    young_before = [0]
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(*GC_THRESHOLD)
        kept: list[list[object]] = [[] for _ in range(400_000)]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
        gc.unfreeze()

    assert len(kept) == 400_000
    assert max(looked_at) <= OBJECTS_MAX
