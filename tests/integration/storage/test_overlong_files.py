"""Segments of an absurd length, as a damaged file system shows them: no one reads gigabytes."""

import asyncio
import os
import resource
from pathlib import Path

import pytest
from click.testing import CliRunner

import jetspark
from jetspark import StreamConfig
from jetspark.cli.doctor.command import doctor
from jetspark.client.jetstream.context import JetStream
from jetspark.errors import MessageNotFound

GIB = 1 << 30
BODY = bytes(300_000)


async def fill(js: JetStream, name: str, count: int) -> None:
    for _ in range(count):
        await js.publish(name.lower(), BODY)


@pytest.mark.parametrize("which", [0, -1], ids=["a full segment", "the newest segment"])
@pytest.mark.parametrize("has_index", [True, False], ids=["index file", "no index file"])
async def test_a_segment_of_five_gigabytes_costs_nothing_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: int, has_index: bool
) -> None:
    store = tmp_path / "store"
    async with jetspark.Server(store_dir=store) as server, await server.connect() as client:
        js = client.jetstream()
        # Segments are an eighth of that.
        await js.create_stream(StreamConfig(name="A", subjects=("a",), max_bytes=16 << 20))
        await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        await fill(js, "A", 10)
        await fill(js, "B", 1)
    folders = store.glob("acct-*/stream-*")
    (folder,) = (path for path in folders if len(list(path.glob("*.seg"))) > 1)
    segment = sorted(folder.glob("*.seg"))[which]
    os.truncate(segment, 5 * GIB)
    if not has_index:
        for path in folder.glob("*.idx"):
            path.unlink()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    checked = await asyncio.to_thread(CliRunner().invoke, doctor, [str(store)])
    assert checked.exit_code == 1
    assert f"{segment.name} has {5 * GIB} bytes" in checked.output.replace("\n", " ")
    assert segment.stat().st_size == 5 * GIB
    for start in range(2):
        async with jetspark.Server(store_dir=store) as server, await server.connect() as client:
            js = client.jetstream()
            a, b = await js.stream("A"), await js.stream("B")
            for seq in range(1, 11):
                assert (await a.get_msg(seq=seq)).data == BODY
            ack = await js.publish("a", b"next")
            assert ack.seq > 10 + start
            assert (await a.get_msg(seq=ack.seq)).data == b"next"
            assert (await b.get_msg(seq=1)).data == BODY
            with pytest.raises(MessageNotFound):
                await a.get_msg(seq=ack.seq + 1)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024
    assert f"{segment.name} has {5 * GIB} bytes, and no record starts after" in caplog.text
    assert which == 0 or segment.stat().st_size < GIB
