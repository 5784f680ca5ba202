"""`kv lock`: hold a lock while a command runs."""

import asyncio
import os
import signal

import click

from jetspark.cli.kv.buckets import open_bucket
from jetspark.cli.session import Session
from jetspark.client.jetstream.kv.lock import Lock
from jetspark.errors import RequestTimeout

# Seconds that a command may take to end after SIGTERM.
_GRACE = 10.0


async def hold_lock(
    session: Session, *, bucket: str, key: str, words: tuple[str, ...], ttl: float,
    wait: float | None, owner: str,
) -> None:  # fmt: skip
    """Acquire a lock, run the command or wait, release it."""
    output = session.output
    store = await open_bucket(session, bucket)
    lock = store.lock(key, owner=owner, ttl=ttl)
    if not await lock.try_acquire():
        held = await store.get(key, default=None)
        holder = "" if held is None else held.value.decode("utf-8", "backslashreplace")
        if wait == 0:
            raise click.ClickException(
                f"the lock {key} is held by {holder or 'another process'}: wait for it with --wait"
            )
        output.say(f"Waiting for the lock {key}, held by {holder or 'another process'}")
        try:
            await lock.acquire(timeout=wait)
        except RequestTimeout as error:
            raise click.ClickException(f"{error}; it was not acquired") from None
    try:
        await _work(session, lock, key, words)
    finally:
        await lock.release()


async def _work(session: Session, lock: Lock, key: str, words: tuple[str, ...]) -> None:
    token = lock.token
    if not words:
        session.output.done(
            f"Holding the lock {key}, token {token}; interrupt to release it",
            key=key, token=token, owner=lock.owner,
        )  # fmt: skip
        await lock.wait_lost()
        raise click.ClickException(f"the lock {key} was lost: it could not be renewed in time")
    try:
        command = await asyncio.create_subprocess_exec(
            *words, env={**os.environ, "JETSPARK_LOCK_TOKEN": str(token)}
        )
    except OSError as error:
        raise click.ClickException(f"{words[0]}: {error.strerror}") from error
    ended = asyncio.ensure_future(command.wait())
    lost = asyncio.ensure_future(lock.wait_lost())
    try:
        await asyncio.wait((ended, lost), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # The lock protects the command: it is released when the command has ended.
        await _end(command, ended)
        raise click.exceptions.Exit(_code(await ended)) from None
    finally:
        lost.cancel()
    if not ended.done():
        await _end(command, ended)
        raise click.ClickException(
            f"the lock {key} was lost, because it could not be renewed in time; {words[0]} was "
            "terminated"
        )
    code = _code(ended.result())
    if session.output.json:
        session.output.value({"key": key, "token": token, "owner": lock.owner, "exit_code": code})
    raise click.exceptions.Exit(code)


async def _end(command: asyncio.subprocess.Process, ended: "asyncio.Future[int]") -> None:
    """Terminate a command, and kill it if it does not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if command.returncode is None:
            command.send_signal(number)
        done, _ = await asyncio.wait((ended,), timeout=_GRACE)
        if done:
            return


def _code(returned: int) -> int:
    """The exit code that a shell would report."""
    return returned if returned >= 0 else 128 - returned
