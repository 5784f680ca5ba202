from jetspark.client.inbox import Mux, ReplySink
from jetspark.frame import Frame


class Recorder(ReplySink):
    """Keeps payloads; finished after ``expected`` of them."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self.payloads: list[bytes] = []
        self._expected = expected

    def on_reply(self, frame: Frame) -> bool:
        self.payloads.append(frame.payload())
        return len(self.payloads) == self._expected


def reply(mux: Mux, subject: bytes, payload: bytes) -> None:
    data = subject + payload
    size = len(subject)
    mux.deliver(Frame(data, 0, size, 0, 0, size, size, len(data)))


def test_replies_find_their_request() -> None:
    mux = Mux(b"_INBOX.abc.")
    one, two = Recorder(1), Recorder(1)
    first, second = mux.add(one), mux.add(two)
    reply(mux, second, b"two")
    reply(mux, first, b"one")

    assert (one.payloads, two.payloads) == ([b"one"], [b"two"])
    assert first.startswith(b"_INBOX.abc.")
    assert first != second
    assert mux.pending == {}


def test_a_finished_request_takes_no_more_replies() -> None:
    mux = Mux(b"_INBOX.abc.")
    sink = Recorder(1)
    subject = mux.add(sink)
    reply(mux, subject, b"1")
    reply(mux, subject, b"2")

    assert sink.payloads == [b"1"]


def test_a_run_of_replies_goes_to_one_request_until_it_is_finished() -> None:
    mux = Mux(b"_INBOX.abc.")
    run, other = Recorder(3), Recorder(1)
    run_subject, other_subject = mux.add(run), mux.add(other)
    for subject in (run_subject, run_subject, other_subject, run_subject, run_subject):
        reply(mux, subject, b"x")

    assert (len(run.payloads), len(other.payloads)) == (3, 1)


def test_a_discarded_request_takes_no_replies_even_in_a_run() -> None:
    mux = Mux(b"_INBOX.abc.")
    sink = Recorder(9)
    subject = mux.add(sink)
    reply(mux, subject, b"1")
    mux.discard(sink)
    reply(mux, subject, b"2")

    assert sink.payloads == [b"1"]


def test_unknown_tokens_are_dropped() -> None:
    mux = Mux(b"_INBOX.abc.")
    sink = Recorder(1)
    mux.add(sink)
    reply(mux, b"_INBOX.abc.nothing", b"x")

    assert sink.payloads == []


def test_a_lost_connection_takes_every_request_away() -> None:
    mux = Mux(b"_INBOX.abc.")
    sinks = [Recorder(1), Recorder(1)]
    subjects = [mux.add(sink) for sink in sinks]

    assert mux.take_all() == sinks
    reply(mux, subjects[0], b"late")
    assert sinks[0].payloads == []
