"""The text of `jetspark serve --help`: nats-server's flags, from the table that parses them."""

from textwrap import wrap
from typing import Final

from jetspark.server.config.flags import FLAGS, UNSUPPORTED_GROUP
from jetspark.server.config.not_yet import NOT_YET

_HEAD = """Usage: jetspark serve [flags]

Run a NATS server with durable JetStream: an acknowledgement means that the
message is on disk.
Flags are nats-server's, with one dash or two; `-c FILE` reads its configuration
format, and flags override the file.

Examples:
  jetspark serve -js                   streams in ./jetspark-data, port 4222
  jetspark serve -js -sd /data -m 8222 streams in /data, monitoring on port 8222
  jetspark serve -c server.conf        everything from a file
  jetspark serve -p -1                 core NATS only, any free port
  jetspark serve --replica-of nats://leader:4222 --streams 'KV_*' -sd /copies
                                       serve reads of all buckets here, forward
                                       everything else to the leader, under one
                                       address (docs/replicas.md)
"""

# The width of a terminal, and the column of what a flag does.
_WIDTH: Final = 80
_DESCRIPTION_AT: Final = 46

_TLS = """TLS with a configuration file:

    tls {
      cert_file: "server.pem"
      key_file:  "server-key.pem"
      ca_file:   "ca.pem"      # with verify: CA of client certificates
      verify:    true          # require client certificates
    }

or with flags: --tls --tlscert=server.pem --tlskey=server-key.pem
               --tlsverify --tlscacert=ca.pem
"""


def help_text() -> str:
    """The whole help page, without unsupported flags."""
    lines = [_HEAD]
    flags = [f for f in FLAGS if f.group != UNSUPPORTED_GROUP and f.path not in NOT_YET]
    for group in dict.fromkeys(flag.group for flag in flags):
        lines.append(f"{group}:")
        for flag in flags:
            if flag.group == group:
                names = ", ".join(f"{'-' if len(n) < 3 else '--'}{n}" for n in flag.names)
                lines += _flag_lines(f"{names} {flag.value}".rstrip(), flag.help)
        lines.append("")
    return "\n".join(lines).rstrip()


def _flag_lines(flag: str, text: str) -> list[str]:
    """A flag, and next to it what it does: lines that fit a terminal of the usual width."""
    described = wrap(text, _WIDTH - _DESCRIPTION_AT, break_on_hyphens=False) or [""]
    names = [f"    {flag}", *[""] * (len(described) - 1)]
    return [
        f"{name:<{_DESCRIPTION_AT}}{part}".rstrip()
        for name, part in zip(names, described, strict=True)
    ]


def tls_help_text() -> str:
    """Help on TLS."""
    return _TLS.rstrip()
