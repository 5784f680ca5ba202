"""Many half requests to the monitoring port: a health check gets an answer."""

from __future__ import annotations

import contextlib
import re
import socket
import urllib.request
from pathlib import Path
from typing import Final

from tests.support.watched import Watched

FLOOD: Final = 1_200


def test_health_is_answered_while_half_requests_stay(tmp_path: Path) -> None:
    server = Watched(tmp_path, "http: 127.0.0.1:-1\n")
    found = re.search(r"http monitor on (\S+):(\d+)", "".join(server.lines))
    assert found is not None
    address = (found[1], int(found[2]))
    try:
        with contextlib.ExitStack() as ends:
            for _ in range(FLOOD):
                half = ends.enter_context(socket.create_connection(address, 20))
                half.sendall(b"GET /varz HTTP/1.1\r\nHo")
            for path in ("/healthz", "/readyz", "/varz", "/metrics"):
                with urllib.request.urlopen(f"http://{found[1]}:{found[2]}{path}") as answer:
                    assert answer.status == 200
    finally:
        server.end()
