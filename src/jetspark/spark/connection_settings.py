"""How the formats reach a server: the connection options that all of them share.

Options are pickled to every executor and shown in plans. ``credentialsFile`` and
``credentialsEnv`` name where a secret is; prefer them to the secret itself.
"""

from typing import Final

import msgspec

from jetspark.client.server_pool import parse_servers
from jetspark.client.tls import TlsFiles
from jetspark.spark.option_reader import OptionReader, boolean, text_of
from jetspark.subjects.tokens import is_valid_literal

CONNECTION_OPTIONS: Final = (
    "servers",
    "nats.user",
    "nats.password",
    "nats.token",
    "nats.nkeySeed",
    "nats.credentials",
    "nats.name",
    "nats.inboxPrefix",
    "nats.tls",
    "nats.tlsCa",
    "nats.tlsCert",
    "nats.tlsKey",
    "credentialsFile",
    "credentialsEnv",
    "domain",
    "apiPrefix",
)

# Each is a way to say who one is; a connection uses one of them.
_IDENTITIES: Final = (
    "nats.user",
    "nats.token",
    "nats.nkeySeed",
    "nats.credentials",
    "credentialsFile",
    "credentialsEnv",
)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the server, as it travels to the tasks; also the key of a kept connection."""

    servers: tuple[str, ...]
    name: str = "jetspark-spark"
    user: str = ""
    password: str = ""
    token: str = ""
    nkey_seed: str = ""
    credentials_file: str = ""
    """A path, or the name of a file that was distributed with ``SparkContext.addFile``."""
    credentials_env: str = ""
    """The variable, in every worker, that holds a credentials file or its path."""
    inbox_prefix: str = "_INBOX"
    tls: TlsFiles | bool | None = None
    domain: str = ""
    api_prefix: str = ""

    def __repr__(self) -> str:
        """Name the servers only: Spark prints objects into logs and plans."""
        return f"Connection({self.display_servers})"

    @property
    def display_servers(self) -> str:
        """The servers without the passwords their addresses may carry, for messages."""
        return ", ".join(address.label for address in parse_servers(self.servers))


def parse_connection(reader: OptionReader) -> Connection:
    """Take the connection options; mistakes are noted in ``reader``."""
    connection = Connection(
        servers=reader.take("servers", _servers, (), required=True),
        name=reader.take("nats.name", text_of, "jetspark-spark"),
        user=reader.take("nats.user", text_of, ""),
        password=reader.take("nats.password", text_of, ""),
        token=reader.take("nats.token", text_of, ""),
        nkey_seed=reader.take("nats.nkeySeed", text_of, ""),
        credentials_file=reader.take("credentialsFile", text_of, "")
        or reader.take("nats.credentials", text_of, ""),
        credentials_env=reader.take("credentialsEnv", text_of, ""),
        inbox_prefix=reader.take("nats.inboxPrefix", _literal, "_INBOX"),
        tls=_tls(reader),
        domain=reader.take("domain", text_of, ""),
        api_prefix=reader.take("apiPrefix", _literal, ""),
    )
    if reader.has("nats.user") != reader.has("nats.password"):
        reader.problems.append("nats.user and nats.password go together: only one is given")
    given = [name for name in _IDENTITIES if reader.has(name)]
    if len(given) > 1:
        reader.problems.append(f"{' and '.join(given)} exclude each other: give one of them")
    if reader.has("domain") and reader.has("apiPrefix"):
        reader.problems.append("domain and apiPrefix exclude each other: give one of them")
    return connection


def _tls(reader: OptionReader) -> TlsFiles | bool | None:
    wanted = reader.take("nats.tls", boolean, default=False)
    files = TlsFiles(
        ca_file=reader.take("nats.tlsCa", text_of, ""),
        certificate_file=reader.take("nats.tlsCert", text_of, ""),
        key_file=reader.take("nats.tlsKey", text_of, ""),
    )
    if reader.has("nats.tlsCert") != reader.has("nats.tlsKey"):
        reader.problems.append("nats.tlsCert and nats.tlsKey go together: only one is given")
    if files == TlsFiles():
        return wanted or None
    if reader.has("nats.tls") and not wanted:
        reader.problems.append("nats.tls is false, but certificates are given")
    return files


def _servers(text: str) -> tuple[str, ...]:
    try:
        parse_servers(text)
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from error
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _literal(text: str) -> str:
    if not is_valid_literal(text.encode()):
        raise ValueError(f"{text!r} is not a subject without wildcards")
    return text
