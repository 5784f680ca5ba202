"""ADR-15, "Automatic Status Management": heartbeats, gaps, flow control, other statuses."""

import pytest

from jetspark.client.jetstream.consumer.monitor import StatusMonitor
from jetspark.errors import ConsumerGap, NoResponders, PullRefused, StatusReceived
from jetspark.headers.status import status_block

SECOND = 1_000_000_000


def monitor(**changes: object) -> StatusMonitor:
    given: dict[str, object] = {"alarm_ns": 3 * SECOND, "check_gaps": True, "now": 0}
    return StatusMonitor(**(given | changes))  # type: ignore[arg-type]


def heartbeat(last: int, stalled: str = "") -> bytes:
    lines = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: 9\r\n" % last
    if stalled:
        lines += b"Nats-Consumer-Stalled: %s\r\n" % stalled.encode()
    return status_block(100, b"Idle Heartbeat", lines)


FLOW = status_block(100, b"FlowControl Request")


def test_silence_for_the_alarm_time_is_overdue() -> None:
    """ADR-15: three times the interval; the caller multiplies, the monitor keeps time."""
    watched = monitor()

    assert not watched.is_overdue(0, 3 * SECOND - 1)
    assert watched.is_overdue(0, 3 * SECOND)


def test_anything_that_arrives_restarts_the_timer() -> None:
    """ADR-15: "that either messages or status is received"."""
    watched = monitor()

    assert not watched.is_overdue(1, 2 * SECOND)
    assert not watched.is_overdue(1, 5 * SECOND - 1)
    assert watched.is_overdue(1, 5 * SECOND)


def test_a_long_silence_is_reported_again() -> None:
    watched = monitor()

    assert watched.is_overdue(0, 3 * SECOND)
    assert not watched.is_overdue(0, 4 * SECOND)
    assert watched.is_overdue(0, 6 * SECOND)


def test_without_heartbeats_nothing_is_overdue() -> None:
    watched = monitor(alarm_ns=0)

    assert not watched.is_overdue(0, 1000 * SECOND)
    assert watched.next_look(0) is None


def test_it_is_looked_at_every_interval() -> None:
    assert monitor().next_look(5 * SECOND) == 6 * SECOND


def gap(found: ConsumerGap | None) -> tuple[int, int] | None:
    return None if found is None else (found.expected, found.got)


def test_a_gap_between_messages_is_found() -> None:
    watched = monitor()

    assert watched.on_message(7) is None  # a consumer that existed before starts anywhere
    assert watched.on_message(8) is None
    assert gap(watched.on_message(10)) == (9, 10)
    assert watched.on_message(11) is None


def test_a_gap_before_a_heartbeat_is_found() -> None:
    """ADR-15: "Heartbeat messages ... in headers `Nats-Last-Consumer` and `Nats-Last-Stream`"."""
    watched = monitor(next_seq=1)

    assert watched.on_status(heartbeat(0), "").gap is None
    assert watched.on_message(1) is None
    assert watched.on_status(heartbeat(1), "").gap is None
    assert gap(watched.on_status(heartbeat(3), "").gap) == (2, 4)
    assert watched.on_status(heartbeat(3), "").gap is None
    assert watched.on_message(4) is None


def test_queue_members_do_not_check_for_gaps() -> None:
    """ADR-15: "Gap checking should be disabled on queue / deliver group subscriptions"."""
    watched = monitor(check_gaps=False)

    assert watched.on_message(1) is None
    assert watched.on_message(5) is None
    assert watched.on_status(heartbeat(9), "").gap is None


def test_flow_control_is_answered_on_its_reply_subject() -> None:
    assert monitor().on_status(FLOW, "any.subject").answer == "any.subject"


def test_a_stalled_consumer_is_answered() -> None:
    """ADR-15: "When the client detects a heartbeat with the stalled header, it publishes"."""
    assert monitor().on_status(heartbeat(0, "$JS.FC.x"), "").answer == "$JS.FC.x"


def test_the_same_flow_control_subject_is_answered_once() -> None:
    """ADR-15: "It is only required to respond to the specific subject once"."""
    watched = monitor()

    assert watched.on_status(FLOW, "fc.1").answer == "fc.1"
    assert watched.on_status(heartbeat(0, "fc.1"), "").answer == ""
    assert watched.on_status(FLOW, "fc.1").answer == ""
    assert watched.on_status(heartbeat(0, "fc.2"), "").answer == "fc.2"


@pytest.mark.parametrize("code", [404, 408])
def test_404_and_408_are_hidden(code: int) -> None:
    effect = monitor().on_status(status_block(code, b"No Messages"), "")

    assert effect.error is None


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (409, b"Consumer is push based", PullRefused),
        (503, b"", NoResponders),
        (599, b"Something New", StatusReceived),
    ],
)
def test_other_statuses_are_errors(code: int, text: bytes, kind: type[Exception]) -> None:
    """ADR-15: "409", "503", and "Status that are not recognized ... raised as an error"."""
    assert isinstance(monitor().on_status(status_block(code, text), "").error, kind)
