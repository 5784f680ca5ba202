"""Accounts without JetStream on a server that has it: requests hear that, instead of nothing."""

from jetspark.engine.engine import API_PREFIX, DIRECT_PREFIX, NEXT_PREFIX
from jetspark.engine.requests.dispatch import not_enabled
from jetspark.engine.target import REQUEST, Target
from jetspark.server.router import Router


class NoJetStream:
    """Stands in for the engine of one account."""

    def __init__(self, router: Router) -> None:
        self._router = router
        router.resolve = self._resolve
        router.request = self._request

    def _resolve(self, subject: bytes) -> Target | None:
        # Nobody subscribes to these before there is a stream: no responders, as in nats-server.
        if subject.startswith((DIRECT_PREFIX, NEXT_PREFIX)) or not subject.startswith(API_PREFIX):
            return None
        return Target(REQUEST, None, subject[len(API_PREFIX) :])

    def _request(self, target: Target, reply: bytes, _headers: bytes, _body: bytes) -> None:
        answer = not_enabled(target.subject)
        if answer is not None:
            self._router.outbox.reply(reply, answer)
