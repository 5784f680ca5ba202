"""The longest turn of the loop for each kind of request to a stream of very many subjects.

``python -m tests.campaigns.turn_table [SUBJECTS]`` prints a row per request: the longest turn that
it caused and all turns together, in milliseconds of CPU time of the loop's thread.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.support.turn_probe import TurnProbe, Wire

KEYS: Final = 1000
"""Subjects of one first token."""
EXPECTS: Final = b"Nats-Expected-Last-Subject-Sequence"
PURGES: Final = "purge"
MIDDLE: Final = 5_000


@dataclass(frozen=True)
class Row:
    """One kind of request; ``ask`` sends it and waits for the whole answer."""

    name: str
    ask: Callable[[Wire], None]


def fill(client: Wire, subjects: int, name: str = "S") -> None:
    """Make a stream and give it so many subjects ``aN.kM``, one message each."""
    first = "a" if name == "S" else name
    config = {
        "name": name,
        "subjects": [f"{first}{n}.*" for n in range(subjects // KEYS)],
        "storage": "memory",
        "allow_direct": True,
        "max_bytes": -1,
    }
    answer = client.request(b"STREAM.CREATE.%b" % name.encode(), json.dumps(config).encode())
    assert b'"error"' not in answer, answer
    for n in range(subjects // KEYS):
        token = f"{first}{n}".encode()
        client.send(b"".join(b"PUB %b.k%d 0\r\n\r\n" % (token, k) for k in range(KEYS)))
        client.settle()


def info(name: str, pattern: str, total: Callable[[int], int]) -> Row:
    """STREAM.INFO of the subjects that match."""

    def ask(client: Wire) -> None:
        body = json.dumps({"subjects_filter": pattern}).encode()
        found = json.loads(client.request(b"STREAM.INFO.S", body))
        assert found["total"] == total(found["state"]["num_subjects"]), found["total"]
        page = found["state"].get("subjects", {})
        assert len(page) == min(found["total"], 100_000)

    return Row(f"STREAM.INFO {name}", ask)


def consumer(name: str, pending: Callable[[int], int], **config: object) -> Row:
    """Create a consumer, fetch one message of it, and remove it."""

    def ask(client: Wire) -> None:
        body = json.dumps({"stream_name": "S", "config": {"name": "C", **config}}).encode()
        answer = json.loads(client.request(b"CONSUMER.CREATE.S.C", body))
        assert "error" not in answer, answer
        subjects = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]["num_subjects"]
        assert answer["num_pending"] == pending(subjects), answer["num_pending"]
        if answer["num_pending"]:
            client.send(b"SUB _m 8888888\r\nUNSUB 8888888 1\r\n")
            client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _m 1\r\n1\r\n")
            client.until(b"MSG ")
            client.until(b"\r\n\r\n")
        client.request(b"CONSUMER.DELETE.S.C", b"")

    return Row(f"consumer {name}", ask)


def direct(name: str, body: dict[str, object], end: bytes) -> Row:
    """A direct get, up to what ends it."""

    def ask(client: Wire) -> None:
        asked = json.dumps(body).encode()
        client.send(b"SUB _d 7777777\r\n")
        client.send(b"PUB $JS.API.DIRECT.GET.S _d %d\r\n%b\r\n" % (len(asked), asked))
        client.until(end)
        client.send(b"UNSUB 7777777\r\n")
        client.settle()

    return Row(f"direct get {name}", ask)


def expectation(name: str, pattern: bytes, wrong: int = 0) -> Row:
    """A message that expects a last sequence of subjects; it is refused."""

    def ask(client: Wire) -> None:
        block = b"NATS/1.0\r\n%b: %d\r\n%b-Subject: %b\r\n\r\n" % (
            EXPECTS,
            wrong,
            EXPECTS,
            pattern,
        )
        client.send(b"SUB _e 6666666\r\nUNSUB 6666666 1\r\n")
        client.send(b"HPUB a0.k0 _e %d %d\r\n%b\r\n" % (len(block), len(block), block))
        client.until(b"MSG _e ")
        assert b'"error"' in client.until(b"}\r\n")

    return Row(f"expectation {name}", ask)


def purge(name: str, **body: object) -> Row:
    """A purge that takes something out."""

    def ask(client: Wire) -> None:
        answer = json.loads(client.request(b"STREAM.PURGE.S", json.dumps(body).encode()))
        assert answer["purged"] > 0, answer

    return Row(f"{PURGES} {name}", ask)


def creation(name: str, config: dict[str, object]) -> Row:
    """Make a stream, describe it, and remove it."""

    def ask(client: Wire) -> None:
        body = json.dumps({"name": "B", "storage": "memory", **config}).encode()
        assert len(body) < 1024 * 1024
        answer = client.request(b"STREAM.CREATE.B", body)
        assert b'"error"' not in answer[:200], answer[:200]
        client.request(b"STREAM.INFO.B", b"")
        client.request(b"STREAM.DELETE.B", b"")

    return Row(f"stream create {name}", ask)


def creations(count: int) -> list[Row]:
    """Requests that hold as many subjects or sources as a megabyte takes."""
    return [
        creation("many subjects", {"subjects": [f"b.{n}.*" for n in range(count)]}),
        creation("many sources", {"sources": [{"name": f"s{n}"} for n in range(count)]}),
    ]


ROWS: Final[list[Row]] = [
    info("one subject", "a7.k7", lambda _: 1),
    info("a7.*", "a7.*", lambda _: KEYS),
    info("*.k7", "*.k7", lambda subjects: subjects // KEYS),
    info("*.none", "*.none", lambda _: 0),
    info("all", ">", lambda subjects: subjects),
    consumer("of one subject", lambda _: 1, filter_subject="a7.k7"),
    consumer("a7.*", lambda _: KEYS, filter_subject="a7.*"),
    consumer("*.k7", lambda subjects: subjects // KEYS, filter_subject="*.k7"),
    consumer("*.none", lambda _: 0, filter_subject="*.none"),
    consumer("of all", lambda subjects: subjects),
    consumer("a11.*", lambda _: KEYS, filter_subject="a11.*"),
    consumer(
        "a11.* from the middle", lambda _: KEYS, filter_subject="a11.*",
        deliver_policy="by_start_sequence", opt_start_seq=MIDDLE,
    ),
    consumer(
        "*.* from the middle", lambda subjects: subjects - MIDDLE + 1, filter_subject="*.*",
        deliver_policy="by_start_sequence", opt_start_seq=MIDDLE,
    ),
    consumer(
        "last per subject", lambda subjects: subjects, filter_subject=">",
        deliver_policy="last_per_subject",
    ),
    consumer(
        "last per subject, in memory", lambda subjects: subjects, filter_subject=">",
        deliver_policy="last_per_subject", mem_storage=True,
    ),
    consumer(
        "last per subject a7.*", lambda _: KEYS, filter_subject="a7.*",
        deliver_policy="last_per_subject",
    ),
    consumer(
        "last per subject *.k7", lambda subjects: subjects // KEYS, filter_subject="*.k7",
        deliver_policy="last_per_subject",
    ),
    consumer("last *.k7", lambda _: 1, filter_subject="*.k7", deliver_policy="last"),
    consumer(
        "two filters", lambda subjects: 2 * (subjects // KEYS), filter_subjects=["*.k7", "*.k8"],
    ),
    consumer(
        "many filters", lambda _: 900, filter_subjects=[
            f"a{a}.k{k}" for a in range(9) for k in range(100)
        ],
    ),
    direct("multi_last a7.*", {"multi_last": ["a7.*"]}, b" 204 EOB"),
    direct("multi_last *.k7", {"multi_last": ["*.k7"]}, b" 204 EOB"),
    direct("multi_last *.none", {"multi_last": ["*.none"]}, b" 404 "),
    direct("multi_last all", {"multi_last": [">"]}, b" 413 "),
    direct("last of *.k7", {"last_by_subj": "*.k7"}, b"Nats-Sequence"),
    direct("last of *.none", {"last_by_subj": "*.none"}, b" 404 "),
    direct("next of *.k7", {"next_by_subj": "*.k7", "seq": MIDDLE}, b"Nats-Sequence"),
    direct("next of *.none", {"next_by_subj": "*.none"}, b" 404 "),
    direct("batch of *.k7", {"next_by_subj": "*.k7", "seq": 1, "batch": 10}, b" 204 EOB"),
    expectation("a7.*", b"a7.*"),
    expectation("*.k7", b"*.k7"),
    expectation("*.none", b"*.none", 5),
    expectation("all", b"*.*"),
    purge("of one subject", filter="a9.k9"),
    purge("a9.*", filter="a9.*"),
    purge("*.k9", filter="*.k9"),
    purge("*.k8 keep", filter="*.k8", keep=5),
    purge("by sequence", seq=2_500),
    purge("all but ten", keep=10),
]  # fmt: skip


def measured(
    probe: TurnProbe, rows: list[Row], subjects: int
) -> Iterator[tuple[str, float, float]]:
    """Ask everything of a stream of so many subjects: the name, longest turn and all turns."""
    with probe.client() as client:
        fill(client, subjects)
        yield "publish all of them", *probe.spent_ms()
        for row in rows:
            row.ask(client)
            client.settle()
            yield row.name, *probe.spent_ms()
        fill(client, subjects, "F")
        probe.spent_ms()
        client.request(b"STREAM.PURGE.F", b"")
        client.settle()
        yield "purge all of them", *probe.spent_ms()
        fill(client, subjects, "G")
        probe.spent_ms()
        client.request(b"STREAM.DELETE.G", b"")
        client.settle()
        yield "stream delete", *probe.spent_ms()


def main() -> None:
    """Print the table."""
    subjects = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    head = f"{'longest turn':>14} {'all turns':>10}   ms of CPU, {subjects} subjects"
    sys.stdout.write(head + "\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch) as probe,
    ):
        chosen = [
            row
            for row in [*ROWS, *creations(40_000)]
            if len(sys.argv) < 3 or sys.argv[2] in row.name
        ]
        for name, longest, total in measured(probe, chosen, subjects):
            sys.stdout.write(f"{longest:14.1f} {total:10.1f}   {name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
