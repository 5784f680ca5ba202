"""No client makes a neighbour wait for long: the short form of tests/campaigns/hostile.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaigns.hostile import LONGEST_MS, Street, street
from tests.support.hostile.clients import HOSTILE, TLS, Hostile
from tests.support.hostile.requests import REQUESTS

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the kernel does not count CPU time there"
)
SCALE = 0.03
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


@pytest.mark.parametrize("hostile", HOSTILE + REQUESTS)
def test_a_neighbour_does_not_wait(plain: Street, hostile: Hostile) -> None:
    assert plain.visit(hostile).server_ms < LONGEST_MS


@pytest.mark.parametrize("hostile", TLS)
def test_a_tls_neighbour_does_not_wait(secured: Street, hostile: Hostile) -> None:
    assert secured.visit(hostile).server_ms < LONGEST_MS


def test_a_neighbour_does_not_wait_for_all_kinds_at_once(tmp_path: Path) -> None:
    with street(tmp_path, "jetspark", SCALE) as made:
        assert made.mix(MIX_S).server_ms < LONGEST_MS
        assert made.internal_errors() == 0
