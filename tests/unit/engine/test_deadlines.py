"""Who has something to do, and when."""

from jetspark.engine.deadlines import DUE_MAX, Deadlines


class Timer:
    """Something with one deadline."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.deadline = 0
        self.dropped = False

    def next_deadline(self) -> int:
        return self.at

    def queue_deadline(self, deadline: int) -> None:
        self.deadline = deadline


def test_very_many_with_the_same_deadline_are_taken_some_at_a_time() -> None:
    deadlines: Deadlines[Timer] = Deadlines()
    timers = [Timer(5) for _ in range(2 * DUE_MAX + 1)]
    for timer in timers:
        deadlines.note(timer)

    taken = [deadlines.due(5) for _ in range(3)]

    assert [len(some) for some in taken] == [DUE_MAX, DUE_MAX, 1]
    assert [timer for some in taken for timer in some] == timers
    assert deadlines.next() is None


def test_those_that_are_left_are_due_at_once() -> None:
    deadlines: Deadlines[Timer] = Deadlines()
    for _ in range(DUE_MAX + 1):
        deadlines.note(Timer(5))

    deadlines.due(7)

    assert deadlines.next() == 5
