"""Rounds of the linearizability sweep (tests/support/kv/rounds.py) for as long as one likes."""

import random
import time

from tests.support.kv.rounds import Round, played

from jetspark import Storage, connect

OPERATIONS = 20_000  # per round


async def fight(url: str, deadline: float, seed: int) -> int:
    """Play rounds of all shapes until the time is over; how many operations that were."""
    total = 0
    dice = random.Random(seed)
    async with await connect(url) as one, await connect(url) as two, await connect(url) as three:
        while not total or time.monotonic() < deadline:
            plan = Round(
                dice.randrange(2**31),
                dice.choice([2, 8, 32, 100]),
                dice.choice([1, 2, 5, 50, 500]),
                dice.choice([1, 2, 10, 64]),
                dice.choice([Storage.FILE, Storage.MEMORY]),
                dice.random() < 0.5,
            )
            history = await played([one, two, three], "fight", plan, OPERATIONS, together=True)
            try:
                history.judge()
            except AssertionError as error:
                error.add_note(f"{plan}")
                raise
            total += len(history)
    return total
