"""`jetspark errors`: declarations. The functions are in the module next to this one."""

import click

from jetspark.cli.commands import Group


@click.group(cls=Group, aliases=("err", "error"))
def errors() -> None:
    """Look up the error codes of JetStream.

    \b
    Examples:
      jetspark errors lookup 10071
      jetspark errors ls 'wrong last'
    """


@errors.local("ls", "jetspark.cli.errors.codes:list_codes", aliases=("list", "search"))
@click.argument("match", metavar="[TEXT]", default="")
@click.argument(
    "sort",
    metavar="[SORT]",
    default="code",
    type=click.Choice(("code", "http", "description", "descr", "d")),
)
@click.option("-R", "--reverse", is_flag=True, help="Reverse the order.")
def _ls() -> None:
    """List error codes, all or those whose number, name or description match.

    TEXT is a regular expression, SORT one of code, http and description.

    \b
    Examples:
      jetspark errors ls
      jetspark errors ls batch
      jetspark errors ls 'consumer.*limit' http
    """  # fmt: skip


@errors.local(
    "lookup", "jetspark.cli.errors.codes:show_code", aliases=("find", "get", "l", "view", "show")
)
@click.argument("code", type=click.INT)
def _lookup() -> None:
    """Explain an error code.

    \b
    Example:
      jetspark errors lookup 10071
    """
