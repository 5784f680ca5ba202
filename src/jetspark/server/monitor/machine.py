"""What this machine has for JetStream where the configuration sets no limit."""

import shutil
from pathlib import Path

_SHARE = 3, 4  # of what is there, as nats-server takes


def memory_budget(proc: Path = Path("/proc")) -> int:
    """Return three quarters of the memory; 0 where it cannot be known."""
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                return int(rest.split()[0]) * 1024 * _SHARE[0] // _SHARE[1]
    except (OSError, ValueError, IndexError):
        pass
    return 0


def storage_budget(folder: Path, used: int = 0, grown: int = 0) -> int:
    """Return what the store may grow to: three quarters of the free disk, and what it has.

    ``grown`` is what of the disk it took since: that counts as free. 0 where the folder is not
    there.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return 0
    return (free + grown) * _SHARE[0] // _SHARE[1] + used
