"""`jetspark object` on our server and on nats-server."""

import hashlib
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

DATA = bytes(range(256)) * 2000


@pytest.fixture
def store(cli: CommandLine, name: str) -> str:
    """A store with two objects, made by the command line."""
    cli.ok("object", "add", name)
    cli.ok("object", "put", name, "--name", "data", stdin=DATA)
    cli.ok("object", "put", name, "--name", "a/b.txt", stdin="text")
    return name


def test_every_option_of_add_sets_what_it_says(cli: CommandLine, name: str) -> None:
    made = cli.json(
        "object", "add", name, "--description", "all", "--ttl", "1h", "--max-bucket-size", "10MB",
        "--storage", "f", "--replicas", "1", "--compress", "--metadata", "team=shop",
    )  # fmt: skip

    config = made["config"]
    assert (config["description"], config["ttl"]) == ("all", 3600 * 10**9)
    assert (config["max_bytes"], config["compression"]) == (10 * 2**20, True)
    assert config["metadata"] == {"team": "shop"}
    assert cli.json("obj", "info", name)["config"] == config
    assert "TTL: 1h0m0s" in cli.ok("object", "info", name)


def test_stores_and_objects_are_listed(cli: CommandLine, store: str) -> None:
    assert store in cli.ok("object", "ls", "--names").splitlines()
    assert store in cli.ok("object", "ls")
    assert store in [one["bucket"] for one in cli.ndjson("object", "ls")]
    assert cli.ok("object", "ls", store, "-n") == "a/b.txt\ndata\n"
    lines = cli.ok("object", "ls", store).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["a/b.txt", "4", "B"],
        ["data", "500", "KiB"],
    ]
    assert [one["size"] for one in cli.json("object", "ls", store)] == [4, len(DATA)]


def test_a_file_is_stored_with_its_description_and_read_back(
    cli: CommandLine, store: str, tmp_path: Path
) -> None:
    source, copy = tmp_path / "report.bin", tmp_path / "copy.bin"
    source.write_bytes(DATA)

    info = cli.json(
        "object", "put", store, source, "--description", "the final one", "-H", "Kind: report",
        "--metadata", "a=1", "--chunk-size", "64KB",
    )  # fmt: skip
    shown = cli.ok("object", "info", store, "report.bin")
    wrote = cli.json("object", "get", store, "report.bin", "--output", copy)

    assert (info["name"], info["size"], info["chunks"]) == ("report.bin", len(DATA), 8)
    assert (info["headers"], info["metadata"]) == ({"Kind": ["report"]}, {"a": "1"})
    assert hashlib.sha256(DATA).hexdigest() in shown
    assert wrote["bytes"] == len(DATA)
    assert copy.read_bytes() == DATA
    assert cli.run("object", "get", store, "report.bin", "-O", "-").stdout_bytes == DATA


def test_an_object_is_written_to_the_last_part_of_its_name(
    cli: CommandLine, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.ok("object", "put", store, "--name", "../..", stdin="elsewhere")

    cli.ok("object", "get", store, "a/b.txt")

    assert (tmp_path / "b.txt").read_text() == "text"
    assert "--output" in cli.fails(2, "object", "get", store, "../..")


def test_nothing_is_replaced_without_force(cli: CommandLine, store: str, tmp_path: Path) -> None:
    target = tmp_path / "data"
    target.write_text("mine")

    refused = cli.fails(2, "object", "put", store, "--name", "data", stdin="new")
    kept = cli.fails(2, "object", "get", store, "data", "-O", target)

    assert "--force" in refused
    assert "--force" in kept
    assert target.read_text() == "mine"
    assert cli.json("object", "info", store, "data")["size"] == len(DATA)
    cli.ok("object", "put", store, "--name", "data", "-f", stdin="new")
    cli.ok("object", "get", store, "data", "-O", target, "-f")
    assert target.read_text() == "new"


def test_objects_and_stores_are_deleted_after_a_confirmation(cli: CommandLine, store: str) -> None:
    assert "--force" in cli.fails(2, "object", "rm", store, "data")
    assert "--force" in cli.fails(2, "object", "rm", store)

    cli.ok("object", "del", store, "data", "-f")
    gone = cli.fails(1, "object", "get", store, "data", "-O", "-")

    assert "jetspark object ls" in gone
    assert cli.json("object", "rm", store, "-f") == {"bucket": store, "removed": True}
    assert "does not exist" in cli.fails(1, "object", "info", store)


def test_a_watch_shows_what_is_and_what_changes(cli: CommandLine, store: str) -> None:
    cli.ok("object", "del", store, "data", "-f")

    lines = cli.ok("object", "watch", store, "--count", "2").splitlines()
    changes = cli.json("object", "watch", store, "--count", "2")

    assert [line.split("] ")[1] for line in lines] == [
        f"PUT {store} > a/b.txt: 4 B in 1 chunks",
        f"DEL {store} > data",
    ]
    assert [one["name"] for one in changes] == ["a/b.txt", "data"]


def test_an_edit_changes_only_what_was_given(cli: CommandLine, store: str) -> None:
    before = cli.json("object", "info", store)["config"]

    dry = cli.run("object", "edit", store, "--ttl", "2h", "--dry-run")
    after = cli.json("object", "edit", store, "--ttl", "2h")["config"]

    assert dry.exit_code == 1
    assert "+ ttl: 2h0m0s" in dry.stdout
    assert after == {**before, "ttl": 7200 * 10**9}


def test_a_sealed_store_accepts_nothing(cli: CommandLine, store: str) -> None:
    assert "--force" in cli.fails(2, "object", "seal", store)
    assert cli.json("object", "seal", store, "-f")["sealed"] is True
    assert cli.fails(1, "object", "put", store, "--name", "x", stdin="x")


def test_a_name_that_does_not_exist_is_answered_with_what_was_meant(
    cli: CommandLine, store: str
) -> None:
    assert f"did you mean {store}" in cli.fails(1, "object", "ls", store[:-1])
    assert "did you mean data?" in cli.fails(1, "object", "info", store, "dat")
    assert "--name" in cli.fails(2, "object", "put", store, "-", stdin="x")


def test_a_folder_is_stored_and_written(cli: CommandLine, store: str, tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "out"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data.bin").write_bytes(DATA)
    (source / "a.txt").write_text("text")
    names = ["new/a.txt", "new/sub/data.bin"]

    planned = cli.ok("object", "put-folder", store, source, "--prefix", "new/", "--dry-run")
    assert planned.splitlines()[:2] == [f"copy {one}" for one in names]
    assert "new/a.txt" not in cli.ok("object", "ls", store, "-n")
    stored = cli.json("object", "put-folder", store, source, "--prefix", "new/")
    wrote = cli.json("object", "get-folder", store, copy, "--prefix", "new/")
    again = cli.json("object", "get-folder", store, copy, "--prefix", "new/")

    assert stored["copied"] == wrote["copied"] == names
    assert (copy / "sub" / "data.bin").read_bytes() == DATA
    assert (again["copied"], again["unchanged"], again["bytes"]) == ([], 2, 0)

    (copy / "a.txt").write_text("mine")
    refused = cli.fails(2, "object", "get-folder", store, copy, "--prefix", "new/")
    assert "Replace 1 existing files?" in refused
    assert (copy / "a.txt").read_text() == "mine"
    (source / "a.txt").unlink()
    delete = ("object", "put-folder", store, source, "--prefix", "new/", "--delete")
    assert "Delete 1 objects" in cli.fails(2, *delete)
    assert cli.json(*delete, "--force")["deleted"] == ["new/a.txt"]
    assert cli.ok("object", "ls", store, "-n").splitlines() == ["a/b.txt", "data", names[1]]
    cli.ok("object", "put", store, "--name", "../x", stdin="elsewhere")
    assert "'../x' leads out of the folder" in cli.fails(1, "object", "get-folder", store, copy)
