"""Copies of remote streams: which remote each reads, and the error if it cannot."""

from __future__ import annotations

from collections.abc import Callable

from jetspark.api.stream import StreamConfig, StreamSource
from jetspark.engine.refusal import Refusal
from jetspark.engine.replicate.copy import Copy
from jetspark.engine.replicate.origin import RemoteOrigin
from jetspark.engine.replicate.upstream import Upstreams, remote_name
from jetspark.engine.stream.values import invalid


class RemoteCopies:
    """Mirrors and sources with ``external``, by the name of the stream that they copy."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._by_name: dict[str, list[Copy]] = {}

    def begin(self, copy: Copy, woken: Callable[[], None]) -> None:
        """Open the feed of a copy; if its remote is unknown, its info has the error."""
        source = copy.source
        assert source.external is not None
        self._by_name.setdefault(source.name, []).append(copy)
        name = remote_name(source.external)
        upstream = self._upstreams.find(name)
        if upstream is None:
            unknown = unknown_remote("this copy", source, self._upstreams.names())
            copy.cannot_reach(unknown.body)
            return
        takes = self._upstreams.takes(name)
        feed = upstream.open(source.name, copy.filters, copy.reader_name, woken, takes=takes)
        copy.set_origin(RemoteOrigin(feed))

    def end(self, copy: Copy) -> None:
        """End a deleted copy, and remove its consumer at the remote."""
        self._by_name[copy.source.name].remove(copy)
        if copy.origin is not None:
            copy.origin.close(for_good=True)

    def of(self, name: str) -> list[Copy]:
        """Return the copies of remote streams of this name."""
        return self._by_name.get(name, [])


def check_remotes(config: StreamConfig, upstreams: Upstreams) -> None:
    """Refuse a configuration with a remote that the account may not copy from."""
    copied = [("mirror", config.mirror), *(("source", source) for source in config.sources)]
    for what, source in copied:
        if source is not None and source.external is not None:
            name = remote_name(source.external)
            if not name or name not in upstreams.names():
                raise unknown_remote(f"{what} {source.name}", source, upstreams.names())


def unknown_remote(what: str, source: StreamSource, names: list[str]) -> Refusal:
    """Return the refusal for an unknown remote, with the known ones."""
    assert source.external is not None
    known = f"that is one of {', '.join(names)}" if names else "none is configured"
    return invalid(
        f"{what} has external.api {source.external.api!r}: expected $JS.<remote>.API with a "
        "remote of this server's configuration (jetspark.remotes) that this account may copy "
        f"from, and {known}"
    )
