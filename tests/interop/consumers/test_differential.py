"""Consumers on nats-server 2.15.1 and on ours: every reply of the scripts alike.

Subjects, ack replies, header blocks and payloads are compared byte by byte; times and generated
ids are masked. nats-server does most of this in goroutines of its own and gives several answers to
some scripts, so a script that came out different is played again: ours must be one of theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.interop.consumers import pull_scripts, push_scripts, start_scripts
from tests.interop.consumers.session import Session
from tests.support.both_servers import running_nats_server
from tests.support.consumer_wire import Wire
from tests.support.served import Served

Script = Callable[[Session], None]
Addresses = tuple[str, str]

SCRIPTS: tuple[Script, ...] = (
    *pull_scripts.SCRIPTS,
    *start_scripts.SCRIPTS,
    *push_scripts.SCRIPTS,
)
TRIES = 8

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Where ours and theirs listen."""
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    with running_nats_server(tmp_path_factory.mktemp("theirs")) as theirs:
        yield served.url, theirs
    served.end()


def play(address: str, script: Script, stream: str) -> list[Any]:
    """What a server says to a script, and what it said besides."""
    wire = Wire(address)
    session = Session(wire, stream)
    try:
        script(session)
        session.tell(wire.left_over())
        session.ask("STREAM.DELETE")
    except (TimeoutError, AssertionError) as problem:
        session.note(repr(problem))
    finally:
        wire.close()
    return session.said


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_both_servers_play_the_script_alike(addresses: Addresses, script: Script) -> None:
    seen: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(TRIES):
        stream = f"SC{next(numbers)}"
        ours, theirs = (play(address, script, stream) for address in addresses)
        seen[0].append(ours)
        seen[1].append(theirs)
        if any(each in seen[1] for each in seen[0]):
            return
    differing = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]

    assert differing == []
    raise AssertionError(f"{len(ours)} answers of ours, {len(theirs)} of theirs")
