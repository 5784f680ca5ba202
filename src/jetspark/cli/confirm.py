"""Confirmation of what cannot be undone.

Without a terminal nothing is asked: a script that forgot --force gets an error, and nothing
happened.
"""

import sys

import click


def can_ask() -> bool:
    """Whether a person can be asked: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, force: bool) -> None:
    """Return if the user agrees, or said so in advance with --force."""
    if force:
        return
    if not can_ask():
        raise click.UsageError(
            f"{question} Without a terminal this cannot be asked: repeat the command with --force "
            "to confirm"
        )
    if not click.confirm(question, default=False, err=True):
        raise click.ClickException("nothing was changed")


def ask(question: str, *, option: str) -> str:
    """A value that was not given; ``option`` names it for scripts."""
    if not can_ask():
        raise click.UsageError(f"missing {option}")
    answer: str = click.prompt(question, err=True)
    return answer
