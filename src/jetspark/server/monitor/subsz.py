"""``/subsz``: subscription counts, and a list on request (nats-server's ``Subsz``)."""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from jetspark.api.base import ApiStruct, Timestamp, shown
from jetspark.server.monitor.account_details import SublistCounts
from jetspark.server.monitor.arguments import Arguments, BadArgument
from jetspark.server.monitor.status import ServerStatus
from jetspark.server.monitor.subscriptions import SubscriptionDetail, detail_of
from jetspark.server.pacing import ITEMS_PER_TURN, paced
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_valid_literal

LIMIT_DEFAULT: Final = 1024


class SubszOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request."""

    subs: bool = False
    offset: int = 0
    limit: int = LIMIT_DEFAULT
    account: str = ""
    test: bytes = b""


class SublistStats(ApiStruct, frozen=True, kw_only=True):
    """Subscription counts.

    nats-server also has ``num_matches`` and ``cache_hit_rate``. We do not: they would cost a
    counter per message on the hot path.
    """

    num_subscriptions: int = shown(0)
    num_cache: int | None = None
    num_inserts: int = shown(0)
    num_removes: int = shown(0)
    max_fanout: int | None = None
    avg_fanout: float | None = None


class Subsz(ApiStruct, frozen=True, kw_only=True):
    """The answer."""

    server_id: str
    now: Timestamp
    num_subscriptions: int
    num_cache: int | None = None
    num_inserts: int
    num_removes: int
    max_fanout: int | None = None
    avg_fanout: float | None = None
    total: int = shown(0)
    offset: int
    limit: int
    subscriptions_list: tuple[SubscriptionDetail, ...] = ()


class _Receivers(Protocol):
    """The receivers of one subject; implemented by ``subjects.sublist.Match``."""

    @property
    def plain(self) -> list[object]: ...
    @property
    def groups(self) -> list[list[object]]: ...


def sublist_counts(count: int, generation: int, cached: Iterable[_Receivers]) -> SublistCounts:
    """Return the counts of an account from what its router has anyway.

    A sublist has its size (``count``) and the number of its changes (``generation``), from which
    insertions and removals follow. ``cached`` are the results that the router caches by subject.
    """
    fanouts = [len(each.plain) + len(each.groups) for each in cached]
    return SublistCounts(
        subscriptions=count,
        inserts=(generation + count) // 2,
        removes=(generation - count) // 2,
        cached=len(fanouts),
        fanout_total=sum(fanouts),
        fanout_max=max(fanouts, default=0),
    )


def stats_of(counts: Iterable[SublistCounts]) -> SublistStats:
    """Sum the counts of accounts; a count that one of them does not know has no sum."""
    every = list(counts)
    cached = _sum(each.cached for each in every)
    fanout = _sum(each.fanout_total for each in every)
    largest = [each.fanout_max for each in every if each.fanout_max is not None]
    return SublistStats(
        num_subscriptions=sum(each.subscriptions for each in every),
        num_cache=cached,
        num_inserts=sum(each.inserts for each in every),
        num_removes=sum(each.removes for each in every),
        max_fanout=max(largest, default=0) if len(largest) == len(every) else None,
        avg_fanout=None if cached is None or fanout is None else fanout / max(cached, 1),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def read_options(arguments: Arguments) -> SubszOptions:
    """Read the arguments, in nats-server's order. Raises BadArgument."""
    subs = arguments.flag("subs")
    offset = arguments.integer("offset")
    limit = arguments.integer("limit")
    test = arguments.text("test")
    if test and not is_valid_literal(test.encode()):
        raise BadArgument(f"invalid test subject, must be valid publish subject: {test}")
    return SubszOptions(
        subs=subs,
        offset=max(offset, 0),
        limit=limit if limit > 0 else LIMIT_DEFAULT,
        account=arguments.text("acc"),
        test=test.encode(),
    )


async def subsz(view: ServerStatus, options: SubszOptions) -> Subsz:
    """Build the answer."""
    stats = stats_of(
        account.sublist()
        for account in view.accounts()
        if not options.account or account.name == options.account
    )
    total, listed = await _list(view, options) if options.subs else (0, ())
    return Subsz(
        server_id=view.identity.server_id,
        now=view.date(view.now_ns()),
        num_subscriptions=stats.num_subscriptions,
        num_cache=stats.num_cache,
        num_inserts=stats.num_inserts,
        num_removes=stats.num_removes,
        max_fanout=stats.max_fanout,
        avg_fanout=stats.avg_fanout,
        total=total,
        offset=options.offset,
        limit=options.limit,
        subscriptions_list=listed,
    )


async def _list(
    view: ServerStatus, options: SubszOptions
) -> tuple[int, tuple[SubscriptionDetail, ...]]:
    """Return the total, and the requested page."""
    tags = {account.name: account.name_tag for account in view.accounts()}
    total = 0
    page: list[SubscriptionDetail] = []
    last = options.offset + options.limit
    # A connection may have very many: the turn also ends within its subscriptions.
    async for connection in paced(view.connections(), per_turn=ITEMS_PER_TURN // 8):
        if options.account and connection.account != options.account:
            continue
        account = connection.account
        async for each in paced(connection.subscriptions(), per_turn=ITEMS_PER_TURN * 4):
            if options.test and not matches(options.test, each.subject):
                continue
            if options.offset <= total < last:
                page.append(detail_of(each, connection.cid, account, tags.get(account, account)))
            total += 1
    return total, tuple(page)
