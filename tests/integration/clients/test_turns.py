"""No client makes the others wait: no turn of the loop is long, whatever one of them does.

Each test is a client that does much of something, next to a probe that measures how much CPU time
the longest turn of the server's loop took. The long forms are in ``tests/campaigns/turns.py``.
"""

import asyncio
import contextlib
import itertools
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from tests.support.turn_probe import LONGEST_MS, TurnProbe, Wire

from jetspark import COMPILED
from jetspark.api.stream import StreamConfig, StreamState
from jetspark.engine.archive import ArchiveWriter
from jetspark.server.config.loader import load_text


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnProbe]:
    with TurnProbe(tmp_path, monkeypatch) as probe:
        yield probe


def make_stream(client: Wire, name: str, subjects: list[str]) -> bytes:
    config = {"name": name, "subjects": subjects, "storage": "memory"}
    answer = client.request(b"STREAM.CREATE.%b" % name.encode(), json.dumps(config).encode())
    assert b'"error"' not in answer, answer
    return answer


def subscribe(client: Wire, subject: bytes, count: int) -> None:
    client.send(b"".join(b"SUB %b %d\r\n" % (subject, sid) for sid in range(count)))
    client.settle()


def subscribe_all(client: Wire, patterns: list[bytes], mark: bytes) -> None:
    client.send(b"".join(b"SUB %b %b%d\r\n" % (p, mark, n) for n, p in enumerate(patterns)))
    client.settle()


def test_very_many_subscriptions_of_one_subject_come_and_go(probe: TurnProbe) -> None:
    with probe.client() as client:
        subscribe(client, b"same", 12_000)
        client.send(b"".join(b"UNSUB %d\r\n" % sid for sid in reversed(range(12_000))))
        client.settle()
        probe.check()
        subscribe(client, b"same", 12_000)
        client.send(b'CONNECT {"verbose":false}\r\nPUB same 0\r\n\r\n')
        client.send(b"PING\r\n")
        assert client.until(b"PONG\r\n") == b"", "what it subscribed to before is gone"
        subscribe(client, b"same", 12_000)
        probe.check()
    with probe.client() as client:  # the one before leaves
        client.settle()
        probe.check()


def test_very_many_queue_groups_of_one_subject_each_get_a_message(probe: TurnProbe) -> None:
    with probe.client() as client:
        client.send(b"".join(b"SUB same q%d %d\r\n" % (sid, sid) for sid in range(8_000)))
        client.settle()
        probe.check()
        client.send(b"PUB same 2\r\nhi\r\n" * 3 + b"PING\r\n")
        assert client.until(b"PONG\r\n").count(b"MSG same ") == 24_000
        probe.check()


def test_a_message_for_very_many_subscriptions_reaches_each_once_and_in_order(
    probe: TurnProbe,
) -> None:
    with probe.client() as listener, probe.client() as client:
        subscribe(listener, b"same", 10_000)
        client.send(b"SUB answer 1\r\n" + b"".join(b"PUB same 1\r\n%d\r\n" % n for n in range(4)))
        client.send(b"PUB answer 4\r\ndone\r\nPING\r\n")
        client.until(b"MSG answer 1 4\r\ndone\r\n")
        client.until(b"PONG\r\n")
        listener.send(b"PING\r\n")
        got = listener.until(b"PONG\r\n").split(b"\r\n")
        for sid in (0, 5_000, 9_999):
            head = b"MSG same %d 1" % sid
            payloads = [got[n + 1] for n, line in enumerate(got) if line == head]
            assert payloads == [b"0", b"1", b"2", b"3"]
        assert sum(line.startswith(b"MSG same ") for line in got) == 4 * 10_000
        probe.check()


def test_a_large_message_for_very_many_subscriptions_cuts_its_reader_off(
    probe: TurnProbe,
) -> None:
    with probe.client() as client, probe.client() as other:
        subscribe(client, b"same", 3_000)
        probe.check()
        client.send(b"PUB same 1000000\r\n%b\r\n" % bytes(1_000_000))
        while probe.server.slow_consumers == 0:
            other.settle()
        # This loop's transports copy all that waits with every write: megabytes here.
        probe.check(100)


def test_what_a_client_sent_is_carried_out_in_order_although_it_had_to_wait(
    probe: TurnProbe,
) -> None:
    with probe.client() as client:
        make_stream(client, "S", ["s.>"])
        client.send(b"SUB answer 1\r\n")
        client.send(
            b"".join(
                b"PUB s.%d answer 0\r\n\r\nPUB $JS.API.STREAM.INFO.S answer 0\r\n\r\n" % n
                for n in range(400)
            )
        )
        client.send(b"PING\r\n")
        got = client.until(b"PONG\r\n")
        while got.count(b'{"stream":"S","seq":') < 400:
            got += client.until(b"\r\n") + b"\r\n"
        infos = [
            json.loads(line)["state"]["last_seq"]
            for line in got.split(b"\r\n")
            if line.startswith(b'{"type":"io.nats.jetstream.api.v1.stream_info_response"')
        ]
        assert len(infos) == 400
        assert infos == sorted(infos)
        probe.check()


def test_a_client_that_left_has_published_what_it_sent(probe: TurnProbe) -> None:
    with probe.client() as listener:
        listener.send(b"SUB heard 1\r\n")
        listener.settle()
        with probe.client() as client:
            subscribe(client, b"same", 4_000)
            client.send(b"PUB same 0\r\n\r\n" * 20 + b"PUB heard 3\r\nend\r\n")
        listener.until(b"MSG heard 1 3\r\nend\r\n")
        probe.check()


def test_requests_without_end_leave_the_others_their_turns(probe: TurnProbe) -> None:
    with probe.client() as client:
        client.send(b"PUB $JS.API.INFO answer 0\r\n\r\n" * 1_000)
        client.send(b"PUB $JS.API.STREAM.NAMES answer 0\r\n\r\n" * 1_000)
        client.send(b'CONNECT {"verbose":false}\r\n' * 1_000)
        client.settle()
        probe.check()


def test_acknowledgements_for_very_many_subscriptions_go_in_steps(probe: TurnProbe) -> None:
    with probe.client() as listener, probe.client() as client:
        make_stream(client, "S", ["s"])
        subscribe(listener, b"acks", 2_000)
        client.send(b"PUB s acks 0\r\n\r\n" * 20)
        client.settle()
        last = b'{"stream":"S","seq":20}\r\n'
        got = [listener.until(last) for _ in range(2_000)]
        assert sum(part.count(b"MSG acks ") for part in got) == 40_000
        probe.check()


def test_streams_of_very_many_subjects_are_compared_quickly(probe: TurnProbe) -> None:
    with probe.client() as client:
        make_stream(client, "A", [f"a.{n}.*" for n in range(1_500)])
        probe.check()
        make_stream(client, "B", [f"b.{n}.*" for n in range(1_500)])
        probe.check()
        config = {"name": "C", "subjects": [f"c.{n}" for n in range(1_500)] + ["a.7.>"]}
        answer = client.request(b"STREAM.CREATE.C", json.dumps(config).encode())
        assert json.loads(answer)["error"]["err_code"] == 10065
        probe.check()


def test_a_consumer_of_very_many_filter_subjects_is_made_quickly(probe: TurnProbe) -> None:
    with probe.client() as client:
        make_stream(client, "S", ["s.>"])
        client.send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(3_000)))
        client.settle()
        probe.longest_ms()
        config = {"name": "C", "filter_subjects": [f"s.{n}.*" for n in range(1_000)]}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        answer = json.loads(client.request(b"CONSUMER.CREATE.S.C", body))
        assert answer["num_pending"] == 1_000
        probe.check()


def test_expectations_with_wildcards_leave_the_others_their_turns(probe: TurnProbe) -> None:
    with probe.client() as client:
        make_stream(client, "S", ["s.>"])
        subjects, messages = (10_000, 60) if COMPILED else (500, 20)
        client.send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(subjects)))
        client.settle()
        probe.longest_ms()
        for n in range(messages):
            block = (
                b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n"
                b"Nats-Expected-Last-Subject-Sequence-Subject: s.*.x\r\n\r\n" % (subjects + n // 2)
            )
            size = len(block)
            client.send(b"HPUB s.%d.x answer %d %d\r\n%b\r\n" % (n, size, size, block))
        client.settle()
        state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
        assert state["last_seq"] == subjects + messages // 2, (
            "every other one expected what was there"
        )
        probe.check()


def test_expectations_right_after_what_they_look_at_leave_the_others_their_turns(
    probe: TurnProbe,
) -> None:
    """Thousands of messages that are not written yet may be the newest of a pattern."""
    with probe.client() as client:
        make_stream(client, "S", ["s.>"])
        subjects, messages = (50_000, 200) if COMPILED else (6_000, 100)
        published = b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(subjects))
        block = (
            b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n"
            b"Nats-Expected-Last-Subject-Sequence-Subject: s.*.x\r\n\r\n" % subjects
        )
        expecting = b"HPUB s.1.y answer %d %d\r\n%b\r\n" % (len(block), len(block), block)
        client.send(published + expecting * messages)
        client.settle()
        state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
        assert state["last_seq"] == subjects + messages
        probe.check(LONGEST_MS / 2 if COMPILED else LONGEST_MS)


def test_a_batch_that_expects_something_of_very_many_patterns_goes_in_steps(
    probe: TurnProbe,
) -> None:
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_atomic": True}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        subjects, members = (20_000, 300) if COMPILED else (5_000, 100)
        client.send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % n for n in range(subjects)))
        client.settle()
        probe.longest_ms()
        for batch, wrong in ((b"right", -1), (b"wrong", members - 1)):
            for n in range(members):
                # Only message n + 1 has such a subject.
                block = (
                    b"NATS/1.0\r\nNats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n"
                    b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
                    b"Nats-Expected-Last-Subject-Sequence-Subject: *.%d.>\r\n%b\r\n"
                    % (
                        batch,
                        n + 1,
                        1 if n == wrong else n + 1,
                        n,
                        b"Nats-Batch-Commit: 1\r\n" if n == members - 1 else b"",
                    )
                )
                client.send(b"HPUB s.b %d %d\r\n%b\r\n" % (len(block), len(block), block))
            client.settle()
            state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
            assert state["last_seq"] == subjects + members, batch
        probe.check()


def test_rollups_without_end_leave_the_others_their_turns(probe: TurnProbe) -> None:
    """Each compares what is staged with all purges that are staged."""
    block = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
    rollup = b"HPUB s.x %d %d\r\n%b\r\n" % (len(block), len(block), block)
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_rollup_hdrs": True}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        probe.longest_ms()
        client.send(rollup * 1_000)
        client.settle()
        probe.check()
        state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
        assert (state["messages"], state["last_seq"]) == (1, 1_000)


def test_rollups_of_a_subject_with_history_leave_the_others_their_turns(probe: TurnProbe) -> None:
    """Each asks which messages of the subject are left, staged and durable."""
    block = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
    rollup = b"HPUB s.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
    everything = rollup.replace(b"sub\r\n", b"all\r\n")
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_rollup_hdrs": True}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        client.send(b"".join(b"PUB s.%d 1\r\nx\r\n" % (n % 100) for n in range(6_400)))
        client.settle()
        probe.longest_ms()
        client.send(rollup * 1_000)
        client.settle()
        probe.check()
        state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
        assert (state["messages"], state["num_subjects"]) == (6_337, 100)
        client.send(everything * 500)
        client.settle()
        probe.check()
        state = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]
        assert (state["messages"], state["last_seq"]) == (1, 7_900)


def test_a_restore_in_small_pieces_copies_nothing_again_and_again(probe: TurnProbe) -> None:
    with probe.client() as client:
        body = json.dumps({"config": {"name": "R", "subjects": ["r"]}, "state": {}}).encode()
        to = json.loads(client.request(b"STREAM.RESTORE.R", body))["deliver_subject"].encode()
        head = ArchiveWriter().head(StreamConfig(name="R"), StreamState())
        entry = tarfile.TarInfo("messages-00000001.bin")
        entry.size = 100 * 1024 * 1024
        client.send(b"PUB %b %d\r\n%b\r\n" % (to, len(head), head))
        first = entry.tobuf(tarfile.USTAR_FORMAT)
        client.send(b"PUB %b %d\r\n%b\r\n" % (to, len(first), first))
        for _ in range(40):
            client.send(b"PUB %b 500000\r\n%b\r\n" % (to, bytes(500_000)))
        client.send(b"PUB %b 1\r\nx\r\n" % to * 300)
        client.settle()
        probe.check()


def test_a_push_consumer_delivers_to_very_many_subscriptions_in_order(probe: TurnProbe) -> None:
    with probe.client() as listener, probe.client() as client:
        make_stream(client, "S", ["s.>"])
        client.send(b"".join(b"PUB s.%d 0\r\n\r\n" % n for n in range(50)))
        client.settle()
        subscribe(listener, b"deliver", 500)
        probe.check()
        config = {"name": "C", "deliver_subject": "deliver", "ack_policy": "none"}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        client.request(b"CONSUMER.CREATE.S.C", body)
        got = b"".join(listener.until(b"MSG s.49 ") + b"MSG s.49 " for _ in range(500))
        got += listener.until(b"\r\n")
        subjects = [line.split()[1] for line in got.split(b"\r\n") if line.endswith(b" 0")]
        assert subjects == [b"s.%d" % n for n in range(50) for _ in range(500)]
        probe.check()


def test_very_many_push_consumers_of_one_subject_are_notified_of_interest(
    probe: TurnProbe,
) -> None:
    with probe.client() as listener, probe.client() as client:
        make_stream(client, "S", ["s"])
        client.send(b"PUB s 2\r\nhi\r\n")
        for n in range(300):
            config = {"name": f"C{n}", "deliver_subject": "deliver", "ack_policy": "none"}
            body = json.dumps({"stream_name": "S", "config": config}).encode()
            client.request(b"CONSUMER.CREATE.S.C%d" % n, body)
        listener.send(b"SUB deliver 1\r\nUNSUB 1\r\n" * 50 + b"SUB deliver 1\r\n")
        for _ in range(300):
            listener.until(b"\r\nhi\r\n")
        probe.check()


def test_no_responders_after_a_client_left_with_very_many_subscriptions(
    probe: TurnProbe,
) -> None:
    with probe.client(no_responders=True) as client:
        client.send(b"SUB answer 1\r\n")
        client.settle()
        with probe.client() as gone:
            gone.send(b"".join(b"SUB s.%d.* %d\r\n" % (sid, sid) for sid in range(20_000)))
            gone.settle()
        while len(probe.server.connections) > 1:
            client.settle()
        client.send(b"PUB s.19999.x answer 0\r\n\r\n")
        assert client.until(b"\r\n\r\n").startswith(b"HMSG answer 1 ")
        probe.check()


class Passes:
    """How much CPU time the loop spends between two looks at its sockets, at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest_ms = 0.0
        self._loop = loop
        self._began_ns = 0
        self._over = False
        loop.call_soon_threadsafe(self._tick)

    def _tick(self) -> None:
        now = time.thread_time_ns()
        if self._began_ns:
            self.longest_ms = max(self.longest_ms, (now - self._began_ns) / 1e6)
        self._began_ns = now
        if not self._over:
            self._loop.call_soon(self._tick)

    def end(self) -> float:
        self._over = True
        return self.longest_ms


def test_many_clients_that_send_much_at_the_same_time_share_a_turn(probe: TurnProbe) -> None:
    """Each of them had a share of its own in the same turn."""
    count = 6_000 if COMPILED else 2_000
    with contextlib.ExitStack() as ends:
        clients = [ends.enter_context(probe.client()) for _ in range(60)]
        make_stream(clients[0], "S", ["s"])
        for client in clients:
            client.settle()
        ready = threading.Event()
        probe.loop.call_soon_threadsafe(ready.wait, 60)
        for client in clients:
            client.send(b"PUB s 10\r\n0123456789\r\n" * count)
        passes = Passes(probe.loop)
        ready.set()
        for client in clients:
            client.settle()

        assert passes.end() < 1.5 * LONGEST_MS
        stored = 0
        until = time.monotonic() + 60
        while stored < 60 * count and time.monotonic() < until:  # PONG does not wait for groups
            state = json.loads(clients[0].request(b"STREAM.INFO.S", b""))["state"]
            stored = state["messages"]
        assert stored == 60 * count


def test_many_clients_that_leave_at_the_same_time_share_a_turn(probe: TurnProbe) -> None:
    """The subscriptions of all of them were removed in one turn."""
    subscriptions = 600
    with probe.client() as client, contextlib.ExitStack() as ends:
        for n in range(300):
            leaver = ends.enter_context(probe.client())
            leaver.send(
                b"".join(b"SUB s.%d.%d.* %d\r\n" % (n, k, k) for k in range(subscriptions))
            )
            leaver.settle()
        passes = Passes(probe.loop)
        ready = threading.Event()
        probe.loop.call_soon_threadsafe(ready.wait, 60)
        ends.close()
        ready.set()
        while probe.server.accounts["$G"].router.sublist.count > 0:
            client.settle()
        client.settle()  # the turn is over

        assert passes.end() < 1.5 * LONGEST_MS


def dead_ends(prefix: bytes, depth: int) -> list[bytes]:
    """Patterns that agree with ``prefix`` and ``depth`` tokens ``a``, and differ in the last."""
    return [
        prefix + b".".join(tokens) + b".z"
        for tokens in itertools.product(b"a *".split(), repeat=depth)
    ]


@pytest.mark.parametrize("prefix", [b"", b"_I."], ids=["subjects", "inboxes"])
def test_patterns_that_lead_nowhere_are_searched_in_steps(probe: TurnProbe, prefix: bytes) -> None:
    with probe.client() as client:
        patterns = dead_ends(prefix, 13)
        client.send(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in enumerate(patterns)))
        client.settle()
        to = prefix + b".".join([b"a"] * 13)
        client.send(b"".join(b"PUB %b.%d 0\r\n\r\n" % (to, n) for n in range(200)))
        client.settle()
        probe.check()


def test_patterns_that_would_make_searches_long_are_refused(probe: TurnProbe) -> None:
    """Each level of ``*`` next to a literal doubles the nodes that a search visits."""
    with probe.client() as client, probe.client() as other:
        heads = [b".".join(each) for each in itertools.product((b"a", b"*"), repeat=16)]
        for at in range(0, len(heads), 4096):
            some = heads[at : at + 4096]
            client.send(
                b"".join(b"SUB %b.z %d\r\n" % (head, at + n) for n, head in enumerate(some))
            )
        client.until(b"-ERR 'maximum subscriptions exceeded'\r\n")
        client.settle()
        # What makes no search longer may be subscribed, and those before are delivered to.
        other.send(b"SUB b.*.> 1\r\nSUB %b.z 2\r\nPING\r\n" % heads[0])
        other.send(b"PUB b.x.y 2\r\nhi\r\nPUB %b.z 2\r\nyo\r\n" % heads[0])
        other.until(b"MSG b.x.y 1 2\r\nhi\r\n")
        other.until(b"MSG %b.z 2 2\r\nyo\r\n" % heads[0])
        probe.check()
    sublist = probe.server.accounts["$G"].router.sublist
    with probe.client() as client:
        while sublist.count > 0:
            client.settle()
    assert sublist.width() == 1


@pytest.mark.parametrize("end", ["unsub", "connect", "close"])
def test_subscriptions_of_long_subjects_end_in_steps(probe: TurnProbe, end: str) -> None:
    """Each token is a node of its own."""
    count = 400
    stars = b"*." * 1_900
    with probe.client() as client:
        client.send(b"".join(b"SUB %d.%b> %d\r\n" % (n, stars, n) for n in range(count)))
        client.settle()
        probe.check()
        if end == "unsub":
            client.send(b"".join(b"UNSUB %d\r\n" % n for n in range(count)))
        elif end == "connect":
            client.send(b'CONNECT {"verbose":false}\r\n')
        if end != "close":
            client.settle()
    with probe.client() as client:
        while probe.server.accounts["$G"].router.sublist.count > 0:
            client.settle()
        probe.check()


def test_acknowledgements_are_searched_for_receivers_in_steps_and_arrive_in_order(
    probe: TurnProbe,
) -> None:
    with probe.client() as client, probe.client() as other:
        make_stream(client, "S", ["s"])
        patterns = dead_ends(b"_I.", 13)
        other.send(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in enumerate(patterns)))
        other.settle()
        to = b"_I." + b".".join([b"a"] * 13)
        client.send(b"SUB _I.> 1\r\n")
        client.send(b"".join(b"PUB s %b.%d 0\r\n\r\n" % (to, n // 2) for n in range(400)))
        for seq in range(1, 401):
            client.until(b'{"stream":"S","seq":%d}' % seq)
        probe.check()


def test_a_stream_with_very_many_consumers_is_deleted_in_steps(probe: TurnProbe) -> None:
    count = 6_000
    with probe.client() as client, probe.client() as reader:
        make_stream(client, "S", ["s"])
        client.send(b"SUB made 1\r\n")
        for n in range(count):
            body = b'{"stream_name":"S","config":{"durable_name":"C%d"}}' % n
            client.send(
                b"PUB $JS.API.CONSUMER.CREATE.S.C%d made %d\r\n%b\r\n" % (n, len(body), body)
            )
        for _ in range(count):
            client.until(b"MSG made 1 ")
        reader.send(b"SUB status 2\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C0 status 0\r\n\r\n")
        reader.settle()
        probe.longest_ms()
        assert b'"success":true' in client.request(b"STREAM.DELETE.S", b"")
        # One of the same name has none of them.
        make_stream(client, "S", ["s"])
        found = json.loads(client.request(b"CONSUMER.INFO.S.C0", b""))
        assert found["error"]["err_code"] == 10014
        reader.until(b"Consumer Deleted")
        probe.check()
        assert json.loads(client.request(b"STREAM.INFO.S", b""))["state"]["consumer_count"] == 0


def test_filters_that_lead_nowhere_are_compared_in_steps(probe: TurnProbe) -> None:
    with probe.client() as client:
        make_stream(client, "S", ["a.>"])
        # Each differs from the others in its last token, and from all subjects.
        filters = [(each + b"%d" % n).decode() for n, each in enumerate(dead_ends(b"a.", 10))]
        config = {"name": "C", "filter_subjects": [*filters, "a.found"]}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        answer = client.request(b"CONSUMER.CREATE.S.C", body)
        assert b'"error"' not in answer, answer
        subject = b"a." + b".".join([b"a"] * 10)
        client.send(b"".join(b"PUB %b.%d 0\r\n\r\n" % (subject, n) for n in range(6_000)))
        client.send(b"PUB a.found 2\r\nhi\r\n")
        client.send(b"SUB got 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C got 0\r\n\r\n")
        client.until(b"MSG a.found 1 $JS.ACK.S.C.1.6001.1.")
        info = json.loads(client.request(b"CONSUMER.INFO.S.C", b""))
        assert (info["num_pending"], info["delivered"]["stream_seq"]) == (0, 6_001)
        probe.check()


def test_subjects_of_a_stream_that_have_much_in_common_are_compared_in_steps(
    probe: TurnProbe,
) -> None:
    with probe.client() as client:
        subjects = [(each + b"%d" % n).decode() for n, each in enumerate(dead_ends(b"a.", 11))]
        make_stream(client, "S", subjects)
        subject = b"a." + b".".join([b"a"] * 11)
        client.send(b"".join(b"PUB %b.%d 0\r\n\r\n" % (subject, n) for n in range(500)))
        client.settle()
        probe.check()


def test_very_many_consumers_are_asked_whether_they_want_a_message_in_steps(
    probe: TurnProbe,
) -> None:
    consumers = 2_000 if COMPILED else 200
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "retention": "interest"}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        client.send(b"SUB made 1\r\n")
        for n in range(consumers):
            body = b'{"stream_name":"S","config":{"durable_name":"C%d",' % n
            body += b'"ack_policy":"explicit","filter_subject":"s.x.%d"}}' % n
            client.send(
                b"PUB $JS.API.CONSUMER.CREATE.S.C%d made %d\r\n%b\r\n" % (n, len(body), body)
            )
        for _ in range(consumers):
            client.until(b"MSG made 1 ")
        probe.longest_ms()
        client.send(b"".join(b"PUB s.y.%d 0\r\n\r\n" % n for n in range(3_000)))
        client.send(b"PUB s.x.%d 2\r\nhi\r\n" % (consumers - 1) * 1_000)
        client.settle()
        probe.check()
        assert json.loads(client.request(b"STREAM.INFO.S", b""))["state"]["messages"] == 1_000


def test_purges_and_deletes_reach_very_many_consumers_in_steps_and_those_used_at_once(
    probe: TurnProbe,
) -> None:
    consumers = 3_000
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        client.send(b"SUB made 1\r\n")
        for n in range(consumers):
            body = b'{"stream_name":"S","config":{"durable_name":"C%d",' % n
            body += b'"ack_policy":"explicit"}}'
            client.send(
                b"PUB $JS.API.CONSUMER.CREATE.S.C%d made %d\r\n%b\r\n" % (n, len(body), body)
            )
        for _ in range(consumers):
            client.until(b"MSG made 1 ")
        for _ in range(3):
            client.send(b"".join(b"PUB s.%d 0\r\n\r\n" % n for n in range(100)))
            client.settle()
            probe.longest_ms()
            client.request(b"STREAM.PURGE.S", b"")
            last = json.loads(client.request(b"CONSUMER.INFO.S.C%d" % (consumers - 1), b""))
            assert last["num_pending"] == 0
            assert last["ack_floor"]["stream_seq"] == last["delivered"]["stream_seq"]
            assert last["ack_floor"]["stream_seq"] % 100 == 0
            assert last["ack_floor"]["stream_seq"] > 0
            probe.check()
        for n in range(0, consumers, 100):
            info = json.loads(client.request(b"CONSUMER.INFO.S.C%d" % n, b""))
            assert info["ack_floor"]["stream_seq"] == 300
        probe.check()
        client.send(b"".join(b"PUB s.%d 0\r\n\r\n" % n for n in range(1_000)))
        client.settle()
        probe.longest_ms()
        for seq in range(301, 1_301):
            body = b'{"seq":%d,"no_erase":true}' % seq
            client.send(b"PUB $JS.API.STREAM.MSG.DELETE.S x %d\r\n%b\r\n" % (len(body), body))
        client.settle()
        probe.check(40)


def test_one_acknowledgement_of_very_many_messages_releases_them_in_steps(
    probe: TurnProbe,
) -> None:
    count = 20_000
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s"], "storage": "memory", "retention": "interest"}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        # The last one is asked last, and needs nothing after its acknowledgement.
        last = 399 if COMPILED else 99
        for n in range(last + 1):
            body = b'{"stream_name":"S","config":{"durable_name":"C%d","ack_policy":"all",' % n
            body += b'"max_ack_pending":-1%b}}' % (
                b"" if n == last else b',"filter_subject":"s.none"'
            )
            client.request(b"CONSUMER.CREATE.S.C%d" % n, body)
        client.send(b"PUB s 0\r\n\r\n" * count)
        client.send(b"SUB got 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C%d got 15\r\n" % last)
        client.send(b'{"batch":20000}\r\n')
        client.until(b"$JS.ACK.S.C%d.1.%d." % (last, count))
        rest = client.until(b"\r\n").split()[0]
        probe.longest_ms()
        client.send(b"PUB $JS.ACK.S.C%d.1.%d.%b 4\r\n+ACK\r\n" % (last, count, rest))
        while json.loads(client.request(b"STREAM.INFO.S", b""))["state"]["messages"] > 0:
            pass
        probe.check()


def test_push_consumers_search_for_their_receivers_in_steps(probe: TurnProbe) -> None:
    count = 200 if COMPILED else 50
    with probe.client() as client, probe.client() as other:
        make_stream(client, "S", ["s"])
        patterns = dead_ends(b"", 13)
        other.send(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in enumerate(patterns)))
        to = b".".join([b"a"] * 13)
        for n in range(count):
            other.send(b"SUB %b.%d d%d\r\n" % (to, n, n))
        other.settle()
        for n in range(count):
            body = b'{"stream_name":"S","config":{"durable_name":"C%d",' % n
            body += b'"deliver_subject":"%b.%d"}}' % (to, n)
            assert b'"error"' not in client.request(b"CONSUMER.CREATE.S.C%d" % n, body)
        probe.longest_ms()
        # Another subscription: all of them look for their receivers again.
        client.send(b"SUB x.* 1\r\nPUB s 2\r\nhi\r\n")
        for _ in range(count):
            other.until(b"hi\r\n")
        probe.check()


def test_the_longest_search_for_the_receiver_of_a_reply_fits_in_a_turn(probe: TurnProbe) -> None:
    """It is not split: what may be subscribed to bounds it."""
    depth = 14
    with probe.client() as client, probe.client() as other:
        config = {"name": "S", "subjects": ["s"], "storage": "memory", "allow_direct": True}
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        client.send(b"PUB s 2\r\nhi\r\n")
        # Half of them fail at the last token but one, and half at the last.
        patterns = [
            start[:-2] + end for start in dead_ends(b"", depth) for end in (b".z.y", b".a.z")
        ]
        for start in range(0, len(patterns), 1_000):
            sids = enumerate(patterns[start : start + 1_000], start)
            other.send(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in sids))
            other.settle()
        to = b".".join([b"a"] * (depth + 1)) + b".y"
        client.send(b"SUB %b 1\r\n" % to)
        client.settle()
        probe.longest_ms()
        body = b'{"seq":1,"batch":1}'
        for _ in range(5):
            other.send(b"SUB x 999999\r\nUNSUB 999999\r\n")  # nothing is cached
            client.send(b"PUB $JS.API.DIRECT.GET.S %b %d\r\n%b\r\n" % (to, len(body), body))
            client.until(b"204 EOB")
        probe.check(10 if COMPILED else 150)


def test_very_large_header_blocks_are_delivered_without_a_copy_for_each_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "max_payload: 64MB\nmax_pending: 512MB\n"
    block = b"NATS/1.0\r\nA: %b\r\n\r\n" % (b"x" * 24_000_000)
    with TurnProbe(tmp_path, monkeypatch, settings) as probe, probe.client() as client:
        client.send(b"SUB large 1\r\nSUB large q 2\r\n")
        client.settle()
        for _ in range(2):  # the route is cached from the second message on
            client.settle()
            client.send(b"HPUB large %d %d\r\n%bhi\r\n" % (len(block), len(block) + 2, block))
            for sid in (1, 2):
                head = b"HMSG large %d %d %d\r\n" % (sid, len(block), len(block) + 2)
                client.until(head)
                assert client.read(len(block) + 4) == block + b"hi\r\n"
        probe.check()


def account_lines(names: range, password: str) -> str:
    lines = (
        f"A{n} {{ jetstream {{ max_mem: 1M }}, users: [{{ user: u{n}, password: {password},"
        f" permissions {{ publish: ['$JS.API.>', 'b.{n}'], subscribe: '>' }} }}] }}"
        for n in names
    )
    return "jetstream {}\naccounts {\n" + "\n".join(lines) + "\n}\n"


def test_a_reload_of_very_many_accounts_and_connections_is_applied_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, login = account_lines(range(1), "old"), {"user": "u0", "pass": "old"}
    with (
        TurnProbe(tmp_path, monkeypatch, settings) as probe,
        contextlib.ExitStack() as clients,
    ):
        wires = [clients.enter_context(probe.client(**login, protocol=1)) for _ in range(200)]
        for wire in wires:
            wire.settle()
        probe.check()
        new = load_text(account_lines(range(2_000), "old"), {})
        asked = msgspec.structs.replace(probe.server.settings, accounts=new.accounts)
        reload = probe.server.reload(asked)
        asyncio.run_coroutine_threadsafe(reload, probe.loop).result(60)
        probe.check()
        for wire in wires:
            wire.until(b"INFO ")  # the greeting, and the new one
            wire.until(b"INFO ")
        with probe.client(**{**login, "user": "u1999"}) as wire:
            assert json.loads(wire.request(b"INFO", b""))["limits"]["max_memory"] == 1_000_000
        new = load_text(account_lines(range(2_000), "changed"), {})
        asked = msgspec.structs.replace(probe.server.settings, accounts=new.accounts)
        reload = probe.server.reload(asked)
        asyncio.run_coroutine_threadsafe(reload, probe.loop).result(60)
        probe.check()
        for wire in wires:
            wire.until(b"-ERR 'Authorization Violation'\r\n")


@pytest.mark.parametrize("prefix", [b"", b"_I."], ids=["subjects", "inboxes"])
def test_one_search_through_very_many_branches_takes_several_turns(
    probe: TurnProbe, prefix: bytes
) -> None:
    """Half of the patterns fail at the last token, half at the one before: none is skipped."""
    depth = 12  # about as many as an account may have
    heads = [b".".join(tokens) for tokens in itertools.product(b"a *".split(), repeat=depth)]
    with probe.client() as client, probe.client() as other:
        for ending in (b".z.*", b".*.z"):
            subscribe_all(client, [prefix + head + ending for head in heads], ending)
        probe.longest_ms()
        to = prefix + b".".join([b"a"] * depth)
        other.send(b"SUB %b.m.> got\r\nSUB %b.m.gone gone\r\n" % (to, to))
        other.settle()
        other.send(b"".join(b"PUB %b.m.%d 1\r\n%d\r\n" % (to, n, n) for n in range(5)))
        # Executed after the messages: the first subscription got all of them.
        other.send(b"UNSUB got\r\nSUB late 2\r\nPUB late 0\r\n\r\n")
        got = other.until(b"MSG late 2 0\r\n").replace(b"PING\r\n", b"")
        assert got == b"".join(b"MSG %b.m.%d got 1\r\n%d\r\n" % (to, n, n) for n in range(5))
        probe.check(8 if COMPILED else 150)


def test_acknowledgements_to_a_subject_with_a_long_search_arrive_in_order(
    probe: TurnProbe,
) -> None:
    depth = 12
    heads = [b".".join(tokens) for tokens in itertools.product(b"a *".split(), repeat=depth)]
    with probe.client() as client, probe.client() as other:
        make_stream(client, "S", ["s"])
        for ending in (b".z.*", b".*.z"):
            subscribe_all(other, [b"_I." + head + ending for head in heads], ending)
        probe.longest_ms()
        to = b"_I." + b".".join([b"a"] * depth)
        client.send(b"SUB _I.> 1\r\n")
        client.send(b"".join(b"PUB s %b.m.%d 0\r\n\r\n" % (to, n % 3) for n in range(30)))
        for seq in range(1, 31):
            client.until(b'{"stream":"S","seq":%d}' % seq)
        probe.check()


def test_patterns_that_no_order_of_subjects_helps_with_are_searched_in_steps(
    probe: TurnProbe,
) -> None:
    """Reads, expectations and consumers of ``s.*.x.wanted``: every subject is compared."""
    count = 150_000 if COMPILED else 40_000
    pattern = "s.*.x.wanted"
    with probe.client() as client:
        config = {
            "name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True,
        }  # fmt: skip
        client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        for first in range(0, count, 1_000):
            client.send(
                b"".join(
                    b"PUB s.%d.x.%b 0\r\n\r\n" % (n, b"wanted" if n == 7_000 else b"not")
                    for n in range(first, first + 1_000)
                )
            )
            client.settle()
        probe.longest_ms()
        for selection in ({"last_by_subj": pattern}, {"next_by_subj": pattern, "seq": 9}):
            body = json.dumps(selection).encode()
            client.send(b"SUB in 7\r\nPUB $JS.API.DIRECT.GET.S in %d\r\n" % len(body))
            client.send(body + b"\r\n")
            assert b"Nats-Sequence: 7001\r\n" in client.until(b"\r\n\r\n")
            client.send(b"UNSUB 7\r\n")
            client.settle()
            answer = json.loads(client.request(b"STREAM.MSG.GET.S", body))
            assert answer["message"]["seq"] == 7_001
        for selection in ({"last_by_subj": "s.*.x.none"}, {"next_by_subj": "s.*.x.none"}):
            answer = json.loads(
                client.request(b"STREAM.MSG.GET.S", json.dumps(selection).encode())
            )
            assert answer["error"]["err_code"] == 10037
        probe.check()
        # Each is decided in order, by what is stored then.
        client.send(b"SUB out.* 8\r\n")
        for n, (expected, subject) in enumerate(
            [(7_001, b"s.1.x.wanted"), (7_001, b"s.2.x.wanted"), (count + 1, b"s.3.x.wanted")]
        ):
            block = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n" % expected
            block += b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n\r\n" % pattern.encode()
            size = len(block)
            client.send(b"HPUB %b out.%d %d %d\r\n%b\r\n" % (subject, n, size, size, block))
        answers = sorted(client.until(b"}\r\n") for _ in range(3))  # refusals come last
        assert b'"seq":%d' % (count + 1) in answers[0]
        assert b"wrong last sequence: %d" % (count + 1) in answers[1]
        assert b'"seq":%d' % (count + 2) in answers[2]
        probe.check()
        config = {"name": "C", "filter_subject": pattern, "deliver_policy": "last"}
        created = json.dumps({"stream_name": "S", "config": config}).encode()
        answer = json.loads(client.request(b"CONSUMER.CREATE.S.C", created))
        assert answer["delivered"]["stream_seq"] == count + 1
        probe.check()


def test_one_acknowledgement_of_everything_before_it_fits_in_a_turn(probe: TurnProbe) -> None:
    count = 300_000 if COMPILED else 30_000
    with probe.client() as client:
        make_stream(client, "S", ["s"])
        body = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"all",'
        body += b'"max_ack_pending":-1}}'
        client.request(b"CONSUMER.CREATE.S.C", body)
        for _ in range(0, count, 1_000):
            client.send(b"PUB s 0\r\n\r\n" * 1_000)
            client.settle()
        client.send(b"SUB got 1\r\n")
        for last in range(10_000, count + 1, 10_000):
            client.send(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C got 15\r\n{"batch":10000}\r\n')
            client.until(b"$JS.ACK.S.C.1.%d." % last)
            rest = client.until(b"\r\n").split()[0]
        probe.longest_ms()
        client.send(b"PUB $JS.ACK.S.C.1.%d.%b 4\r\n+ACK\r\n" % (count, rest))
        client.settle()
        info = json.loads(client.request(b"CONSUMER.INFO.S.C", b""))
        assert info["num_ack_pending"] == 0
        assert info["ack_floor"]["stream_seq"] == count
        probe.check(15 if COMPILED else 150)


def test_the_record_of_very_many_unacknowledged_messages_fits_in_a_turn(probe: TurnProbe) -> None:
    """It took 12 to 27 ms for 300,000."""
    count = 300_000 if COMPILED else 30_000
    with probe.client() as client:
        config = {"name": "S", "subjects": ["s"]}
        assert b'"error"' not in client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        body = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit",'
        body += b'"max_ack_pending":-1}}'
        client.request(b"CONSUMER.CREATE.S.C", body)
        for _ in range(0, count, 1_000):
            client.send(b"PUB s 0\r\n\r\n" * 1_000)
            client.settle()
        client.send(b"SUB got 1\r\n")
        probe.longest_ms()
        for last in range(10_000, count + 1, 10_000):
            client.send(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C got 15\r\n{"batch":10000}\r\n')
            client.until(b"$JS.ACK.S.C.1.%d." % last)
            stamp = client.until(b"\r\n").split(b".")[1]
        for n in range(1, count, 2):  # no two that are left are consecutive
            client.send(b"PUB $JS.ACK.S.C.1.%d.%d.%b.0 4\r\n+ACK\r\n" % (n, n, stamp))
        client.settle()
        info = json.loads(client.request(b"CONSUMER.INFO.S.C", b""))
        assert info["num_ack_pending"] == count // 2
        probe.check(10 if COMPILED else 150)


def test_the_table_of_very_many_ids_grows_and_is_freed_in_steps(probe: TurnProbe) -> None:
    """Growing took 14 ms with 350,000 ids."""
    count = 400_000 if COMPILED else 140_000
    with probe.client() as client:
        make_stream(client, "S", ["s"])
        probe.longest_ms()
        for first in range(0, count, 1_000):
            client.send(b"".join(with_id(n, b"") for n in range(first, first + 1_000)))
            client.settle()
        client.send(b"SUB out 1\r\n" + with_id(7, b"out") + with_id(count - 1, b"out"))
        client.until(b'"seq":8,"duplicate": true')
        client.until(b'"seq":%d,"duplicate": true' % count)
        probe.check(13 if COMPILED else 150)
        client.request(b"STREAM.DELETE.S", b"")
        for _ in range(100):
            client.settle()
        probe.check(13 if COMPILED else 150)


def test_ids_of_very_many_messages_are_read_in_steps_after_a_start(tmp_path: Path) -> None:
    count = 120_000 if COMPILED else 8_000
    for is_first in (True, False):
        with (
            pytest.MonkeyPatch.context() as patch,
            TurnProbe(tmp_path, patch) as probe,
            probe.client() as client,
        ):
            if is_first:
                config = {"name": "S", "subjects": ["s"], "duplicate_window": 3_600 * 10**9}
                client.request(b"STREAM.CREATE.S", json.dumps(config).encode())
                for first in range(0, count, 1_000):
                    client.send(b"".join(with_id(n, b"") for n in range(first, first + 1_000)))
                    client.settle()
                client.send(b"SUB out 1\r\n" + with_id(count, b"out"))
                client.until(b'"seq":%d' % (count + 1))
                continue
            client.send(b"SUB out.* 1\r\nPUB s out.0 0\r\n\r\n")
            client.until(b'"seq":%d}\r\n' % (count + 2))
            probe.longest_ms()
            # In order, although each of them waits for the ids.
            client.send(with_id(7, b"out.1") + with_id(count + 1, b"out.2"))
            client.send(with_id(count, b"out.3") + b"PUB s out.4 0\r\n\r\n")
            answers = sorted(client.until(b"}\r\n") for _ in range(4))
            probe.check(25 if COMPILED else 150)
    found = [json.loads(answer.partition(b"\r\n")[2] + b"}") for answer in answers]
    assert [answer.get("duplicate", False) for answer in found] == [True, False, True, False]
    assert [answer["seq"] for answer in found] == [8, count + 3, count + 1, count + 4]


def with_id(number: int, reply: bytes) -> bytes:
    block = b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % number
    return b"HPUB s %b %d %d\r\n%b\r\n" % (reply, len(block), len(block), block)


def test_very_many_clients_that_read_a_large_message_share_a_turn_of_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * 1024 * 1024
    longest = 0

    def measure(began_ns: int) -> None:
        """Measure whole turns of the loop: each client is written to by a callback of its own."""
        nonlocal longest
        now_ns = time.thread_time_ns()
        longest = max(longest, now_ns - began_ns)
        turns.loop.call_later(0.001, measure, now_ns)

    with contextlib.ExitStack() as stack:
        turns = stack.enter_context(TurnProbe(tmp_path, monkeypatch, "max_payload: 4MB\n"))
        sender = stack.enter_context(turns.client())
        config = {"name": "S", "subjects": ["s"], "allow_direct": True}
        sender.request(b"STREAM.CREATE.S", json.dumps(config).encode())
        sender.send(b"SUB acks 1\r\nPUB s acks %d\r\n%bend\r\n" % (size, bytes(size - 3)))
        sender.until(b'"seq":1}\r\n')
        clients = [stack.enter_context(turns.client()) for _ in range(120)]
        turns.loop.call_soon_threadsafe(lambda: measure(time.thread_time_ns()))
        for at, client in enumerate(clients):
            ask = b'SUB answer.%d 1\r\nPUB $JS.API.DIRECT.GET.S answer.%d 9\r\n{"seq":1}\r\n'
            client.send(ask % (at, at))
        with ThreadPoolExecutor(len(clients)) as readers:
            for got in readers.map(lambda client: client.until(b"end\r\n"), clients):
                assert len(got) > size
    assert longest / 1e6 < 30
