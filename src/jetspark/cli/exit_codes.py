"""Exit codes of all commands; docs/cli.md, Exit codes, lists them for users.

`server check` has those of Nagios instead (0 OK, 1 warning, 2 critical, 3 unknown), `doctor` its
own, and `serve` those of nats-server.
"""

from typing import Final

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
"""An unknown command or option, a bad value; click's own code."""
INTERRUPTED: Final = 130
"""What shells report for SIGINT: 128 and its number."""
TERMINATED: Final = 143
"""What shells report for SIGTERM."""
PIPE_CLOSED: Final = 141
"""What shells report for a closed pipe, SIGPIPE."""
