"""The cold part of a connection: CONNECT, identity, INFO, denials, pings."""

import logging
import ssl
from typing import TYPE_CHECKING

import msgspec

from jetspark.api.advisory import ClientInfo
from jetspark.api.base import Timestamp
from jetspark.engine.failures import failure_answer
from jetspark.engine.target import Target
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.protocol.encoder import OK, PING, encode_err, encode_info
from jetspark.protocol.handshake import ConnectOptions, ServerInfo, decode_connect
from jetspark.server.auth.admission import Admission, Stage
from jetspark.server.auth.authenticator import Accepted, NeedsHash, Refused
from jetspark.server.auth.connection_limits import Surplus
from jetspark.server.auth.users import User
from jetspark.server.auth.violations import (
    AUTHENTICATION_TIMEOUT,
    headers_violation,
    publish_violation,
    reply_violation,
    subscription_violation,
)
from jetspark.server.close_reason import CloseReason
from jetspark.server.config.blocks.accounts import NO_LIMIT
from jetspark.server.net.listening import network_of, peer_ip
from jetspark.server.net.tls import tls_peer
from jetspark.server.routing.client import USER_INFO, ConnectedClient
from jetspark.version import NATS_VERSION

if TYPE_CHECKING:
    from jetspark.server.net.connection import Connection
    from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")

PROTOCOL_MAX = 1
TOO_MANY_SUBSCRIPTIONS = b"maximum subscriptions exceeded"
# The length of a subject in a log line.
SUBJECT_LOGGED = 128


class Session:
    """The identity of a client, and what was negotiated with it."""

    def __init__(
        self, server: "Server", connection: "Connection", client: ConnectedClient
    ) -> None:
        now = server.clock.now_ns()
        self.client_id: int = server.next_client_id()
        self.ip: str = ""
        self.port: int = 0
        # What limits per address count it as.
        self.network: str = ""
        self.tls: ssl.SSLObject | None = None
        self.options: ConnectOptions = ConnectOptions()
        self.connected: bool = False
        self.started_ns: int = now
        self.pings_out: int = 0
        self.ping_sent_ns: int = 0
        self.rtt_ns: int = 0
        self.rtt_at_ns: int = 0
        # The first PING after CONNECT is followed by a second INFO (wire.md, Core protocol).
        self.settled: bool = False
        self.admission: Admission = Admission(
            server.authenticator, now=now, timeout=server.authorization_timeout
        )
        self._server = server
        self._connection = connection
        self._client = client

    def __str__(self) -> str:
        return f"{self.ip}:{self.port} - cid:{self.client_id}"

    @property
    def last_read_ns(self) -> int:
        """When the client sent something."""
        return int(self._client.last_read_ns)

    @property
    def checking(self) -> bool:
        """Whether a password is being checked: input is held meanwhile."""
        return self.admission.stage is Stage.CHECKING

    @property
    def user(self) -> User | None:
        """Its user, once authenticated."""
        return self.admission.user

    def begin(self, peer: tuple[str, int] | None) -> None:
        """Called once the socket is connected."""
        if peer:
            self.ip, self.port = peer_ip(peer[0]), peer[1]
            self.network = network_of(self.ip)
        if not self.admission.follows(self._server.authenticator):
            # A reload came between the accepted socket and this: it missed this connection.
            self.admission = Admission(
                self._server.authenticator,
                now=self.started_ns,
                timeout=self._server.authorization_timeout,
            )
        if self.admission.stage is Stage.ADMITTED:
            self._enter()
        else:
            self._client.set_entered(False)
            silent = self._server.authenticator.examine_silent()
            self._client.parser.require_connect(isinstance(silent, Refused))
            self._server.keepalive.expect_connect(self._connection)
            self._server.strangers.add(self._connection, self.network)
        self._server.keepalive.expect_life(self._connection)

    def on_tls(self, tls: ssl.SSLObject | None) -> None:
        """Called once TLS is established."""
        self.tls = tls

    def info(self) -> bytes:
        """Return the INFO line for this client."""
        return encode_info(self._info(""))

    def connect_info(self) -> bytes:
        """Return the INFO line that reports the client's identity."""
        assert self.user is not None
        account = self.user.account
        info = self._info(account.name)
        return encode_info(msgspec.structs.replace(info, acc_is_sys=account.system))

    def _info(self, account: str) -> ServerInfo:
        info = self._server.info(self.client_id, self.ip, account)
        if self.connected:
            # Only the greeting omits it because of a no_auth_user, as in nats-server.
            required = self._server.authenticator.required
            info = msgspec.structs.replace(info, auth_required=required)
        if self.user is not None:
            limit = self._server.directory.limits_of(self.user.account.name).max_payload
            if limit >= 0:
                payload = lower(info.max_payload, limit)
                info = msgspec.structs.replace(info, max_payload=payload)
        return info

    # Authentication ----------------------------------------------------------------------------

    def on_connect(self, body: bytes) -> None:
        """Apply the options, and authenticate."""
        try:
            options = decode_connect(body, self.options)
        except ValueError as problem:
            log.debug("%s: CONNECT refused: %s", self, problem)
            self._client.close(b"", CloseReason.PROTOCOL_VIOLATION)
            return
        self._expect_headers(options)
        if not self._may_log_in(options):
            return
        self._leave()
        # From here on the CONNECT timeout is irrelevant: a check may take longer.
        self.connected = True
        verdict = self.admission.connect(options, tls_peer(self.tls))
        if isinstance(verdict, NeedsHash):
            # bcrypt takes tens of milliseconds by design: in a thread, with reading paused. The
            # rest of the chunk is held meanwhile.
            self._client.set_entered(False)
            self._client.parser.require_connect(False)
            self._connection.pause_reading()
            self._server.run(self._check_password(options, verdict))
        else:
            self._judge(verdict, options)

    def prepare_parser(self, body: bytes) -> None:
        """Prepare the parser for what follows a CONNECT that is processed later.

        What follows is held, and processed after it.
        """
        try:
            self._expect_headers(decode_connect(body, self.options))
        except ValueError:
            return  # reported when it is processed
        self._client.parser.require_connect(False)

    def _expect_headers(self, options: ConnectOptions) -> None:
        """Allow HPUB, or not, before it is known whether the client may stay.

        The parser continues while a password is checked; its results are held.
        """
        self._client.parser.allow_headers(options.headers and self._server.headers)

    async def _check_password(self, options: ConnectOptions, asked: NeedsHash) -> None:
        checks = self._server.password_checks
        left = self._connection.has_left
        matched = await checks.run(self.network, options.user, asked.check, left)
        if matched is None or (matched and self._client.closing):
            self._server.login_limits.succeeded(self.network, options.user)  # no failure
        if self._client.closing:
            return
        if matched is None:
            # It disconnected, or too many wait: clients retry after this error.
            self._client.close(AUTHENTICATION_TIMEOUT, CloseReason.AUTHENTICATION_TIMEOUT)
            self._server.flush()
            return
        self._judge(self.admission.finish(matched=matched), options)
        self._connection.resume_reading()
        self._connection.release()

    def admit(self) -> bool:
        """Return whether an operation that arrived before CONNECT was answered may continue.

        False: it is held while a password is checked, or the connection has ended.
        """
        if self.checking:
            return False
        # Counts as an empty CONNECT, as in nats-server.
        self.connected = True
        verdict = self.admission.operate()
        self._judge(verdict, None)
        return isinstance(verdict, Accepted)

    def _judge(self, verdict: Accepted | Refused, options: ConnectOptions | None) -> None:
        if isinstance(verdict, Refused):
            log.error("%s - authentication error: %s", self, verdict.reason)
            self._client.close(verdict.text, CloseReason.AUTHENTICATION_FAILURE)
            return
        if options is not None and shows_credentials(options):
            self._server.login_limits.succeeded(self.network, options.user)
        self._enter()
        if options is not None:
            self._apply_options(options)

    def _enter(self) -> None:
        """Enter the user's account."""
        assert self.user is not None
        account = self._server.accounts[self.user.account.name]
        surplus = self._server.connection_limits.enter(self.user, account.enter())
        if surplus is not None:
            self.close_surplus(surplus)
            return
        self._server.strangers.discard(self._connection)
        self.follow_limits()
        self._client.enter(account.router, self.user.account.system, self.user.permissions())

    def _leave(self) -> None:
        """Undo what the connection did as its previous user, as nats-server does.

        Subscriptions from before its first CONNECT are kept.
        """
        if self.connected:
            self._client.drop_all()
        if self.user is not None:
            self._server.note_exit(self.user)

    def close_surplus(self, surplus: Surplus) -> None:
        """Close the connection: it exceeds a limit."""
        log.error("%s - %s", self, surplus.detail)
        self._client.close(surplus.text, surplus.reason)

    def follow_limits(self) -> None:
        """Apply the limits of the server and of the account."""
        settings, user = self._server.settings, self.user
        payload, subscriptions = self._server.max_payload, settings.max_subscriptions
        if user is not None:
            limits = self._server.directory.limits_of(user.account.name)
            payload = lower(payload, limits.max_payload)
            subscriptions = max(lower(subscriptions or NO_LIMIT, limits.max_subscriptions), 0)
            most = limits.max_subscriptions
            # As in nats-server: no connection is within a limit of 0.
            if most == 0 or 0 < most < len(self._client.subscriptions):
                self._client.close(TOO_MANY_SUBSCRIPTIONS, CloseReason.MAXIMUM_SUBSCRIPTIONS)
        self._client.limit(settings.max_control_line, payload, subscriptions)

    def _may_log_in(self, options: ConnectOptions) -> bool:
        """Return whether the credentials may be checked; otherwise the connection is closed."""
        if not self._server.authenticator.required or not shows_credentials(options):
            return True
        if self._server.login_limits.begin(self.network, options.user):
            return True
        log.warning("%s - too many failed logins from %s; not checked", self, self.network)
        # Clients retry after this error: the next ones may be right.
        self._client.close(AUTHENTICATION_TIMEOUT, CloseReason.AUTHENTICATION_TIMEOUT)
        return False

    def _apply_options(self, options: ConnectOptions) -> None:
        """Apply the options of CONNECT, or refuse them."""
        client = self._client
        self.options = options
        if client.closing:
            return  # it exceeds a limit
        headers = options.headers and self._server.headers
        if not 0 <= options.protocol <= PROTOCOL_MAX:
            client.close(b"invalid client protocol", CloseReason.BAD_CLIENT_PROTOCOL_VERSION)
            return
        if options.no_responders and not headers:
            client.close(
                b"no responders requires headers support",
                CloseReason.NO_RESPONDERS_NEEDS_HEADERS,
            )
            return
        client.negotiate(options, headers)
        if options.verbose:
            client.receiver.queue(OK)

    def client_info(self) -> ClientInfo:
        """Describe the client for advisories (wire.md, Advisories)."""
        user = self.user
        return ClientInfo(
            start=Timestamp(self.started_ns + self._server.clock.wall_lead_ns),
            host=self.ip,
            id=self.client_id,
            acc=user.account.name if user is not None else "",
            user=user.name if user is not None else "",
            name=self.options.name,
            lang=self.options.lang,
            ver=self.options.version,
            rtt=self.rtt_ns,
            server=self._server.server_name,
            kind="Client",
            client_type="nats",
        )

    # Large messages ---------------------------------------------------------------------------

    def join_in_thread(self, pieces: list[bytes]) -> bool:
        """Assemble a large payload in a thread; then the parser gets it."""
        return self._connection.join_in_thread(pieces)

    # Failures ---------------------------------------------------------------------------------

    def on_failure(
        self, subject: bytes, target: Target | None, reply: bytes, error: Exception
    ) -> None:
        """Report an unexpected exception while handling a message: its sender gets 500."""
        text = subject[:SUBJECT_LOGGED].decode(errors="replace")
        self._server.failures.note(f"{self}, subject {text!r}", error)
        if reply:
            failure_answer(reply, target, error, self._client.router.outbox)

    def on_system_request(self, subject: bytes, reply: bytes) -> None:
        """Answer who the client is; refuse other requests to the system account by name.

        In the form of its errors; the status makes clients that check nothing else see a failure,
        too.
        """
        if subject == USER_INFO and self.user is not None:
            body = msgspec.json.encode({"server": self._describe(), "data": user_info(self.user)})
            self._client.router.send(reply, reply, b"", b"", body)
            return
        name = subject[:SUBJECT_LOGGED].decode(errors="replace")
        text = f"jetspark does not serve {name} yet; use the monitoring port (http_port, -m)"
        body = msgspec.json.encode(
            {
                "server": self._describe(),
                "error": {"code": NO_RESPONDERS, "description": text},
            }
        )
        block = status_block(NO_RESPONDERS, b"Not Supported")
        self._client.router.send(reply, reply, b"", block, body)

    def _describe(self) -> dict[str, str]:
        server = self._server
        return {
            "name": server.server_name,
            "host": server.settings.host,
            "id": server.server_id,
            "ver": NATS_VERSION,
        }

    # Denials -----------------------------------------------------------------------------------

    def on_publish_denied(self, subject: bytes) -> None:
        """Report a publish that its permissions forbid."""
        log.error("%s - Publish Violation, subject %r", self, subject.decode(errors="replace"))
        self._client.receiver.queue(encode_err(publish_violation(subject)))

    def on_headers_denied(self, subject: bytes, needed: bytes, reads: bool) -> None:
        """Report a publish whose headers need a permission that its publisher does not have."""
        text = headers_violation(subject, needed[:SUBJECT_LOGGED], reads)
        log.error("%s - %s", self, text.decode(errors="replace"))
        self._client.receiver.queue(encode_err(text))

    def on_reply_denied(self, reply: bytes) -> None:
        """Report a publish with a reserved reply subject."""
        log.error("%s - Publish Violation, reply %r", self, reply.decode(errors="replace"))
        self._client.receiver.queue(encode_err(reply_violation(reply)))

    def on_subscribe_denied(self, subject: bytes, queue: bytes) -> None:
        """Report a subscription that its permissions forbid."""
        log.error(
            "%s - Subscription Violation, subject %r", self, subject.decode(errors="replace")
        )
        self._client.receiver.queue(encode_err(subscription_violation(subject, queue)))

    def on_too_many_tokens(self, subject: bytes) -> None:
        """Report a subscription with more tokens than the configuration allows."""
        log.error("%s - too many tokens, subject %r", self, subject.decode(errors="replace"))
        text = subscription_violation(subject, b"") + b", too many tokens"
        self._client.receiver.queue(encode_err(text))

    # Pings -------------------------------------------------------------------------------------

    def on_first_ping(self) -> None:
        """Send a client that supports it its identity, once."""
        if self.connected:
            self.settled = True
            if self.options.protocol >= 1:
                self._client.receiver.queue(self.connect_info())

    def now_ns(self) -> int:
        """Engine time."""
        return self._server.clock.now_ns()

    def ping(self, now: int) -> None:
        """Ping the client."""
        self.pings_out += 1
        self.ping_sent_ns = now
        self._client.receiver.queue(PING)

    def on_pong(self) -> None:
        """Handle PONG."""
        self.pings_out = 0
        if self.ping_sent_ns:
            self.rtt_at_ns = self._server.clock.now_ns()
            self.rtt_ns = max(1, self.rtt_at_ns - self.ping_sent_ns)
            self.ping_sent_ns = 0


def shows_credentials(options: ConnectOptions) -> bool:
    """Return whether CONNECT has something to check."""
    return bool(options.user or options.password or options.auth_token)


def lower(one: int, other: int) -> int:
    """Return the lower of two limits, of which -1 is none."""
    if one < 0 or other < 0:
        return max(one, other)
    return min(one, other)


def user_info(user: User) -> dict[str, object]:
    """Return a user's identity and permissions in nats-server's form."""
    account = user.account.name
    said: dict[str, object] = {"user": user.name, "account": account, "account_name": account}
    granted = user.granted
    if granted is None or user.rules is None:
        return said
    permissions: dict[str, object] = {}
    for name, given in (("publish", granted.publish), ("subscribe", granted.subscribe)):
        lists = {
            word: entries for word, entries in (("allow", given.allow), ("deny", given.deny))
            if entries
        }  # fmt: skip
        if lists:
            permissions[name] = lists
    responses = granted.allow_responses
    if responses is not None:
        permissions["responses"] = {"max": responses.max_msgs, "ttl": responses.expires}
    return {**said, "permissions": permissions}
