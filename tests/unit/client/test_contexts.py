"""Where a client connects when no one says it, and the contexts of the nats command (ADR-21)."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jetspark import Server, TlsFiles, client_options, connect
from jetspark.cli.main import main
from jetspark.client.contexts import Context
from jetspark.errors import BadCredentials

SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"


class Contexts:
    """The folder where the nats command keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "nats"
        (self.folder / "context").mkdir(parents=True)

    def add(self, name: str, **fields: Any) -> Path:
        return self.write(name, json.dumps({"description": "for tests", **fields}))

    def write(self, name: str, text: str) -> Path:
        file = self.folder / "context" / f"{name}.json"
        file.write_text(text)
        return file

    def select(self, name: str) -> None:
        (self.folder / "context.txt").write_text(f"{name}\n")


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contexts:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    monkeypatch.delenv("NATS_CONTEXT", raising=False)
    return Contexts(tmp_path)


def labels(**arguments: Any) -> list[str]:
    return [address.label for address in client_options(**arguments).servers]


def test_without_servers_it_is_the_variable_then_the_context_then_this_machine(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labels() == ["127.0.0.1:4222"]

    contexts.add("near", url="nats://near:1,nats://near:2")
    contexts.add("far", url="nats://far:1")
    contexts.select("near")
    assert labels() == ["near:1", "near:2"]
    assert labels(context="far") == ["far:1"]

    monkeypatch.setenv("NATS_URL", "nats://variable:1")
    assert labels() == ["variable:1"]
    assert labels(context="far") == ["far:1"]
    assert labels(servers="nats://given:1") == ["given:1"]
    assert labels(servers="nats://given:1", context="far") == ["given:1"]


def test_contexts_are_looked_for_at_home_too(
    contexts: Contexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".config").symlink_to(tmp_path)
    contexts.add("near", url="nats://near:1", creds="~/user.creds")
    contexts.select("near")

    options = client_options()

    assert options.servers[0].label == "near:1"
    assert options.credentials == tmp_path / "home" / "user.creds"


def test_a_context_says_who_one_is_unless_the_caller_does(
    contexts: Contexts, tmp_path: Path
) -> None:
    (tmp_path / "seed").write_text(f"# a user\n{SEED}\n")
    contexts.add("password", user="ann", password="secret")
    contexts.add("token", token="s3cret")
    contexts.add("short", user="s3cret")
    contexts.add("creds", creds="user.creds")
    contexts.add("nkey", nkey=str(tmp_path / "seed"))
    contexts.add("jwt", user_jwt="ey.a.b", user_seed=SEED)
    contexts.add(
        "tls",
        ca="ca.pem",
        cert="cert.pem",
        key="key.pem",
        tls_first=True,
        inbox_prefix="_INBOX_ann",
        jetstream_domain="hub",
    )

    by_password = client_options(context="password")
    assert (by_password.user, by_password.password) == ("ann", "secret")
    assert client_options(context="token").token == "s3cret"
    assert client_options(context="short").token == "s3cret"
    assert client_options(context="creds").credentials == Path("user.creds")
    assert client_options(context="nkey").nkey_seed == SEED
    assert "BEGIN NATS USER JWT-----\ney.a.b\n" in str(client_options(context="jwt").credentials)
    tls = client_options(context="tls")
    assert tls.tls == TlsFiles(ca_file="ca.pem", certificate_file="cert.pem", key_file="key.pem")
    assert (tls.tls_first, tls.inbox_prefix, tls.jetstream_domain) == (True, "_INBOX_ann", "hub")

    mine = client_options(context="password", token="mine", inbox_prefix="x")
    assert (mine.user, mine.password, mine.token, mine.inbox_prefix) == ("", "", "mine", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a context: Input data was truncated"),
        ('{"password": 7, "user": "ann"}', r"is not a context: Expected `str`, got `int`"),
        ('{"socks_proxy": "127.0.0.1:1080"}', "socks_proxy is not supported"),
        ('{"nsc": "nsc://op/account/user"}', "nsc is not supported"),
        ('{"user_jwt": "ey.secret"}', "user_jwt without user_seed"),
        ('{"nkey": "/nowhere/secret.seed"}', "the nkey seed file '/nowhere/secret.seed' cannot"),
    ],
)
def test_a_context_that_cannot_be_used_says_what_is_wrong_and_shows_no_secret(
    contexts: Contexts, text: str, said: str
) -> None:
    file = contexts.write("broken", text)

    with pytest.raises(BadCredentials, match=said) as caught:
        client_options(context="broken")

    assert str(file) in str(caught.value)
    assert "ey.secret" not in str(caught.value)


def test_a_context_that_does_not_exist_is_named_with_those_that_do(contexts: Contexts) -> None:
    contexts.select("gone")
    with pytest.raises(BadCredentials, match=r"context 'gone' does not exist.*nats context add"):
        client_options()

    contexts.add("near", url="nats://near:1")
    with pytest.raises(
        BadCredentials, match=r"context 'gone' does not exist.*existing contexts: 'near'"
    ):
        client_options()
    with pytest.raises(BadCredentials, match="expected a name, not a path"):
        client_options(context="../near")
    assert labels(servers="nats://given:1") == ["given:1"]  # no one needs it then


def test_secrets_of_a_context_are_not_shown(contexts: Contexts) -> None:
    contexts.add("near", url="nats://bob:hush@near:1", user="ann", password="secret")

    shown = repr(client_options(context="near")) + repr(Context(password="secret"))

    assert "secret" not in shown
    assert "hush" not in shown


async def test_a_client_uses_the_domain_of_its_context(contexts: Contexts, tmp_path: Path) -> None:
    async with Server(store_dir=str(tmp_path / "store")) as server:
        contexts.add("here", url=server.client_url, jetstream_domain="hub")
        contexts.select("here")
        async with connect() as nc:
            assert repr(nc.jetstream()) == "JetStream('$JS.hub.API')"
            assert repr(nc.jetstream(domain="other")) == "JetStream('$JS.other.API')"
            assert repr(nc.jetstream(prefix="$JS.API")) == "JetStream('$JS.API')"


def test_commands_use_contexts_too(contexts: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts.add("near", url="nats://127.0.0.1:1", user="ann", password="secret")
    asked = ["stream", "export", "ORDERS", "out.ndjson", "--timeout", "1"]

    def said(*more: str) -> str:
        return " ".join(CliRunner().invoke(main, [*asked, *more]).output.split())

    contexts.select("near")
    assert "127.0.0.1:1: connection refused" in said()
    assert "127.0.0.1:2: connection refused" in said("--server", "nats://127.0.0.1:2")
    assert "context 'gone' does not exist" in said("--context", "gone")
    monkeypatch.setenv("NATS_CONTEXT", "nobody")
    assert "context 'nobody' does not exist" in said()
    assert "secret" not in said("--context", "near")
