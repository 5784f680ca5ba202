"""A subscription as in ``/connz`` and ``/subsz``."""

from jetspark.api.base import ApiStruct
from jetspark.server.monitor.connection_view import SubscriptionView


class SubscriptionDetail(ApiStruct, frozen=True, kw_only=True):
    """One subscription (nats-server's ``SubDetail``)."""

    account: str = ""
    account_tag: str = ""
    subject: str
    qgroup: str = ""
    sid: str
    msgs: int
    max: int = 0
    cid: int


def detail_of(
    subscription: SubscriptionView, cid: int, account: str = "", tag: str = ""
) -> SubscriptionDetail:
    """Describe a subscription; an empty ``account`` is omitted."""
    return SubscriptionDetail(
        account=account,
        account_tag=(tag or account) if account else "",
        subject=subscription.subject.decode(errors="replace"),
        qgroup=subscription.queue.decode(errors="replace"),
        sid=subscription.sid.decode(errors="replace"),
        msgs=subscription.delivered,
        max=subscription.max_msgs,
        cid=cid,
    )
