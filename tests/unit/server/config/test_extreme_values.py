"""Every setting and flag with extreme values: taken, or refused as a problem with its place."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

import pytest

from jetspark.server import config
from jetspark.server.config import top
from jetspark.server.config.blocks import (
    accounts,
    jetspark,
    jetstream,
    mappings,
    permissions,
    replica,
    sharing,
    tls,
    users,
    websocket,
)
from jetspark.server.config.blocks.block import Field
from jetspark.server.config.command_line import Exit, ShowHelp, from_command_line
from jetspark.server.config.flags import FLAGS, Flag
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings

DIGITS: Final = "9" * 5000
VALUES: Final = (
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "-1",
    "-9223372036854775808", "-9223372036854775809", "0", DIGITS, "-" + DIGITS, DIGITS + "GB",
    "9223372036854775807TB", "1e400", "1.5", DIGITS + ".5", "NaN", "true",
    '"2562047h47m16.854775807s"', '"2562048h"', f'"{DIGITS}s"', '"1e400s"', '"-1s"', "9223372036s",
    '"9223372036854775807T"', f'"{DIGITS}G"',
    '""', '" "', '"a b"', '"\\x00"', '"\\xff"', '"' + "x" * 5000 + '"', '"\ufffd"', '"*"',
    f'"{DIGITS}"', '"nats://["', '"nats://h:99999999"', f'"nats://h:{DIGITS}"', '"[::1"',
    f'":{DIGITS}"', '"h:-2"', '"\u0661\u0662:\u0663"', '"%"', '"$2a$99$' + "x" * 53 + '"',
    "[]", "[[]]", "[null]", "[1, true, x]", "{}", "{ a: 1 }", "[" * 500 + "]" * 500,
    "{ a: " * 500 + "1" + " }" * 500, "2030-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
)  # fmt: skip
TABLES: Final[dict[str, tuple[dict[str, Field], str]]] = {
    "top": (top.FIELDS, "%s"),
    "jetspark": (jetspark._FIELDS, "jetspark { %s }"),
    "jetspark.atomic": (jetspark._ATOMIC, "jetspark { atomic { %s } }"),
    "jetspark.fast": (jetspark._FAST, "jetspark { fast { %s } }"),
    "jetspark.limits": (jetspark._LIMITS, "jetspark { limits { %s } }"),
    "jetspark.dashboard": (jetspark._DASHBOARD, "jetspark { dashboard { %s } }"),
    "jetspark.remotes": (jetspark._REMOTE, 'jetspark { remotes { r { url: "nats://h", %s } } }'),
    "jetspark.replica": (replica._FIELDS, "jetspark { replica { %s } }"),
    "jetstream": (jetstream._FIELDS, "jetstream { %s }"),
    "jetstream.limits": (jetstream._LIMITS, "jetstream { limits { %s } }"),
    "jetstream.limits.batch": (jetstream._BATCH, "jetstream { limits { batch { %s } } }"),
    "accounts": (accounts._ACCOUNT, "accounts { A { %s } }"),
    "accounts.limits": (accounts._LIMITS, "accounts { A { limits { %s } } }"),
    "accounts.jetstream": (accounts._JETSTREAM, "accounts { A { jetstream { %s } } }"),
    "accounts.exports": (sharing._EXPORT, "accounts { A { exports: [ { %s } ] } }"),
    "accounts.imports": (sharing._IMPORT, "accounts { A { imports: [ { %s } ] } }"),
    "authorization": (users._AUTHORIZATION, "authorization { %s }"),
    "authorization.users": (users._USER, "authorization { users: [ { user: u, %s } ] }"),
    "permissions": (permissions._FIELDS, "authorization { default_permissions { %s } }"),
    "responses": (
        permissions._RESPONSES,
        "authorization { default_permissions { allow_responses { %s } } }",
    ),
    "mappings": (mappings._DESTINATION, "mappings { a: [ { %s } ] }"),
    "tls": (tls._FIELDS, "tls { %s }"),
    "tls.certs": (tls._CERTIFICATE, "tls { certs: [ { %s } ] }"),
    "websocket": (websocket._FIELDS, "websocket { %s }"),
}


def test_every_table_of_settings_is_tried() -> None:
    known = [id(table) for table, _ in TABLES.values()]
    for module in pkgutil.iter_modules(config.__path__):
        content = vars(importlib.import_module(f"{config.__name__}.{module.name}"))
        for name, value in content.items():
            if isinstance(value, dict) and value:
                is_table = all(isinstance(each, Field) for each in value.values())
                assert not is_table or id(value) in known, f"{module.name}.{name}"


def texts(name: str) -> Iterator[str]:
    table, around = TABLES[name]
    for key in table:
        for value in VALUES:
            yield around % f"{key}: {value}"


def refusals(text: str, environment: dict[str, str]) -> list[str]:
    """What is said against a configuration; settings that are refused anyway are read as well."""
    try:
        load_text(text, environment, not_yet={})
    except ConfigRefused as refused:
        return [str(problem) for problem in refused.problems] or ["nothing"]
    return []


@pytest.mark.parametrize("name", TABLES)
def test_a_setting_is_taken_or_refused_with_its_place(name: str) -> None:
    for text in texts(name):
        said = refusals(text, {})
        assert all(each.startswith("configuration:1: ") for each in said), (text[:80], said)
        assert sum(map(len, said)) < 10_000, f"{text[:80]}: the value is repeated whole"


def test_a_megabyte_is_a_value_like_any_other() -> None:
    for key in ("server_name", "port", "ping_interval", "jetstream"):
        said = refusals(f'{key}: "{"x" * 1_000_000}"', {})
        assert bool(said) == (key != "server_name")


def test_a_variable_of_the_environment_may_be_anything() -> None:
    for value in VALUES:
        for key in ("port", "ping_interval", "server_name", "max_payload", "jetstream"):
            said = refusals(f"{key}: $JETSPARK_X", {"JETSPARK_X": value})
            assert "nothing" not in said, (key, value[:80])
    assert refusals("port: $JETSPARK_X", {})


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.names[0])
def test_a_flag_is_taken_or_refused_with_a_sentence(flag: Flag) -> None:
    names = flag.names
    for value in (
        *VALUES,
        "0x" + "f" * 5000,
        "0b1" + "0" * 5000,
        "\udcff",
        "a=b",
        "monitor_token=",
    ):
        text = value.strip('"')
        for arguments in ([f"-{names[0]}", text], [f"--{names[-1]}={text}"]):
            found = from_command_line(arguments, {}, read=nothing)
            if isinstance(found, Settings):
                continue
            said = getattr(found, "error", "")
            assert not isinstance(found, Exit | ShowHelp) or "Traceback" not in said


def nothing(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)
