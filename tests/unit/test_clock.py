"""Engine time only passes; wall time follows the clock of the machine, forward and back."""

from jetspark.clock import Clock, SystemClock

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
START = 1_700_000_000 * SECOND


class Machine:
    """The clocks of a machine, moved by hand."""

    def __init__(self) -> None:
        self.wall = START
        self.monotonic = 5 * SECOND
        self.asleep = 3 * HOUR
        self.wall_reads = 0

    def read_wall(self) -> int:
        self.wall_reads += 1
        return self.wall

    def advance(self, ns: int, *, wall: int | None = None) -> None:
        self.monotonic += ns
        self.wall += ns if wall is None else wall

    def sleep(self, ns: int) -> None:
        self.asleep += ns
        self.wall += ns

    def clock(self) -> SystemClock:
        return SystemClock(
            wall=self.read_wall, monotonic=lambda: self.monotonic, asleep=lambda: self.asleep
        )


def test_engine_time_starts_at_the_wall_clock_and_advances_with_the_monotonic_one() -> None:
    machine = Machine()
    clock = machine.clock()
    first = clock.now_ns()
    machine.advance(7, wall=0)

    assert (first, clock.now_ns()) == (START, START + 7)


def test_monotonic_time_is_the_source_itself() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.advance(3)

    assert clock.monotonic_ns() == 5 * SECOND + 3


def test_a_wall_clock_set_back_an_hour_changes_nothing_but_the_date() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.advance(MINUTE, wall=MINUTE - HOUR)
    after_a_minute = clock.now_ns()
    date = clock.wall_ns()
    machine.advance(10 * MINUTE)

    assert (after_a_minute, clock.now_ns()) == (START + MINUTE, START + 11 * MINUTE)
    assert (date, clock.wall_lead_ns) == (START + MINUTE - HOUR, -HOUR)


def test_a_wall_clock_set_forward_an_hour_changes_nothing_but_the_date() -> None:
    """Previously engine time jumped, and everything that waited was an hour older."""
    machine = Machine()
    clock = machine.clock()
    machine.advance(MINUTE, wall=MINUTE + HOUR)

    assert clock.now_ns() == START + MINUTE
    assert clock.wall_ns() == START + MINUTE + HOUR


def test_a_wall_clock_two_seconds_ahead_is_followed_at_the_next_minute() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.advance(MINUTE - 1, wall=MINUTE - 1 + 2 * SECOND)
    before = clock.wall_ns()
    machine.advance(1)

    assert (before, clock.wall_ns()) == (START + MINUTE - 1, START + MINUTE + 2 * SECOND)


def test_a_lead_of_exactly_a_second_is_not_followed_and_one_more_nanosecond_is() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.advance(MINUTE, wall=MINUTE + SECOND)
    at_a_second = clock.wall_ns()
    machine.advance(MINUTE, wall=MINUTE + 1)

    assert at_a_second == START + MINUTE
    assert clock.wall_ns() == START + 2 * MINUTE + SECOND + 1


def test_the_wall_clock_is_read_once_a_minute_at_most() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(600):
        machine.advance(SECOND)
        clock.now_ns()

    assert machine.wall_reads == 1 + 10


def test_engine_time_passes_whatever_the_wall_clock_does() -> None:
    machine = Machine()
    clock = machine.clock()
    times = [clock.now_ns()]
    for jump in (-3600, 7200, -7200, 5, -5, 0, 90, -86_400):
        for _ in range(3):
            machine.advance(MINUTE // 2, wall=jump * SECOND)
            times.append(clock.now_ns())

    assert times == [START + step * MINUTE // 2 for step in range(25)]


def test_the_time_that_a_machine_was_asleep_has_passed() -> None:
    """The monotonic clock of Linux stands still meanwhile; no one set the clock."""
    machine = Machine()
    clock = machine.clock()
    machine.sleep(8 * HOUR)
    machine.advance(MINUTE)

    assert clock.now_ns() == START + 8 * HOUR + MINUTE
    assert clock.wall_lead_ns == 0


def test_the_real_clock_is_a_clock() -> None:
    clock: Clock = SystemClock()
    earlier, now = clock.now_ns(), clock.now_ns()
    ticked, later = clock.monotonic_ns(), clock.monotonic_ns()

    assert START < earlier <= now
    assert ticked <= later
    assert clock.wall_ns() >= now
