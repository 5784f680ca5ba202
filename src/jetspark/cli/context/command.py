"""`jetspark context`: declarations. The functions are in the module next to this one."""

import click

from jetspark.cli.commands import Group
from jetspark.cli.completion.names import context_names
from jetspark.cli.connection import declare_connection

_name = click.argument("name", metavar="CONTEXT", shell_complete=context_names)
_some = click.argument("name", metavar="[CONTEXT]", required=False, shell_complete=context_names)
_select = click.option("--select", is_flag=True, help="Select it as the default.")
_description = click.option("--description", help="A description, shown by `context ls`.")
_connect = click.option("--connect", is_flag=True, help="Also try to connect.")


@click.group(cls=Group, aliases=("ctx",))
def context() -> None:
    """Manage contexts: saved connection options.

    They are those of the `nats` command, in the same files: what one saves or selects, the other
    uses. --context NAME uses one for a single command.

    \b
    Examples:
      jetspark context add local --server nats://127.0.0.1:4222 --select
      jetspark context add cloud --server tls://connect.example.org --creds me.creds
      jetspark context ls
      jetspark context select cloud
    """


@context.local("ls", "jetspark.cli.context.contexts:list_contexts", aliases=("list", "l"))
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _ls() -> None:
    """List contexts; an asterisk marks the selected one.

    \b
    Example:
      jetspark context ls
    """


@context.local("info", "jetspark.cli.context.contexts:show_context", aliases=("show", "v", "view"))
@_some
@_connect
def _info() -> None:
    """Show a context, by default the selected one. Passwords are hidden; --json shows them.

    \b
    Examples:
      jetspark context info
      jetspark context info cloud --connect
    """


@context.local("add", "jetspark.cli.context.contexts:add_context", aliases=("create", "save"))
@_name
@_description
@_select
@declare_connection
def _add() -> None:
    """Save the connection options of this command as a context.

    If the context exists, only the given options change. --context NAME begins with the options
    of another context.

    \b
    Examples:
      jetspark context add local --server nats://127.0.0.1:4222 --select
      jetspark context add shop --server nats://shop:4222 --user me --password secret
      jetspark context add shop --description 'the orders'
    """


@context.local("copy", "jetspark.cli.context.contexts:copy_context", aliases=("cp",))
@click.argument("source", shell_complete=context_names)
@_name
@_description
@_select
def _copy() -> None:
    """Save a context under another name.

    \b
    Example:
      jetspark context copy shop shop-test
    """


@context.local("select", "jetspark.cli.context.contexts:select_context", aliases=("switch", "set"))
@_name
def _select_command() -> None:
    """Select the context that commands use if they name none.

    \b
    Example:
      jetspark context select cloud
    """


@context.local("unselect", "jetspark.cli.context.contexts:unselect_context")
def _unselect() -> None:
    """Select no context.

    \b
    Example:
      jetspark context unselect
    """


@context.local("previous", "jetspark.cli.context.contexts:select_previous", aliases=("-",))
def _previous() -> None:
    """Select the context that was selected before.

    \b
    Example:
      jetspark context previous
    """


@context.local("validate", "jetspark.cli.context.contexts:validate_contexts")
@_some
@_connect
def _validate() -> None:
    """Check that contexts can be read and that their files exist; by default all.

    \b
    Examples:
      jetspark context validate
      jetspark context validate cloud --connect
    """


@context.local("rm", "jetspark.cli.context.contexts:remove_context", aliases=("remove",))
@_name
@click.option("-f", "--force", is_flag=True, help="Do not ask, even if it is selected.")
def _rm() -> None:
    """Delete a context.

    \b
    Example:
      jetspark context rm shop-test
    """
