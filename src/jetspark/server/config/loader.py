"""Loads a configuration file into `Settings`."""

import os.path
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from jetspark.server.config.blocks.block import Report
from jetspark.server.config.blocks.jetstream import (
    STORE_DIR_DEFAULT,
    AtomicLimits,
    Durability,
    JetStream,
)
from jetspark.server.config.blocks.users import Authorization
from jetspark.server.config.checks import CheckTls, check, remarks
from jetspark.server.config.language.digest import config_digest
from jetspark.server.config.language.parser import Read, parse_file, parse_text, read_file
from jetspark.server.config.language.problem import ConfigRefused, Place, refused
from jetspark.server.config.language.tree import Node
from jetspark.server.config.not_yet import NOT_YET
from jetspark.server.config.settings import DASHBOARD_PORT, HOST_DEFAULT, Settings
from jetspark.server.config.tls_files import tls_problem
from jetspark.server.config.top import Values, read_top
from jetspark.units import seconds

AUTH_TIMEOUT_DEFAULT: Final = seconds(2)


def load_file(path: str, environment: Mapping[str, str]) -> Settings:
    """Return the settings of a configuration file. Raises `ConfigRefused` with all problems."""
    tree = open_tree(path, environment, read_file)
    report = Report(NOT_YET)
    return finish(
        read_file_values(tree, path, report), path, config_digest(tree), report, tls_problem
    )


def load_text(
    text: str,
    environment: Mapping[str, str],
    *,
    name: str = "configuration",
    check_tls: CheckTls = tls_problem,
    not_yet: Mapping[str, str] = NOT_YET,
) -> Settings:
    """Return the settings of a configuration given as text."""
    tree = parse_text(text, name, environment, read_file)
    report = Report(not_yet)
    return finish(read_file_values(tree, name, report), "", config_digest(tree), report, check_tls)


def open_tree(path: str, environment: Mapping[str, str], read: Read) -> dict[str, Node]:
    """Return the tree of a file. Raises `ConfigRefused`, also if the file does not exist."""
    try:
        return parse_file(path, environment, read)
    except OSError as error:
        reason = error.strerror or str(error)
        raise refused(Place(path), f"cannot read the configuration: {reason}") from error


def read_file_values(tree: dict[str, Node], path: str, report: Report) -> Values:
    """Read the settings of a file, and warn if it has none, as nats-server does."""
    if not tree:
        report.warn(Place(path), "config has no values or is empty")
    return read_top(tree, report)


def finish(
    values: Values, path: str, digest: str, report: Report, check_tls: CheckTls
) -> Settings:
    """Build settings from the values and check them. Raises `ConfigRefused` with the problems."""
    settings = _resolved(values, report)
    if not report.problems:
        check(settings, report, check_tls)
    if report.problems:
        raise ConfigRefused(tuple(sorted(report.problems, key=lambda found: found.line)))
    return replace(
        settings,
        config_file=path,
        digest=digest,
        warnings=tuple(report.warnings),
        remarks=tuple(remarks(settings)),
    )


def _resolved(values: Values, report: Report) -> Settings:
    """Fill in defaults that depend on other settings."""
    made: dict[str, Any] = dict(values)
    made["host"] = made.get("host") or HOST_DEFAULT
    made["http_host"] = made.get("http_host") or made["host"]
    if "http_base_path" in made:
        made["http_base_path"] = os.path.normpath(f"/{made['http_base_path'].lstrip('/')}")
    settings = with_dashboard_port(Settings(**made))
    authorization = settings.authorization
    if not authorization.timeout:
        settings = replace(settings, authorization=_with_timeout(settings))
    return replace(settings, jetstream=_resolved_jetstream(settings, report))


def with_dashboard_port(settings: Settings) -> Settings:
    """Open the monitoring port for a dashboard, on loopback only: it shows messages."""
    if not settings.jetspark.dashboard.enabled or settings.http_port or settings.https_port:
        return settings
    return replace(settings, http_host="127.0.0.1", http_port=DASHBOARD_PORT)


def _with_timeout(settings: Settings) -> Authorization:
    """Set the authentication timeout like nats-server: 2 s, or a second more than TLS has."""
    timeout = AUTH_TIMEOUT_DEFAULT
    if settings.tls is not None:
        timeout = seconds(1 + settings.tls.timeout / seconds(1))
    return replace(settings.authorization, timeout=timeout)


def _resolved_jetstream(settings: Settings, report: Report) -> JetStream:
    """Merge the ``jetstream`` and the ``jetspark`` block."""
    jetstream, ours = settings.jetstream, settings.jetspark
    if ours.replica is not None:
        jetstream = replace(jetstream, enabled=True)  # it stores the copies
    if not jetstream.store_dir:
        jetstream = replace(jetstream, store_dir=STORE_DIR_DEFAULT)
    if ours.durability is not None:
        periodic = jetstream.durability is Durability.INTERVAL
        if periodic and ours.durability is not Durability.INTERVAL:
            report.problem(
                report.place("jetspark.durability"),
                f"'durability {ours.durability}' contradicts 'jetstream.sync_interval'; keep one",
            )
        jetstream = replace(jetstream, durability=ours.durability)
    if ours.atomic is not None:
        if jetstream.limits.batch not in {AtomicLimits(), ours.atomic}:
            report.problem(
                report.place("jetspark.atomic"),
                "'atomic' contradicts 'jetstream.limits.batch'; keep one",
            )
        limits = replace(jetstream.limits, batch=ours.atomic)
        jetstream = replace(jetstream, limits=limits)
    return jetstream
