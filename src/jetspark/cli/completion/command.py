"""`jetspark completion`: the command line."""

import click

from jetspark.cli.commands import HELP_NAMES

SHELLS = ("bash", "zsh", "fish")


@click.command(context_settings=HELP_NAMES)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and names in your shell.

    Names of streams, consumers, buckets, keys, stores and objects are those of the server that
    the command would use.

    \b
    Examples:
      source <(jetspark completion bash)              in ~/.bashrc
      source <(jetspark completion zsh)               in ~/.zshrc, after compinit
      jetspark completion fish | source               in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from jetspark.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "jetspark", "_JETSPARK_COMPLETE").source())
