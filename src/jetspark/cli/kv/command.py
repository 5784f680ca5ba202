"""`jetspark kv`: declarations. The functions are in the modules next to this one."""

from pathlib import Path
from typing import Final

import click

from jetspark.cli.bucket_options import COMMON, STORAGE, declare
from jetspark.cli.commands import Group
from jetspark.cli.completion.names import bucket_names, key_names
from jetspark.cli.quantities import AT, COUNT, DURATION, SECONDS, SEQUENCE, SIZE, Whole

_bucket = click.argument("bucket", shell_complete=bucket_names)
_key = click.argument("key", shell_complete=key_names)
_value = click.argument("value", metavar="[VALUE]", required=False)


def _refuse_empty(
    _ctx: click.Context, _param: click.Parameter, filters: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse the pattern of a variable that is not set, instead of taking it for all keys."""
    if "" in filters:
        raise click.BadParameter("a key or pattern must not be empty; without one it is all keys")
    return filters


_filters = click.argument(
    "filters", metavar="[KEY...]", nargs=-1, shell_complete=key_names, callback=_refuse_empty
)

_force = click.option("-f", "--force", is_flag=True, help="Do not ask.")
_ttl = click.option("--ttl", type=DURATION, help="How long the key lives: 30s, 1h.")
_at = click.option(
    "--at", type=AT, help="A revision, a time (2026-11-15T12:00:00Z) or an age (2h30m)."
)
_OPTIONS: Final = (
    *COMMON,
    click.option("--history", type=Whole(1, 64), help="Values kept per key, 1 to 64."),
    click.option(
        "--marker-ttl", type=DURATION,
        help="How long a marker remains where a value expired; watchers see it.",
    ),
    click.option("--max-value-size", type=SIZE, help="Maximum size of a value: 1MB."),
    click.option("--republish-source", help="Keys to publish again once stored: '$KV.B.>'."),
    click.option("--republish-destination", help="The subject to publish them under."),
    click.option(
        "--republish-headers", is_flag=True, default=None, help="Republish without values."
    ),
    click.option("--source", "sources", multiple=True, help="Copy the values of this bucket too."),
)  # fmt: skip
_NEW: Final = (
    STORAGE,
    click.option("--mirror", help="Be a copy of this bucket."),
    click.option("--mirror-domain", help="The JetStream domain of the bucket of --mirror."),
)
_EDIT: Final = (
    click.option("--no-mirror", is_flag=True, help="Stop mirroring; the values stay."),
    click.option(
        "--dry-run", is_flag=True, help="Only show what would change; exits with 1 if so."
    ),
)


@click.group(cls=Group)
def kv() -> None:
    """Manage key-value buckets and their keys.

    All commands work with any server, jetspark or nats-server.

    \b
    Examples:
      jetspark kv add SETTINGS --history 5
      jetspark kv put SETTINGS color blue
      jetspark kv get SETTINGS color --raw
      jetspark kv watch SETTINGS
      jetspark kv export SETTINGS settings.ndjson
    """


@kv.remote("ls", "jetspark.cli.kv.buckets:list_buckets", aliases=("list",))
@click.argument("bucket", metavar="[BUCKET]", required=False, shell_complete=bucket_names)
@_filters
@click.option("-n", "--names", is_flag=True, help="Only the names of the buckets.")
@click.option("-v", "--verbose", is_flag=True, help="With BUCKET: also revisions and times.")
@click.option("--display-value", is_flag=True, help="With --verbose: also the values.")
def _ls() -> None:
    """List buckets, or the keys of a bucket.

    \b
    Examples:
      jetspark kv ls
      jetspark kv ls SETTINGS
      jetspark kv ls SETTINGS 'color.*' --verbose --display-value
    """


@kv.remote("keys", "jetspark.cli.kv.buckets:list_keys")
@_bucket
@_filters
@click.option("-v", "--verbose", is_flag=True, help="Also revisions and times.")
@click.option("--display-value", is_flag=True, help="With --verbose: also the values.")
def _keys() -> None:
    """List the keys of a bucket, all or those that match.

    \b
    Examples:
      jetspark kv keys SETTINGS
      jetspark kv keys SETTINGS 'color.*' 'size.>'
    """


@kv.remote("add", "jetspark.cli.kv.buckets:add_bucket", aliases=("new",))
@_bucket
@declare((*_OPTIONS, *_NEW))
def _add() -> None:
    """Create a bucket.

    \b
    Examples:
      jetspark kv add SETTINGS
      jetspark kv add SESSIONS --ttl 1h --marker-ttl 1m --storage memory
      jetspark kv add PRICES --history 10 --max-bucket-size 1GB
    """


@kv.remote("edit", "jetspark.cli.kv.buckets:edit_bucket")
@_bucket
@declare((*_OPTIONS, *_EDIT))
def _edit() -> None:
    """Change the configuration of a bucket; only the given settings change.

    \b
    Examples:
      jetspark kv edit SETTINGS --history 10 --dry-run
      jetspark kv edit SETTINGS --history 10
    """


@kv.remote("info", "jetspark.cli.kv.buckets:bucket_info", aliases=("status", "view"))
@_bucket
def _info() -> None:
    """Show the configuration and state of a bucket.

    \b
    Examples:
      jetspark kv info SETTINGS
      jetspark kv info SETTINGS --json | jq .values
    """


@kv.remote("get", "jetspark.cli.kv.values:get_value")
@_bucket
@_key
@click.option("--revision", type=SEQUENCE, help="This revision, not the latest.")
@click.option("--raw", is_flag=True, help="Only the value.")
def _get() -> None:
    """Show the value of a key.

    \b
    Examples:
      jetspark kv get SETTINGS color
      jetspark kv get SETTINGS color --raw
      jetspark kv get SETTINGS color --revision 3
    """


@kv.remote("put", "jetspark.cli.kv.values:put_value")
@_bucket
@_key
@_value
@_ttl
def _put() -> None:
    """Set a key; without VALUE, to standard input.

    \b
    Examples:
      jetspark kv put SETTINGS color blue
      jetspark kv put SETTINGS logo < logo.png
    """


@kv.remote("create", "jetspark.cli.kv.values:create_value")
@_bucket
@_key
@_value
@_ttl
def _create() -> None:
    """Set a key only if it has no value; without VALUE, to standard input.

    \b
    Examples:
      jetspark kv create SETTINGS color blue
      jetspark kv create JOBS nightly "$HOSTNAME" --ttl 1h
    """


@kv.remote("update", "jetspark.cli.kv.values:update_value")
@_bucket
@_key
@click.argument("value")
@click.argument("revision", type=Whole(0))
@_ttl
def _update() -> None:
    """Set a key only if its latest revision is REVISION.

    \b
    Example:
      jetspark kv update SETTINGS color green 7
    """


@kv.remote("del", "jetspark.cli.kv.values:delete", aliases=("rm", "delete"))
@_bucket
@click.argument("key", metavar="[KEY]", required=False, shell_complete=key_names)
@_force
def _del() -> None:
    """Delete a key and keep its history; without KEY, the whole bucket.

    KEY may have wildcards.

    \b
    Examples:
      jetspark kv del SETTINGS color
      jetspark kv del SETTINGS 'old.*' --force
      jetspark kv del SETTINGS
    """


@kv.remote("purge", "jetspark.cli.kv.values:purge_key")
@_bucket
@_key
@_force
@click.option("--ttl", type=DURATION, help="How long the marker of the deletion remains.")
def _purge() -> None:
    """Delete a key and its history; a marker remains. KEY may have wildcards.

    \b
    Example:
      jetspark kv purge SETTINGS color --force
    """


@kv.remote("history", "jetspark.cli.kv.values:key_history")
@_bucket
@_key
def _history() -> None:
    """List the stored values and deletions of a key, oldest first. KEY may have wildcards.

    \b
    Example:
      jetspark kv history SETTINGS color
    """


@kv.remote("revert", "jetspark.cli.kv.values:revert_key")
@_bucket
@_key
@click.argument("revision", type=SEQUENCE)
@_force
def _revert() -> None:
    """Set a key to the value of an earlier revision, if it has not changed meanwhile.

    \b
    Example:
      jetspark kv revert SETTINGS color 3
    """


@kv.remote("compact", "jetspark.cli.kv.buckets:compact_bucket")
@_bucket
@click.option(
    "--older-than",
    type=DURATION,
    default="30m",
    show_default=True,
    help="Keep younger markers, so that watchers notice the deletions.",
)
@_force
def _compact() -> None:
    """Remove the markers of deleted keys, and what is left of their history.

    \b
    Example:
      jetspark kv compact SETTINGS --older-than 0
    """  # fmt: skip


@kv.remote("watch", "jetspark.cli.kv.watching:watch_keys", endless=True)
@_bucket
@_filters
@click.option("--history", is_flag=True, help="Begin with all stored values.")
@click.option("--deletes/--no-deletes", default=True, show_default=True, help="Show deletions.")
@click.option("--updates", is_flag=True, help="Only what is written from now on.")
@click.option("--revision", type=SEQUENCE, help="Begin with this revision.")
@click.option("--count", type=COUNT, default=0, help="End after this many entries.")
def _watch() -> None:
    """Show the values of keys, then every change, until it is interrupted.

    \b
    Examples:
      jetspark kv watch SETTINGS
      jetspark kv watch SETTINGS 'color.*' --updates
      jetspark kv watch SETTINGS --ndjson | jq -r .key
    """


@kv.remote("snapshot", "jetspark.cli.kv.values:show_snapshot")
@_bucket
@_filters
@_at
def _snapshot() -> None:
    """Show the values of all keys at one point in time, now or in the past.

    The past reaches back as far as the history of the bucket.

    \b
    Examples:
      jetspark kv snapshot SETTINGS
      jetspark kv snapshot SETTINGS 'color.*' --at 2h
      jetspark kv snapshot SETTINGS --at 1234 --json
    """


@kv.remote("lock", "jetspark.cli.kv.locking:hold_lock", endless=True)
@_bucket
@_key
@click.argument("words", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--ttl",
    type=SECONDS,
    default="10s",
    show_default=True,
    help="How long others wait for it after this process died.",
)
@click.option("--wait", type=DURATION, help="Give up after this time; 0: at once.")
@click.option("--owner", default="", help="A name for others to see; it is the value of the key.")
def _lock() -> None:
    """Run a command while holding a lock, or hold it until interrupted.

    The command gets the fencing token as JETSPARK_LOCK_TOKEN: it is greater for every later
    holder, so that what the lock protects can refuse a smaller one. If the lock is lost, the
    command is terminated. The exit code is that of the command.

    \b
    Examples:
      jetspark kv lock LOCKS nightly -- ./backup.sh --all
      jetspark kv lock LOCKS nightly --wait 0 -- ./backup.sh
    """  # fmt: skip


@kv.remote("export", "jetspark.cli.kv.transfer:export_bucket")
@_bucket
@click.argument("target", metavar="FILE|-", type=click.Path(path_type=Path))
@click.option("--history", is_flag=True, help="All stored values and deletions, not the latest.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@_at
def _export() -> None:
    """Write the values of a bucket to a file that `kv import` reads.

    The file has one JSON object per line: the configuration, then the entries with the value in
    base64. It appears when it is complete. Times to live of single keys are not included.

    \b
    Examples:
      jetspark kv export SETTINGS settings.ndjson
      jetspark kv export SETTINGS yesterday.ndjson --at 24h
      jetspark kv export SETTINGS - | gzip > settings.gz
    """


@kv.remote("import", "jetspark.cli.kv.transfer:import_bucket")
@_bucket
@click.argument(
    "source", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False)
)
@click.option("--create", is_flag=True, help="Create the bucket with the exported configuration.")
@click.option("-f", "--force", is_flag=True, help="Replace values that differ.")
def _import() -> None:
    """Set the keys of a file of `kv export` in a bucket.

    Keys that have the same value already are skipped, so that an interrupted import can be
    repeated. If a key has another value, nothing is written without --force.

    \b
    Examples:
      jetspark kv import SETTINGS settings.ndjson
      jetspark kv import COPY settings.ndjson --create --server nats://elsewhere:4222
    """
