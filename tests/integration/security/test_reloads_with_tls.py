"""Reloads of a server with TLS while messages flow: who stays loses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.certificates import Certificates, make_certificates

import jetspark
from jetspark.errors import ConnectFailed
from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings
from jetspark.server.server import Server

ANN = "{ user: ann, password: a }"
BOB = "{ user: bob, password: b }"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[Certificates]:
    return [make_certificates(tmp_path_factory.mktemp(f"authority{n}")) for n in range(2)]


def settings(folder: Path, shown: Certificates, users: str, more: str = "") -> Settings:
    lines = ['listen: "127.0.0.1:-1"', f'jetstream {{ store_dir: "{folder}" }}', more]
    users = f"authorization {{ users: [{users}] }}"
    return load_text("\n".join([*lines, users, shown.tls_block()]), {})


async def test_clients_lose_nothing_while_certificates_limits_and_others_change(
    tmp_path: Path, certificates: list[Certificates]
) -> None:
    old, new = certificates
    both = f"{ANN}, {BOB}"
    async with Server(config=settings(tmp_path, old, both)) as server:
        url = server.client_url.replace("tls://", "tls://ann:a@")
        async with (
            await jetspark.connect(url, tls=old.context(), allow_reconnect=False) as reader,
            await jetspark.connect(url, tls=old.context(), allow_reconnect=False) as writer,
        ):
            subscription = await reader.subscribe("t")
            await reader.flush()
            over = asyncio.Event()
            sent = 0

            async def publish() -> None:
                nonlocal sent
                while not over.is_set():
                    writer.publish("t", b"%d" % sent)
                    sent += 1
                    await asyncio.sleep(0)
                await writer.flush()

            publishing = asyncio.create_task(publish())
            await server.reload(settings(tmp_path, new, both))
            await server.reload(settings(tmp_path, new, both, "max_payload: 1000"))
            await server.reload(settings(tmp_path, new, ANN, "ping_interval: 60"))
            await server.reload(settings(tmp_path, new, ANN, "max_connections: 3"))
            over.set()
            await publishing

            got = [int((await asyncio.wait_for(anext(subscription), 5)).data) for _ in range(sent)]
            assert got == list(range(sent))
            async with await jetspark.connect(url, tls=new.context()) as third:
                assert third.max_payload == 1024 * 1024
            with pytest.raises(ConnectFailed):
                await jetspark.connect(url, tls=old.context(), allow_reconnect=False)
