"""``/accountz`` and ``/accstatz``: accounts (nats-server's ``Accountz`` and ``AccountStatz``)."""

from typing import Any

from jetspark.api.base import ApiStruct, Timestamp, shown
from jetspark.server.monitor.account_details import Share
from jetspark.server.monitor.arguments import BadArgument
from jetspark.server.monitor.status import AccountStatus, ServerStatus
from jetspark.server.monitor.subsz import SublistStats, stats_of


class MsgBytes(ApiStruct, frozen=True, kw_only=True):
    """Messages and bytes."""

    msgs: int = shown(0)
    bytes: int = shown(0)


class DataStats(ApiStruct, frozen=True, kw_only=True):
    """Traffic in one direction; the parts for traffic through other servers are always empty."""

    msgs: int = shown(0)
    bytes: int = shown(0)
    gateways: MsgBytes = shown(MsgBytes())
    routes: MsgBytes = shown(MsgBytes())
    leafs: MsgBytes = shown(MsgBytes())


class AccountStat(ApiStruct, frozen=True, kw_only=True):
    """The counts of one account; ``sent`` is what the server sent."""

    acc: str
    name: str
    conns: int
    leafnodes: int = shown(0)
    total_conns: int
    num_subscriptions: int
    sent: DataStats
    received: DataStats
    slow_consumers: int | None = None


class AccountStatz(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/accstatz``."""

    server_id: str
    now: Timestamp
    account_statz: tuple[AccountStat, ...] = shown(())


class ExportInfo(ApiStruct, frozen=True, kw_only=True):
    """An export of an account."""

    subject: str
    type: str
    token_req: bool = False
    response_type: str = ""
    approved_accounts: tuple[str, ...] = ()


class ImportInfo(ApiStruct, frozen=True, kw_only=True):
    """An import of an account."""

    subject: str
    account: str
    to: str = ""
    local_subject: str = ""
    type: str
    invalid: bool = shown(False)
    share: bool = shown(False)
    tracking: bool = shown(False)


class MappingInfo(ApiStruct, frozen=True, kw_only=True):
    """A mapping of a subject."""

    subject: str
    weight: int = shown(0)


class AccountInfo(ApiStruct, frozen=True, kw_only=True):
    """One account in full."""

    account_name: str
    update_time: Timestamp
    is_system: bool = False
    expired: bool
    complete: bool
    jetstream_enabled: bool
    leafnode_connections: int = shown(0)
    client_connections: int
    subscriptions: int
    mappings: dict[str, tuple[MappingInfo, ...]] | None = None
    exports: tuple[ExportInfo, ...] = ()
    imports: tuple[ImportInfo, ...] = ()
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: tuple[str, ...] = ()
    decoded_jwt: dict[str, Any] | None = None
    sublist_stats: SublistStats


class Accountz(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/accountz``: all names, or one account."""

    server_id: str
    now: Timestamp
    system_account: str = ""
    accounts: tuple[str, ...] = ()
    account_detail: AccountInfo | None = None


def accountz(view: ServerStatus, name: str) -> Accountz:
    """Build the answer. Raises BadArgument for an account that does not exist."""
    accounts = {account.name: account for account in view.accounts()}
    found = None
    if name:
        account = accounts.get(name)
        if account is None:
            raise BadArgument(f"Account {name} does not exist")
        found = _info(view, account)
    return Accountz(
        server_id=view.identity.server_id,
        now=view.date(view.now_ns()),
        system_account=view.echo.system_account,
        accounts=() if name else tuple(accounts),
        account_detail=found,
    )


def accstatz(view: ServerStatus, *, unused: bool) -> AccountStatz:
    """Build the answer: accounts with connections, or all of them."""
    return AccountStatz(
        server_id=view.identity.server_id,
        now=view.date(view.now_ns()),
        account_statz=tuple(
            _stat(account) for account in view.accounts() if unused or account.connection_count
        ),
    )


def _stat(account: AccountStatus) -> AccountStat:
    traffic = account.traffic
    return AccountStat(
        acc=account.name,
        name=account.name_tag,
        conns=account.connection_count,
        total_conns=account.connection_count,
        num_subscriptions=account.sublist().subscriptions,
        sent=DataStats(msgs=traffic.out_msgs, bytes=traffic.out_bytes),
        received=DataStats(msgs=traffic.in_msgs, bytes=traffic.in_bytes),
        slow_consumers=account.slow_consumers,
    )


def _info(view: ServerStatus, account: AccountStatus) -> AccountInfo:
    details, counts = account.details(), account.sublist()
    mappings = {
        source: tuple(MappingInfo(subject=each.subject, weight=each.weight) for each in where)
        for source, where in details.mappings.items()
    }
    return AccountInfo(
        account_name=account.name,
        update_time=view.date(details.updated_ns),
        is_system=account.is_system,
        expired=details.expired,
        complete=details.complete,
        jetstream_enabled=account.jetstream_enabled,
        client_connections=account.connection_count,
        subscriptions=counts.subscriptions,
        mappings=mappings or None,
        exports=tuple(_export(each) for each in details.exports),
        imports=tuple(_import(each) for each in details.imports),
        jwt=details.jwt,
        issuer_key=details.issuer_key,
        name_tag=account.name_tag,
        tags=details.tags,
        decoded_jwt=details.claims,
        sublist_stats=stats_of([counts]),
    )


def _export(share: Share) -> ExportInfo:
    return ExportInfo(
        subject=share.subject,
        type=share.kind,
        token_req=share.token_required,
        response_type=share.response_type,
        approved_accounts=share.approved_accounts,
    )


def _import(share: Share) -> ImportInfo:
    return ImportInfo(
        subject=share.subject,
        account=share.account,
        to=share.local_subject if share.kind == "service" else "",
        local_subject=share.local_subject,
        type=share.kind,
        invalid=share.invalid,
        share=share.share,
    )
