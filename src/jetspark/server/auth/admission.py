"""Admission of one connection: what it may do until it is authenticated.

Stages::

        WAITING   only CONNECT is processed; with a no_auth_user, anything else makes it that user
        CHECKING  a hash is being checked: the driver holds everything the client sends
        ADMITTED  ``user`` is set; another CONNECT starts over
        REFUSED   permanently

There is no user before the verdict is final, and none while a second CONNECT is checked: input in
between never runs as ``no_auth_user`` or as the previous user. A driver that still lets an
operation through is refused.
"""

from enum import Enum, auto

from jetspark.protocol.handshake import ConnectOptions
from jetspark.server.auth.authenticator import (
    Accepted,
    Authenticator,
    NeedsHash,
    Refused,
    TlsPeer,
    Verdict,
)
from jetspark.server.auth.users import User
from jetspark.server.auth.violations import AUTHENTICATION_TIMEOUT
from jetspark.units import Nanoseconds


class Stage(Enum):
    """The stage of a connection's admission."""

    WAITING = auto()
    CHECKING = auto()
    ADMITTED = auto()
    REFUSED = auto()


class Admission:
    """The authentication of one connection. Never reads a clock; ``now`` is passed in.

    ``deadline`` is when the client must have sent CONNECT; None: no deadline.
    """

    def __init__(self, authenticator: Authenticator, *, now: int, timeout: Nanoseconds) -> None:
        self.stage: Stage = Stage.WAITING
        self.user: User | None = None
        self.deadline: int | None = now + timeout
        self._authenticator = authenticator
        self._asked: NeedsHash | None = None
        if not authenticator.required:
            # Without authentication a client may start with anything (wire.md, Core protocol).
            self._settle(authenticator.examine_silent())

    def follow(self, authenticator: Authenticator) -> None:
        """Use new users; this client stays: its next CONNECT is checked against them."""
        self._authenticator = authenticator

    def follows(self, authenticator: Authenticator) -> bool:
        """Return whether its users are those of ``authenticator``."""
        return self._authenticator is authenticator

    def connect(self, options: ConnectOptions, tls_peer: TlsPeer | None = None) -> Verdict:
        """Handle CONNECT.

        If the connection already had a user, the driver first removes that user's subscriptions,
        as nats-server does.
        """
        if self.stage in {Stage.CHECKING, Stage.REFUSED}:
            return self._refuse("CONNECT arrived before the previous one was answered")
        self.user = None
        self.deadline = None
        verdict = self._authenticator.examine(options, tls_peer)
        if isinstance(verdict, NeedsHash):
            self.stage = Stage.CHECKING
            self._asked = verdict
            return verdict
        return self._settle(verdict)

    def operate(self) -> Accepted | Refused:
        """Handle any other operation. Drivers need not call this in stage ADMITTED."""
        if self.stage is Stage.WAITING:
            return self._settle(self._authenticator.examine_silent())
        if self.stage is Stage.ADMITTED and self.user is not None:
            return Accepted(self.user)
        return self._refuse("an operation arrived before authentication was finished")

    def finish(self, *, matched: bool) -> Accepted | Refused:
        """Handle the result of the hash check that `connect` requested."""
        if self.stage is not Stage.CHECKING or self._asked is None:
            return self._refuse("no hash check was requested")
        asked, self._asked = self._asked, None
        return self._settle(self._authenticator.conclude(asked, matched=matched))

    def expire(self, now: int) -> Refused | None:
        """Refuse a client that sent nothing by the deadline."""
        if self.stage is not Stage.WAITING or self.deadline is None or now < self.deadline:
            return None
        refused = Refused("the client sent no CONNECT in time", AUTHENTICATION_TIMEOUT)
        self._settle(refused)
        return refused

    def _settle(self, verdict: Accepted | Refused) -> Accepted | Refused:
        self.deadline = None
        if isinstance(verdict, Accepted):
            self.stage = Stage.ADMITTED
            self.user = verdict.user
        else:
            self.stage = Stage.REFUSED
            self.user = None
        return verdict

    def _refuse(self, reason: str) -> Refused:
        refused = Refused(reason)
        self._asked = None
        self._settle(refused)
        return refused
