"""Nothing of one test is visible to another, however it ended."""

import asyncio
from pathlib import Path

from tests.support.user_project import pytest_in

from jetspark.testing import Server, SyncServer


async def test_streams_messages_and_advisories_stay_in_their_account() -> None:
    async with (
        Server() as one,
        Server() as two,
        one.connect() as client,
        two.connect() as other,
    ):
        seen = await other.subscribe(">")
        advisories = await other.subscribe("$JS.EVENT.>")
        await other.flush()
        js = client.jetstream()
        await js.create_key_value("b")
        stream = await js.create_stream("S", subjects=["s"])
        await js.publish("s", b"")
        await stream.delete()
        await client.flush()
        await other.flush()

        assert (seen.pending_msgs, advisories.pending_msgs) == (0, 0)
        assert [name async for name in other.jetstream().stream_names()] == []
        assert one.url != two.url
        await two.published(count=0)


async def test_a_client_that_a_test_left_connected_reaches_no_later_test() -> None:
    async with Server() as server:
        left = await server.connect(reconnect_wait=0.01, max_reconnects=-1)
        await left.jetstream().create_stream("S", subjects=["s"])
    async with Server() as server, server.connect() as client:
        seen = await client.subscribe(">")
        left.publish("s", b"from the test before")
        await asyncio.sleep(0.05)
        await client.flush()

        assert seen.pending_msgs == 0
        assert [name async for name in client.jetstream().stream_names()] == []
    await left.close()


def test_forty_accounts_one_after_the_other() -> None:
    names = set()
    for _ in range(40):
        with SyncServer() as server, server.connect() as client:
            js = client.jetstream()
            assert list(js.stream_names()) == []
            js.create_stream("S", subjects=["s"])
            names.add(server.url.partition("@")[0])

    assert len(names) == 40


def test_after_a_test_with_many_streams() -> None:
    with SyncServer() as server, server.connect() as client:
        for number in range(30):
            client.jetstream().create_stream(f"S{number}", subjects=[f"s{number}"])
        started = server.now
    with SyncServer() as server, server.connect() as client:
        assert list(client.jetstream().stream_names()) == []
        assert (server.now - started).total_seconds() < 20


def test_after_a_test_that_failed_timed_out_or_left_tasks(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import asyncio, pytest, time\n"
        "async def fill(server, client):\n"
        "    js = client.jetstream()\n"
        "    assert [n async for n in js.stream_names()] == []\n"
        "    await js.create_stream('S', subjects=['s'])\n"
        "    await js.create_key_value('b')\n"
        "    await js.publish('s', b'')\n"
        "@pytest.mark.asyncio\n"
        "async def test_fails(jetspark_server, jetspark_client):\n"
        "    await fill(jetspark_server, jetspark_client)\n"
        "    await jetspark_server.fill_disk()\n"
        "    await jetspark_server.lag(0.5)\n"
        "    assert False\n"
        "@pytest.mark.asyncio\n"
        "async def test_leaves_tasks(jetspark_server, jetspark_client):\n"
        "    await fill(jetspark_server, jetspark_client)\n"
        "    async def forever():\n"
        "        while True:\n"
        "            jetspark_client.publish('s', b'')\n"
        "            await asyncio.sleep(0)\n"
        "    asyncio.create_task(forever())\n"
        "    asyncio.create_task(jetspark_server.advance(hours=24))\n"
        "    await asyncio.sleep(0.01)\n"
        "@pytest.mark.asyncio\n"
        "async def test_times_out(jetspark_server, jetspark_client):\n"
        "    await fill(jetspark_server, jetspark_client)\n"
        "    await jetspark_server.stop()\n"
        "    async with asyncio.timeout(0.05):\n"
        "        await asyncio.Event().wait()\n"
        "@pytest.mark.timeout(0.5)\n"
        "def test_is_stopped_by_pytest_timeout(jetspark_server, jetspark_client):\n"
        "    js = jetspark_client.jetstream()\n"
        "    assert list(js.stream_names()) == []\n"
        "    js.create_stream('S', subjects=['s'])\n"
        "    jetspark_client.subscribe('never').next(timeout=60)\n"
        "@pytest.mark.asyncio\n"
        "async def test_cancelled_while_the_server_restarts(jetspark_server, jetspark_client):\n"
        "    await fill(jetspark_server, jetspark_client)\n"
        "    async with asyncio.timeout(0.005):\n"
        "        await jetspark_server.restart()\n"
        "@pytest.mark.asyncio\n"
        "async def test_passes(jetspark_server, jetspark_client):\n"
        "    await fill(jetspark_server, jetspark_client)\n"
        "    assert await jetspark_client.rtt() < 0.5\n"
        "    await jetspark_server.published('s', count=1)\n"
    )

    done = pytest_in(
        tmp_path, "-W", "error", "-o", "asyncio_default_fixture_loop_scope=function", "-rfE"
    )

    failed = [line.split()[1] for line in done.output.splitlines() if line.startswith("FAILED")]
    assert [name.partition("::")[2] for name in failed] == [
        "test_fails",
        "test_times_out",
        "test_is_stopped_by_pytest_timeout",
        "test_cancelled_while_the_server_restarts",
    ], done.output
    assert (done.count("passed"), done.count("error")) == (2, 0), done.output
