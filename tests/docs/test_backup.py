"""The restore drill of docs/operations/backup.md: a restored server has what was acknowledged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.servers import ServerProcess

from jetspark import sync

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
Row = tuple[int, int, str, bytes, bytes]


BIN = Path(sys.executable).parent


def script(
    name: str, url: str, *arguments: str | Path, keep: int = 7, programs: Path = BIN
) -> str:
    """Run a script of deploy/ as a user would; returns what it printed."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [DEPLOY / name, *arguments],
        env=os.environ | {"NATS_URL": url, "PATH": path, "KEEP": str(keep)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(js: sync.JetStream, name: str) -> list[Row]:
    """Every message of a stream."""
    found: list[Row] = []
    for chunk in js.stream(name).scan(1):
        found += zip(
            chunk.sequences, chunk.times, chunk.subjects, chunk.headers, chunk.data, strict=True
        )
    return found


class Publisher:
    """Publishes until it is stopped, from a thread with its own connection."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[tuple[int, bytes]] = []
        self.has_some = threading.Event()
        self._url = url
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with sync.connect(self._url) as client:
            js = client.jetstream()
            while not self._stopped.is_set():
                data = b"order %d" % len(self.acknowledged)
                self.acknowledged.append((js.publish("orders.new", data).seq, data))
                if len(self.acknowledged) == 50:
                    self.has_some.set()
                self._stopped.wait(0.001)


@pytest.mark.parametrize("kind", ["jetspark", "nats-server"])
def test_everything_acknowledged_before_the_backup_is_in_the_restored_server(
    kind: str, tmp_path: Path
) -> None:
    server = ServerProcess(kind, tmp_path / "store", "-js")
    with sync.connect(server.url) as client:
        js = client.jetstream()
        orders = js.create_stream("ORDERS", subjects=["orders.>"], allow_direct=True)
        for n in range(500):
            js.publish_async(f"orders.{n % 7}", b"%d" % n, headers={"N": str(n)})
        js.publish_async_complete()
        billing = orders.create_consumer(durable="billing")
        for message in billing.fetch(20, timeout=20):
            message.ack_sync()
        settings = js.create_key_value("settings", history=3)
        for value in (b"red", b"green", b"blue"):
            settings.put("color", value)
        picture = bytes(range(256)) * 2000
        js.create_object_store("files").put("picture", picture)

        publisher = Publisher(server.url)
        assert publisher.has_some.wait(60)
        before = list(publisher.acknowledged)
        backup = script("backup.sh", server.url, tmp_path / "backups").splitlines()[-1]
        publisher.stop()
        original = rows(js, "ORDERS")
    server.kill()
    shutil.rmtree(tmp_path / "store")

    fresh = ServerProcess(kind, tmp_path / "fresh", "-js")
    try:
        script("restore.sh", fresh.url, backup)
        with sync.connect(fresh.url) as client:
            js = client.jetstream()
            restored = rows(js, "ORDERS")
            assert restored == original[: len(restored)]
            assert len(restored) >= 500 + len(before)
            assert dict(before).items() <= {row[0]: row[4] for row in restored}.items()
            assert js.consumer("ORDERS", "billing").info().ack_floor.stream_seq == 20
            bucket = js.key_value("settings")
            assert [each.value for each in bucket.history("color")] == [b"red", b"green", b"blue"]
            assert js.object_store("files").get("picture") == picture
            assert js.publish("orders.new", b"next").seq == len(restored) + 1
    finally:
        fresh.kill()


def test_a_user_with_these_permissions_backs_up_and_restores(tmp_path: Path) -> None:
    rights = '{ publish: ["$JS.API.>", "$JS.SNAPSHOT.>"], subscribe: "_INBOX.>" }'
    users = f"[{{ user: a, password: a }}, {{ user: b, password: b, permissions: {rights} }}]"
    (path := tmp_path / "server.conf").write_text(
        f'port: -1\njetstream {{ store_dir: "{tmp_path}/store" }}\n'
        f"authorization {{ users: {users} }}"
    )
    with sync.Server(config=str(path)) as server:
        address = server.client_url.removeprefix("nats://")
        with sync.connect(f"nats://a:a@{address}") as client:
            js = client.jetstream()
            js.create_stream("A", subjects=["a"])
            for n in range(3000):
                js.publish_async("a", b"%d" % n)
            js.publish_async_complete()
            user = f"nats://b:b@{address}"
            backup = script("backup.sh", user, tmp_path / "backups").splitlines()[-1]
            js.delete_stream("A")
            script("restore.sh", user, backup)

            assert js.stream("A").info().state.messages == 3000


def test_old_backups_and_interrupted_ones_are_removed(tmp_path: Path) -> None:
    for name in ("2026-01-01T030000Z", "2026-01-02T030000Z", "2026-01-03T030000Z.part"):
        (tmp_path / name / "ORDERS").mkdir(parents=True)
    with sync.Server() as server:
        made = script("backup.sh", server.client_url, tmp_path, keep=2).split()[-1]

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"2026-01-02T030000Z", Path(made).name}


def test_only_backups_are_removed_if_the_name_of_the_folder_has_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "my backups"
    (tmp_path / "my").mkdir()
    (folder / "2026-01-01T030000Z").mkdir(parents=True)
    with sync.Server() as server:
        made = script("backup.sh", server.client_url, folder, keep=1).rpartition("/")[2].strip()

    assert [path.name for path in folder.iterdir()] == [made]
    assert (tmp_path / "my").exists()


def test_a_stream_that_is_deleted_meanwhile_does_not_end_the_backup(tmp_path: Path) -> None:
    wrapper = tmp_path / "bin" / "jetspark"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *backup*GONE*) {BIN}/jetspark stream rm GONE --force;; esac\n'
        f'exec {BIN}/jetspark "$@"\n'
    )
    wrapper.chmod(0o755)
    with sync.Server() as server, server.connect() as client:
        for name in ("GONE", "LATER"):
            client.jetstream().create_stream(name, subjects=[name])
        printed = script("backup.sh", server.client_url, tmp_path / "all", programs=wrapper.parent)

    assert "Stream GONE was deleted meanwhile" in printed
    (backup,) = (tmp_path / "all").iterdir()
    assert [path.name for path in backup.iterdir()] == ["LATER"]


@pytest.mark.parametrize("name", ["backup.sh", "restore.sh"])
def test_a_script_without_its_folder_says_how_it_is_called(name: str) -> None:
    with pytest.raises(AssertionError, match=f"usage: {name} FOLDER"):
        script(name, "nats://127.0.0.1:1")


def test_a_folder_without_streams_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="has no streams"):
        script("restore.sh", "nats://127.0.0.1:1", tmp_path)


def test_a_backup_that_fails_is_not_taken_for_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no server accepted the connection"):
        script("backup.sh", "nats://127.0.0.1:1", tmp_path)

    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".part"] == []
