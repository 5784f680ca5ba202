"""Duplicate folders: a stream's folder that a user copied within the store."""

from pathlib import Path

from jetspark.store.log.stream_log import StreamLog


def key_of(log: StreamLog) -> tuple[str, str]:
    """Return what must be unique: the account and the name of a stream."""
    return log.identity.account, log.identity.name


def is_original(log: StreamLog) -> bool:
    """Return whether the folder has the name that the store gave it."""
    return log.segments.folder.name == f"stream-{log.identity.stream_id:016x}"


def second_folders(logs: list[StreamLog]) -> dict[Path, Path]:
    """Return the folders that a server does not serve, each with the one it serves instead."""
    served: dict[tuple[str, str], Path] = {}
    for log in [*filter(is_original, logs), *logs]:
        served.setdefault(key_of(log), log.segments.folder)
    return {
        log.segments.folder: served[key_of(log)]
        for log in logs
        if served[key_of(log)] != log.segments.folder
    }
