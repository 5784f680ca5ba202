"""`jetspark context`: the files of natscli."""

import json
import stat
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

CLI = CommandLine()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where contexts are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("NATS_USER", "NATS_PASSWORD", "NATS_CREDS", "NATS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "nats"


def saved(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "context" / f"{name}.json").read_text())
    return found


def test_a_context_is_saved_changed_selected_and_used(folder: Path) -> None:
    CLI.ok(
        "context", "add", "shop", "--server", "nats://127.0.0.1:1", "--user", "me", "--password",
        "secret", "--description", "the orders", "--js-domain", "hub", "--tlsfirst", "--select",
    )  # fmt: skip
    CLI.ok("-s", "nats://127.0.0.1:2", "ctx", "save", "shop")
    file = folder / "context" / "shop.json"

    assert saved(folder, "shop") == {
        "description": "the orders", "url": "nats://127.0.0.1:2", "user": "me",
        "password": "secret", "jetstream_domain": "hub", "tls_first": True,
    }  # fmt: skip
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (folder / "context.txt").read_text() == "shop"
    assert "127.0.0.1:2" in CLI.fails(1, "stream", "ls", "--timeout", "1s")
    assert [one.name for one in (folder / "context").iterdir()] == ["shop.json"]


def test_what_only_natscli_knows_stays_in_the_file(folder: Path) -> None:
    (folder / "context").mkdir(parents=True)
    text = '{"description": "", "url": "nats://a:4222", "color_scheme": "blue", "later": [1]}'
    (folder / "context" / "a.json").write_text(text)

    CLI.ok("context", "add", "a", "--description", "mine")

    assert saved(folder, "a") == {
        "description": "mine", "url": "nats://a:4222", "color_scheme": "blue", "later": [1],
    }  # fmt: skip


def test_contexts_are_listed_and_shown_without_their_secrets(folder: Path) -> None:
    CLI.ok("context", "add", "b", "-s", "nats://b:4222", "--user", "token")
    CLI.ok("context", "add", "a", "-s", "nats://a:4222", "--user", "u", "--password", "hidden")
    CLI.ok("context", "select", "a")

    assert CLI.ok("context", "ls", "--names") == "a\nb\n"
    lines = CLI.ok("context", "ls").splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["a*", "nats://a:4222"],
        ["b", "nats://b:4222"],
    ]
    assert "Username: u" in CLI.ok("context", "info")
    assert "hidden" not in CLI.ok("context", "show", "a")
    assert CLI.json("context", "info", "a")["password"] == "hidden"
    assert CLI.json("context", "info", "b")["token"] == "token"
    assert [one["selected"] for one in CLI.json("context", "ls")] == [True, False]
    (folder / "context" / "broken.json").write_text("{")
    listed = CLI.run("context", "ls")
    assert "broken" in listed.stderr
    assert listed.stdout.splitlines() == lines


def test_files_of_credentials_are_found_from_every_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("me.creds").write_text("x")

    CLI.ok("context", "add", "cloud", "--creds", "me.creds")
    before = CLI.json("context", "validate")
    Path("me.creds").unlink()
    after = CLI.run("context", "validate", "cloud")

    assert saved(folder, "cloud")["creds"] == str(tmp_path / "me.creds")
    assert before == [{"name": "cloud", "problems": []}]
    assert after.exit_code == 1
    assert "does not exist" in after.stdout


def test_the_previous_context_can_be_selected_again(folder: Path) -> None:
    for name in ("a", "b"):
        CLI.ok("context", "add", name, "-s", f"nats://{name}:4222")
    assert "context ls" in CLI.fails(1, "context", "previous")
    CLI.ok("context", "select", "a")
    CLI.ok("context", "select", "b")

    assert CLI.json("context", "previous") == {"selected": "a", "previous": "b"}
    assert (folder / "previous-context.txt").read_text() == "b"
    assert CLI.json("context", "unselect") == {"selected": "", "previous": "a"}
    assert not (folder / "context.txt").exists()
    assert "context select" in CLI.fails(2, "context", "info")


def test_a_context_is_copied_and_removed(folder: Path) -> None:
    CLI.ok("context", "add", "a", "-s", "nats://a:4222", "--select")
    CLI.ok("context", "copy", "a", "b", "--description", "the copy")

    assert saved(folder, "b") == {"description": "the copy", "url": "nats://a:4222"}
    assert "exists" in CLI.fails(1, "context", "cp", "a", "b")
    assert "--force" in CLI.fails(2, "context", "rm", "b")
    assert "unselect" in CLI.fails(1, "context", "rm", "a")
    CLI.ok("context", "rm", "a", "--force")
    assert CLI.ok("context", "ls", "-n") == "b\n"
    assert not (folder / "context.txt").exists()


def test_wrong_names_and_options_are_answered_with_what_is_expected(folder: Path) -> None:
    CLI.ok("context", "add", "cloud")

    assert "did you mean cloud?" in CLI.fails(1, "context", "select", "clod")
    assert "not a path" in CLI.fails(1, "context", "add", "../x")
    assert "user_seed" in CLI.fails(1, "context", "add", "x", "--jwt", "eyJ")
    assert not (folder / "context" / "x.json").exists()
