"""``jetspark`` and ``python -m jetspark``: the command line, or how to get it."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line; without the packages that it needs, say so in one line."""
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
    from jetspark.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
