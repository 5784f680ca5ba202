"""Mirrors and sources of nats-server 2.15.1 and of ours after the same scripts.

Answers to the steps and the whole content of the copies are compared: sequences, subjects, headers
and payloads, the state, and what info says of the copies. Masked: times, how long ago something
was, and the word in labels that tells streams of one name apart.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.interop.replication.mirror_scripts import MIRRORS, SOURCES, Ask, Put, Rest, Script, Step
from tests.support.both_servers import jetspark_server, masked, nats_server
from tests.support.raw_requests import RawClient, api

LABEL = re.compile(rb"(Nats-Stream-Source: \S+ \d+ [^ ]+ [^ ]+ \S+) \S+\r\n")
REST_SECONDS = 15.0
# A copy that has met its origin and got nothing for so long has everything.
QUIET_SECONDS = 0.2
# What an answer says of copies before they had a turn, or not yet, as it happens.
PASSING = ("active", "lag", "seq", "filter_subject", "error")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with nats_server(tmp_path_factory.mktemp("theirs")) as client:
        yield client


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with jetspark_server(tmp_path_factory.mktemp("ours")) as client:
        yield client


def names(client: RawClient) -> list[str]:
    return api(client, "STREAM.NAMES")["streams"] or []


def positions(client: RawClient) -> list[tuple[Any, ...]]:
    """What changes while copies move: sequences, and whether each met its origin."""
    found: list[tuple[Any, ...]] = []
    for name in names(client):
        info = api(client, f"STREAM.INFO.{name}")
        copies = [info["mirror"]] if "mirror" in info else info.get("sources", [])
        met = all((c["active"] >= 0 and c["lag"] == 0) or "error" in c for c in copies)
        found.append((name, info["state"]["last_seq"], info["state"]["messages"], met))
    return found


def come_to_rest(client: RawClient) -> None:
    end = time.monotonic() + REST_SECONDS
    before: list[tuple[Any, ...]] = []
    since = time.monotonic()
    while time.monotonic() < end:
        now = positions(client)
        if now != before:
            before, since = now, time.monotonic()
        elif all(row[3] for row in now) and time.monotonic() - since > QUIET_SECONDS:
            return
        time.sleep(0.05)
    raise AssertionError(f"copies do not come to rest: {before}")


def play(client: RawClient, step: Step) -> Any:
    if isinstance(step, Rest):
        come_to_rest(client)
        return None
    if isinstance(step, Put):
        lines = "".join(f"{line}\r\n" for line in step.headers)
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
        return masked(client.ask(step.subject, step.payload, block))
    assert isinstance(step, Ask)
    body = b"" if step.body is None else json.dumps(step.body).encode()
    answers = masked(client.ask(f"$JS.API.{step.verb}", body))
    for _, answer in answers:
        if isinstance(answer, dict):
            # nats-server lists them in any order.
            answer.get("sources", []).sort(key=lambda source: str(source["name"]))
            for copy in (answer.get("mirror"), *answer.get("sources", ())):
                for key in PASSING:
                    (copy or {}).pop(key, None)
            # Set where there is a limit per subject.
            answer.get("config", {}).pop("allow_direct", None)
    return answers


def content(client: RawClient, name: str) -> dict[str, Any]:
    """Everything that a stream holds and says of its copies."""
    info = api(client, f"STREAM.INFO.{name}")
    state = info["state"]
    rows = []
    for seq in range(max(state["first_seq"], 1), state["last_seq"] + 1):
        message = api(client, f"STREAM.MSG.GET.{name}", {"seq": seq}).get("message")
        if message is not None:
            block = LABEL.sub(rb"\1 IDENT\r\n", base64.b64decode(message.get("hdrs", "")))
            rows.append((seq, message["subject"], block, message.get("data", "")))
    copies = [info["mirror"]] if "mirror" in info else info.get("sources", [])
    copies.sort(key=lambda source: str(source["name"]))
    for copy in copies:
        copy["active"] = copy["active"] >= 0
        if copy["active"]:
            copy.pop("error", None)  # of an origin that went: ours knows at once
    counts = {key: state.get(key) for key in ("messages", "first_seq", "last_seq", "num_deleted")}
    return {"rows": rows, "state": counts, "copies": copies, "config": shown(info["config"])}


def shown(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in {"metadata", "allow_direct"}}


def run(client: RawClient, script: Script) -> tuple[list[Any], dict[str, Any]]:
    for name in names(client):
        api(client, f"STREAM.DELETE.{name}")
    answers = [play(client, step) for step in script.steps]
    come_to_rest(client)
    return answers, {name: content(client, name) for name in script.streams}


@pytest.mark.parametrize("script", MIRRORS + SOURCES, ids=lambda script: script.name)
def test_copies_hold_and_say_the_same(ours: RawClient, theirs: RawClient, script: Script) -> None:
    with ThreadPoolExecutor(2) as both:
        (mine, found), (expected, theirs_hold) = both.map(run, (ours, theirs), (script, script))

    assert found == theirs_hold
    assert mine == expected


def test_times_of_a_mirror_are_those_of_its_origin(ours: RawClient, theirs: RawClient) -> None:
    script = MIRRORS[0]

    for client in (ours, theirs):
        run(client, script)
        origin, mirror = (
            [api(client, f"STREAM.MSG.GET.{name}", {"seq": n})["message"]["time"] for n in (1, 5)]
            for name in ("A", "M")
        )
        assert mirror == origin


def test_a_source_begins_again_with_an_origin_created_again(tmp_path: Path) -> None:
    """Seen on nats-server too, up to 20 s later; ours at once."""
    with jetspark_server(tmp_path / "store") as client:
        script = Script(
            "anew",
            [
                Ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]}),
                Ask("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "A"}]}),
                Put("a", b"old"),
                Rest(),
                Ask("STREAM.DELETE.A"),
                Ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]}),
                Put("a", b"new"),
            ],
            ("S",),
        )

        _, found = run(client, script)

    assert [base64.b64decode(row[3]) for row in found["S"]["rows"]] == [b"old", b"new"]
