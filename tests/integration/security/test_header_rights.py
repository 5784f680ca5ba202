"""What headers make a stream do on other subjects, with whose rights (docs/security.md).

The rights in question are those of ``eve``, who publishes to two subjects of the stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.replicas import FAST, ask

import jetspark
from jetspark import Client, StreamConfig
from jetspark.errors import PermissionsViolation
from jetspark.replica import ReplicaServer

EVERY_HOUR = {"Nats-Schedule": "@every 1h"}
OWN = '"sched.eve", "s.pub"'


class Clients(NamedTuple):
    """A client that may do everything, and ``eve``."""

    admin: Client
    eve: Client


@asynccontextmanager
async def served(folder: Path, permissions: str, *, at_replica: bool) -> AsyncIterator[Clients]:
    """A stream with schedules and rollups; users are those of the server or of its replica."""
    users = (
        "port: -1\nhost: 127.0.0.1\n"
        "authorization { users [ { user: admin, password: pw }\n"
        f"  {{ user: eve, password: pw, permissions {{ {permissions} }} }} ] }}\n"
    )
    file = folder / "server.conf"
    async with jetspark.Server(store_dir=folder / "leader") as leader:
        if at_replica:
            file.write_text(f'{users}jetspark {{ replica {{ of: "{leader.client_url}" }} }}\n')
            started: jetspark.Server | ReplicaServer = ReplicaServer(
                config=file, store_dir=folder / "store", times=FAST
            )
        else:
            file.write_text(f"{users}jetstream: enabled\n")
            started = jetspark.Server(config=file, store_dir=folder / "store")
        async with (
            started as server,
            await jetspark.connect(server.client_url, user="admin", password="pw") as admin,
            await jetspark.connect(server.client_url, user="eve", password="pw") as eve,
        ):
            js = admin.jetstream()
            await js.create_stream(
                StreamConfig(
                    name="S",
                    subjects=("s.>", "sched.>"),
                    allow_direct=True,
                    allow_msg_schedules=True,
                    allow_rollup_hdrs=True,
                )
            )
            await js.publish("s.secret", b"secret")
            await ask(admin, "sched.admin", b"", {**EVERY_HOUR, "Nats-Schedule-Target": "s.x"})
            yield Clients(admin, eve)


async def accepted(eve: Client, subject: str, headers: dict[str, str]) -> bool:
    """Whether it was stored; otherwise it was not permitted."""
    try:
        answer = await ask(eve, subject, b"made up", headers)
    except PermissionsViolation:
        return False
    assert b'"seq":' in answer.data, answer.data
    assert b'"error"' not in answer.data, answer.data
    return True


async def subjects(admin: Client) -> set[str]:
    info = await (await admin.jetstream().stream("S")).info(subjects_filter=">")
    return set(info.state.subjects or ())


TARGET = {**EVERY_HOUR, "Nats-Schedule-Target": "s.secret"}
OWN_TARGET = {**EVERY_HOUR, "Nats-Schedule-Target": "s.pub"}
SOURCE = {**OWN_TARGET, "Nats-Schedule-Source": "s.secret"}
END = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "sched.admin"}
ALL = {"Nats-Rollup": "all"}


@pytest.mark.parametrize("at_replica", [False, True])
async def test_headers_do_nothing_that_their_publisher_may_not_do(
    tmp_path: Path, at_replica: bool
) -> None:
    allow = f'publish: [{OWN}], subscribe: "_INBOX.>"'
    async with served(tmp_path, allow, at_replica=at_replica) as at:
        before = await subjects(at.admin)
        for subject, headers in (
            ("sched.eve", TARGET),
            ("sched.eve", SOURCE),
            ("s.pub", END),
            ("s.pub", ALL),
            ("s.pub", {"Nats-Rollup": "ALL"}),
            # The first of two headers counts, wherever the others are.
            ("sched.eve", {"Nats-Schedule-TTL": "1h", **TARGET}),
            ("sched.eve", {**EVERY_HOUR, "Nats-Schedule-Target": "s." + "x" * 100_000}),
            ("sched.eve", {"X": "Nats-Schedule: @every 1h", **SOURCE}),
        ):
            assert not await accepted(at.eve, subject, headers), headers
        assert await subjects(at.admin) == before

        assert await accepted(at.eve, "sched.eve", OWN_TARGET)
        assert await accepted(at.eve, "s.pub", {"Nats-Rollup": "sub"})
        assert await accepted(at.eve, "s.pub", {"Nats-Msg-Id": "Nats-Schedule"})


@pytest.mark.parametrize("at_replica", [False, True])
@pytest.mark.parametrize(
    ("permissions", "subject", "headers"),
    [
        (f'publish: [{OWN}, "s.secret"]', "sched.eve", TARGET),
        (f'publish: [{OWN}], subscribe: ["_INBOX.>", "s.secret"]', "sched.eve", SOURCE),
        (
            f'publish: [{OWN}, "$JS.API.DIRECT.GET.*.s.secret"], subscribe: "_INBOX.>"',
            "sched.eve",
            SOURCE,
        ),
        (f'publish: [{OWN}, "sched.admin"]', "s.pub", END),
        (f'publish: [{OWN}, "$JS.API.STREAM.PURGE.*"]', "s.pub", ALL),
        ('subscribe { deny: "s.nothing" }', "s.pub", ALL),
    ],
)
async def test_headers_do_what_their_publisher_may_do(
    tmp_path: Path, permissions: str, subject: str, headers: dict[str, str], at_replica: bool
) -> None:
    async with served(tmp_path, permissions, at_replica=at_replica) as at:
        assert await accepted(at.eve, subject, headers)


async def test_who_may_publish_to_all_subjects_of_a_stream_may_roll_it_up(tmp_path: Path) -> None:
    allow = 'publish: ["s.>", "sched.>"], subscribe: "_INBOX.>"'
    async with served(tmp_path, allow, at_replica=False) as at:
        assert await accepted(at.eve, "s.pub", ALL)
        assert await subjects(at.admin) == {"s.pub"}


@pytest.mark.parametrize("deny", ["s.secret", "sched.*"])
async def test_who_may_not_publish_to_some_subjects_of_a_stream_may_not_roll_it_up(
    tmp_path: Path, deny: str
) -> None:
    lists = f'allow: ["s.>", "sched.>"], deny: "{deny}"'
    async with served(tmp_path, f"publish {{ {lists} }}", at_replica=False) as at:
        before = await subjects(at.admin)
        assert not await accepted(at.eve, "s.pub", ALL)
        assert await subjects(at.admin) == before


async def test_at_a_replica_only_the_permission_to_purge_allows_a_rollup(tmp_path: Path) -> None:
    """It does not know all subjects of the stream."""
    allow = 'publish: ["s.>", "sched.>"], subscribe: "_INBOX.>"'
    async with served(tmp_path, allow, at_replica=True) as at:
        before = await subjects(at.admin)
        assert not await accepted(at.eve, "s.pub", ALL)
        assert await subjects(at.admin) == before


@pytest.mark.parametrize(("count", "may"), [(32, True), (33, False)])
async def test_the_subjects_of_a_stream_are_compared_if_they_are_few(
    tmp_path: Path, count: int, may: bool
) -> None:
    async with served(tmp_path, 'publish: "w.>", subscribe: "_INBOX.>"', at_replica=False) as at:
        wide = tuple(f"w.{n}" for n in range(count))
        await at.admin.jetstream().create_stream(
            StreamConfig(name="W", subjects=wide, allow_rollup_hdrs=True)
        )
        assert await accepted(at.eve, "w.1", ALL) == may
