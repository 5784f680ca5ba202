"""What mirrors and sources are compared by: steps, and the streams that are looked at afterwards.

A step is a request (verb and body) or a message (subject, headers, payload). After each script the
test waits until the named streams no longer change, and reads them completely.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ask:
    """One ``$JS.API`` request."""

    verb: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Put:
    """One message; ``headers`` as lines."""

    subject: str
    payload: bytes = b"x"
    headers: tuple[str, ...] = ()


class Rest:
    """Wait until all copies are complete before the next step."""


Step = Ask | Put | Rest


@dataclass(frozen=True)
class Script:
    """A name, steps, and what is read at the end."""

    name: str
    steps: list[Step]
    streams: tuple[str, ...] = field(default=("M",))


def make(name: str, **config: Any) -> Ask:
    return Ask(f"STREAM.CREATE.{name}", {"name": name, **config})


def fill(count: int, subject: str = "a.{}", first: int = 0) -> list[Step]:
    return [Put(subject.format(n), b"%d" % n) for n in range(first, first + count)]


ORIGIN = make("A", subjects=["a.>"], allow_rollup_hdrs=True, allow_msg_ttl=True, allow_direct=True)
OTHER = make("B", subjects=["b.>"])
DELETE_THIRD = Ask("STREAM.MSG.DELETE.A", {"seq": 3})

MIRRORS = [
    Script("a mirror of gaps", [ORIGIN, *fill(5), DELETE_THIRD, make("M", mirror={"name": "A"})]),
    Script("a mirror that follows", [ORIGIN, make("M", mirror={"name": "A"}), Rest(), *fill(5)]),
    Script(
        "headers of a mirror",
        [
            ORIGIN,
            make("M", mirror={"name": "A"}),
            Rest(),
            Put("a.1", headers=("Nats-Msg-Id: 1", "Nats-Expected-Stream: A", "X: y")),
            Put("a.2", headers=("Nats-Expected-Last-Sequence: 1",)),
            Put("a.2", headers=("Nats-TTL: 1h", "Nats-Expected-Last-Subject-Sequence: 2")),
            Put("a.1", headers=("Nats-Rollup: sub",)),
        ],
    ),
    Script(
        "a rollup in a mirror that allows it",
        [
            ORIGIN,
            make("M", mirror={"name": "A"}, allow_rollup_hdrs=True),
            Rest(),
            *fill(3, "a.1"),
            Rest(),
            Put("a.1", headers=("Nats-Rollup: sub",)),
        ],
    ),
    Script(
        "a purge of the origin",
        [
            ORIGIN,
            make("M", mirror={"name": "A"}),
            Rest(),
            *fill(3),
            Rest(),
            Ask("STREAM.PURGE.A"),
            *fill(2),
        ],
    ),
    Script(
        "a mirror of a purged stream",
        [ORIGIN, *fill(4), Ask("STREAM.PURGE.A"), make("M", mirror={"name": "A"})],
    ),
    Script(
        "filters of mirrors",
        [
            ORIGIN,
            *fill(5),
            make("M", mirror={"name": "A", "filter_subject": "a.2"}),
            make("N", mirror={"name": "A", "filter_subject": "nothing"}),
        ],
        ("M", "N"),
    ),
    Script(
        "transforms of mirrors",
        [
            ORIGIN,
            *fill(5),
            make(
                "M",
                mirror={
                    "name": "A",
                    "subject_transforms": [
                        {"src": "a.1", "dest": "z.one"},
                        {"src": "a.3", "dest": ""},
                    ],
                },
            ),
            make("N", mirror={"name": "A"}, subject_transform={"src": "a.*", "dest": "q.$1"}),
        ],
        ("M", "N"),
    ),
    Script(
        "starts of mirrors",
        [
            ORIGIN,
            *fill(5),
            make("M", mirror={"name": "A", "opt_start_seq": 3}),
            make("N", mirror={"name": "A", "opt_start_seq": 100}),
            make("O", mirror={"name": "A", "opt_start_time": "2020-01-01T00:00:00Z"}),
        ],
        ("M", "N", "O"),
    ),
    Script(
        "limits of mirrors",
        [
            ORIGIN,
            *fill(5),
            make("M", mirror={"name": "A"}, max_msgs=2),
            make("N", mirror={"name": "A"}, max_msgs_per_subject=1),
            Rest(),
            *fill(2, "a.1"),
        ],
        ("M", "N"),
    ),
    Script("a mirror of nothing", [make("M", mirror={"name": "A"})]),
    Script(
        "promotion",
        [
            ORIGIN,
            *fill(3),
            make("M", mirror={"name": "A"}),
            Rest(),
            Ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["m"]}),
            *fill(2),
            Put("m"),
        ],
    ),
    Script(
        "a mirror of a mirror",
        [ORIGIN, *fill(3), make("L", mirror={"name": "A"}), make("M", mirror={"name": "L"})],
        ("L", "M"),
    ),
    Script(
        "direct gets of an origin that is gone",
        [
            ORIGIN,
            *fill(3),
            make("M", mirror={"name": "A"}),
            Rest(),
            Ask("STREAM.DELETE.A"),
            Ask("DIRECT.GET.A", {"seq": 2}),
            Ask("DIRECT.GET.A", {"last_by_subj": "a.1"}),
            Ask("DIRECT.GET.M", {"seq": 2}),
        ],
    ),
]

SOURCES = [
    Script("one source", [ORIGIN, *fill(4), make("S", sources=[{"name": "A"}])], ("S",)),
    Script(
        "two sources and own messages",
        [
            ORIGIN,
            OTHER,
            make("S", subjects=["s"], sources=[{"name": "A"}, {"name": "B"}]),
            Rest(),
            Put("a.1"),
            Rest(),
            Put("b.1"),
            Rest(),
            Put("s"),
            Put("a.2"),
        ],
        ("S",),
    ),
    Script(
        "headers of sources",
        [
            ORIGIN,
            make("S", sources=[{"name": "A"}]),
            Rest(),
            Put("a.1", headers=("Nats-Msg-Id: 1", "Nats-Expected-Stream: A", "X: y")),
            Put("a.2", headers=("Nats-Expected-Last-Sequence: 1",)),
            Put("a.1", headers=("Nats-Rollup: sub",)),
        ],
        ("S",),
    ),
    Script(
        "a rollup in a stream that allows it",
        [
            ORIGIN,
            make("S", sources=[{"name": "A"}], allow_rollup_hdrs=True),
            Rest(),
            *fill(3, "a.1"),
            Rest(),
            Put("a.1", headers=("Nats-Rollup: sub",)),
        ],
        ("S",),
    ),
    Script(
        "filters and transforms of sources",
        [
            ORIGIN,
            *fill(4),
            make("S", sources=[{"name": "A", "filter_subject": "a.2"}]),
            make(
                "T",
                sources=[
                    {
                        "name": "A",
                        "subject_transforms": [
                            {"src": "a.1", "dest": "x.one"},
                            {"src": "a.2", "dest": ""},
                        ],
                    }
                ],
            ),
            make("U", sources=[{"name": "A"}], subject_transform={"src": "a.*", "dest": "k.$1"}),
            make("V", sources=[{"name": "A", "opt_start_seq": 3}]),
        ],
        ("S", "T", "U", "V"),
    ),
    Script(
        "copies of copies",
        [
            ORIGIN,
            *fill(3),
            make("S", sources=[{"name": "A"}]),
            Rest(),
            make("T", sources=[{"name": "S"}]),
            make("M", mirror={"name": "S"}),
        ],
        ("S", "T", "M"),
    ),
    Script(
        "ids within a window",
        [
            ORIGIN,
            OTHER,
            Put("a.1", headers=("Nats-Msg-Id: same",)),
            make("S", subjects=["s"], sources=[{"name": "A"}], duplicate_window=60_000_000_000),
            Rest(),
            Put("s", headers=("Nats-Msg-Id: same",)),
            Put("s", headers=("Nats-Msg-Id: own",)),
        ],
        ("S",),
    ),
    Script(
        "ids without a window",
        [
            ORIGIN,
            Put("a.1", headers=("Nats-Msg-Id: same",)),
            make("S", subjects=["s"], sources=[{"name": "A"}]),
            Rest(),
            Put("s", headers=("Nats-Msg-Id: same",)),
            Put("s", headers=("Nats-Msg-Id: same",)),
        ],
        ("S",),
    ),
    Script(
        "a source that goes and comes back",
        [
            ORIGIN,
            *fill(2),
            make("S", subjects=["s"], sources=[{"name": "A"}]),
            Rest(),
            Ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"]}),
            *fill(2),
            Ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "sources": [{"name": "A"}]}),
        ],
        ("S",),
    ),
    Script(
        "a purge of the stream",
        [
            ORIGIN,
            make("S", sources=[{"name": "A"}]),
            Rest(),
            *fill(3),
            Rest(),
            Ask("STREAM.PURGE.S"),
            *fill(2),
        ],
        ("S",),
    ),
    Script(
        "copies of streams that let go of messages",
        [
            make("I", subjects=["i.>"], retention="interest"),
            make("W", subjects=["w.>"], retention="workqueue"),
            *fill(2, "i.{}"),
            *fill(2, "w.{}"),
            make("M", mirror={"name": "I"}),
            make("N", mirror={"name": "W"}),
            make("S", sources=[{"name": "I", "filter_subject": "i.3"}]),
            Rest(),
            *fill(5, "i.{}"),
            *fill(2, "w.{}"),
        ],
        ("M", "N", "S"),
    ),
    Script(
        "sources of counters",
        [
            make("C", subjects=["c.>"], allow_msg_counter=True),
            *(Put("c.x", b"", (f"Nats-Incr: {n}",)) for n in (1, 2, 3)),
            Put("c.y", b"", ("Nats-Incr: -5",)),
            make(
                "T",
                subjects=["t.>"],
                allow_msg_counter=True,
                sources=[{"name": "C", "subject_transforms": [{"src": "c.>", "dest": "t.>"}]}],
            ),
            Rest(),
            Put("t.x", b"", ("Nats-Incr: 100",)),
            Put("c.x", b"", ("Nats-Incr: 10",)),
            Rest(),
            make("L", allow_msg_counter=True, sources=[{"name": "C", "opt_start_seq": 3}]),
            make(
                "U",
                allow_msg_counter=True,
                sources=[{"name": "T", "subject_transforms": [{"src": "t.>", "dest": "u.>"}]}],
            ),
            make("P", sources=[{"name": "C"}]),
            make("O", subjects=["o"]),
            Put("o", b'{"val":"9"}'),
            make("Q", allow_msg_counter=True, sources=[{"name": "O"}]),
        ],
        ("T", "L", "U", "P", "Q"),
    ),
]
