"""The routes of a router against a naive search, while subscriptions and streams come and go."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from jetspark.engine.target import PUBLISH, REQUEST, Target
from jetspark.server.routing.account_engine import ServerWithoutJetStream
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.receiver import Pending, Receiver
from jetspark.server.routing.router import Router
from jetspark.subjects.sublist import Sublist

# Few, so that the same ones come again; the underscore makes an inbox.
patterns = st.sampled_from(
    b"a b * > a.a a.b a.* *.a *.b *.* a.> b.> *.> a.a.a a.*.a a.a.> _I.* _I.a _I.a.* _I.a.b "
    b"_I.> *.a.*".split()
)
few_subjects = st.sampled_from(
    b"a b a.a a.b b.a b.b a.a.a a.a.b a.b.a b.a.a c c.c a.* a..a a. .a > _I.a _I.b _I.a.a _I.a.b "
    b"_I.b.a $JS.API.X".split()
)
# Most of these are used once.
fresh_subjects = st.builds(
    lambda shape, n: shape % n,
    st.sampled_from(b"%d a.%d %d.a c.%d a.a.%d c.%d.c _I.%d _I.a.%d _I.%d.b".split()),
    st.integers(0, 9999),
)
subjects = st.one_of(few_subjects, fresh_subjects)
API = Target(REQUEST, None, b"X")


def naive_match(subject: bytes, pattern: bytes) -> bool:
    """Token by token; a subject with an empty token matches nothing."""
    tokens, wanted = subject.split(b"."), pattern.split(b".")
    if b"" in tokens:
        return False
    if wanted[-1] == b">":
        if len(tokens) < len(wanted):
            return False
        wanted = wanted[:-1]
        tokens = tokens[: len(wanted)]
    return len(tokens) == len(wanted) and all(
        want in (b"*", token) for token, want in zip(tokens, wanted, strict=True)
    )


class Streams(ServerWithoutJetStream):
    """The subjects of streams, each a target: the first pattern that matches wins."""

    def __init__(self) -> None:
        self.stored = Sublist(0)
        self.targets: dict[bytes, Target] = {}

    def resolve(self, subject: bytes, /) -> Target | None:
        if subject.startswith(b"$JS.API."):
            return API
        found = [p for p in self.targets if naive_match(subject, p)]
        return self.targets[found[0]] if found else None


class Session:
    """A session of a client that sent CONNECT long ago."""

    settled = True
    checking = False


class RouterMachine(RuleBasedStateMachine):
    """Whatever came before, a message reaches those that want it, and no one else."""

    def __init__(self) -> None:
        super().__init__()
        self.router = Router()
        self.streams = Streams()
        self.router.serve(self.streams, {}, {}, self.streams.stored)
        pending = Pending()
        self.clients = []
        for _ in range(3):
            receiver = Receiver(pending)
            receiver.headers = True
            client = ConnectedClient(self.router, receiver, 4096, 1 << 20)
            client.verbose = client.pedantic = False
            client.parser.headers = True
            client.session = Session()
            self.clients.append(client)
        # Client, sid and pattern of each plain subscription.
        self.model: dict[tuple[int, int], bytes] = {}
        self.sids = 0
        self.entered: set[bytes] = set()

    @rule(client=st.integers(0, 2), pattern=patterns)
    def subscribe(self, client: int, pattern: bytes) -> None:
        self.sids += 1
        self.clients[client].parser.feed(b"SUB %b %d\r\n" % (pattern, self.sids))
        self.model[client, self.sids] = pattern

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        if self.model:
            client, sid = data.draw(st.sampled_from(sorted(self.model)))
            self.clients[client].parser.feed(b"UNSUB %d\r\n" % sid)
            del self.model[client, sid]

    @rule(pattern=patterns)
    def enter(self, pattern: bytes) -> None:
        """Subjects of a stream are entered before they are in effect, and removed after it."""
        if pattern not in self.entered:
            self.entered.add(pattern)
            self.streams.stored.insert(pattern, b"", pattern)

    @rule(data=st.data())
    def change_stream(self, data: st.DataObject) -> None:
        if self.entered:
            pattern = data.draw(st.sampled_from(sorted(self.entered)))
            ended = self.streams.targets.pop(pattern, None)
            if ended is None:
                self.streams.targets[pattern] = Target(PUBLISH, None, b"")
            else:
                ended.clear()
            self.follow()

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.entered:
            pattern = data.draw(st.sampled_from(sorted(self.entered)))
            self.entered.remove(pattern)
            self.streams.stored.remove(pattern, b"", pattern)
            if self.streams.targets.pop(pattern, None) is not None:
                self.follow()

    def follow(self) -> None:
        stores_inboxes = any(p[:1] in {b"_", b"*", b">"} for p in self.streams.targets)
        self.router.follow_streams(self.router.generation + 1, stores_inboxes=stores_inboxes)

    @rule(some=st.lists(subjects, min_size=1, max_size=8))
    def look_up(self, some: list[bytes]) -> None:
        for subject in some:
            route = self.router.route(subject)
            assert sorted(int(each.sid) for each in route.subscribers) == sorted(
                sid for (_, sid), pattern in self.model.items() if naive_match(subject, pattern)
            )
            if subject.startswith(b"_") and not self.router.stores_inboxes:
                assert route.target is None
            else:
                assert route.target is self.streams.resolve(subject)

    @rule(
        some=st.lists(subjects, min_size=1, max_size=8),
        headers=st.booleans(),
        reply=st.sampled_from([b"", b"_I.a.b "]),
    )
    def publish(self, some: list[bytes], headers: bool, reply: bytes) -> None:
        for subject in some:
            if self.streams.resolve(subject) is not None:
                continue  # there is no engine to pass it to
            block, verb = (b"NATS/1.0\r\n\r\n", b"H") if headers else (b"", b"")
            sizes = b"12 14" if headers else b"2"
            rest = b" %b%b\r\n%bhi\r\n" % (reply, sizes, block)
            self.clients[0].parser.feed(verb + b"PUB " + subject + rest)
            for number, client in enumerate(self.clients):
                assert sorted(client.receiver.take_output().split(verb + b"MSG ")[1:]) == sorted(
                    b"%b %d%b" % (subject, sid, rest)
                    for (owner, sid), pattern in self.model.items()
                    if owner == number and naive_match(subject, pattern)
                )


TestRouter = RouterMachine.TestCase
TestRouter.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
