"""Authenticates clients, without blocking.

`Authenticator.examine` takes the options of CONNECT and answers immediately: accepted, refused, or
"check this hash first". Checking a bcrypt hash takes tens of milliseconds, so the driver does it
in an executor and passes the result to `conclude`. `admission.py` keeps the order of these steps
for one connection.

Extensions that fit in here:

- *nkeys and JWT*: the nonce in INFO becomes an argument of `examine`; verifying a signature takes
  some 100 us, so the answer stays immediate. Users by key are in the directory next to those by
  name.
- *auth callout*: one more verdict like `NeedsHash`, with the request to send. It is concluded in
  the same way when the answer arrives, and the admission waits in the same stage.
- *certificates that name users* (``verify_and_map``): ``tls_peer`` exists already.

Refusing unknown users takes as long as refusing known ones: if any secret is a bcrypt hash, every
refusal of a name and password first checks a hash of the same cost (nats-server refuses unknown
users immediately, which reveals who exists).
"""

import hashlib
import os
from typing import Final, TypeAlias

import msgspec

from jetspark.protocol.handshake import ConnectOptions
from jetspark.server.auth.passwords import check, decoy, same
from jetspark.server.auth.users import Credentials, Directory, User
from jetspark.server.auth.violations import AUTHORIZATION_VIOLATION
from jetspark.server.config.blocks.users import is_bcrypt
from jetspark.server.config.secret import Secret

STANDARD: Final = "STANDARD"
WEBSOCKET: Final = "WEBSOCKET"
IN_PROCESS: Final = "IN_PROCESS"

_NOISE_SIZE: Final = 53
_KEY_SIZE: Final = 16


class TlsPeer(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate of a client, verified by the TLS layer."""

    subject: str


class Accepted(msgspec.Struct, frozen=True):
    """The client is ``user``."""

    user: User


class Refused(msgspec.Struct, frozen=True):
    """The client is refused. ``reason`` is for the log, ``text`` for the client."""

    reason: str
    text: bytes = AUTHORIZATION_VIOLATION


class NeedsHash(msgspec.Struct, frozen=True):
    """The client is ``user`` if ``password`` matches ``hash``; never if ``user`` is None."""

    user: User | None
    password: Secret
    hash: Secret
    reason: str

    def check(self) -> bool:
        """Check the hash. Slow: for an executor."""
        return check(self.hash.value, self.password.value)


Verdict: TypeAlias = Accepted | Refused | NeedsHash


class Authenticator:
    """Authenticates the clients of one listener. Has no state of any connection.

    ``required`` says that a client must authenticate before it may do anything; ``announced`` is
    ``auth_required`` in INFO.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        connection_type: str = STANDARD,
    ) -> None:
        credentials = directory.credentials
        if connection_type == WEBSOCKET and directory.websocket is not None:
            credentials = directory.websocket
        self.required: Final = directory.required or credentials.given
        self.announced: Final = self.required and (
            credentials.anonymous is None or credentials.unnamed
        )
        self._directory: Final = directory
        self._credentials: Final = credentials
        self._connection_type: Final = connection_type
        self._key: Final = os.urandom(_KEY_SIZE)
        self._decoys: Final = tuple(
            decoy(found, os.urandom(_NOISE_SIZE)) for found in _hashes(directory, credentials)
        )

    def examine(self, options: ConnectOptions, tls_peer: TlsPeer | None = None) -> Verdict:
        """Return the verdict on a client that sent CONNECT with ``options``."""
        if options.account or options.new_account:
            return Refused("CONNECT names an account; accounts are assigned to users")
        if not self.required:
            return Accepted(self._directory.default_user)
        if not (options.user or options.password or options.auth_token):
            return self.examine_silent()
        shown = f" (certificate {tls_peer.subject!r})" if tls_peer is not None else ""
        if options.user and self._directory.users:
            user = self._directory.users.get(options.user)
            return self._examine_password(options, user, shown)
        if self._credentials.token:
            return self._examine_token(options.auth_token, shown)
        single = self._credentials.single
        if single is not None:
            known = single if same(single.name, options.user) else None
            return self._examine_password(options, known, shown)
        return Refused(f"the client shows none of the accepted credentials{shown}")

    def examine_silent(self) -> Accepted | Refused:
        """Return the verdict on a client without credentials, with or without CONNECT."""
        if not self.required:
            return Accepted(self._directory.default_user)
        anonymous = self._credentials.anonymous
        if anonymous is None:
            return Refused("the client shows no credentials")
        if not anonymous.may_connect_by(self._connection_type):
            return Refused(f"no_auth_user {anonymous.name!r} may not connect this way")
        return Accepted(anonymous)

    def conclude(self, asked: NeedsHash, *, matched: bool) -> Accepted | Refused:
        """Return the verdict after the hash was checked."""
        if matched and asked.user is not None:
            return Accepted(asked.user)
        return Refused(asked.reason)

    def _examine_password(self, options: ConnectOptions, user: User | None, shown: str) -> Verdict:
        """Compare a password; ``user`` None is an unknown name."""
        reason = f"user {options.user!r} is unknown or has another password{shown}"
        if user is not None and not user.may_connect_by(self._connection_type):
            reason = f"user {options.user!r} may not connect this way{shown}"
            return self._refuse_slowly(options, user.secret, reason)
        if user is None:
            return self._refuse_slowly(options, Secret(), reason)
        if is_bcrypt(user.secret.value):
            return NeedsHash(user, Secret(options.password), user.secret, reason)
        if same(user.secret.value, options.password):
            return Accepted(user)
        return self._refuse_slowly(options, user.secret, reason)

    def _examine_token(self, token: str, shown: str) -> Verdict:
        expected = self._credentials.token
        default_user = self._directory.default_user
        reason = f"the client shows a wrong token{shown}"
        if is_bcrypt(expected.value):
            return NeedsHash(default_user, Secret(token), expected, reason)
        return Accepted(default_user) if same(expected.value, token) else Refused(reason)

    def _refuse_slowly(self, options: ConnectOptions, secret: Secret, reason: str) -> Verdict:
        """Refuse after as much work as a user with a hash would cause."""
        if is_bcrypt(secret.value):
            return NeedsHash(None, Secret(options.password), secret, reason)
        if not self._decoys:
            same(secret.value, options.password)
            return Refused(reason)
        # The same name always has the same cost, as if it were that of a user.
        name = options.user.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(name, key=self._key, digest_size=8).digest()
        chosen = self._decoys[int.from_bytes(digest, "little") % len(self._decoys)]
        return NeedsHash(None, Secret(options.password), Secret(chosen), reason)


def _hashes(directory: Directory, credentials: Credentials) -> list[str]:
    """Return every bcrypt hash that a name and password may be checked against."""
    users = list(directory.users.values())
    if credentials.single is not None:
        users.append(credentials.single)
    return [user.secret.value for user in users if is_bcrypt(user.secret.value)]
