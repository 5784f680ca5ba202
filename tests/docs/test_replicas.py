"""docs/replicas.md names tests that exist, and its example runs."""

import re
from pathlib import Path

import jetspark
from jetspark import KeyValueConfig
from jetspark.replica import ReplicaServer

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "replicas.md").read_text()


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]

    assert len(named) > 10
    assert missing == []


async def test_a_client_finds_a_near_replica_as_the_page_says() -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lines = "\n".join(f"    {line}" for line in example[0].splitlines())
    names: dict[str, object] = {"jetspark": jetspark}
    exec(f"async def run(client):\n{lines}\n    return near, reader\n", names)
    async with (
        jetspark.Server() as leader,
        ReplicaServer(leader.client_url, streams=["KV_*"]) as replica,
        await jetspark.connect(leader.client_url) as client,
    ):
        await client.jetstream().create_key_value(KeyValueConfig(bucket="cfg"))
        while not any(followed.whole for followed in replica.followed.values()):
            await client.flush()
        near, reader = await names["run"](client)  # type: ignore[operator]

        assert [each.url for each in near] == [replica.client_url]
        assert reader.server_info.server_id == replica.server_id
        await reader.close()
