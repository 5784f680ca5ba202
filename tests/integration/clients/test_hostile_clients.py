"""No client makes a neighbour wait for long: the short form of tests/campaigns/hostile.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaigns.hostile import LONGEST_MS, Street, street
from tests.support.hostile.clients import HOSTILE, TLS, Hostile
from tests.support.hostile.delayed import GROUPS
from tests.support.hostile.requests import REQUESTS

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the kernel does not count CPU time there"
)
SCALE = 0.03
# Smaller groups are applied in one turn.
SCALE_OF_GROUPS = 0.3
MIX_S = 5.0


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with street(tmp_path_factory.mktemp("hostile"), "jetspark", SCALE) as made:
        yield made
        assert made.internal_errors() == 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with street(tmp_path_factory.mktemp("hostile"), "jetspark", SCALE, tls=True) as made:
        yield made


@pytest.fixture(scope="module")
def delayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    folder = tmp_path_factory.mktemp("hostile")
    with street(folder, "jetspark", SCALE_OF_GROUPS, delayed=True) as made:
        yield made
        assert made.internal_errors() == 0


@pytest.mark.parametrize("hostile", HOSTILE + REQUESTS)
def test_a_neighbour_does_not_wait(plain: Street, hostile: Hostile) -> None:
    assert plain.visit(hostile).server_ms < LONGEST_MS


@pytest.mark.parametrize("hostile", GROUPS)
def test_a_neighbour_does_not_wait_for_what_a_slow_disk_held_up(
    delayed: Street, hostile: Hostile
) -> None:
    assert delayed.visit(hostile).server_ms < LONGEST_MS


@pytest.mark.parametrize("hostile", TLS)
def test_a_tls_neighbour_does_not_wait(secured: Street, hostile: Hostile) -> None:
    assert secured.visit(hostile).server_ms < LONGEST_MS


def test_a_neighbour_does_not_wait_for_all_kinds_at_once(tmp_path: Path) -> None:
    with street(tmp_path, "jetspark", SCALE) as made:
        assert made.mix(MIX_S).server_ms < LONGEST_MS
        assert made.internal_errors() == 0
