"""Sequences that are far apart, as a purge may make them: everything that goes by them ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

import jetspark
from jetspark import Client

FAR: Final = 2**62


async def api(client: Client, verb: str, **body: Any) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=60)
    decoded: dict[str, Any] = json.loads(answer.data)
    return decoded


async def with_a_long_gap(client: Client) -> None:
    """Stream M has messages 1 to 5 and three more that begin at 2^62."""
    await api(client, "STREAM.CREATE.A", name="A", subjects=["a.>"], storage="memory")
    mirror = {"name": "M", "mirror": {"name": "A"}, "storage": "memory"}
    await api(client, "STREAM.CREATE.M", **mirror)
    js = client.jetstream()
    for n in range(5):
        await js.publish(f"a.{n % 2}.x", b"near")
    while (await api(client, "STREAM.INFO.M"))["state"]["messages"] < 5:
        pass
    assert (await api(client, "STREAM.PURGE.A", seq=FAR))["success"]
    for n in range(3):
        await js.publish(f"a.{n % 2}.x", b"far")
    while (await api(client, "STREAM.INFO.M"))["state"]["messages"] < 8:
        pass


@pytest.mark.parametrize(
    ("config", "pending"),
    [
        ({}, 8),
        ({"filter_subject": "a.*.x"}, 8),
        ({"filter_subject": "a.*.y"}, 0),
        ({"filter_subject": "a.0.x"}, 5),
        ({"deliver_policy": "last_per_subject", "filter_subject": "a.>"}, 2),
    ],
)
async def test_a_consumer_counts_and_delivers_over_a_long_gap(
    tmp_path: Path, config: dict[str, Any], pending: int
) -> None:
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        await with_a_long_gap(client)
        made = await api(
            client,
            "CONSUMER.CREATE.M.c",
            stream_name="M",
            config={"name": "c", "ack_policy": "explicit", **config},
        )
        assert made.get("num_pending") == pending, made
        if pending:
            async with await client.subscribe("delivered") as delivered:
                pull = b'{"batch":%d,"expires":60000000000}' % pending
                subject = "$JS.API.CONSUMER.MSG.NEXT.M.c"
                client.publish(subject, pull, reply="delivered")
                data = [(await delivered.next(timeout=60)).data for _ in range(pending)]
            assert b"far" in data
        assert (await api(client, "CONSUMER.INFO.M.c"))["num_pending"] == 0


async def test_purges_pass_a_long_gap(tmp_path: Path) -> None:
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        await with_a_long_gap(client)
        kept = await api(client, "STREAM.PURGE.M", filter="a.*.x", keep=6)
        one = await api(client, "STREAM.PURGE.M", filter="a.1.*", seq=FAR + 2)
        rest = await api(client, "STREAM.PURGE.M", keep=1)
        assert [kept["purged"], one["purged"], rest["purged"]] == [2, 2, 3]


async def test_more_deleted_sequences_than_can_be_listed_are_refused(tmp_path: Path) -> None:
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        await with_a_long_gap(client)
        answer = await api(client, "STREAM.INFO.M", deleted_details=True)
        assert "ask without deleted_details" in answer["error"]["description"]
        assert (await api(client, "STREAM.INFO.M"))["state"]["num_deleted"] == FAR - 6


async def test_reads_by_time_end_among_the_highest_sequences(tmp_path: Path) -> None:
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        config = {"name": "S", "subjects": ["s"], "allow_direct": True, "first_seq": FAR}
        await api(client, "STREAM.CREATE.S", **config)
        for _ in range(3):
            await client.jetstream().publish("s", b"x")
        late = {"next_by_subj": "s", "start_time": "2200-01-01T00:00:00Z"}
        early = {"next_by_subj": "s", "start_time": "2020-01-01T00:00:00Z"}

        assert (await api(client, "STREAM.MSG.GET.S", **late))["error"]["err_code"] == 10037
        found = await api(client, "STREAM.MSG.GET.S", **early)
        assert found["message"]["seq"] == FAR
