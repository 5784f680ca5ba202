"""`jetspark schema` on our server and on nats-server."""

from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

V1 = "id BIGINT NOT NULL, name STRING"
V2 = f"{V1}, price DECIMAL(10,2)"


@pytest.fixture
def registry(cli: CommandLine, name: str) -> str:
    """A registry with a schema in two versions, made by the command line."""
    cli.ok("schema", "add", name, "orders", "-", "--create", stdin=V1)
    cli.ok("schema", "add", name, "orders", "-", stdin=V2)
    return name


def test_schemas_and_versions_are_listed(cli: CommandLine, registry: str) -> None:
    assert cli.ok("schema", "ls", registry, "-n") == "orders\n"
    assert cli.ok("schema", "ls", registry).splitlines()[1].split()[:4] == [
        "orders", "2", "json", "backward",
    ]  # fmt: skip
    (listed,) = cli.json("schema", "ls", registry)
    assert (listed["name"], listed["version"], listed["schema"]) == ("orders", 2, V2)
    assert [one["version"] for one in cli.json("schema", "versions", registry, "orders")] == [1, 2]
    lines = cli.ok("schema", "versions", registry, "orders").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["1", "2"]


def test_a_schema_is_printed(cli: CommandLine, registry: str) -> None:
    assert cli.ok("schema", "get", registry, "orders") == f"{V2}\n"
    assert cli.ok("schema", "get", registry, "orders", "--version", "1") == f"{V1}\n"
    shown = cli.ok("schema", "get", registry, "orders", "--ddl")
    assert shown == "id bigint NOT NULL, name string, price decimal(10,2)\n"
    assert cli.json("schema", "get", registry, "orders")["compatibility"] == "backward"


def test_a_file_has_the_format_of_its_name(
    cli: CommandLine, registry: str, tmp_path: Path
) -> None:
    file = tmp_path / "paid.proto"
    file.write_text('syntax = "proto3"; message Paid { int64 id = 1; }')

    made = cli.json("schema", "add", registry, "paid", file, "--compatibility", "full")

    assert (made["version"], made["format"], made["compatibility"]) == (1, "protobuf", "full")


def test_what_would_break_is_reported_and_refused(cli: CommandLine, registry: str) -> None:
    broken = "id STRING NOT NULL"

    checked = cli.run("schema", "check", registry, "orders", "-", stdin=broken)
    added = cli.run("schema", "add", registry, "orders", "-", stdin=broken)

    assert (checked.exit_code, added.exit_code) == (1, 1)
    assert "orders would be refused" in checked.stdout
    assert "payloads of version 1 could not be read: id is string" in checked.stdout
    assert "not registered, its compatibility is backward" in added.stderr
    assert cli.ok("schema", "check", registry, "orders", "-", stdin=f"{V2}, n INT") == (
        "schema orders would be accepted\n"
    )
    assert len(cli.json("schema", "versions", registry, "orders")) == 2


def test_schemas_are_deleted(cli: CommandLine, registry: str) -> None:
    cli.ok("schema", "rm", registry, "orders", "--version", "2", "--force")
    assert cli.ok("schema", "get", registry, "orders") == f"{V1}\n"
    assert "--force" in cli.run("schema", "rm", registry, "orders").stderr
    cli.ok("schema", "rm", registry, "orders", "--force")

    assert cli.ok("schema", "ls", registry) == ""


def test_names_that_do_not_exist_are_suggested(cli: CommandLine, registry: str) -> None:
    assert "did you mean orders?" in cli.run("schema", "get", registry, "order").stderr
    assert (
        "schema versions" in cli.run("schema", "get", registry, "orders", "--version", "9").stderr
    )
    assert "--create" in cli.run("schema", "ls", "NOT_THERE").stderr
    wrong = cli.run("schema", "add", registry, "other", "-", stdin="id what")
    assert "is not valid DDL" in wrong.stderr
