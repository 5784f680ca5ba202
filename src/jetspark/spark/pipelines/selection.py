"""Which tables, views and sinks a run updates, and which of them start over.

As in Spark's own runner: `--refresh` and `--full-refresh` name what the run updates, everything
else is left alone; without them a run updates everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jetspark.spark.pipelines.file_tables import short_name
from jetspark.spark.pipelines.project import PipelineRefused, Project


@dataclass(frozen=True)
class Selection:
    """Names as in the catalog: without quotes, catalog and database; Spark ignores their case."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False

    def __bool__(self) -> bool:
        """Whether something was selected."""
        return bool(self.refresh or self.full_refresh)

    def includes(self, name: str) -> bool:
        """Whether the run updates a target."""
        return not self or _has((*self.refresh, *self.full_refresh), name)

    def empties(self, name: str) -> bool:
        """Whether a target starts over."""
        return self.full_refresh_all or _has(self.full_refresh, name)

    def continues(self, name: str) -> bool:
        """Whether the run adds to what a target has."""
        return self.includes(name) and not self.empties(name)

    def check(self, targets: Iterable[str]) -> None:
        """Refuse names that the project does not define; raises ``PipelineRefused``."""
        known = list(targets)
        for name in (*self.refresh, *self.full_refresh):
            if not _has(known, name):
                raise PipelineRefused(
                    f"--refresh or --full-refresh names {name!r}, which the project does not "
                    f"define: expected one of {', '.join(sorted(known))}"
                )

    def check_sink(self, name: str) -> None:
        """Refuse a sink by name: Spark's own runner would leave it alone, without an error."""
        if self and self.includes(name):
            raise PipelineRefused(
                f"--refresh or --full-refresh names {name!r}, which is a sink: Spark's own runner "
                "selects tables and views only; use --continuous, or run without a selection"
            )


def select(
    project: Project, refresh: Iterable[str], full_refresh: Iterable[str], *, everything: bool
) -> Selection:
    """Read the options of a run; raises ``PipelineRefused``."""
    selection = Selection(
        tuple(short_name(project, name) for name in refresh),
        tuple(short_name(project, name) for name in full_refresh),
        everything,
    )
    if everything and selection:
        raise PipelineRefused("--full-refresh-all excludes --refresh and --full-refresh")
    return selection


def _has(names: Iterable[str], name: str) -> bool:
    return name.lower() in {one.lower() for one in names}


EVERYTHING: Final = Selection()
