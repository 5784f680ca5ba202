"""Who we are at a remote: users, keys, TLS, permissions (docs/mirrors.md, from another server)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nkeys
import pytest
from tests.client.certificates import make_certificate
from tests.client.servers import ServerProcess
from tests.integration.remotes import HUB, caught_up, fill, info, make, quick, until

from jetspark import Server
from jetspark.client import TlsFiles, connect

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
# What docs/mirrors.md says that a copier needs.
PERMISSIONS = """permissions: {
  publish: { allow: ["$JS.API.STREAM.INFO.A", "$JS.API.STREAM.MSG.GET.A",
                     "$JS.API.CONSUMER.*.A.>", "$JS.API.CONSUMER.MSG.NEXT.A.>"] },
  subscribe: { allow: ["_INBOX.>"] } }"""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with TLS, whose copier may do no more than it has to; ours has no nkeys yet."""
    cert_file, key_file = make_certificate(tmp_path)
    public = nkeys.from_seed(SEED).public_key.decode()
    config = tmp_path / "hub.conf"
    config.write_text(
        "jetstream: enabled\n"
        f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}" }}\n'
        "authorization { users: [ { user: admin, password: secret },\n"
        f"  {{ user: copier, password: pass, {PERMISSIONS} }},\n"
        f"  {{ nkey: {public}, {PERMISSIONS} }} ] }}\n"
    )
    running = ServerProcess("nats-server", tmp_path / "hub", "-c", str(config))
    yield running
    running.kill()


async def test_a_copier_needs_its_credentials_and_few_permissions(
    secured: ServerProcess, tmp_path: Path
) -> None:
    (tmp_path / "seed.txt").write_text(f"{SEED.decode()}\n")
    ca = str(tmp_path / "cert.pem")
    hub: dict[str, Any] = {"url": secured.url, "tls": {"ca_file": ca}}
    remotes = {
        "hub": hub | {"user": "copier", "password": "pass"},
        "keyed": hub | {"nkey": str(tmp_path / "seed.txt")},
        "wrong": hub | {"user": "copier", "password": "guess"},
        "unknown": {"url": secured.url, "user": "copier", "password": "pass"},
    }
    async with (
        Server(remotes=remotes, upstreams=quick) as server,
        await connect(
            secured.url, user="admin", password="secret", tls=TlsFiles(ca_file=ca)
        ) as there,
        await connect(server.client_url) as here,
    ):
        await make(there, "A", subjects=["a.>"])
        await fill(there, 10)
        for name in remotes:
            external = {"api": HUB["api"].replace("hub", name)}
            await make(here, f"M-{name}", mirror={"name": "A", "external": external})

        await caught_up(here, "M-hub", 10)
        await caught_up(here, "M-keyed", 10)
        wrong = await until(here, "M-wrong", lambda found: "error" in found["mirror"])
        unknown = await until(here, "M-unknown", lambda found: "error" in found["mirror"])
        shown = json.dumps([await info(here, f"M-{name}") for name in remotes])

    assert "Authorization Violation" in wrong["mirror"]["error"]["description"]
    assert "certificate" in unknown["mirror"]["error"]["description"]
    for secret in ("pass", "guess", SEED.decode(), secured.address):
        assert f'"{secret}"' not in shown
