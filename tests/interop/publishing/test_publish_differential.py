"""The same publishes, answered by nats-server 2.15.1 and by us (wire.md, Publishing)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.interop.api.limit_cases import CASES as LIMITS
from tests.interop.api.removal_script import REMOVAL_SCRIPT
from tests.interop.api.script import SCRIPT
from tests.interop.api.stream_config_cases import BAD, GOOD
from tests.interop.api.stream_update_cases import UPDATES
from tests.interop.publishing.publish_machine import PublishMachine
from tests.interop.publishing.publish_scripts import SCRIPTS
from tests.interop.publishing.publish_wire import RawClient, Script, play
from tests.support.judges import running_nats_server
from tests.support.served import Served


@pytest.fixture(scope="module")
def their_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("theirs")
    config = folder / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{folder / "store"}" }}\n')
    with running_nats_server(config) as port:
        yield port


@pytest.fixture(scope="module")
def our_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    served = Served(tmp_path_factory.mktemp("ours") / "store", "-p", "-1", "-js")
    assert served.url, "".join(served.lines)
    yield served.url
    served.end()


@pytest.fixture
def theirs(their_port: int) -> Iterator[RawClient]:
    client = RawClient(f"127.0.0.1:{their_port}")
    yield client
    client.close()


@pytest.fixture
def ours(our_url: str) -> Iterator[RawClient]:
    client = RawClient(our_url)
    yield client
    client.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_both_servers_answer_a_script_alike(
    ours: RawClient, theirs: RawClient, script: Script
) -> None:
    # A name of its own: nats-server may still route to a stream of that name that was deleted.
    name = f"D{SCRIPTS.index(script)}"
    said = play(ours, script, name)
    expected = play(theirs, script, name)

    steps = ("create", *script.steps, "contents")
    for step, here, there in zip(steps, said, expected, strict=True):
        assert here == there, step
    assert expected[0] == "made"


def test_there_are_enough_scripts() -> None:
    """Names are unique, so that a failure names its script."""
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS) >= 80


def test_both_servers_answer_random_publishes_alike(ours: RawClient, theirs: RawClient) -> None:
    """JETSPARK_PUBLISH_STEPS makes it longer (tools/torture.py)."""
    steps = int(os.environ.get("JETSPARK_PUBLISH_STEPS", "1000"))
    PublishMachine.ours = ours
    PublishMachine.theirs = theirs
    run_state_machine_as_test(
        PublishMachine,
        settings=settings(
            max_examples=max(1, steps // 50),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_there_are_enough_scripted_cases_in_all() -> None:
    """At least 200, over publishing, the stream API, configurations, limits, backups."""
    cases = len(SCRIPTS) + len(SCRIPT) + len(REMOVAL_SCRIPT) + len(GOOD) + len(BAD) + len(UPDATES)

    assert cases + len(LIMITS) >= 200
