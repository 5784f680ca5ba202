"""What pull consumers do, as scripts that both servers play (wire.md, Consumers)."""

from __future__ import annotations

import time
from typing import Any

from tests.interop.consumers.session import MS, S, Session

EXPLICIT: dict[str, Any] = {"ack_policy": "explicit"}


def statuses(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.fetch(1)
    s.put("a", "b")
    s.fetch(5)
    s.pull({"batch": 3, "expires": 100 * MS}, 3)
    s.put("c")
    s.pull({"batch": 3, "expires": 100 * MS}, 3)
    s.pull({"batch": 3, "expires": 50 * MS, "no_wait": True}, 3)
    # What is left is counted from what the request said.
    for batch in ({}, {"batch": 0}, {"batch": -1}):
        s.pull({**batch, "expires": 100 * MS}, 1)
        s.pull({**batch, "expires": -5}, 1)
        s.put("d")
        s.pull({**batch, "expires": S, "max_bytes": 1}, 1)
        s.pull({**batch, "expires": S, "max_bytes": 1000}, 2)
    s.info()


def bodies(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdefghijkl")
    s.pull(b"", 1)
    s.pull(b"2", 2)
    s.pull(b" 1 ", 1)
    s.pull(b"junk", 1)
    s.pull(b'{"batch":1,"unknown":5}', 1)
    for wrong in (b'{"batch":"x"}', b"{"):
        s.pull(wrong, 1)
        # What is wrong with it is said in the words of the reader.
        ((to, reply, headers, payload),) = s.said.pop()
        s.note((to, reply, headers.partition(b" - ")[0], payload))
    s.pull(b'{"batch":-5}', 1)
    s.pull(b"0", 1)
    s.pull(b"-3", 1)
    s.pull({"batch": 1, "expires": S, "idle_heartbeat": 600 * MS}, 1)
    s.pull({"batch": 1, "idle_heartbeat": 100 * MS}, 1)
    s.pull({"batch": 1, "expires": -5}, 1)
    s.pull({"batch": 1, "group": "g"}, 1)
    s.info()


def limits(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, max_batch=2, max_expires=S, max_bytes=500)
    s.put("a", "b")
    s.fetch(3)
    s.pull({"batch": 1, "expires": 2 * S, "max_bytes": 100}, 1)
    s.pull({"batch": 1, "max_bytes": 501, "no_wait": True}, 1)
    s.fetch(2, max_bytes=400)


def size_limits(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put("a", "b", "c", payload=b"x" * 100)
    s.pull({"batch": 3, "max_bytes": 10, "no_wait": True}, 4)
    s.pull({"batch": 3, "max_bytes": 300, "expires": S}, 4)
    s.pull({"batch": 1, "max_bytes": 1000, "expires": S}, 2)
    s.info()


def heartbeats(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put("a")
    s.pull({"batch": 2, "expires": 350 * MS, "idle_heartbeat": 150 * MS}, 9)


def too_many_waiting(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, max_waiting=2)
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    first, second = s.listen("in.STREAM.1"), s.listen("in.STREAM.2")
    for n in (1, 2):
        reply = f"in.{s.stream}.{n}".encode()
        s.wire.publish(subject, b'{"batch":2,"expires":5000000000}', reply=reply)
        s.wire.flush()
    time.sleep(0.05)
    s.info()
    s.pull({"batch": 1, "expires": S}, 1)
    s.put("a", "b", "c", "d")
    s.tell(s.wire.take(first, 2))
    s.tell(s.wire.take(second, 2))
    s.info()


def one_message_each_in_turn(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    sids = [s.listen(f"in.STREAM.{n}") for n in range(3)]
    for n in range(3):
        reply = f"in.{s.stream}.{n}".encode()
        s.wire.publish(subject, b'{"batch":3,"expires":5000000000}', reply=reply)
        s.wire.flush()
        time.sleep(0.02)
    for key in "abcdefghi":
        s.put(key)
    for sid in sids:
        s.tell(s.wire.take(sid, 3))
    s.info()


def a_request_that_lost_interest(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    sid = s.listen("in.STREAM.gone")
    reply = f"in.{s.stream}.gone".encode()
    s.wire.publish(subject, b'{"batch":1,"expires":5000000000}', reply=reply)
    s.wire.flush()
    time.sleep(0.02)
    s.info()
    s.wire.unsubscribe(sid)
    s.put("a")
    time.sleep(0.05)
    s.fetch(1)
    s.info()


def deleted_while_waiting(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    sid = s.listen("in.STREAM.w")
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    reply = f"in.{s.stream}.w".encode()
    s.wire.publish(subject, b'{"batch":1,"expires":5000000000}', reply=reply)
    s.wire.flush()
    time.sleep(0.02)
    s.ask("CONSUMER.DELETE", None, "c")
    s.tell(s.wire.take(sid, 1))
    s.pull(b"1", 1)
    s.ask("CONSUMER.INFO", None, "c")


def deleted_with_the_stream(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    sid = s.listen("in.STREAM.w")
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    reply = f"in.{s.stream}.w".encode()
    s.wire.publish(subject, b'{"batch":1,"expires":5000000000}', reply=reply)
    s.wire.flush()
    time.sleep(0.02)
    s.ask("STREAM.DELETE")
    s.tell(s.wire.take(sid, 1))
    s.pull(b"1", 1)


def acks(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdefgh")
    got = s.fetch(8)
    for n, body in ((0, b""), (2, b"+ACK"), (3, b"+TERM"), (5, b"+TERM bad one"), (4, b"+WPI"),
                    (1, b"junk"), (1, b""), (1, b""), (6, b"-NAK"), (7, b"+ACK")):  # fmt: skip
        s.ack(got[n], body)
        s.info()
    again = s.fetch(5)
    for message in again:
        s.ack(message)
    s.info()
    s.fetch(1)


# Sequences of messages that were never delivered, and what is not a number.
IMPOSSIBLE = ("0", "9", "99", "9223372036854775807", "9223372036854775808",
              "18446744073709551615", "x", "-1", "-0", "+1", "1.5e3", "1e3")  # fmt: skip
# Each of them has an effect on a message that is pending, or none.
WORDS = (b"", b"+ACK", b"-NAK", b"+WPI", b"+TERM", b"junk")


def impossible_sequences(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdefgh")
    got = s.fetch(8)
    sid = s.listen("answers.STREAM.>")
    for seq in IMPOSSIBLE:
        for n, word in enumerate(WORDS):
            answer = f"answers.{s.stream}.{n}.{seq.replace('.', '_')}".encode()
            s.wire.publish(f"$JS.ACK.{s.stream}.c.1.{seq}.1.1.0", word, b"", answer)
    s.ack(got[7], b"+WPI")
    s.tell(s.wire.taken(sid))
    s.info()


def impossible_consumer_sequences(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdefghijklmn")
    s.fetch(14)
    for seq, consumer_seq in enumerate(IMPOSSIBLE, start=1):
        if "." not in consumer_seq:
            for word in (b"+WPI", (b"", b"+ACK", b"+TERM")[seq % 3]):
                s.tell([s.wire.ask(f"$JS.ACK.{s.stream}.c.1.{seq}.{consumer_seq}.1.0", word)])
            s.info()


def ack_all(s: Session) -> None:
    s.make()
    s.consumer(ack_policy="all")
    s.put(*"abcdef")
    got = s.fetch(6)
    s.ack(got[2])
    s.info()
    s.ack(got[1])
    s.info()
    s.ack(got[4], b"-NAK")
    s.fetch(6)
    s.info()
    s.ack(got[5])
    s.info()


def ack_none(s: Session) -> None:
    s.make()
    s.consumer(ack_policy="none")
    s.put(*"abc")
    s.fetch(2)
    s.info()
    s.fetch(2)
    s.info()


def naks_in_order(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdef")
    got = s.fetch(4)
    for n in (2, 0, 3):
        s.ack(got[n], b"-NAK")
    again = s.fetch(9)
    s.info()
    s.ack(again[0], b"-NAK")
    s.ack(again[0])
    s.fetch(3)
    s.info()


def naks_with_delay(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abc")
    got = s.fetch(3)
    s.ack(got[0], b'-NAK {"delay":150000000}')
    s.ack(got[1], b"-NAK 300ms")
    s.ack(got[2], b"-NAK nonsense")
    s.fetch(3)
    s.pull({"batch": 3, "expires": S}, 1)
    s.pull({"batch": 3, "expires": S}, 1)
    s.info()


def delayed_while_queued(s: Session) -> None:
    """A message that waits for redelivery and is then delayed comes after the others."""
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcd")
    got = s.fetch(3)
    s.ack(got[0], b"-NAK")
    s.ack(got[1], b"-NAK")
    s.ack(got[0], b'-NAK {"delay":100000000}')
    s.ack(got[2], b"-NAK")
    time.sleep(0.4)
    again = s.fetch(4)
    s.info()
    for n in (0, 1, 2):
        s.ack(again[n], b"-NAK")
    s.ack(again[0], b"+WPI")  # it stays where it is
    s.fetch(3)
    s.info()


def next_with_ack(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT)
    s.put(*"abcdefg")
    (message,) = s.fetch(1)
    for body, count in ((b"+NXT", 1), (b"+NXT 2", 2), (b'+NXT {"batch":2}', 2)):
        got = s.follow(message, body, count)
        message = got[-1]
        s.info()
    s.follow(message, b'+NXT {"batch":3,"no_wait":true}', 3)
    s.info()


def ack_wait(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, ack_wait=200 * MS)
    s.put(*"abc")
    got = s.fetch(3)
    s.ack(got[1])
    again = s.pull({"batch": 2, "expires": 2 * S}, 2)
    s.info()
    for message in again:
        s.ack(message)
    s.info()


def max_deliver(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, ack_wait=150 * MS, max_deliver=2)
    told = s.listen("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.STREAM.c")
    s.put(*"ab")
    s.fetch(2)
    s.pull({"batch": 2, "expires": 2 * S}, 2)
    s.pull({"batch": 1, "expires": 500 * MS}, 1)
    s.advisories(told, 2)
    s.put("c")
    s.fetch(3)
    s.info()


def backoff(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, backoff=[100 * MS, 300 * MS], max_deliver=3)
    s.put("a")
    s.fetch(1)
    s.pull({"batch": 1, "expires": 5 * S}, 1)
    s.pull({"batch": 1, "expires": 50 * MS}, 1)
    s.pull({"batch": 1, "expires": 5 * S}, 1)
    s.info()


def max_ack_pending(s: Session) -> None:
    """nats-server ends a `no_wait` that has to stop here only seconds later: none is sent."""
    s.make()
    s.consumer(**EXPLICIT, max_ack_pending=2)
    s.put(*"abcd")
    got = s.pull({"batch": 4, "expires": 200 * MS}, 4)
    s.info()
    s.ack(got[0])
    s.fetch(1)
    s.ack(got[1], b"-NAK")
    s.fetch(1)
    s.info()
    s.pull({"batch": 1, "expires": 100 * MS}, 1)
    s.consumer(**EXPLICIT, max_ack_pending=3)
    s.fetch(1)
    s.info()


def headers_only(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, headers_only=True)
    s.put("a", payload=b"hello")
    s.put("b", payload=b"", headers=b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n")
    s.put("c", payload=b"1234", headers=b"NATS/1.0\r\nB: x\r\n\r\n")
    s.fetch(4)


def sampling(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, sample_freq="100%")
    told = s.listen("$JS.EVENT.METRIC.CONSUMER.ACK.STREAM.c")
    s.put("a", "b")
    got = s.fetch(2)
    s.ack(got[0])
    s.advisories(told, 1)


def advisories(s: Session) -> None:
    s.make()
    told = s.listen("$JS.EVENT.ADVISORY.CONSUMER.*.STREAM.c")
    s.consumer(**EXPLICIT)
    s.advisories(told, 1)
    s.put("a", "b")
    got = s.fetch(2)
    s.ack(got[0], b"-NAK")
    s.advisories(told, 1)
    s.ack(got[1], b"+TERM because")
    s.advisories(told, 1)
    s.ask("CONSUMER.PAUSE", {"pause_until": "2099-01-01T00:00:00Z"}, "c")
    s.advisories(told, 1)
    s.ask("CONSUMER.PAUSE", None, "c")
    s.advisories(told, 1)
    s.ask("CONSUMER.DELETE", None, "c")
    s.advisories(told, 1)


SCRIPTS = (
    statuses,
    bodies,
    limits,
    size_limits,
    heartbeats,
    too_many_waiting,
    one_message_each_in_turn,
    a_request_that_lost_interest,
    deleted_while_waiting,
    deleted_with_the_stream,
    acks,
    impossible_sequences,
    impossible_consumer_sequences,
    ack_all,
    ack_none,
    naks_in_order,
    naks_with_delay,
    delayed_while_queued,
    next_with_ack,
    ack_wait,
    max_deliver,
    backoff,
    max_ack_pending,
    headers_only,
    sampling,
    advisories,
)
