"""The connection of transformations: the one that ``jetspark pipeline run`` was given.

The command sets it from its own options (``--server``, ``--creds`` ...), so that a project works
with any server. It is passed on in the environment of the process, which only its user can read:
Spark's settings are on the command line of the JVM, which every user of the machine can read, and
in Spark's UI and event logs.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.client.connection.server_pool import DEFAULT_URL
from jetspark.spark.connection_settings import CONNECTION_OPTIONS
from jetspark.spark.pipelines.project import SERVERS_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For a project that Spark's own command runs.
OPTION_SETTING: Final = "spark.jetspark.option."
CONNECTION_VARIABLE: Final = "JETSPARK_PIPELINE_CONNECTION"


@contextmanager
def shared_connection(options: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Let ``connection_options`` return these options; yields the settings for Spark.

    The settings have the addresses of the servers, without credentials.
    """
    before = os.environ.get(CONNECTION_VARIABLE)
    os.environ[CONNECTION_VARIABLE] = msgspec.json.encode(options).decode()
    try:
        yield {SERVERS_SETTING: without_credentials(options["servers"])}
    finally:
        if before is None:
            del os.environ[CONNECTION_VARIABLE]
        else:
            os.environ[CONNECTION_VARIABLE] = before


def without_credentials(servers: str) -> str:
    """Return server URLs without user, password and token."""
    shown: list[str] = []
    for url in servers.split(","):
        scheme, separator, rest = url.strip().rpartition("://")
        shown.append(f"{scheme}{separator}{rest.rpartition('@')[2]}")
    return ",".join(shown)


def connection_options(spark: "SparkSession") -> dict[str, str]:
    """Return the connection options of a format, as given to ``jetspark pipeline run``.

    ``spark.readStream.format("jetstream").options(**connection_options(spark))`` reads from the
    server given by ``--server``, as the user given by ``--creds`` or ``--user``. Without them it
    is the server on this machine.
    """
    found = {"servers": spark.conf.get(SERVERS_SETTING, None) or DEFAULT_URL}
    shared = os.environ.get(CONNECTION_VARIABLE)
    if shared is not None:
        found |= msgspec.json.decode(shared, type=dict[str, str])
    for name in CONNECTION_OPTIONS:
        value = spark.conf.get(OPTION_SETTING + name, None)
        if value is not None and name != "servers":
            found[name] = value
    return found
