"""`jetspark pipeline run` and `dry-run`: one run of a project with Spark's own runner."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from jetspark import sync
from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.pipeline.command import EMBEDDED
from jetspark.cli.pipeline.signals import ends_on_signals
from jetspark.client.connection.tls import TlsFiles
from jetspark.spark.pipelines.connection import shared_connection
from jetspark.spark.pipelines.declarative import run_declarative
from jetspark.spark.pipelines.only_run import only_run
from jetspark.spark.pipelines.project import (
    SERVERS_SETTING,
    PipelineRefused,
    Project,
    check_packages,
    find_project,
    load_project,
)
from jetspark.spark.pipelines.resources import ensure_resources, publish_samples
from jetspark.spark.pipelines.selection import select
from jetspark.spark.pipelines.settings import spark_settings

_STORE: Final = "jetspark-data"
# Some of the runner's lines have the flow in quotes.
_STATE: Final = re.compile(r"Flow '?([^' ]+)'? (?:is|has) ([A-Z]+)\.")


def run_once(
    *,
    place: Path,
    connection: ConnectionSettings,
    master: str,
    confs: tuple[str, ...],
    as_json: bool,
    samples: bool,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
) -> None:
    """Run a project until it has caught up."""
    check_packages()
    project = load_project(find_project(place))
    selection = select(project, refresh, full_refresh, everything=full_refresh_all)
    extra = settings_of(confs)
    say = LinePrinter(as_json=as_json)
    with (
        ends_on_signals() as take_signals,
        prepared(project, connection, say, samples=samples, given=extra) as reached,
        shared_connection(options_of(reached)) as shared,
    ):
        run_declarative(
            project,
            spark_settings(project, {**shared, **extra}),
            master=master,
            say=say,
            started=take_signals,
            selection=selection,
        )
    say("The pipeline has caught up.")


def check_run(
    *,
    place: Path,
    connection: ConnectionSettings,
    confs: tuple[str, ...],
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    **_others: object,
) -> None:
    """Check what can be checked of the arguments of ``run_once`` without Spark and a server."""
    check_packages()
    project = load_project(find_project(place))
    select(project, refresh, full_refresh, everything=full_refresh_all)
    check_settings(project, settings_of(confs))
    options_of(connection)


def check(*, place: Path, master: str, confs: tuple[str, ...], as_json: bool) -> None:
    """Let Spark load and resolve a project, without running it."""
    project = load_project(find_project(place))
    say = LinePrinter(as_json=as_json)
    with ends_on_signals() as take_signals, tempfile.TemporaryDirectory() as nowhere:
        settings = {
            **spark_settings(project, settings_of(confs)),
            # A check leaves nothing, so the tables of the last run are not used.
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": Path(nowhere).as_uri(),
            # Seconds of work: the optimizing compiler would not pay off.
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        run_declarative(project, settings, master=master, say=say, started=take_signals, dry=True)
    say("The project is valid.")


class LinePrinter:
    """Prints each line as text or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        # Spark's runner prints, and its output is redirected: write to the original stdout.
        self._out = sys.stdout
        self._console = Console(highlight=False, file=self._out)

    def __call__(self, text: str) -> None:
        """Print one line."""
        if not self._json:
            state = _STATE.fullmatch(text)
            if state is None:
                self._console.print(text, markup=False, soft_wrap=True)
            else:
                colour = {"COMPLETED": "green", "FAILED": "red"}.get(state[2], "cyan")
                name = state[1].removeprefix("spark_catalog.default.")
                self._console.print(f"  {name:<28} [{colour}]{state[2].lower()}[/{colour}]")
            return
        state = _STATE.fullmatch(text)
        line = {"event": "flow", "flow": state[1], "state": state[2]} if state else None
        click.echo(json.dumps(line or {"event": "notice", "text": text}), file=self._out)


@contextmanager
def prepared(
    project: Project,
    connection: ConnectionSettings,
    say: Callable[[str], None],
    *,
    samples: bool,
    given: dict[str, str],
) -> Iterator[ConnectionSettings]:
    """Lend the connection to a server that has the project's resources."""
    check_settings(project, given)
    with only_run(project, say), embedded_or(connection, project) as reached:
        if reached != connection:
            say(f"The embedded server listens on {reached.server}.")
        with reached.jetstream() as jetstream:
            for line in ensure_resources(jetstream, project):
                say(line)
            if samples:
                say(str(publish_samples(jetstream, project)))
        yield reached


def check_settings(project: Project, given: dict[str, str]) -> None:
    """Refuse a setting that the command has an option for."""
    if SERVERS_SETTING in {**project.configuration, **given}:
        raise PipelineRefused(
            f"{SERVERS_SETTING} is set by the option --server: remove it from the spec or --conf"
        )


@contextmanager
def embedded_or(connection: ConnectionSettings, project: Project) -> Iterator[ConnectionSettings]:
    """Lend a connection: the given one, or one to a server in this process."""
    kind, _, port = connection.server.partition(":")
    if kind != EMBEDDED:
        yield connection
        return
    if port and not (port.isdecimal() and len(port) < 6 and int(port) < 65536):
        raise PipelineRefused(f"--server {connection.server!r}: {port!r} is not a port")
    with sync.Server(port=int(port or -1), store_dir=project.root / _STORE) as embedded:
        yield ConnectionSettings(server=embedded.client_url, timeout=connection.timeout)


def options_of(connection: ConnectionSettings) -> dict[str, str]:
    """Return a connection as the options of a format, for transformations.

    Files by their full path: Spark's runner changes to the project folder.
    """
    for option, unsupported in (("--jwt", connection.jwt), ("--tlsfirst", connection.tlsfirst)):
        if unsupported:
            raise PipelineRefused(
                f"{option} (or the same setting of a context) is not supported by pipelines: use "
                "a credentials file (--creds), and TLS after the server's greeting"
            )
    given = connection.arguments()
    tls = given.get("tls")
    files = tls if isinstance(tls, TlsFiles) else TlsFiles()
    options = {
        "servers": connection.server,
        "nats.user": given.get("user"),
        "nats.password": given.get("password"),
        "nats.token": given.get("token"),
        "nats.nkeySeed": given.get("nkey_seed"),
        "credentialsFile": _full_path(given.get("credentials")),
        "nats.tlsCa": _full_path(files.ca_file),
        "nats.tlsCert": _full_path(files.certificate_file),
        "nats.tlsKey": _full_path(files.key_file),
        "nats.inboxPrefix": given.get("inbox_prefix"),
        "domain": connection.js_domain,
        "apiPrefix": connection.js_api_prefix,
    }
    return {name: value for name, value in options.items() if value}


def _full_path(place: str | os.PathLike[str] | None) -> str:
    return str(Path(place).resolve()) if place else ""


def settings_of(confs: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE settings."""
    settings: dict[str, str] = {}
    for conf in confs:
        name, equals, value = conf.partition("=")
        if not equals or not name.startswith("spark."):
            raise PipelineRefused(f"--conf {conf!r} is not spark.NAME=VALUE")
        settings[name] = value
    return settings
