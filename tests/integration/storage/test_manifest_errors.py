"""Manifests that the disk refuses: one clear line, and no message or other stream pays."""

import errno
import os
from pathlib import Path

import pytest
from tests.support.waiting import until

import jetspark
import jetspark.server.jetstream.runtime
from jetspark import StreamConfig
from jetspark.errors import ApiError
from jetspark.store.files import OsFiles


class RefusingFiles(OsFiles):
    """The real file system, which refuses manifests in some folders."""

    refused: str = ""
    error: int = 0

    def replace(self, path: Path, content: bytes) -> None:
        """Fail like a disk that is full or broken."""
        if path.name.startswith("manifest.") and path.parent.name == RefusingFiles.refused:
            raise OSError(RefusingFiles.error, os.strerror(RefusingFiles.error), str(path))
        super().replace(path, content)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> type[RefusingFiles]:
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", RefusingFiles)
    monkeypatch.setattr(RefusingFiles, "refused", "")
    return RefusingFiles


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_a_manifest_that_cannot_be_written_is_one_line_and_stops_nothing(
    tmp_path: Path,
    refusing: type[RefusingFiles],
    error: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server, await server.connect() as client:
        js = client.jetstream()
        config = StreamConfig(name="A", subjects=("a",), max_bytes=8 << 20)
        await js.create_stream(config)
        (folder,) = tmp_path.glob("acct-*/stream-*")
        await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        # Its first large message waits for manifests.
        first = (await js.publish("a", bytes(300_000))).seq
        refusing.error = error
        refusing.refused = folder.name
        # More than a segment: the manifests should list the next one.
        acks = [first] + [(await js.publish("a", bytes(300_000))).seq for _ in range(7)]
        changed = StreamConfig(name="A", subjects=("a", "c"), max_bytes=8 << 20)
        info = await js.update_stream(changed)
        assert tuple(info.config.subjects) == ("a", "c")
        assert (await js.publish("b", b"first")).seq == 1
        await until(lambda: "Upkeep of stream 'A' (writing its manifests) failed" in caplog.text)
        refusing.refused = ""
        assert (await js.publish("c", b"more")).seq == 9

    assert acks == list(range(1, 9))
    assert os.strerror(error) in caplog.text
    assert "Traceback" not in caplog.text
    async with jetspark.Server(store_dir=tmp_path) as server, await server.connect() as client:
        js = client.jetstream()
        found = await (await js.stream("A")).info()
        assert (found.state.messages, tuple(found.config.subjects)) == (9, ("a", "c"))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_a_message_that_needs_the_first_manifests_is_refused_without_them(
    tmp_path: Path,
    refusing: type[RefusingFiles],
    error: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server, await server.connect() as client:
        js = client.jetstream()
        await js.create_stream(StreamConfig(name="A", subjects=("a",)))
        (folder,) = tmp_path.glob("acct-*/stream-*")
        assert (await js.publish("a", b"small")).seq == 1
        refusing.error = error
        refusing.refused = folder.name
        with pytest.raises(ApiError):
            await js.publish("a", bytes(300_000))

    assert "Traceback" not in caplog.text
    refusing.refused = ""
    async with jetspark.Server(store_dir=tmp_path) as server, await server.connect() as client:
        js = client.jetstream()
        assert (await (await js.stream("A")).info()).state.messages == 1
        assert (await js.publish("a", bytes(300_000))).seq > 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_a_stream_whose_files_cannot_be_written_is_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_files: OsFiles, path: Path, _contents: object) -> None:
        raise OSError(error, os.strerror(error), str(path))

    async with jetspark.Server(store_dir=tmp_path) as server, await server.connect() as client:
        js = client.jetstream()
        await js.create_stream(StreamConfig(name="A", subjects=("a",)))
        with monkeypatch.context() as patch:
            patch.setattr(OsFiles, "make_filled", refuse)
            with pytest.raises(ApiError):
                await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        assert (await js.publish("a", b"first")).seq == 1
        await js.create_stream(StreamConfig(name="B", subjects=("b",)))
        assert (await js.publish("b", b"first")).seq == 1

    assert "Traceback" not in caplog.text
