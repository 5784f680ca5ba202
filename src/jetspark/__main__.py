"""``jetspark`` and ``python -m jetspark``: the command line, or how to get it."""

import gc
import os
import sys
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> None:
    """Run the command line; without the packages that it needs, say so in one line."""
    _open_standard_files()
    packages = ("click", "rich")
    try:
        # A folder of that name where `python -m jetspark` was called has no origin.
        complete = all((found := find_spec(name)) and found.origin for name in packages)
    except ImportError:
        complete = False
    if not complete:
        from jetspark.errors.extras import MissingExtra, check_extra

        try:
            check_extra("cli", "the command jetspark needs", *packages)
        except MissingExtra as error:
            sys.exit(f"jetspark: {error}")
    if sys.argv[1:2] == ["serve"]:
        _serve(tuple(sys.argv[2:]))
        return
    # What modules create is no garbage: collections meanwhile take a tenth of the start. The
    # command enables them when it is loaded (jetspark.cli.commands, resolve).
    gc.disable()
    from jetspark.cli.main import main as command_line

    command_line()


def _open_standard_files() -> None:
    """Let every program have its three standard files, and output that can show any text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the caller (`>&-`). Its number must not become that of a connection.
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    # A file name that is no UTF-8, or a character that a legacy locale does not have.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _serve(flags: tuple[str, ...]) -> None:
    """Run `jetspark serve`, with the same errors as through `cli/main.py`."""
    # What modules create is no garbage: collections meanwhile take a tenth of the start.
    gc.disable()
    from jetspark.cli.serve.flags import serve
    from jetspark.errors.extras import MissingExtra

    gc.enable()
    try:
        serve(flags)
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    except OSError as error:
        if error.filename is None or error.strerror is None:
            raise
        sys.exit(f"Error: {error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit("Aborted!")


if __name__ == "__main__":
    main()
