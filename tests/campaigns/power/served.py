"""Runs `jetspark serve` with small segments and journal files, so that a short run uses many.

Interpreted: compiled modules do not look up what is replaced here.
"""

import functools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "src"))

import jetspark.__main__  # noqa: E402
from jetspark.server.jetstream import driver, runtime  # noqa: E402
from jetspark.store.journal import checkpointer  # noqa: E402
from jetspark.store.store import FileStore  # noqa: E402


def main() -> None:
    """Replace the sizes and periods, then serve."""
    small = functools.partial(FileStore, journal_size=96 * 1024, segment_size=64 * 1024)
    setattr(runtime, "FileStore", small)  # noqa: B010
    setattr(checkpointer, "IDLE_S", 0.3)  # noqa: B010
    setattr(driver, "HOUSE_PERIOD", 0.7)  # noqa: B010
    jetspark.__main__.main()


if __name__ == "__main__":
    main()
