"""Which accounts may copy from which remote (``jetspark.remotes``), and who may take from it.

A remote is connected to with credentials of the server's own, so a stream that copies from there
reads with rights that its maker may not have. Who may make such streams is therefore said for each
account. Copying from a stream with interest or work-queue retention removes messages there, which
needs a grant of its own.
"""

from collections.abc import Iterator

from jetspark.server.config.accounts import GLOBAL_ACCOUNT
from jetspark.server.config.jetspark import Remote
from jetspark.server.config.replica import LEADER_NAME
from jetspark.server.config.settings import Settings


def copying_accounts(settings: Settings) -> list[str]:
    """The accounts that can have streams, sorted."""
    listed = [found for found in settings.accounts if found.name != settings.system_account]
    if not listed:
        return [GLOBAL_ACCOUNT]
    return sorted(account.name for account in listed if account.jetstream is not None)


def granted_accounts(remote: Remote, settings: Settings) -> frozenset[str]:
    """The accounts whose streams may copy from a remote.

    Without a list that is the only account, if there is only one. The leader of a replica is
    copied from by the replica itself: its clients make no streams there.
    """
    accounts = copying_accounts(settings)
    if remote.accounts:
        return frozenset(remote.accounts)
    if _is_leader(remote, settings) or len(accounts) == 1:
        return frozenset(accounts)
    return frozenset()


def taking_accounts(remote: Remote, settings: Settings) -> frozenset[str]:
    """The accounts whose streams may take messages away from a remote."""
    granted = granted_accounts(remote, settings)
    if isinstance(remote.take, bool):
        return granted if remote.take else frozenset()
    return granted.intersection(remote.take)


def grant_problems(settings: Settings) -> Iterator[str]:
    """Say what is wrong with the grants of the remotes."""
    accounts = copying_accounts(settings)
    shown = ", ".join(accounts)
    for remote in settings.jetspark.remotes:
        if not remote.accounts and len(accounts) > 1 and not _is_leader(remote, settings):
            yield (
                f"remote '{remote.name}': expected 'accounts', the names of those whose streams "
                f"may copy from it with the remote's credentials; this server has {shown}"
            )
            continue
        for name in remote.accounts:
            if name not in accounts:
                yield (
                    f"remote '{remote.name}': there is no account '{name}' with JetStream for its "
                    f"'accounts' (known: {shown})"
                )
        granted = granted_accounts(remote, settings)
        for name in () if isinstance(remote.take, bool) else remote.take:
            if name not in granted:
                yield (
                    f"remote '{remote.name}': 'take' names '{name}', which may not copy from it "
                    f"(those that may: {', '.join(sorted(granted))})"
                )


def _is_leader(remote: Remote, settings: Settings) -> bool:
    replica = settings.jetspark.replica
    return replica is not None and remote.name == (replica.remote or LEADER_NAME)
