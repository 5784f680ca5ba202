"""No error, warning or representation of a configuration shows a secret."""

from __future__ import annotations

import itertools

import pytest

from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text

SECRET = "hunter2"
BLOCKS = (
    "authorization { user: joe, %s }",
    "authorization { users: [ { user: joe, %s } ] }",
    "authorization { %s }",
    "accounts { A { users: [ { user: joe, %s } ] } }",
    "jetspark { remotes { hub { url: 'nats://h', user: joe, %s } } }",
    "jetspark { %s }",
    "websocket { port: 1, no_tls: true, authorization { %s } }",
    "jetstream { %s }",
    "%s",
)
KEYS = (
    "password", "pass", "PASS", "Password", "token", "monitor_token", "pasword", "auth_token",
    "key", '"pa\\x73s"',
)  # fmt: skip
# Right ones, of another type, not ended, and with escapes that do not exist.
VALUES = (
    "{}", "[{}]", "{{a: {}}}", '"{}', "'{}", "{} {}", "{} }}", "1{}", "({}", "{}\n{}: {{",
    "$2a$10${}", '"{}" x', "[{}", "{{a: [{}", '"\\xzz{}"', '"\\u00{}"', "{}GB", "nats://u:{}@[",
    "include {}",
)  # fmt: skip
URLS = (
    "nats://u:hunter2@[h", "foo://u:hunter2@h", "nats://u:hunter2@", "nats://u:hunter2@h:99999",
    "nats://hunter2@h", "nats://u:hunter2@h", "nats://u:hun@ter/hunter2@h", "u:hunter2@h",
    "nats:hunter2@h://x",
)  # fmt: skip


def said(text: str) -> str:
    """Everything that loading this may show."""
    try:
        settings = load_text(text, {}, name="a.conf")
    except ConfigRefused as refused:
        return f"{refused} {refused!r}"
    return f"{settings!r} {settings.warnings} {settings.remarks}"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_secret_stays_out_of_errors_whatever_is_wrong_with_it(block: str) -> None:
    shown = [
        text
        for key, value in itertools.product(KEYS, VALUES)
        if SECRET in said(text := block % f"{key}: {value.format(SECRET, SECRET, SECRET)}")
    ]

    assert shown == []


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "block",
    [
        "jetspark {{ remotes {{ hub {{ url: '{}' }} }} }}",
        "jetspark {{ remotes {{ hub {{ url: ['nats://h', '{}'], token: x }} }} }}",
        "jetspark {{ replica {{ of: '{}' }} }}",
        "jetspark {{ replica {{ of: ['nats://h', '{}'] }} }}",
    ],
)
def test_a_url_is_shown_without_its_credentials(block: str, url: str) -> None:
    assert SECRET not in said(block.format(url))


@pytest.mark.parametrize(
    "text",
    ["a hunter2", "$hunter2$x", '"hunter2', "[hunter2", "hunter2 {", "$2x$hunter2", "hunter2\nx"],
)
def test_a_secret_in_the_environment_stays_out_of_errors(text: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        load_text("authorization { user: a, password: $SECRET }", {"SECRET": text})

    assert SECRET not in f"{refused.value} {refused.value!r}"
    assert "environment variable 'SECRET'" in str(refused.value)
