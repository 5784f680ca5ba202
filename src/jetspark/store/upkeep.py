"""How fast a log may be kept in order, beside its work (reliability.md 4.2)."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Upkeep:
    """Bytes per second that housekeeping may read and write; 0 stands for no bound."""

    compaction_rate: int = 64 * MIB
    scrub_rate: int = 5 * 1000 * 1000
