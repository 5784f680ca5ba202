"""Pauses between attempts of a reader."""

from jetspark.client.pauses import Pauses


def test_pauses_double_up_to_the_longest_and_start_again_after_a_success() -> None:
    pauses = Pauses(0.1, 0.5)

    assert [pauses.take() for _ in range(6)] == [0.0, 0.1, 0.2, 0.4, 0.5, 0.5]
    pauses.reset()
    assert [pauses.take() for _ in range(2)] == [0.0, 0.1]
