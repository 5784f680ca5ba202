"""``python -m jetspark`` is the command line."""

from jetspark.cli.main import main

if __name__ == "__main__":
    main()
