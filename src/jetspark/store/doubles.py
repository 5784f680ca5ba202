"""Folders that have the same stream: somebody copied one, beside it, in the store."""

from pathlib import Path

from jetspark.store.log.stream_log import StreamLog


def key_of(log: StreamLog) -> tuple[str, str]:
    """What there may be once: the account and the name of a stream."""
    return log.identity.account, log.identity.name


def is_original(log: StreamLog) -> bool:
    """Say whether the folder has the name that the store gave it."""
    return log.segments.folder.name == f"stream-{log.identity.stream_id:016x}"


def second_folders(logs: list[StreamLog]) -> dict[Path, Path]:
    """The folders that a server does not serve, each with the one that it serves instead."""
    served: dict[tuple[str, str], Path] = {}
    for log in [*filter(is_original, logs), *logs]:
        served.setdefault(key_of(log), log.segments.folder)
    return {
        log.segments.folder: served[key_of(log)]
        for log in logs
        if served[key_of(log)] != log.segments.folder
    }
