"""No request to a stream of very many subjects makes the others wait.

The long form, with up to a million subjects, is ``tests/campaigns/turn_table.py``.
"""

import json
from collections.abc import Iterator

import pytest
from tests.campaigns.turn_table import KEYS, ROWS, fill, slow_rows
from tests.support.turn_probe import TurnProbe, Wire

from jetspark import COMPILED

# Enough that what is done in one turn would take longer than the limit.
SUBJECTS = 60_000 if COMPILED else 12_000


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TurnProbe]:
    with (
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(tmp_path_factory.mktemp("turns"), patch) as probe,
    ):
        yield probe


@pytest.fixture(scope="module")
def client(probe: TurnProbe) -> Iterator[Wire]:
    with probe.client() as client:
        fill(client, SUBJECTS)
        probe.longest_ms()
        yield client


def test_no_request_takes_the_others_their_turns(probe: TurnProbe, client: Wire) -> None:
    """In this order: the last ones purge what the others ask about."""
    assert slow_rows(probe, client, ROWS) == {}


def test_requests_about_a_stream_are_answered_in_order_although_one_takes_turns(
    probe: TurnProbe,
) -> None:
    with probe.client() as other:
        fill_more(other)
        create = json.dumps(
            {
                "stream_name": "T",
                "config": {
                    "name": "C",
                    "filter_subject": ">",
                    "deliver_policy": "last_per_subject",
                },
            }
        ).encode()
        other.send(b"SUB answer.* 1\r\n")
        other.send(
            b"PUB $JS.API.CONSUMER.CREATE.T.C answer.1 %d\r\n%b\r\n" % (len(create), create)
        )
        other.send(b"PUB t.new 0\r\n\r\n")
        body = b'{"subjects_filter":">"}'
        other.send(b"PUB $JS.API.STREAM.INFO.T answer.2 %d\r\n%b\r\n" % (len(body), body))
        other.send(b"PUB $JS.API.CONSUMER.INFO.T.C answer.3 0\r\n\r\n")
        other.send(b"PUB $JS.API.CONSUMER.DELETE.T.C answer.4 0\r\n\r\n")
        got = []
        for _ in range(4):
            other.until(b"MSG answer.")
            number = other.until(b" 1 ")
            got.append((number, json.loads(other.read(int(other.until(b"\r\n"))))))

    assert [number for number, _ in got] == [b"1", b"2", b"3", b"4"]
    assert not any("error" in answer for _, answer in got)
    created, described, info, _ = (answer for _, answer in got)
    # The message after the first request may be durable by then.
    assert created["num_pending"] in {10_000, 10_001}
    assert described["total"] == len(described["state"]["subjects"])
    assert described["total"] in {10_000, 10_001}
    assert info["num_pending"] in {10_000, 10_001}


def fill_more(client: Wire) -> None:
    config = {"name": "T", "subjects": ["t.>"], "storage": "memory"}
    answer = client.request(b"STREAM.CREATE.T", json.dumps(config).encode())
    assert b'"error"' not in answer, answer
    for first in range(0, 10_000, KEYS):
        client.send(b"".join(b"PUB t.%d 0\r\n\r\n" % n for n in range(first, first + KEYS)))
        client.settle()


# More than one step, of a purge as of a search for what it keeps.
MESSAGES = 44_000 if COMPILED else 11_000
LISTED = MESSAGES // 3


def test_a_purge_that_keeps_the_newest_counts_from_when_it_was_asked_for(
    probe: TurnProbe,
) -> None:
    """What comes after the request is neither purged nor counted among what is kept."""
    with probe.client() as other:
        make(other, "P", "p.>")
        before = [b"p.%d.%d" % (n % 10, n) for n in range(MESSAGES)]
        publish(other, before)
        late = [b"p.3.staged.%d" % n for n in range(5)]
        behind = [b"p.3.behind.%d" % n for n in range(50)]
        body = b'{"filter":"p.3.>","keep":500}'
        other.send(b"SUB answer 1\r\nUNSUB 1 1\r\n" + puts(late))
        other.send(b"PUB $JS.API.STREAM.PURGE.P answer %d\r\n%b\r\n" % (len(body), body))
        other.send(puts(behind))
        answer = message(other, b"answer")
        other.settle()
        left = subjects_of(other, "P")

    matching = [subject for subject in [*before, *late] if subject.startswith(b"p.3.")]
    assert answer["purged"] == len(matching) - 500
    gone = set(matching[:-500])
    assert left == {subject.decode() for subject in [*before, *late, *behind]} - {
        subject.decode() for subject in gone
    }


def test_a_purge_that_keeps_more_than_there_is_takes_nothing(probe: TurnProbe) -> None:
    with probe.client() as other:
        make(other, "Q", "q.>")
        publish(other, [b"q.%d.%d" % (n % 10, n) for n in range(MESSAGES)])
        few = json.loads(other.request(b"STREAM.PURGE.Q", b'{"filter":"q.3.>","keep":9999}'))
        beyond = json.loads(other.request(b"STREAM.PURGE.Q", b'{"filter":"q.3.>","seq":99999}'))
        left = subjects_of(other, "Q")

    assert few["purged"] == 0
    assert beyond["purged"] == MESSAGES // 10
    assert left == {f"q.{n % 10}.{n}" for n in range(MESSAGES) if n % 10 != 3}


def test_a_list_of_last_messages_is_that_of_when_the_consumer_was_asked_for(
    probe: TurnProbe,
) -> None:
    """What comes after the request is delivered after the list, for the same subjects too."""
    with probe.client() as other:
        make(other, "L", "l.>")
        publish(other, [b"l.%d" % (n % LISTED) for n in range(MESSAGES)])
        config = {
            "name": "C", "ack_policy": "none", "deliver_policy": "last_per_subject",
            "filter_subject": ">",
        }  # fmt: skip
        body = json.dumps({"stream_name": "L", "config": config}).encode()
        other.send(b"SUB answer 1\r\nUNSUB 1 1\r\n")
        other.send(b"PUB $JS.API.CONSUMER.CREATE.L.C answer %d\r\n%b\r\n" % (len(body), body))
        other.send(puts([b"l.%d" % n for n in range(150)]))
        assert "error" not in message(other, b"answer")
        probe.check()
        got = fetched(other, b"L.C")

    newest = {n % LISTED: n + 1 for n in range(MESSAGES)}
    assert got == [*sorted(newest.values()), *range(MESSAGES + 1, MESSAGES + 151)]


def make(client: Wire, name: str, subject: str) -> None:
    config = {"name": name, "subjects": [subject], "storage": "memory"}
    answer = client.request(b"STREAM.CREATE.%b" % name.encode(), json.dumps(config).encode())
    assert b'"error"' not in answer, answer


def puts(subjects: list[bytes]) -> bytes:
    return b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in subjects)


def publish(client: Wire, subjects: list[bytes]) -> None:
    for first in range(0, len(subjects), KEYS):
        client.send(puts(subjects[first : first + KEYS]))
        client.settle()
    while json.loads(client.request(b"STREAM.INFO." + stream_of(subjects), b""))["state"][
        "messages"
    ] < len(subjects):
        client.settle()


def stream_of(subjects: list[bytes]) -> bytes:
    return subjects[0][:1].upper()


def message(client: Wire, subject: bytes) -> dict[str, object]:
    client.until(b"MSG %b " % subject)
    size = int(client.until(b"\r\n").rpartition(b" ")[2])
    found: dict[str, object] = json.loads(client.read(size + 2)[:-2])
    return found


def subjects_of(client: Wire, name: str) -> set[str]:
    found: set[str] = set()
    body = b'{"subjects_filter":">"}'
    answer = json.loads(client.request(b"STREAM.INFO.%b" % name.encode(), body))
    found.update(answer["state"]["subjects"])
    assert answer["total"] == len(found)
    return found


def fetched(client: Wire, consumer: bytes) -> list[int]:
    """The sequences of everything that a consumer has for now."""
    client.send(b"SUB got 6\r\n")
    found: list[int] = []
    while True:
        body = b'{"batch":5000,"no_wait":true}'
        request = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b got %d\r\n%b\r\n"
        client.send(request % (consumer, len(body), body))
        count = 0
        while count < 5000:
            head = client.until(b"\r\n").split(b" ")
            if head[0] == b"PING":  # the server asks some seconds after the connection was made
                client.send(b"PONG\r\n")
                continue
            if head[0] == b"HMSG":
                client.read(int(head[-1]) + 2)
                return found
            assert head[0] == b"MSG", head
            client.read(int(head[-1]) + 2)
            found.append(int(head[3].split(b".")[5]))
            count += 1
