"""What the statuses of pull requests mean (ADR-15, "Pull Mode Statuses" and the two after it)."""

import pytest

from jetspark.client.jetstream.consumer.pull import PullStatus, read_pull_status
from jetspark.errors import ConsumerDeleted, PinIdMismatch, PullRefused, StatusReceived


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"100 Idle Heartbeat", PullStatus.ALIVE),
        (b"404 No Messages", PullStatus.ENDED),
        (b"408 Request Timeout", PullStatus.ENDED),
        (b"408 Interest Expired", PullStatus.ENDED),
        (b"409 Batch Completed", PullStatus.FILLED),
        (b"409 Message Size Exceeds MaxBytes", PullStatus.FILLED),
        (b"409 Leadership Change", PullStatus.PASSING),
        (b"409 Server Shutdown", PullStatus.PASSING),
        (b"409 Exceeded MaxWaiting", PullStatus.PASSING),
        (b"409 Consumer Deleted", PullStatus.FAILED),
        (b"409 Consumer is push based", PullStatus.FAILED),
        (b"409 Exceeded MaxRequestBatch of 5", PullStatus.FAILED),
        (b"423 Nats-Wrong-Pin-Id", PullStatus.UNPINNED),
        (b"503", PullStatus.GONE),
        (b"599 Something New", PullStatus.FAILED),
    ],
)
def test_a_status_is_hidden_ends_the_request_or_fails_it(line: bytes, status: PullStatus) -> None:
    answer = read_pull_status(b"NATS/1.0 %b\r\n\r\n" % line)

    assert answer.status is status
    hidden = status in {PullStatus.ALIVE, PullStatus.ENDED}
    assert (answer.error is None) == hidden


def test_a_normal_end_says_what_was_left() -> None:
    block = (
        b"NATS/1.0 408 Request Timeout\r\n"
        b"Nats-Pending-Messages: 7\r\nNats-Pending-Bytes: 100\r\n\r\n"
    )
    answer = read_pull_status(block)

    assert (answer.pending_msgs, answer.pending_bytes) == (7, 100)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"409 Consumer Deleted", ConsumerDeleted),
        (b"409 Exceeded MaxRequestBatch of 5", PullRefused),
        (b"423 Nats-Wrong-Pin-Id", PinIdMismatch),
        (b"599 Something New", StatusReceived),
    ],
)
def test_errors_have_the_class_that_people_handle(line: bytes, kind: type[Exception]) -> None:
    """ADR-15: statuses that are not recognised should be raised as an error."""
    answer = read_pull_status(b"NATS/1.0 %b\r\n\r\n" % line)

    assert type(answer.error) is kind
    assert str(answer.error)
