"""Build of the compiled modules: all of them by mypyc, or none.

The settings of the project are in pyproject.toml; this file only knows which modules are hot.
JETSPARK_BUILD=auto (default) falls back to the interpreted modules when compiling fails,
JETSPARK_BUILD=compiled fails loudly instead, JETSPARK_BUILD=interpreted does not try.
"""

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

MODE = os.environ.get("JETSPARK_BUILD", "auto")
SOURCE = Path("src/jetspark")

# Compiled in one group, so that calls between them are C calls. Drivers are not in it: their
# cost is per chunk. What must pickle is not in it either (compiled classes do not).
HOT = [
    "frame.py",
    "turn.py",
    "api/json_steps.py",
    "subjects/match.py",
    "subjects/pattern_set.py",
    "subjects/sublist.py",
    "subjects/tokens.py",
    "subjects/trie.py",
    "subjects/linear_hash_dict.py",
    "headers/block.py",
    "headers/numbers.py",
    "protocol/arguments.py",
    "protocol/client_parser.py",
    "protocol/encoder.py",
    "protocol/framing.py",
    "protocol/parser.py",
    "store/format/index_file.py",
    "store/format/record.py",
    "store/journal/format.py",
    "store/log/access.py",
    "store/log/cache.py",
    "store/log/columns.py",
    "store/log/durability.py",
    "store/log/group.py",
    "store/log/index.py",
    "store/log/limits.py",
    "store/log/reader.py",
    "store/log/deletion.py",
    "store/log/segment_files.py",
    "store/log/segments.py",
    "store/log/staged.py",
    "store/log/staged_rows.py",
    "store/log/staged_search.py",
    "store/log/stream_log.py",
    "store/log/pattern_lasts.py",
    "store/log/pattern_search.py",
    "store/log/subject_order.py",
    "store/log/subject_table.py",
    "store/log/timeline.py",
    "store/commit_counts.py",
    "store/sharing.py",
    "store/recovery/later_segments.py",
    "store/recovery/own_files.py",
    "store/recovery/pages.py",
    "store/recovery/replay.py",
    "store/recovery/replay_index.py",
    "store/recovery/stream_folder.py",
    "store/upkeep/index_writer.py",
    "store/upkeep/rewriting.py",
    "store/upkeep/task.py",
    "store/upkeep/upkeep.py",
    "engine/batch/atomic.py",
    "engine/batch/batches.py",
    "engine/batch/fast.py",
    "engine/batch/idle_timer.py",
    "engine/batch/members.py",
    "engine/batch/open_batches.py",
    "engine/commits.py",
    "engine/outbox.py",
    "engine/target.py",
    "engine/stream/checks.py",
    "engine/stream/dedupe.py",
    "engine/stream/expectations.py",
    "engine/stream/expiry.py",
    "engine/stream/headers.py",
    "engine/stream/ingest.py",
    "engine/stream/lifetimes.py",
    "engine/stream/replies.py",
    "engine/stream/rules.py",
    "engine/stream/stream.py",
    "engine/stream/maintenance.py",
    "engine/consumer/acks.py",
    "engine/consumer/run_queue.py",
    "engine/consumer/cursor.py",
    "engine/consumer/delivery.py",
    "engine/consumer/pending.py",
    "engine/consumer/attached.py",
    "engine/consumer/state.py",
    "engine/direct/multi.py",
    "engine/direct/pages.py",
    "engine/direct/read.py",
    "engine/direct/timestamp.py",
    "server/auth/pattern_lists.py",
    "server/auth/permissions.py",
    "server/net/busy_poll.py",
    "server/net/chunk_reader.py",
    "server/routing/client.py",
    "server/routing/consumer_replies.py",
    "server/routing/flusher.py",
    "server/routing/header_rights.py",
    "server/routing/outlets.py",
    "server/routing/receiver.py",
    "server/routing/route.py",
    "server/routing/router.py",
    "client/inbox.py",
    "client/receive.py",
    "client/jetstream/pages.py",
]


class AllOrNothing(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Build every extension or none: half a mypyc group does not import."""

    extensions: list[Any]

    def run(self) -> None:
        """Build; when that fails in auto mode, remove what was built and go on without."""
        try:
            super().run()
        except Exception as error:
            if MODE == "compiled":
                raise
            for ext in self.extensions:
                Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
                built = self.get_ext_filename(self.get_ext_fullname(ext.name))
                Path(self.build_lib, built).unlink(missing_ok=True)
            self.extensions = []
            self.warn(f"no compiled modules ({error}); the interpreted ones will be used")


class OnlyThisBuild(build):  # type: ignore[misc]  # setuptools has no types
    """Remove from the build folder what an earlier build left there: it would be in the wheel.

    A module that no longer exists would stay importable, and a compiled one that is no longer
    among the hot modules would be loaded instead of its source.
    """

    build_lib: str

    def run(self) -> None:
        """Build, then remove every file that this build did not produce."""
        super().run()
        parts = [self.get_finalized_command(name) for name in self.get_sub_commands()]
        built = {Path(name).resolve() for part in parts for name in part.get_outputs()}
        for path in Path(self.build_lib).resolve().rglob("*"):
            if path.is_file() and path not in built:
                path.unlink()


def compiled_modules() -> list[object]:
    """Run mypyc over the hot modules; an empty list means an interpreted build."""
    if MODE not in {"auto", "compiled", "interpreted"}:
        sys.exit(f"JETSPARK_BUILD={MODE!r}: expected auto, compiled or interpreted")
    # A front end asks for metadata before it builds; compiling for that would double the time.
    if MODE == "interpreted" or {"egg_info", "dist_info", "sdist"} & set(sys.argv):
        return []
    from mypyc.build import mypycify

    # The hot modules lead to all others by what they import, and those to libraries that are not
    # there while pip builds (starlette, pyspark, ...). What is not compiled is not judged here:
    # `make check` does that.
    words = ["--follow-imports=silent", *(str(SOURCE / name) for name in HOT)]
    try:
        # Without line numbers of the C code, which nobody reads: a quarter of the wheel.
        return list(
            mypycify(words, multi_file=True, group_name="jetspark", opt_level="3", debug_level="0")
        )
    except SystemExit as error:
        # So mypyc says that it found a mistake, which it has printed.
        if MODE == "compiled":
            raise
        print(f"no compiled modules ({error}); the interpreted ones will be used")  # noqa: T201
        return []


setup(ext_modules=compiled_modules(), cmdclass={"build": OnlyThisBuild, "build_ext": AllOrNothing})
