"""``jetspark`` and ``python -m jetspark``: the command line, or how to get it."""

import sys

from jetspark.errors.extras import MissingExtra, check_extra


def main() -> None:
    """Run the command line; without the packages that it needs, say so in one line."""
    try:
        check_extra("cli", "the command jetspark needs", "click", "rich")
    except MissingExtra as error:
        sys.exit(f"jetspark: {error}")
    from jetspark.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
