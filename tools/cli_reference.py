"""The page docs/reference/cli.md: the help of every command, for ``gen_reference.py``."""

from collections.abc import Iterator

import click

from jetspark.cli.main import main
from jetspark.cli.serve.help import help_text

WIDTH = 96
_HEAD = """# Command line

Every command, as `--help` shows it. [The guide](../cli.md) explains connections, output and exit
codes, which are the same for all.
"""


def command_pages() -> str:
    """The whole page."""
    root = click.Context(main, info_name="jetspark", terminal_width=WIDTH, **main.context_settings)
    return _HEAD + "".join(_sections(root))


def _sections(context: click.Context) -> Iterator[str]:
    """The section of a command, then those of its sub-commands."""
    words = context.command_path
    shown = help_text() if words == "jetspark serve" else context.get_help()
    yield f"\n## {words}\n\n```text\n{shown.rstrip()}\n```\n"
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            below = click.Context(
                found, info_name=name, parent=context, terminal_width=WIDTH,
                **found.context_settings,
            )  # fmt: skip
            yield from _sections(below)
