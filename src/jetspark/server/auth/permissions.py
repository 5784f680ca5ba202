"""Permissions: what a client may publish, subscribe to and receive.

`Rules` are the permissions of a user, shared by all its connections; `Permissions` is the state of
one connection: the requests it may still answer, and whether deliveries to it must be checked. A
client that may do everything has neither, and pays nothing.

The rules are those of nats-server 2.15.1:

- An allow list, if present, allows what it names and nothing else; deny wins over allow.
- Entries of the subscribe lists may name a queue (``"foo.* workers.*"``). ``foo`` allows ``foo``
  plain and in any queue, ``foo v1`` only in queue ``v1``; with both, plain and queue ``v1``.
- A subscription wider than a denied subject is accepted. Denied messages are then left out at
  delivery, for queue subscriptions as well.
- Permission to answer (``allow_responses``) counts per reply subject, with a limit on messages and
  time; it wins over deny.

In two points they are stricter. nats-server treats the ``>`` of a subscription as a literal, so
that ``SUB foo.>`` passes ``allow: "foo.*"`` and receives ``foo.a.b``, which was never allowed.
Here every subject that a subscription can receive must be allowed by one entry.

Wildcards in published subjects are literals, too, but not to JetStream: a request that ends with a
subject, of a direct get or of a consumer's filter, matches everything that subject matches. With
``$JS.API.DIRECT.GET.S.secret`` denied, nats-server answers ``$JS.API.DIRECT.GET.S.*``. Here such a
request needs one entry that allows all of it, and none may deny a part.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.server.auth.pattern_lists import PatternList, allows, denies, pattern_list
from jetspark.subjects.tokens import is_literal

CACHE_SIZE: Final = 512
"""Verdicts about subjects that rules cache in each of their two generations.

nats-server caches 128 per connection; these are shared by all connections of a user.
"""

REPLIES_MAX: Final = 32_768
"""Requests a connection may answer, in each of two generations; older ones are dropped.

nats-server keeps them all; without a time limit they would exhaust the memory.
"""

RESPONSES_MAX_DEFAULT: Final = 1  # nats-server, DEFAULT_ALLOW_RESPONSE_MAX_MSGS
RESPONSES_EXPIRE_DEFAULT_NS: Final = 120_000_000_000  # its DEFAULT_ALLOW_RESPONSE_EXPIRATION

_UNKNOWN: Final[i64] = -1


class PermissionCache:
    """A bounded cache of verdicts by subject: two generations, the older one is dropped."""

    def __init__(self, size: i64) -> None:
        self._size: i64 = size
        self._young: dict[bytes, bool] = {}
        self._old: dict[bytes, bool] = {}

    def find(self, subject: bytes) -> i64:
        """Return 1 for yes, 0 for no, -1 for an unknown subject."""
        found = self._young.get(subject)
        if found is None:
            return self._find_old(subject)
        return 1 if found else 0

    def keep(self, subject: bytes, verdict: bool) -> None:
        """Cache a verdict."""
        if len(self._young) >= self._size:
            self._old = self._young
            self._young = {}
        self._young[subject] = verdict

    def count(self) -> int:
        """Return how many verdicts are cached."""
        return len(self._young) + len(self._old)

    def _find_old(self, subject: bytes) -> i64:
        found = self._old.get(subject)
        if found is None:
            return _UNKNOWN
        self.keep(subject, found)
        return 1 if found else 0


class Rules:
    """The permissions of a user. Immutable; ``allow`` None allows everything.

    ``responses`` says whether requests may be answered: ``responses_max`` messages per request
    within ``responses_expire_ns``; negative means without limit, 0 the default.
    """

    def __init__(
        self,
        publish_allow: list[bytes] | None,
        publish_deny: list[bytes],
        subscribe_allow: list[bytes] | None,
        subscribe_deny: list[bytes],
        responses: bool = False,
        responses_max: i64 = 0,
        responses_expire_ns: i64 = 0,
        cache_size: i64 = CACHE_SIZE,
    ) -> None:
        if responses and publish_allow is None:
            # Without an allow list, permission to answer is the only one.
            publish_allow = []
        self._publish_allow: PatternList | None = pattern_list(publish_allow, False)
        self._publish_deny: PatternList = PatternList(publish_deny, False)
        self._subscribe_allow: PatternList | None = pattern_list(subscribe_allow, True)
        self.subscribe_deny: PatternList = PatternList(subscribe_deny, True)
        self.limits_publish: bool = publish_allow is not None or len(publish_deny) > 0
        self.responses: bool = responses
        self.responses_max: i64 = responses_max if responses_max != 0 else RESPONSES_MAX_DEFAULT
        self.responses_expire_ns: i64 = (
            responses_expire_ns if responses_expire_ns != 0 else RESPONSES_EXPIRE_DEFAULT_NS
        )
        self._publish_verdicts: PermissionCache = PermissionCache(cache_size)
        self._delivery_verdicts: PermissionCache = PermissionCache(cache_size)

    def publishes(self, subject: bytes) -> bool:
        """Return whether the lists allow to publish on ``subject``, not counting answers."""
        if not self.limits_publish:
            return True
        found = self._publish_verdicts.find(subject)
        if found != _UNKNOWN:
            return found == 1
        if subject.startswith(b"$JS.") and not is_literal(subject):
            verdict = self.publishes_all(subject)
        else:
            allow = self._publish_allow
            verdict = (allow is None or allow.names(subject)) and not self._publish_deny.names(
                subject
            )
        self._publish_verdicts.keep(subject, verdict)
        return verdict

    def publishes_all(self, pattern: bytes) -> bool:
        """Return whether an entry allows all that ``pattern`` matches, and none denies a part."""
        allow = self._publish_allow
        return (allow is None or allow.covers(pattern)) and not self._publish_deny.touches(pattern)

    def subscribes(self, subject: bytes, queue: bytes) -> bool:
        """Return whether the lists allow a subscription; an empty ``queue`` is a plain one."""
        allow = self._subscribe_allow
        if allow is not None and not allows(allow.find(subject), subject, queue):
            return False
        return not denies(self.subscribe_deny.find(subject), queue)

    def delivers(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a message may be delivered to a subscription in ``queue``."""
        deny = self.subscribe_deny
        if len(queue) > 0 and deny.has_queues:
            return not denies(deny.find(subject), queue)
        found = self._delivery_verdicts.find(subject)
        if found != _UNKNOWN:
            return found == 1
        verdict = not deny.names(subject)
        self._delivery_verdicts.keep(subject, verdict)
        return verdict


class Reply:
    """A request that may be answered: when it arrived, and its answers so far."""

    def __init__(self, at: i64) -> None:
        self.at: i64 = at
        self.count: i64 = 0


class Permissions:
    """The permissions of one connection. Never reads a clock; ``now`` is passed in.

    ``needs_delivery_check`` says that `may_deliver` must be called; `may_subscribe` sets it.
    ``tracks_replies`` says that `note_request` must be called for deliveries.
    """

    def __init__(self, rules: Rules, replies_max: i64 = REPLIES_MAX) -> None:
        self.rules: Rules = rules
        self.needs_delivery_check: bool = False
        self.tracks_replies: bool = rules.responses
        self._replies_max: i64 = replies_max
        # A generation of requests is dropped when all of it has expired or when it is full.
        self._young: dict[bytes, Reply] = {}
        self._old: dict[bytes, Reply] = {}
        self._young_since: i64 = 0

    def may_publish(self, subject: bytes, now: i64) -> bool:
        """Return whether the client may publish; counts a permitted answer."""
        if self.rules.publishes(subject):
            return True
        return self.tracks_replies and self._spend(subject, now)

    def may_be_answered_at(self, reply: bytes) -> bool:
        """Return whether the client may use ``reply`` as a reply subject.

        A client with more permissions answers there: under ``$JS.`` that would be a request to
        JetStream, so the client itself must be permitted to send it.
        """
        return not reply.startswith(b"$JS.") or self.rules.publishes(reply)

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """Return whether the client may subscribe; an empty ``queue`` is a plain subscription."""
        if not self.rules.subscribes(subject, queue):
            return False
        # A literal subscription receives exactly the subject that was just checked.
        if not self.needs_delivery_check and not is_literal(subject):
            self.needs_delivery_check = self.rules.subscribe_deny.touches(subject)
        return True

    def may_deliver(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a message may be delivered to the client's subscription in ``queue``."""
        return self.rules.delivers(subject, queue)

    def note_request(self, reply: bytes, now: i64) -> None:
        """Permit the client to answer a message that was delivered to it."""
        # A request whose reply subject may still be answered uses one of the answers and is not
        # counted again: nats-server checks it like a publish.
        if self.rules.publishes(reply) or self._spend(reply, now):
            return
        expire_ns = self.rules.responses_expire_ns
        if len(self._young) == 0:
            self._young_since = now
        elif len(self._young) >= self._replies_max or (
            expire_ns > 0 and now - self._young_since > expire_ns
        ):
            self._old = self._young
            self._young = {}
            self._young_since = now
        self._young[reply] = Reply(now)

    def replies_count(self) -> int:
        """Return how many requests are tracked."""
        return len(self._young) + len(self._old)

    def _spend(self, subject: bytes, now: i64) -> bool:
        """Use one answer to a request, if one is left in time."""
        generation = self._young
        reply = generation.get(subject)
        if reply is None:
            generation = self._old
            reply = generation.get(subject)
            if reply is None:
                return False
        rules = self.rules
        if rules.responses_expire_ns > 0 and now - reply.at > rules.responses_expire_ns:
            del generation[subject]
            return False
        reply.count += 1
        if rules.responses_max > 0 and reply.count >= rules.responses_max:
            del generation[subject]
        return True


def is_reserved_publish(subject: bytes, system: bool) -> bool:
    """Return whether no client may publish on ``subject``; ``$NRG.`` is the system account's."""
    return has_gateway_prefix(subject) or (not system and subject.startswith(b"$NRG."))


def is_reserved_reply(reply: bytes) -> bool:
    """Return whether no client may use ``reply`` as a reply subject.

    An answer to ``$JS.ACK.`` would acknowledge a message in the name of the answering client.
    """
    if reply.startswith(b"$JS.ACK."):
        return len(reply) > 8
    return reply.startswith(b"_R_.") or has_gateway_prefix(reply)


def has_gateway_prefix(subject: bytes) -> bool:
    """Return whether it has the prefix of answers through gateways: the current or the old one."""
    if subject.startswith(b"_GR_."):
        return len(subject) > 5
    return subject.startswith(b"$GR.") and len(subject) > 4


def is_reserved_queue(queue: bytes) -> bool:
    """Return whether no client may subscribe in ``queue``; it is reserved for servers."""
    return queue == b"_sys_"
