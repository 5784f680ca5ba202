"""The servers that pages of the documentation run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.servers import ServerProcess

from jetspark import sync


@pytest.fixture(params=["jetspark", "nats-server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a server without streams listens: ours, then the released one."""
    if request.param == "nats-server":
        released = ServerProcess("nats-server", tmp_path / "store", "-js")
        yield released.url
        released.kill()
        return
    # The blocking one: examples that block must not stop the server.
    with sync.Server(store_dir=str(tmp_path / "store")) as server:
        yield server.client_url
