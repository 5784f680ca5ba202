"""The remotes of a server: configured by name, connected when a stream copies from one."""

from collections.abc import Callable, Mapping

import msgspec

from jetspark.api.base import ApiStruct, shown
from jetspark.clock import Clock
from jetspark.engine.replicate.upstream import Upstream
from jetspark.server.config.blocks.jetspark import Remote, remote_problem
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.grants import granted_accounts, taking_accounts
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings

UpstreamFactory = Callable[[Remote, Clock], Upstream]


class RemoteState(ApiStruct, frozen=True, kw_only=True):
    """One of ``jetspark.remotes``; connected while something is copied from it.

    As in ``/varz``.
    """

    name: str
    connected: bool = shown(False)
    copies: int = shown(0)  # mirrors and sources of its streams
    error: str = ""  # why it is not connected


class Remotes:
    """One upstream per remote, for all accounts."""

    def __init__(self, settings: Settings, factory: UpstreamFactory | None, clock: Clock) -> None:
        remotes = settings.jetspark.remotes
        if remotes and factory is None:
            raise ValueError(
                "remotes need a connector: pass upstreams=jetspark.replica.connect_remote to the "
                "server"
            )
        self._remotes = {remote.name: remote for remote in remotes}
        self._factory = factory
        self._clock = clock
        self._open: dict[str, Upstream] = {}
        self._granted: dict[str, frozenset[str]] = {}
        self._taking: dict[str, frozenset[str]] = {}
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Apply other accounts; the remotes stay the same."""
        # A stream may name thousands of sources, and each is looked up.
        for name, remote in self._remotes.items():
            self._granted[name] = granted_accounts(remote, settings)
            self._taking[name] = taking_accounts(remote, settings)

    def of(self, account: str) -> "AccountRemotes":
        """Return those that an account may copy from."""
        return AccountRemotes(self, account)

    def grants(self, name: str, account: str) -> bool:
        """Return whether streams of an account may copy from a remote."""
        return account in self._granted.get(name, ())

    def may_take(self, name: str, account: str) -> bool:
        """Return whether streams of an account may remove messages from a remote."""
        return account in self._taking.get(name, ())

    def names(self) -> list[str]:
        """Return the names of all remotes, sorted."""
        return sorted(self._remotes)

    def find(self, name: str) -> Upstream | None:
        """Return the remote of that name."""
        remote = self._remotes.get(name)
        if remote is None or self._factory is None:
            return None
        if name not in self._open:
            self._open[name] = self._factory(remote, self._clock)
        return self._open[name]

    def states(self) -> list[RemoteState]:
        """Return all remotes by name, for monitoring."""
        return [self._state(name) for name in self.names()]

    def _state(self, name: str) -> RemoteState:
        upstream = self._open.get(name)
        if upstream is None:
            return RemoteState(name=name)
        return RemoteState(
            name=name,
            connected=upstream.connected,
            copies=upstream.copies,
            error=upstream.trouble,
        )

    async def close(self) -> None:
        """Close all connections."""
        while self._open:
            _, upstream = self._open.popitem()
            await upstream.close()


class AccountRemotes:
    """Implements ``engine.replicate.upstream.Upstreams`` for one account."""

    def __init__(self, remotes: Remotes, account: str) -> None:
        self._remotes = remotes
        self._account = account

    def names(self) -> list[str]:
        """Return the names of those it may copy from, sorted."""
        return [name for name in self._remotes.names() if self._grants(name)]

    def find(self, name: str) -> Upstream | None:
        """Return the remote of that name, if the account may copy from it."""
        return self._remotes.find(name) if self._grants(name) else None

    def takes(self, name: str) -> bool:
        """Return whether copies of the account may also remove messages from it."""
        return self._remotes.may_take(name, self._account)

    def _grants(self, name: str) -> bool:
        return self._remotes.grants(name, self._account)


def remotes_of(given: Mapping[str, "Remote | Mapping[str, object]"]) -> tuple[Remote, ...]:
    """Return the ``remotes`` argument of a server; raises ValueError as a file would."""
    found: list[Remote] = []
    for name, values in given.items():
        remote = values if isinstance(values, Remote) else _remote(name, values)
        if remote.name != name:
            raise ValueError(f"remotes[{name!r}] is named {remote.name!r}: expected the same name")
        problem = remote_problem(remote)
        if problem:
            raise ValueError(f"remotes[{name!r}]: {problem}")
        found.append(remote)
    return tuple(found)


def _remote(name: str, values: Mapping[str, object]) -> Remote:
    unknown = values.keys() - (set(Remote.__struct_fields__) - {"name"})
    if unknown:
        known = ", ".join(field for field in Remote.__struct_fields__ if field != "name")
        raise ValueError(f"remotes[{name!r}] has {min(unknown)!r}: expected {known}")
    fields: dict[str, object] = dict(values)
    url = fields.get("url")
    if isinstance(url, str):
        fields["url"] = tuple(url.split(","))
    for listed in ("accounts", "take"):
        if isinstance(fields.get(listed), str):
            fields[listed] = (fields[listed],)
    for secret in ("password", "token"):
        if isinstance(fields.get(secret), str):
            fields[secret] = Secret(str(fields[secret]))
    if isinstance(fields.get("tls"), Mapping):
        fields["tls"] = msgspec.convert(fields["tls"], Tls)
    if not fields.get("url"):
        raise ValueError(f"remotes[{name!r}]: expected a 'url', like nats://host:4222")
    try:
        return msgspec.convert({"name": name, **fields}, Remote)
    except msgspec.ValidationError as error:
        raise ValueError(f"remotes[{name!r}]: {error}") from None
