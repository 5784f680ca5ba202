"""Configuration of a server: nats-server's configuration files and flags, and our own settings.

`load_file` and `load_text` read a configuration, `from_command_line` applies flags to one;
`plan_reload` compares two settings. Nothing here opens a socket or starts anything.
"""

from jetspark.server.config.command_line import (
    CheckedFile,
    Exit,
    Instruction,
    SendSignal,
    ShowHelp,
    ShowTlsHelp,
    ShowVersion,
    from_command_line,
)
from jetspark.server.config.flags import FLAGS, Flag
from jetspark.server.config.loader import load_file, load_text
from jetspark.server.config.not_yet import NOT_YET
from jetspark.server.config.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.reload import Change, Refusal, Reload, plan_reload
from jetspark.server.config.settings import Settings

__all__ = [
    "FLAGS",
    "NOT_YET",
    "Change",
    "CheckedFile",
    "ConfigProblem",
    "ConfigRefused",
    "Exit",
    "Flag",
    "Instruction",
    "Refusal",
    "Reload",
    "SendSignal",
    "Settings",
    "ShowHelp",
    "ShowTlsHelp",
    "ShowVersion",
    "from_command_line",
    "load_file",
    "load_text",
    "plan_reload",
]
