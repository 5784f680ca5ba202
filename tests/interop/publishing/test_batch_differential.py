"""The same batches, answered by nats-server 2.15.1 and by us (ADR-50, wire.md, Batches)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.publishing.batch_scripts import SCRIPTS, random_script
from tests.interop.publishing.batch_wire import BatchClient, BatchScript, Fast, play_both
from tests.support.judges import running_nats_server
from tests.support.served import Served

# Other work on the machine may make the disk slow briefly.
TRIES = 3
RANDOM_SCRIPTS = int(os.environ.get("JETSPARK_BATCH_SCRIPTS", "20"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchClient]:
    folder = tmp_path_factory.mktemp("theirs")
    config = folder / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{folder / "store"}" }}\n')
    with running_nats_server(config) as port:
        client = BatchClient(f"127.0.0.1:{port}")
        yield client
        client.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchClient]:
    served = Served(tmp_path_factory.mktemp("ours") / "store", "-p", "-1", "-js")
    assert served.url, "".join(served.lines)
    client = BatchClient(served.url)
    yield client
    client.close()
    served.end()


def was_slowed(said: list[tuple[Any, Any, Any]]) -> bool:
    """Whether the first difference is a lower flow: our disk was slow, and we said so."""
    for step, here, there in said:
        if here != there:
            return isinstance(step, Fast) and flows(here) < flows(there)
    return False


def flows(told: Any) -> list[int]:
    return [body["msgs"] for _, body in told if body and "msgs" in body]


@pytest.mark.parametrize(
    "script",
    SCRIPTS + [random_script(seed) for seed in range(RANDOM_SCRIPTS)],
    ids=lambda script: script.name,
)
def test_both_servers_answer_a_batch_alike(
    ours: BatchClient, theirs: BatchClient, script: BatchScript
) -> None:
    said = play_both(ours, theirs, script, "D")
    for _ in range(TRIES):
        if not was_slowed(said):
            break
        said = play_both(ours, theirs, script, "D")

    for step, here, there in said:
        assert here == there, step
    assert said[0][1] == "made"


def test_every_script_has_a_name_of_its_own() -> None:
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS)
