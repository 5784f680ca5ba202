"""One way to try again: what is transient, with pauses that grow, and not for ever."""

import pytest

from jetspark.errors import (
    AuthorizationFailed,
    BadCredentials,
    BatchIncomplete,
    BucketNotFound,
    ConnectFailed,
    ConnectionClosed,
    Error,
    NoResponders,
    RequestTimeout,
    TemporarilyUnavailable,
    TooManyBatches,
    TooManyRequests,
    WrongLastSequence,
)
from jetspark.sync import retry
from jetspark.sync.retry import Retries, retry_delay


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("jetspark.sync.retry.time.sleep", found.append)
    return found


@pytest.mark.parametrize(
    "error",
    [
        BatchIncomplete(400, 10176, "batch publish is incomplete"),
        ConnectFailed("nobody"),
        ConnectionClosed("gone"),
        NoResponders("a"),
        RequestTimeout("silence"),
        TemporarilyUnavailable(503, 10008, "JetStream system temporarily unavailable"),
        TooManyBatches(429, 10210, "too many"),
        TooManyRequests(429, 10167, "too many requests"),
    ],
)
def test_a_transient_error_is_retried(error: Error, pauses: list[float]) -> None:
    assert error.transient

    Retries(1).pause(error)

    assert len(pauses) == 1


@pytest.mark.parametrize(
    "error",
    [
        AuthorizationFailed("wrong password"),
        BadCredentials("no seed"),
        BucketNotFound("b"),
        WrongLastSequence(400, 10071, "wrong last sequence: 5"),
    ],
)
def test_what_stays_wrong_is_raised_at_once(error: Error, pauses: list[float]) -> None:
    assert not error.transient

    with pytest.raises(type(error)):
        Retries(5).pause(error)

    assert pauses == []


def test_a_caller_can_name_more_that_it_can_try_again(pauses: list[float]) -> None:
    error = WrongLastSequence(400, 10071, "wrong last sequence: 5")

    Retries(1, also=(WrongLastSequence,)).pause(error)

    assert len(pauses) == 1


def test_a_success_in_between_begins_the_count_again(pauses: list[float]) -> None:
    retries = Retries(2)
    for _ in range(3):
        retries.pause(RequestTimeout("silence"))
        retries.restart()
    retries.pause(RequestTimeout("silence"))
    retries.pause(RequestTimeout("silence"))
    with pytest.raises(RequestTimeout):
        retries.pause(RequestTimeout("silence"))

    assert len(pauses) == 5


def test_what_did_not_pass_says_what_helps(pauses: list[float]) -> None:
    retries = Retries(0, advice={TooManyBatches: "fewer at once"})
    with pytest.raises(TooManyBatches) as caught:
        retries.pause(TooManyBatches(429, 10210, "too many"))

    assert caught.value.__notes__ == ["fewer at once"]
    assert pauses == []


def test_pauses_grow() -> None:
    for failures in range(1, 6):
        base = retry.RETRY_DELAY_S * 2 ** (failures - 1)
        assert 0.5 * base <= retry_delay(failures) <= 1.5 * base


def pause_until_it_raises(retries: Retries, error: Error) -> None:
    for _ in range(1000):
        retries.pause(error)


def test_a_server_that_is_away_is_waited_for_as_long_as_an_outage_may_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        assert 0 < seconds <= 1.5 * retry.RETRY_DELAY_MAX_S
        now += seconds

    monkeypatch.setattr("jetspark.sync.retry.time.sleep", sleep)
    monkeypatch.setattr("jetspark.sync.retry.time.monotonic", lambda: now)
    retries = Retries(4, outage_s=60.0)
    gone = ConnectFailed("nobody")

    with pytest.raises(ConnectFailed):
        pause_until_it_raises(retries, gone)

    assert 60.0 <= now < 75.0


def test_what_an_outage_cannot_explain_is_not_tried_longer(pauses: list[float]) -> None:
    retries = Retries(2, outage_s=60.0, also=(WrongLastSequence,))
    refused = WrongLastSequence(400, 10071, "wrong last sequence: 5")

    with pytest.raises(WrongLastSequence):
        pause_until_it_raises(retries, refused)

    assert len(pauses) == 2


def test_a_call_is_repeated_after_errors_of_its_class_only(pauses: list[float]) -> None:
    errors: list[Error] = [RequestTimeout("no reply"), RequestTimeout("no reply")]

    def attempt() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert Retries(5, pause_max_s=0.01).call(attempt, RequestTimeout) == "done"
    assert pauses == [0.01, 0.01]
    errors.append(RequestTimeout("no reply"))
    with pytest.raises(RequestTimeout):
        Retries(5).call(attempt, ConnectionClosed)
    assert len(pauses) == 2
