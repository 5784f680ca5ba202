"""Where consumers start, what they count, and what becomes of them when the stream changes."""

from __future__ import annotations

import time
from typing import Any

from tests.interop.consumers.session import MS, S, Session

EXPLICIT: dict[str, Any] = {"ack_policy": "explicit"}
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"filter_subject": "a"},
    {"filter_subject": "b.*"},
    {"filter_subject": "none"},
    {"filter_subjects": ["a", "b.x"]},
    {"filter_subjects": ["b.>", "c", "none"]},
)
KEYS = ("a", "b.x", "c", "a", "b.y", "c", "b.x", "a", "d", "c")


def _everything(s: Session, **config: Any) -> None:
    s.consumer(**config)
    s.info()
    s.fetch(20)
    s.info()
    s.put("a", "b.x", "c")
    s.info()
    s.fetch(20)
    s.info()
    s.ask("CONSUMER.DELETE", None, "c")


def policies(s: Session) -> None:
    s.make()
    s.put(*KEYS)
    for policy in ("all", "last", "new"):
        for filters in FILTERS:
            _everything(s, **EXPLICIT, deliver_policy=policy, **filters)


def last_per_subject(s: Session) -> None:
    s.make()
    s.put(*KEYS)
    for filters in FILTERS[1:]:
        _everything(s, **EXPLICIT, deliver_policy="last_per_subject", **filters)
    _everything(s, **EXPLICIT, deliver_policy="last_per_subject", filter_subject=">")


def start_sequence(s: Session) -> None:
    s.make()
    s.put(*KEYS)
    for seq in (1, 4, 10, 11, 50):
        for filters in FILTERS[:4]:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}
            _everything(s, **EXPLICIT, **start, **filters)


def start_time(s: Session) -> None:
    s.make()
    s.put(*KEYS[:4])
    time.sleep(0.01)
    middle = time.time_ns()
    time.sleep(0.01)
    s.put(*KEYS[4:])
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(middle // S)) + f".{middle % S:09d}Z"
    for moment in ("2020-01-01T00:00:00Z", at, "2090-01-01T00:00:00Z"):
        for filters in FILTERS[:4]:
            s.consumer(
                **EXPLICIT, deliver_policy="by_start_time", opt_start_time=moment, **filters
            )
            s.said.pop()  # has the time in it
            s.info()
            s.fetch(20)
            s.info()
            s.ask("CONSUMER.DELETE", None, "c")


def an_empty_stream(s: Session) -> None:
    s.make()
    for policy in ("all", "last", "new"):
        _everything(s, **EXPLICIT, deliver_policy=policy)
    s.ask("STREAM.PURGE")
    for policy in ("all", "last", "new"):
        s.consumer(**EXPLICIT, deliver_policy=policy)
        s.info()
        s.ask("CONSUMER.DELETE", None, "c")


def deletes_and_purges(s: Session) -> None:
    s.make()
    s.put(*"abcabcabcabc")
    s.consumer(**EXPLICIT)
    s.consumer("f", **EXPLICIT, filter_subject="b")
    got = s.fetch(4)
    s.ask("STREAM.MSG.DELETE", {"seq": 2, "no_erase": True})
    s.ask("STREAM.MSG.DELETE", {"seq": 5, "no_erase": True})
    s.ask("STREAM.MSG.DELETE", {"seq": 12, "no_erase": True})
    s.info("f")
    s.info()
    s.ack(got[1], b"-NAK")
    s.fetch(2)
    s.fetch(1, "f")
    s.ask("STREAM.PURGE", {"seq": 8})
    s.info()
    s.info("f")
    s.fetch(9)
    s.fetch(9, "f")
    s.info()
    s.info("f")
    s.ask("STREAM.PURGE")
    s.info()
    s.info("f")
    s.put("a", "b")
    s.fetch(5)
    s.fetch(5, "f")
    s.info()


def purge_by_subject(s: Session) -> None:
    s.make()
    s.put(*"abababab")
    s.consumer(**EXPLICIT)
    s.consumer("f", **EXPLICIT, filter_subject="b")
    s.fetch(3)
    s.fetch(1, "f")
    s.ask("STREAM.PURGE", {"filter": f"{s.stream}.a"})
    s.info()
    s.info("f")
    s.fetch(9)
    s.fetch(9, "f")
    s.info()


def limits_take_messages_out(s: Session) -> None:
    s.make(max_msgs=5)
    s.put(*"abcde")
    s.consumer(**EXPLICIT)
    s.consumer("f", **EXPLICIT, filter_subject="x")
    s.fetch(2)
    s.put(*"xyxyx")
    time.sleep(0.05)
    s.info()
    s.info("f")
    s.fetch(9)
    s.fetch(9, "f")


def changes(s: Session) -> None:
    s.make()
    s.put(*"abcabc")
    s.consumer(**EXPLICIT, durable_name="c")
    s.fetch(2)
    s.consumer(**EXPLICIT, durable_name="c", filter_subject="c")
    s.info()
    s.fetch(9)
    s.info()
    s.consumer(**EXPLICIT, durable_name="c", filter_subjects=["a", "b"], max_deliver=2)
    s.info()
    s.fetch(9)
    s.put(*"abc")
    s.info()
    s.fetch(9)
    s.info()
    s.consumer(**EXPLICIT, durable_name="c")
    s.info()


def interest(s: Session) -> None:
    s.make(retention="interest")
    s.put("a", "b")
    s.settled(0)
    s.consumer("p", **EXPLICIT)
    s.consumer("q", **EXPLICIT, filter_subject="b")
    s.put("a", "b", "b")
    s.settled(3)
    first = s.fetch(3, "p")
    s.ack(first[0])
    s.settled(2)
    s.ack(first[1])
    second = s.fetch(3, "q")
    s.settled(2)
    s.ack(second[0])
    s.settled(1)
    s.ask("CONSUMER.DELETE", None, "p")
    s.settled(1)
    s.ask("CONSUMER.DELETE", None, "q")
    s.settled(0)


def work_queue(s: Session) -> None:
    s.make(retention="workqueue")
    s.put("a", "b", "c")
    s.settled(3)
    s.consumer("p", **EXPLICIT, filter_subject="a")
    s.consumer("q", **EXPLICIT, filter_subject="b")
    one = s.fetch(3, "p")
    s.ack(one[0])
    s.settled(2)
    two = s.fetch(3, "q")
    s.ack(two[0], b"+TERM")
    s.settled(1)
    s.put("a", "d")
    s.settled(3)
    s.ask("CONSUMER.DELETE", None, "q")
    s.settled(3)
    s.info("p")


def pauses(s: Session) -> None:
    s.make()
    s.put("a", "b")
    s.consumer(**EXPLICIT)
    s.ask("CONSUMER.PAUSE", {"pause_until": "2099-01-01T00:00:00Z"}, "c")
    s.info()
    s.pull({"batch": 1, "expires": 100 * MS}, 1)
    s.ask("CONSUMER.PAUSE", None, "c")
    s.info()
    s.fetch(3)
    s.consumer("d", **EXPLICIT, pause_until="2099-01-01T00:00:00Z")
    s.pull({"batch": 1, "expires": 100 * MS}, 1, "d")
    s.info("d")


def resets(s: Session) -> None:
    s.make()
    s.put(*"abcdef")
    s.consumer(**EXPLICIT)
    got = s.fetch(4)
    s.ack(got[0])
    s.ack(got[2])
    s.ask("CONSUMER.RESET", None, "c")
    s.fetch(2)
    s.ask("CONSUMER.RESET", {"seq": 5}, "c")
    s.fetch(2)
    s.info()
    s.ask("CONSUMER.RESET", {"seq": 1}, "c")
    s.fetch(9)
    s.ask("CONSUMER.RESET", {"seq": 50}, "c")
    s.fetch(2)
    s.info()
    s.consumer("d", **EXPLICIT, deliver_policy="by_start_sequence", opt_start_seq=3)
    s.ask("CONSUMER.RESET", {"seq": 2}, "d")
    s.ask("CONSUMER.RESET", {"seq": 4}, "d")
    s.fetch(1, "d")
    s.consumer("e", **EXPLICIT, deliver_policy="new")
    s.ask("CONSUMER.RESET", {"seq": 2}, "e")


SCRIPTS = (
    policies,
    last_per_subject,
    start_sequence,
    start_time,
    an_empty_stream,
    deletes_and_purges,
    purge_by_subject,
    limits_take_messages_out,
    changes,
    interest,
    work_queue,
    pauses,
    resets,
)
