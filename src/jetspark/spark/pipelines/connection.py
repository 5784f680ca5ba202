"""The connection settings of transformations, from Spark's configuration.

``jetspark pipeline run`` sets them from its own options (``--server``, ``--creds`` ...), so that a
project works with any server.
"""

from typing import TYPE_CHECKING, Final

from jetspark.client.connection.server_pool import DEFAULT_URL
from jetspark.spark.connection_settings import CONNECTION_OPTIONS
from jetspark.spark.pipelines.project import SERVERS_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION_SETTING: Final = "spark.jetspark.option."


def connection_options(spark: "SparkSession") -> dict[str, str]:
    """Return the connection options of a format, as given to ``jetspark pipeline run``.

    ``spark.readStream.format("jetstream").options(**connection_options(spark))`` reads from the
    server given by ``--server``, as the user given by ``--creds`` or ``--user``. Without them it
    is the server on this machine.
    """
    found = {"servers": spark.conf.get(SERVERS_SETTING, None) or DEFAULT_URL}
    for name in CONNECTION_OPTIONS:
        value = spark.conf.get(OPTION_SETTING + name, None)
        if value is not None and name != "servers":
            found[name] = value
    return found
