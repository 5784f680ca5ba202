"""`jetspark object`: declarations. The functions are in the modules next to this one."""

from pathlib import Path

import click

from jetspark.cli.bucket_options import COMMON, STORAGE, declare
from jetspark.cli.commands import Group
from jetspark.cli.completion.names import object_names, store_names
from jetspark.cli.quantities import COUNT, HEADER, METADATA, SIZE

_bucket = click.argument("bucket", shell_complete=store_names)
_name = click.argument("name", metavar="OBJECT", shell_complete=object_names)
_force = click.option("-f", "--force", is_flag=True, help="Do not ask.")
_progress = click.option("--progress/--no-progress", default=True, help="Show a progress bar.")


@click.group("object", cls=Group, aliases=("obj",))
def object_group() -> None:
    """Manage object stores: files of any size in streams.

    All commands work with any server, jetspark or nats-server.

    \b
    Examples:
      jetspark object add FILES
      jetspark object put FILES report.pdf
      jetspark object ls FILES
      jetspark object get FILES report.pdf --output copy.pdf
    """


@object_group.remote("ls", "jetspark.cli.object.stores:list_stores", aliases=("list",))
@click.argument("bucket", metavar="[BUCKET]", required=False, shell_complete=store_names)
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _ls() -> None:
    """List object stores, or the objects of one.

    \b
    Examples:
      jetspark object ls
      jetspark object ls FILES
      jetspark object ls FILES --json | jq '.[].size'
    """


@object_group.remote("add", "jetspark.cli.object.stores:add_store", aliases=("new",))
@_bucket
@declare((*COMMON, STORAGE))
def _add() -> None:
    """Create an object store.

    \b
    Examples:
      jetspark object add FILES
      jetspark object add CACHE --ttl 1d --max-bucket-size 10GB --compress
    """


@object_group.remote("edit", "jetspark.cli.object.stores:edit_store")
@_bucket
@declare(COMMON)
@click.option("--dry-run", is_flag=True, help="Only show what would change; exits with 1 if so.")
def _edit() -> None:
    """Change the configuration of an object store; only the given settings change.

    \b
    Example:
      jetspark object edit FILES --max-bucket-size 20GB --dry-run
    """


@object_group.remote("info", "jetspark.cli.object.stores:store_info", aliases=("show", "i"))
@_bucket
@click.argument("name", metavar="[OBJECT]", required=False, shell_complete=object_names)
def _info() -> None:
    """Show an object store, or an object.

    \b
    Examples:
      jetspark object info FILES
      jetspark object info FILES report.pdf
    """


@object_group.remote("put", "jetspark.cli.object.files:put_object")
@_bucket
@click.argument(
    "file",
    metavar="[FILE|-]",
    required=False,
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
)
@click.option("--name", default="", help="The name of the object. Default: that of FILE.")
@click.option("--description", default="", help="A description of the object.")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="A header.")
@click.option("--metadata", type=METADATA, multiple=True, help="Metadata of the object.")
@click.option("--chunk-size", type=SIZE, help="Size of the messages that store it: 128KB.")
@_progress
@_force
def _put() -> None:
    """Store a file; without FILE, or with -, standard input.

    An object of that name is replaced once the new one is complete. Before that you are asked;
    --force replaces it without a question.

    \b
    Examples:
      jetspark object put FILES report.pdf
      jetspark object put FILES report.pdf --name 2026/report.pdf --description 'the final one'
      tar c data | jetspark object put FILES --name data.tar
    """  # fmt: skip


@object_group.remote("get", "jetspark.cli.object.files:get_object")
@_bucket
@_name
@click.option(
    "-O",
    "--output",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE|-",
    help="The file to write; -: standard output. Default: the last part of the name, here.",
)
@_progress
@_force
def _get() -> None:
    """Write an object to a file, which appears when it is complete and verified.

    An existing file is replaced after a question, or with --force.

    \b
    Examples:
      jetspark object get FILES report.pdf
      jetspark object get FILES data.tar --output - | tar x
    """  # fmt: skip


_folder_prefix = click.option(
    "--prefix", default="", help="What the names start with before the path of the file: 2026/"
)
_folder_delete = click.option(
    "--delete", is_flag=True, help="At the end, delete what the other side does not have."
)
_folder_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would happen.")


@object_group.remote("put-folder", "jetspark.cli.object.folders:put_folder")
@_bucket
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_folder_prefix
@_folder_delete
@_folder_dry_run
@_progress
@_force
def _put_folder() -> None:
    """Store all files below a folder; those with the same content are skipped.

    An object is named after the path of its file below FOLDER. Before objects are replaced or
    deleted you are asked; --force does it without a question.

    \b
    Examples:
      jetspark object put-folder FILES reports
      jetspark object put-folder FILES reports --prefix 2026/ --delete --dry-run
    """  # fmt: skip


@object_group.remote("get-folder", "jetspark.cli.object.folders:get_folder")
@_bucket
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_folder_prefix
@_folder_delete
@_folder_dry_run
@_progress
@_force
def _get_folder() -> None:
    """Write the objects of a store to files below a folder; equal files are skipped.

    Each file appears when it is complete and verified. Names that lead out of FOLDER, or differ
    only in case, are refused before anything is written. Before files are replaced or deleted you
    are asked; --force does it without a question.

    \b
    Examples:
      jetspark object get-folder FILES copy
      jetspark object get-folder FILES copy --prefix 2026/ --dry-run
    """  # fmt: skip


@object_group.remote("del", "jetspark.cli.object.stores:delete", aliases=("rm", "delete"))
@_bucket
@click.argument("name", metavar="[OBJECT]", required=False, shell_complete=object_names)
@_force
def _del() -> None:
    """Delete an object; without OBJECT, the whole store.

    \b
    Examples:
      jetspark object del FILES report.pdf
      jetspark object del FILES --force
    """


@object_group.remote("watch", "jetspark.cli.object.stores:watch_store", endless=True)
@_bucket
@click.option("--updates", is_flag=True, help="Only what changes from now on.")
@click.option("--count", type=COUNT, default=0, help="End after this many changes.")
def _watch() -> None:
    """Show the objects of a store, then every change, until it is interrupted.

    \b
    Examples:
      jetspark object watch FILES
      jetspark object watch FILES --updates --ndjson | jq -r .name
    """


@object_group.remote("seal", "jetspark.cli.object.stores:seal_store")
@_bucket
@_force
def _seal() -> None:
    """Make an object store unchangeable, for ever.

    \b
    Example:
      jetspark object seal ARCHIVE_2026
    """
