"""When an endless pull asks for more, and for how much."""

import pytest

from jetspark.client.jetstream.consumer.window import UNBOUNDED_BATCH, PullWindow


def test_the_whole_prefetch_is_asked_for_first() -> None:
    window = PullWindow(100, 0, 0.5)

    assert window.next_request() == (100, 0)
    assert window.next_request() is None


def test_more_is_asked_for_below_the_threshold() -> None:
    window = PullWindow(100, 0, 0.5)
    window.next_request()
    window.took(50, 0)
    assert window.next_request() is None
    window.took(1, 0)

    assert window.next_request() == (51, 0)


def test_what_a_request_left_unserved_is_asked_for_again() -> None:
    window = PullWindow(100, 0, 0.5)
    window.next_request()
    window.took(10, 0)
    window.ended(90, 0)

    assert window.next_request() == (100, 0)


def test_lost_requests_are_repeated() -> None:
    window = PullWindow(10, 0, 0.5)
    window.next_request()
    window.reset()

    assert window.next_request() == (10, 0)


def test_bytes_bound_the_requests() -> None:
    window = PullWindow(UNBOUNDED_BATCH, 1000, 0.5)
    assert window.next_request() == (UNBOUNDED_BATCH, 1000)
    window.took(3, 400)
    assert window.next_request() is None
    window.took(3, 200)

    assert window.next_request() == (UNBOUNDED_BATCH, 600)


def test_a_prefetch_of_one_works() -> None:
    window = PullWindow(1, 0, 0.5)
    assert window.next_request() == (1, 0)
    window.took(1, 0)

    assert window.next_request() == (1, 0)


@pytest.mark.parametrize("threshold", [0, -1, 1.1])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        PullWindow(10, 0, threshold)
