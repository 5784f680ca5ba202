"""Who we are at a remote: users, keys, TLS, permissions (docs/mirrors.md, from another server)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nkeys
import pytest
from tests.support.certificates import make_certificate
from tests.support.remotes import HUB, api, caught_up, fill, info, info_until, make, quick
from tests.support.servers import ServerProcess

from jetspark import Server, TlsFiles, connect

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
# What docs/mirrors.md says that a copier needs.
PERMISSIONS = """permissions: {
  publish: { allow: ["$JS.API.STREAM.INFO.A", "$JS.API.STREAM.MSG.GET.A",
                     "$JS.API.CONSUMER.*.A.>", "$JS.API.CONSUMER.MSG.NEXT.A.>"] },
  subscribe: { allow: ["_INBOX.>"] } }"""


GRANTS = """
port: -1
host: 127.0.0.1
jetstream: enabled
accounts {
  A { jetstream: enabled, users [ { user: a, password: pw } ] }
  B { jetstream: enabled, users [ { user: b, password: pw } ] }
  C { jetstream: enabled, users [ { user: c, password: pw } ] }
}
jetspark { remotes { hub { url: "URL", accounts: [A, B], take: B } } }
"""


async def test_an_account_copies_from_a_remote_only_as_far_as_it_was_granted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.conf"
    async with Server() as hub, await connect(hub.client_url) as there:
        file.write_text(GRANTS.replace("URL", hub.client_url))
        await make(there, "A", subjects=["a.>"])
        await fill(there, 10)
        for name in ("WA", "WB"):
            await make(there, name, subjects=[name], retention="workqueue")
            await there.jetstream().publish(name, b"work")
        async with (
            Server(config=file, store_dir=tmp_path / "store", upstreams=quick) as server,
            await connect(server.client_url, user="a", password="pw") as reader,
            await connect(server.client_url, user="b", password="pw") as taker,
            await connect(server.client_url, user="c", password="pw") as stranger,
        ):
            for verb, code in (("CREATE", 10052), ("UPDATE", 10059)):
                body = {"name": "M", "mirror": {"name": "A", "external": HUB}}
                refused = await api(stranger, f"STREAM.{verb}.M", body)
                assert refused["error"]["err_code"] == code, refused
                assert "hub" not in refused["error"]["description"].replace("$JS.hub.API", "")
            for client in (reader, taker):
                await make(client, "M", mirror={"name": "A", "external": HUB})
                await caught_up(client, "M", 10)
            await make(reader, "T", sources=[{"name": "WA", "external": HUB}])
            await make(taker, "T", sources=[{"name": "WB", "external": HUB}])
            kept = await info_until(reader, "T", lambda found: "error" in found["sources"][0])
            await info_until(taker, "T", lambda found: found["state"]["messages"] == 1)
            await info_until(there, "WB", lambda found: found["state"]["messages"] == 0)

            assert "would remove its messages" in kept["sources"][0]["error"]["description"]
            assert kept["state"]["messages"] == 0
            left = await info(there, "WA")
            assert left["state"]["messages"] == 1
            assert left["state"]["consumer_count"] == 0


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
        wrong = await info_until(here, "M-wrong", lambda found: "error" in found["mirror"])
        unknown = await info_until(here, "M-unknown", lambda found: "error" in found["mirror"])
        shown = json.dumps([await info(here, f"M-{name}") for name in remotes])

    assert "Authorization Violation" in wrong["mirror"]["error"]["description"]
    assert "certificate" in unknown["mirror"]["error"]["description"]
    for secret in ("pass", "guess", SEED.decode(), secured.address):
        assert f'"{secret}"' not in shown
