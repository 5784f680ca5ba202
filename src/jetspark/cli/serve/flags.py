"""`jetspark serve`: nats-server's flags; the server is loaded only to run one.

Without click, which takes a tenth of a start: it has nothing to do with these flags.
"""

import gc
import os
import signal
import sys

from jetspark.cli.serve.help import help_text, tls_help_text
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
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.settings import Settings
from jetspark.version import NATS_VERSION, VERSION


def serve(flags: tuple[str, ...]) -> None:
    """Do what the flags request: serve, in nearly all cases. Exits after an error."""
    asked = from_command_line(flags, os.environ)
    if not isinstance(asked, Settings):
        _do_instead(asked)
        return
    # Garbage collection while modules are loaded takes a tenth of the start; see run_server.
    gc.disable()
    from jetspark.cli.serve.running import run_server

    run_server(asked, flags)


def _do_instead(asked: Instruction) -> None:
    """Do what the flags requested instead of serving."""
    match asked:
        case ShowVersion():
            sys.stdout.write(f"nats-server: v{NATS_VERSION} (jetspark {VERSION})\n")
        case ShowHelp():
            sys.stdout.write(help_text() + "\n")
        case ShowTlsHelp():
            sys.stdout.write(tls_help_text() + "\n")
        case SendSignal(signal=name, pid=pid):
            try:
                os.kill(pid, signal.Signals[name])
            except OSError as error:
                sys.exit(f"jetspark: process {pid}: {error.strerror}")
        case CheckedFile(settings=settings, line=line):
            from jetspark.errors import MissingExtra
            from jetspark.server.auth.users import build_directory
            from jetspark.server.config.packages import check_packages
            from jetspark.server.start_errors import in_words

            # What the server checks at its start, after it has read the file.
            try:
                check_packages(settings)
                build_directory(settings)
            except (ConfigRefused, MissingExtra) as refusal:
                for problem in in_words(refusal).splitlines():
                    sys.stderr.write(f"[FTL] {settings.config_file}: {problem}\n")
                sys.exit(1)
            sys.stderr.write(line + "\n")
        case Exit(code=code, error=error):
            sys.stderr.write(error)
            sys.exit(code)
