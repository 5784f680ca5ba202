"""`jetspark serve` among the commands of `jetspark`; it has flags of its own (``flags.py``)."""

import click

from jetspark.cli.serve import flags as own_flags


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[FLAGS]",
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="")
def serve(flags: tuple[str, ...]) -> None:
    """Run a NATS server with durable JetStream."""
    own_flags.serve(flags)
