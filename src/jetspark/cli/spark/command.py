"""`jetspark spark`: prepare what a cluster of Spark needs."""

import json
from pathlib import Path
from typing import Final

import click

from jetspark.cli.commands import Group

MIB: Final = 1024 * 1024


@click.group(cls=Group)
def spark() -> None:
    """Prepare what a cluster of Spark needs.

    \b
    Example:
      jetspark spark pack environment.tar.gz
    """


@spark.command()
@click.argument(
    "archive",
    type=click.Path(path_type=Path, dir_okay=False),
    default="environment.tar.gz",
)
@click.option(
    "--with",
    "more",
    multiple=True,
    metavar="PACKAGE",
    help="Another installed package that your job imports. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def pack(archive: Path, more: tuple[str, ...], *, as_json: bool) -> None:
    """Write jetspark, pyarrow and numpy as ARCHIVE (default: environment.tar.gz) for executors.

    The archive has the files that are installed here, compiled modules included, so the executors
    get the versions of the driver. They need the same minor version of Python and the same
    platform. Ship it with --archives, and put its folder into the PYTHONPATH of the executors.

    \b
    Examples:
      jetspark spark pack
      jetspark spark pack environment.tar.gz --with fastavro
      spark-submit --archives environment.tar.gz#environment \\
          --conf spark.executorEnv.PYTHONPATH=./environment job.py
    """
    from jetspark.spark.packing import PackingFailed
    from jetspark.spark.packing import pack as write

    try:
        packed = write(archive, more)
    except (PackingFailed, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        found = packed._asdict() | {"archive": str(packed.archive), "for": packed.made_for}
        click.echo(json.dumps(found))
        return
    click.echo(f"{packed.archive}: {packed.size / MIB:.1f} MiB, for {packed.made_for}")
    click.echo(", ".join(f"{name} {version}" for name, version in packed.packages.items()))
    click.echo("Use it:")
    click.echo(f"  spark-submit --archives {click.format_filename(archive)}#environment \\")
    click.echo("      --conf spark.executorEnv.PYTHONPATH=./environment job.py")
