"""The times of a stream and engine time (docs/internals/clock.md)."""

from jetspark.store.log.timeline import CHANGES_MAX, COPY_LEAD_MAX, LATEST_STORED, Timeline

HOUR = 3600 * 10**9
NOW = 1000 * HOUR


def started(newest: int = 0, lead: int = 0) -> Timeline:
    timeline = Timeline()
    timeline.begin(newest, NOW, lead)
    return timeline


def test_a_stream_stores_the_time_of_the_wall_clock() -> None:
    timeline = started(newest=NOW - HOUR, lead=5)

    assert timeline.stored_time(NOW) == NOW + 5
    assert timeline.engine_time(NOW + 5) == NOW


def test_times_never_decrease_if_the_clock_was_set_back_before_a_start() -> None:
    timeline = started(newest=NOW + HOUR)

    assert timeline.stored_time(NOW) == NOW + HOUR
    assert timeline.engine_time(NOW + HOUR) == NOW, "its newest message counts as stored just now"


def test_the_lead_only_grows_and_earlier_messages_keep_their_age() -> None:
    timeline = started()

    timeline.follow(NOW + HOUR, HOUR)
    timeline.follow(NOW + 2 * HOUR, -HOUR)

    assert timeline.stored_time(NOW + 3 * HOUR) == NOW + 4 * HOUR
    assert timeline.engine_time(NOW + 4 * HOUR) == NOW + 3 * HOUR
    assert timeline.engine_time(NOW) == NOW, "stored before the clock was set"
    assert timeline.stored_time(NOW) == NOW


def test_a_new_start_forgets_earlier_leads() -> None:
    timeline = started()
    timeline.follow(NOW, HOUR)

    timeline.begin(NOW, NOW, 0)

    assert timeline.lead == 0
    assert timeline.engine_time(NOW + 1) == NOW + 1


def test_a_copy_far_ahead_moves_the_stream_and_one_a_little_ahead_does_not() -> None:
    timeline = started()

    assert timeline.copied(NOW + COPY_LEAD_MAX, NOW) == NOW + COPY_LEAD_MAX
    assert timeline.lead == 0

    assert timeline.copied(NOW + HOUR, NOW) == NOW
    assert timeline.lead == HOUR


def test_no_time_is_later_than_the_latest_that_can_be_stored() -> None:
    assert started(newest=2**63 - 1).lead == LATEST_STORED - NOW

    timeline = started()
    timeline.follow(NOW, 2**62)

    assert timeline.stored_time(NOW) <= LATEST_STORED


def test_so_many_changes_that_some_are_forgotten_make_no_message_older() -> None:
    timeline = started()
    stored = []
    for n in range(1, 2 * CHANGES_MAX):
        now = NOW + n * HOUR
        stored.append((now, int(timeline.stored_time(now))))
        timeline.follow(now, n * HOUR)

    assert len(timeline.starts) == CHANGES_MAX
    for now, time in stored:
        assert timeline.engine_time(time) >= now
