"""A key or credentials in place of the path of their file are in no error or traceback."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.client.connection.auth import read_credentials
from jetspark.client.connection.server_pool import parse_servers
from jetspark.client.connection.shown import shown_path
from jetspark.client.connection.tls import TlsFiles, tls_context
from jetspark.client.contexts import client_options
from jetspark.errors import BadCredentials

JWT = "eyJ0eXAiOiJ.hidden"
SEED = "SUA" + "HIDDEN" * 9 + "A"
URL = "nats://ann:hidden/x#y?z@127.0.0.1:4222"
PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"
GIVEN = {
    "a JWT": JWT,
    # Longer than the name of a file may be: the system refuses it with another error.
    "a long JWT": JWT * 60,
    "a seed": SEED,
    "a short PEM": PEM.format("hidden"),
    "a PEM": PEM.format("hidden" * 200),
    "a PEM in one line": PEM.format("hidden" * 200).replace("\n", " "),
    "half a credentials file": f"{JWT}\n------END NATS USER JWT------\n{SEED}",
    "bytes that no path has": "hidden\0",
}


def _in_a_context(folder: Path, given: str) -> None:
    contexts = folder / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "own.json").write_text(json.dumps({"nkey": given}))
    client_options(context="own")


def _credentials(_folder: Path, given: str) -> None:
    read_credentials(given)


def _key(folder: Path, given: str) -> None:
    certificate = folder / "certificate.pem"
    certificate.touch()
    tls_context(TlsFiles(certificate_file=str(certificate), key_file=given))


def _certificate(_folder: Path, given: str) -> None:
    tls_context(TlsFiles(certificate_file=given, key_file="/nowhere"))


def _authority(_folder: Path, given: str) -> None:
    tls_context(TlsFiles(ca_file=given))


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("use", [_credentials, _key, _certificate, _authority, _in_a_context])
def test_what_is_given_in_place_of_a_path_is_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path, str], None], given: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    with pytest.raises(BadCredentials) as refused:
        use(tmp_path, given)

    shown = "".join(traceback.format_exception(refused.value))
    assert "hidden" not in shown.lower().replace("test_shown", "")
    assert "hidden" not in shown.lower()
    assert "eyJ" not in shown


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_files_in_which_keys_are_given_show_none_of_them(given: str) -> None:
    assert "hidden" not in repr(TlsFiles(ca_file=given, certificate_file=given)).lower()


@pytest.mark.parametrize(
    "path",
    ["/etc/jetspark/user.creds", "SUADMIN.creds", "keys/SYSTEM", "eyelash.creds", "./é" * 80],
)
def test_a_path_is_shown(path: str) -> None:
    assert shown_path(path) == repr(path)


def test_a_password_with_a_slash_is_not_repeated_as_the_port() -> None:
    with pytest.raises(ValueError, match="write /") as refused:
        parse_servers(URL)

    assert "hidden" not in "".join(traceback.format_exception(refused.value))
