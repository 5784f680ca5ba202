"""`jetspark pipeline`: create, check, run and monitor Spark pipeline projects over streams."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from jetspark.cli.commands import Group
from jetspark.cli.connection import connection_options

EMBEDDED: Final = "embedded"
JVM_HAS_ENDED: Final = (
    "Spark's JVM has ended: it was killed, or the machine had too little memory for it "
    "(set --conf spark.driver.memory=SIZE); the next run continues from the "
    "checkpoints"
)

_project_option = click.option(
    "--project",
    "place",
    type=click.Path(path_type=Path),
    default=".",
    help="Project folder, or its spec file. Default: the current folder or a parent of it.",
)
_master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark master, or sc://HOST:PORT of a Spark Connect server.",
)
_conf_option = click.option(
    "--conf",
    "confs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Spark setting; overrides those of the spec. May be repeated.",
)
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line."
)
_samples_option = click.option(
    "--samples", is_flag=True, help="Publish the project's samples/*.ndjson first."
)


@click.group(cls=Group)
def pipeline() -> None:
    """Create, check, run and monitor Spark pipelines over streams.

    A project has Spark's own format (spark-pipeline.yml, transformations in Python and SQL), and
    jetspark.yml next to it, which names the streams and buckets it needs.

    \b
    Examples:
      jetspark pipeline init shop && cd shop
      jetspark pipeline run --server embedded --samples
      jetspark pipeline run --continuous --server nats://127.0.0.1:4222
      jetspark pipeline status
    """


@pipeline.command()
@click.argument("name")
@click.option(
    "--in",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    help="Parent of the new folder. Default: the current folder.",
)
def init(name: str, parent: Path) -> None:
    """Write a project NAME: a stream, a cleaned table, totals in a bucket, alerts.

    \b
    Example:
      jetspark pipeline init shop
    """
    from jetspark.spark.pipelines.template import write_project

    with one_line_errors():
        root = write_project(name, parent)
    click.echo(f"{root} was created. Try it:")
    click.echo(f"  cd {click.format_filename(root)}")
    click.echo("  jetspark pipeline run --server embedded --samples")


@pipeline.command("dry-run")
@_project_option
@_master_option
@_conf_option
@_json_option
def dry_run(**chosen: Any) -> None:
    """Check a project with Spark: files, names and columns. Contacts no server, writes nothing.

    \b
    Example:
      jetspark pipeline dry-run
    """
    with one_line_errors():
        from jetspark.cli.pipeline.run import check

        check(**chosen)


@pipeline.command()
@_project_option
@connection_options
@_master_option
@_conf_option
@_json_option
@_samples_option
@click.option(
    "--continuous",
    is_flag=True,
    help="Keep running when everything has been read; not with --master sc://.",
)
@click.option(
    "--trigger",
    default="0s",
    show_default=True,
    help="With --continuous: interval of micro-batches; 0s: no pause.",
)
@click.option(
    "--refresh-views",
    default="30s",
    show_default=True,
    help="With --continuous: interval at which materialized views are computed.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="With --continuous: serve Prometheus metrics on this port; 0: a free one.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="With --continuous: maximum restarts of a flow that fails without progress.",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="With --continuous: if a flow fails too often, the others continue; the exit code is 1.",
)
@click.option(
    "--refresh",
    multiple=True,
    metavar="TABLE",
    help="Update only this table or view, with --continuous also a sink. May be repeated.",
)
@click.option(
    "--full-refresh",
    multiple=True,
    metavar="TABLE",
    help="Update only this table or view, with --continuous also a sink, from the beginning. May "
    "be repeated.",
)
@click.option("--full-refresh-all", is_flag=True, help="Recompute everything.")
@click.option("--every", metavar="DURATION", help="Run again and again, at this interval.")
@click.option(
    "--schedule",
    metavar="CRON",
    help="Run at these times (UTC): second minute hour day month weekday, or @daily, @hourly ...",
)
@click.pass_context
def run(ctx: click.Context, /, *, continuous: bool, **chosen: Any) -> None:
    """Run a project until it has caught up, or continuously with --continuous.

    `--server embedded` or `embedded:PORT` starts a server in this process, with its store in the
    project. Both modes continue from the same checkpoints. A full refresh does not empty sinks:
    their rows are written again. `--every` and `--schedule` repeat the run, each in a process of
    its own, until a signal ends the command.

    \b
    Examples:
      jetspark pipeline run --server embedded --samples
      jetspark pipeline run --continuous
      jetspark pipeline run --every 10m
      jetspark pipeline run --schedule "0 30 3 * * *"
    """
    repeated = ("every", "schedule")
    continuous_only = ("trigger", "refresh_views", "metrics_port", "restarts", "keep_going")
    given = click.core.ParameterSource.COMMANDLINE
    for name in repeated if continuous else continuous_only:
        if ctx.get_parameter_source(name) is given:
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(f"{flag} is {'not ' if continuous else ''}for --continuous")
    with one_line_errors():
        if continuous:
            from jetspark.cli.pipeline.watch import run_continuous

            run_continuous(**{name: chosen[name] for name in chosen if name not in repeated})
            return
        from jetspark.cli.pipeline.run import run_once
        from jetspark.cli.pipeline.scheduled import run_repeatedly

        every, schedule = (chosen.pop(name) for name in repeated)
        once = {name: chosen[name] for name in chosen if name not in continuous_only}
        if every is None and schedule is None:
            run_once(**once)
        else:
            run_repeatedly(every=every, schedule=schedule, run=once)


@pipeline.command()
@_project_option
@connection_options
@_json_option
def status(**chosen: Any) -> None:
    """Show the state of each flow: lag, last committed epoch, ledger. Does not start Spark.

    \b
    Example:
      jetspark pipeline status
    """
    with one_line_errors():
        from jetspark.cli.pipeline.status import show_status

        show_status(**chosen)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors that a user can act on into one line and exit code 1."""
    from jetspark.errors import Error
    from jetspark.errors.extras import extra

    try:
        with extra("pipelines", "pipelines need"):
            yield
    except click.UsageError:
        raise
    except click.ClickException as error:
        fail(error.message)
    except Error as error:
        fail(str(error))
    except Exception as error:
        from jetspark.spark.session import jvm_has_ended

        if jvm_has_ended():
            fail(JVM_HAS_ENDED)
        if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
            raise
        from jetspark.spark.pipelines.errors import one_line

        fail(one_line(error))


def fail(text: str) -> NoReturn:
    """Exit with one line on standard error."""
    click.echo(f"jetspark: {' '.join(text.split())}", err=True)
    sys.exit(1)
