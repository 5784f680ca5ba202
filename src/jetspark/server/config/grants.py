"""Which accounts may copy, or remove messages, from which remote (``jetspark.remotes``).

A remote is connected with the server's own credentials, so a stream that copies from it reads with
permissions that its creator may not have. Permission to create such streams is therefore granted
per account. Copying from a stream with interest or work-queue retention removes messages there,
which needs a grant of its own.
"""

from collections.abc import Iterator

from jetspark.server.config.blocks.accounts import GLOBAL_ACCOUNT
from jetspark.server.config.blocks.jetspark import Remote
from jetspark.server.config.blocks.replica import LEADER_NAME
from jetspark.server.config.settings import Settings


def copying_accounts(settings: Settings) -> list[str]:
    """Return the accounts with JetStream, sorted."""
    listed = [found for found in settings.accounts if found.name != settings.system_account]
    if not listed:
        return [GLOBAL_ACCOUNT]
    return sorted(account.name for account in listed if account.jetstream is not None)


def granted_accounts(remote: Remote, settings: Settings) -> frozenset[str]:
    """Return the accounts whose streams may copy from a remote.

    Without a list that is the only account, if there is only one. The leader of a replica is
    copied by the replica itself: its clients create no streams there.
    """
    accounts = copying_accounts(settings)
    if remote.accounts:
        return frozenset(remote.accounts)
    if _is_leader(remote, settings) or len(accounts) == 1:
        return frozenset(accounts)
    return frozenset()


def taking_accounts(remote: Remote, settings: Settings) -> frozenset[str]:
    """Return the accounts whose streams may remove messages from a remote."""
    granted = granted_accounts(remote, settings)
    if isinstance(remote.take, bool):
        return granted if remote.take else frozenset()
    return granted.intersection(remote.take)


def grant_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the grants of the remotes."""
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
                    f"remote '{remote.name}': no account '{name}' with JetStream exists for its "
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
