"""`jetspark schema`: declarations. The functions are in the module next to this one."""

from pathlib import Path

import click

from jetspark.cli.commands import Group
from jetspark.cli.completion.names import bucket_names, key_names
from jetspark.cli.quantities import Whole
from jetspark.schemas.choices import FORMATS, LEVELS

_registry = click.argument("bucket", metavar="REGISTRY", shell_complete=bucket_names)
_name = click.argument("key", metavar="NAME", shell_complete=key_names)
_version = click.option(
    "--version", "version", type=Whole(1), help="This version, not the latest."
)
_file = click.argument(
    "file", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False)
)
_format = click.option(
    "--format", "kind", type=click.Choice(FORMATS),
    help="Of payloads. Default: that of the schema; of a new one, by the file's name (.avsc, "
    ".proto), else json.",
)  # fmt: skip
_compatibility = click.option(
    "--compatibility", "level", type=click.Choice(LEVELS),
    help="What this and later versions must keep. Default: that of the schema; of a new one, "
    "backward: it reads payloads of all earlier versions.",
)  # fmt: skip


@click.group(cls=Group)
def schema() -> None:
    """Manage schemas of payloads: a registry in a bucket, with versions.

    A schema is DDL (json, msgpack), an Avro record (avro) or a .proto file (protobuf). A new
    version is refused if it breaks what the schema promises. Messages name schema and version in
    the header Jetspark-Schema, for example "orders;2".

    \b
    Examples:
      echo 'id BIGINT NOT NULL, name STRING' | jetspark schema add SCHEMAS orders - --create
      jetspark schema check SCHEMAS orders orders.ddl
      jetspark schema ls SCHEMAS
      jetspark schema get SCHEMAS orders
    """


@schema.remote("ls", "jetspark.cli.schema.registry:list_schemas", aliases=("list",))
@_registry
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _ls() -> None:
    """List the schemas of a registry.

    \b
    Examples:
      jetspark schema ls SCHEMAS
      jetspark schema ls SCHEMAS --json | jq -r '.[].name'
    """


@schema.remote("add", "jetspark.cli.schema.registry:add_schema", aliases=("register",))
@_registry
@_name
@_file
@_format
@_compatibility
@click.option("--create", is_flag=True, help="Create the registry if it does not exist.")
def _add() -> None:
    """Register a schema, or a new version of it; the same schema again changes nothing.

    \b
    Examples:
      jetspark schema add SCHEMAS orders orders.ddl --create
      jetspark schema add SCHEMAS orders.paid paid.proto --compatibility full
      jetspark schema add SCHEMAS events event.avsc
    """


@schema.remote("get", "jetspark.cli.schema.registry:get_schema", aliases=("info",))
@_registry
@_name
@_version
@click.option("--ddl", is_flag=True, help="As columns of SQL, whatever its format.")
def _get() -> None:
    """Print the text of a schema.

    \b
    Examples:
      jetspark schema get SCHEMAS orders
      jetspark schema get SCHEMAS orders --version 1
      jetspark schema get SCHEMAS orders.paid --ddl
    """


@schema.remote("versions", "jetspark.cli.schema.registry:list_versions", aliases=("history",))
@_registry
@_name
def _versions() -> None:
    """List the versions of a schema, oldest first.

    \b
    Example:
      jetspark schema versions SCHEMAS orders
    """


@schema.remote("check", "jetspark.cli.schema.registry:check_schema")
@_registry
@_name
@_file
@_format
@_compatibility
def _check() -> None:
    """Say whether `schema add` would accept a schema, and change nothing; exits with 1 if not.

    \b
    Examples:
      jetspark schema check SCHEMAS orders orders.ddl
      jetspark schema check SCHEMAS orders orders.ddl --compatibility full --json
    """


@schema.remote("rm", "jetspark.cli.schema.registry:remove_schema", aliases=("del", "delete"))
@_registry
@_name
@click.option("--version", type=Whole(1), help="Only this version.")
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
def _rm() -> None:
    """Delete a schema, or one version of it.

    Messages that name it can no longer be decoded. The numbers of versions are not used again.

    \b
    Examples:
      jetspark schema rm SCHEMAS orders --version 1
      jetspark schema rm SCHEMAS orders --force
    """
