"""Users' callbacks: they are called with blocking twins."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar

from jetspark.client.arguments import function
from jetspark.client.callbacks.pool import OrderedBy
from jetspark.client.callbacks.thread import ThreadCallback, check_plain

if TYPE_CHECKING:
    from jetspark.sync.portal import Portal

M = TypeVar("M")
S = TypeVar("S")


def twin_callback(
    callback: Callable[[M], object], twin: Callable[["Portal", S], M], portal: "Portal"
) -> ThreadCallback[S]:
    """The callback on its own thread, where it may block."""
    check_plain(function(callback, "callback", "a message"))
    return ThreadCallback(lambda one: callback(twin(portal, one)))


def twin_order(
    ordered_by: OrderedBy[M], twin: Callable[["Portal", S], M], portal: "Portal"
) -> OrderedBy[S]:
    """The key function for ordering; it is called on the loop's thread, so it must not block."""
    if ordered_by is None or ordered_by == "subject" or not callable(ordered_by):
        return ordered_by
    key: Callable[[M], Hashable] = ordered_by
    return lambda one: key(twin(portal, one))
