"""No request to a stream of very many subjects makes the others wait.

The long form, with up to a million subjects, is ``tests/campaigns/turn_table.py``.
"""

import json
from collections.abc import Iterator

import pytest
from tests.campaigns.turn_table import KEYS, ROWS, fill
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
    slow: dict[str, str] = {}
    for row in ROWS:
        row.ask(client)
        client.settle()
        try:
            probe.check()
        except AssertionError as error:
            slow[row.name] = str(error)

    assert slow == {}


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
