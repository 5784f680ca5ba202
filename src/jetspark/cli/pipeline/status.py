"""`jetspark pipeline status`: the state of each flow, from its checkpoint and the server."""

from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from jetspark.cli.connection import ConnectionSettings
from jetspark.spark.pipelines.project import find_project, load_project
from jetspark.spark.pipelines.status import (
    FlowStatus,
    SourceStatus,
    flow_states,
    with_server,
)


def show_status(*, place: Path, connection: ConnectionSettings, as_json: bool) -> None:
    """Print the state of a project; without a server, only that of the checkpoints."""
    project = load_project(find_project(place))
    states = flow_states(project)
    if not states and not as_json:
        click.echo(f"{project.name} has not run yet: no checkpoint in {project.storage}")
        return
    problem = ""
    try:
        with connection.jetstream() as jetstream:
            states = with_server(states, jetstream, project.resources.ledger)
    except click.ClickException as error:
        problem = error.message
    if as_json:
        report = {"project": project.name, "server": connection.server, "error": problem or None}
        click.echo(msgspec.json.encode({**report, "flows": states}))
    else:
        _print(states)
        if problem:
            click.echo(f"jetspark: {problem}: lag and ledger are unknown", err=True)
    if problem:
        raise SystemExit(1)


def _lag(source: SourceStatus | None) -> str:
    if source is None:
        return ""
    if source.recreated:
        return "created again"
    return "" if source.lag is None else f"{source.lag:,}"


def _print(states: list[FlowStatus]) -> None:
    table = Table()
    table.add_column("flow")
    table.add_column("writes to")
    table.add_column("committed", justify="right", no_wrap=True)
    table.add_column("reads")
    table.add_column("next", justify="right")
    table.add_column("lag", justify="right")
    table.add_column("per s", justify="right")
    table.add_column("ledger", justify="right")
    for state in states:
        epoch = "-" if state.committed_epoch is None else str(state.committed_epoch)
        if state.planned_epoch != state.committed_epoch:
            epoch += f" ({state.planned_epoch} started)"
        ledger = "" if state.ledger is None else f"epoch {state.ledger.epoch}"
        sources = state.sources or (None,)
        speed = state.messages_per_second
        other = "a table" if state.planned_epoch is not None else ""
        for source in sources:
            table.add_row(
                state.flow,
                state.target,
                epoch,
                source.stream if source else other,
                f"{source.next_seq:,}" if source and source.next_seq is not None else "",
                _lag(source),
                "" if speed is None else f"{speed:,.0f}",
                ledger,
            )
    Console().print(table)
