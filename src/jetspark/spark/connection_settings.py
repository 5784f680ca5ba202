"""The connection options shared by all formats.

Options are pickled to every executor and shown in plans. ``credentialsFile`` and
``credentialsEnv`` name where a secret is; prefer them to the secret itself.
"""

from typing import Final

import msgspec

from jetspark.client.connection.server_pool import parse_servers
from jetspark.client.connection.tls import TlsFiles
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

# Alternative credentials; a connection uses one of them.
_IDENTITIES: Final = (
    "nats.user",
    "nats.token",
    "nats.nkeySeed",
    "nats.credentials",
    "credentialsFile",
    "credentialsEnv",
)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The connection settings, as pickled to tasks; also the key of a cached connection."""

    servers: tuple[str, ...]
    name: str = "jetspark-spark"
    user: str = ""
    password: str = ""
    token: str = ""
    nkey_seed: str = ""
    credentials_file: str = ""
    """A path, or the name of a file distributed with ``SparkContext.addFile``."""
    credentials_env: str = ""
    """The environment variable of every worker that holds a credentials file or its path."""
    inbox_prefix: str = "_INBOX"
    tls: TlsFiles | bool | None = None
    domain: str = ""
    api_prefix: str = ""

    def __repr__(self) -> str:
        """Name the servers only: Spark prints objects to logs and plans."""
        return f"Connection({self.display_servers})"

    @property
    def display_servers(self) -> str:
        """The servers without passwords, for messages."""
        return ", ".join(address.label for address in parse_servers(self.servers))


def parse_connection(reader: OptionReader) -> Connection:
    """Parse the connection options; errors are collected in ``reader``."""
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
        domain=reader.take("domain", _domain, ""),
        api_prefix=reader.take("apiPrefix", _literal, ""),
    )
    if reader.has("nats.user") != reader.has("nats.password"):
        reader.refuse("nats.user and nats.password must be given together: give both")
    given = [name for name in _IDENTITIES if reader.has(name)]
    if len(given) > 1:
        reader.refuse(f"{' and '.join(given)} are mutually exclusive: give one of them")
    if reader.has("domain") and reader.has("apiPrefix"):
        reader.refuse("domain and apiPrefix are mutually exclusive: give one of them")
    return connection


def _tls(reader: OptionReader) -> TlsFiles | bool | None:
    wanted = reader.take("nats.tls", boolean, default=False)
    files = TlsFiles(
        ca_file=reader.take("nats.tlsCa", text_of, ""),
        certificate_file=reader.take("nats.tlsCert", text_of, ""),
        key_file=reader.take("nats.tlsKey", text_of, ""),
    )
    if reader.has("nats.tlsCert") != reader.has("nats.tlsKey"):
        reader.refuse("nats.tlsCert and nats.tlsKey must be given together: give both")
    if files == TlsFiles():
        return wanted or None
    if reader.has("nats.tls") and not wanted:
        reader.refuse("nats.tls is false, but certificates are given")
    return files


def _servers(text: str) -> tuple[str, ...]:
    try:
        parse_servers(text)
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from error
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _domain(text: str) -> str:
    if not is_valid_literal(text.encode()):
        raise ValueError(
            f"{text!r} is not a JetStream domain: it is part of the subjects $JS.<domain>.API.>"
        )
    return text


def _literal(text: str) -> str:
    if not is_valid_literal(text.encode()):
        raise ValueError(f"{text!r} is not a subject without wildcards")
    return text
