"""docs/security.md: every promise names a test that exists, and the configuration is accepted."""

import re
from pathlib import Path

from tests.support.hostile.clients import HOSTILE, TLS
from tests.support.hostile.requests import REQUESTS

from jetspark.server.auth.users import build_directory
from jetspark.server.config.loader import load_text

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
HASH = "$2b$04$3V8ZPyXv3xGmU2M1b8z3IeFQp4pQd3rJ1uT9nW0xYzAbCdEfGhIjK"


def test_every_test_that_the_page_names_exists() -> None:
    missing = []
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", PAGE)
    for path, name in named:
        text = (ROOT / path).read_text()
        if name and not re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE):
            missing.append(f"{path}::{name}")

    assert len(named) > 40
    assert missing == []


def test_every_promise_names_its_proof() -> None:
    promised = PAGE.partition("### Before the login")[2].partition("## Hardening")[0]
    rows = re.findall(r"^\| .* \|$", promised, re.MULTILINE)
    bare = [row for row in rows if "tests/" not in row and "| proof |" not in row]

    assert len(rows) > 35
    assert bare == []


def test_the_configuration_is_accepted() -> None:
    (text,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    secrets = {"ORDERS_PASSWORD_HASH": f'"{HASH}"', "MONITOR_TOKEN": "t"}
    settings = load_text(text, secrets, check_tls=lambda _tls: None)

    assert settings.remarks == ()
    assert settings.jetspark.limits.connections_per_user == 200
    assert build_directory(settings).users["orders"].account.limits.max_payload == 256 * 1024


def test_every_hostile_client_has_its_figures() -> None:
    figures = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)

    assert [name for name, _ in figures] == [each.__name__ for each in (*HOSTILE, *REQUESTS, *TLS)]
    assert max(int(waited) for _, waited in figures) < 100
