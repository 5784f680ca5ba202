"""Published attacks on nats-server (its CVEs), by class, as far as they concern auth.

Restore to other stream names and import cycles are tested where streams and accounts are.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import jetspark
from jetspark.protocol.handshake import ConnectOptions, decode_connect
from jetspark.server.auth.admission import Admission, Stage
from jetspark.server.auth.authenticator import Accepted, Authenticator, NeedsHash, Refused
from jetspark.server.auth.permissions import Permissions, Rules, is_reserved_reply
from jetspark.server.auth.users import build_directory
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import Authorization, User
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings
from jetspark.units import seconds


class TestQueueSubscriptions:
    """2026-18: a queue subscription went round a plain deny."""

    @pytest.mark.parametrize("queue", [b"", b"q", b"_", b"a.b", b">", b"*"])
    def test_a_denied_subject_is_denied_in_every_queue(self, queue: bytes) -> None:
        permissions = Permissions(Rules(None, [], [b">"], [b"secret", b"top.>"]))

        assert not permissions.may_subscribe(b"secret", queue)
        assert not permissions.may_subscribe(b"top.x", queue)
        assert not permissions.may_subscribe(b"top.>", queue)

    @pytest.mark.parametrize("subject", [b">", b"*", b"*.*", b"*.>"])
    @pytest.mark.parametrize("queue", [b"", b"q"])
    def test_a_wide_subscription_never_gets_it(self, subject: bytes, queue: bytes) -> None:
        permissions = Permissions(Rules(None, [], [b">"], [b"secret", b"top.>"]))
        assert permissions.may_subscribe(subject, queue)

        assert permissions.needs_delivery_check
        assert not permissions.may_deliver(b"secret", queue)
        assert not permissions.may_deliver(b"top.x.y", queue)
        assert permissions.may_deliver(b"open", queue)

    def test_an_allowed_queue_does_not_lift_a_plain_deny(self) -> None:
        permissions = Permissions(Rules(None, [], [b"secret q"], [b"secret"]))

        assert not permissions.may_subscribe(b"secret", b"q")

    def test_a_subscription_wider_than_the_allow_list_is_refused(self) -> None:
        """Open in nats-server 2.15.1: there ``SUB orders.>`` passes ``allow: orders.*``."""
        permissions = Permissions(Rules(None, [], [b"orders.*"], []))

        assert not permissions.may_subscribe(b"orders.>", b"")


class TestBeforeAuthenticationIsFinished:
    """2026-16: the way in for ``no_auth_user`` was open before CONNECT had been answered."""

    @pytest.fixture
    def admission(self, hashed: str) -> Admission:
        users = (User(user="guest"), User(user="admin", password=Secret(hashed)))
        directory = build_directory(
            Settings(authorization=Authorization(users=users), no_auth_user="guest")
        )
        return Admission(Authenticator(directory), now=0, timeout=seconds(2))

    def test_an_operation_while_a_hash_is_checked_ends_the_connection(
        self, admission: Admission
    ) -> None:
        assert isinstance(admission.connect(ConnectOptions(user="admin", password="x")), NeedsHash)

        assert isinstance(admission.operate(), Refused), "and does not run as guest"
        assert admission.user is None
        assert isinstance(admission.finish(matched=True), Refused)
        assert admission.stage is Stage.REFUSED

    def test_a_second_connect_while_a_hash_is_checked_ends_the_connection(
        self, admission: Admission
    ) -> None:
        admission.connect(ConnectOptions(user="admin", password="x"))

        assert isinstance(admission.connect(ConnectOptions()), Refused), "nor as guest"
        assert admission.user is None

    def test_a_failed_connect_does_not_fall_back_to_the_guest(self, admission: Admission) -> None:
        admission.connect(ConnectOptions(user="admin", password="x"))
        admission.finish(matched=False)

        assert isinstance(admission.operate(), Refused)
        assert admission.user is None

    def test_a_guest_may_authenticate_later_and_has_no_rights_until_then(
        self, admission: Admission
    ) -> None:
        assert isinstance(admission.operate(), Accepted)
        admission.connect(ConnectOptions(user="admin", password="secret"))

        assert admission.user is None
        assert isinstance(admission.finish(matched=True), Accepted)

    def test_the_guest_has_the_permissions_of_the_guest(self) -> None:
        from jetspark.server.config.blocks.permissions import Permissions as Block
        from jetspark.server.config.blocks.permissions import SubjectPermission

        block = Block(publish=SubjectPermission(allow=("open",)))
        users = (User(user="guest", permissions=block),)
        directory = build_directory(
            Settings(authorization=Authorization(users=users), no_auth_user="guest")
        )
        verdict = Authenticator(directory).examine_silent()

        assert isinstance(verdict, Accepted)
        permissions = verdict.user.permissions()
        assert permissions is not None
        assert not permissions.may_publish(b"secret", 0)


class TestIdentityThatClientsClaim:
    """CVE-2026-33246: a server believed who a client said it was."""

    @pytest.mark.parametrize(
        "body",
        [
            b'{"user":"guest","acc":"$SYS","account_id":"$SYS"}',
            b'{"user":"guest","permissions":{"publish":">"}}',
            b'{"user":"guest","client_info":{"acc":"$SYS"},"is_admin":true}',
        ],
    )
    def test_fields_that_were_not_requested_change_nothing(self, body: bytes) -> None:
        users = (User(user="guest"),)
        directory = build_directory(Settings(authorization=Authorization(users=users)))
        verdict = Authenticator(directory).examine(decode_connect(body))

        assert verdict == Accepted(directory.users["guest"])

    def test_no_module_of_the_server_reads_the_header_that_names_the_requester(self) -> None:
        """Nats-Request-Info is written by servers; a client can send one with any text."""
        package = Path(jetspark.__file__).parent
        readers = [
            str(path.relative_to(package))
            for folder in ("server", "engine")
            for path in sorted((package / folder).rglob("*.py"))
            if names_request_info(path)
        ]

        assert readers == []

    def test_no_client_can_acknowledge_messages_in_the_name_of_others(self) -> None:
        assert is_reserved_reply(b"$JS.ACK.ORDERS.worker.1.1.1.1.0")


class TestCertificates:
    """GHSA-3f24: names in certificates were mapped to the wrong users."""

    def test_mapping_certificates_to_users_is_refused_by_name(self) -> None:
        tls = Tls(cert_file="c", key_file="k", verify=True, verify_and_map=True)

        with pytest.raises(ConfigRefused, match="verify_and_map"):
            build_directory(Settings(tls=tls))


def names_request_info(path: Path) -> bool:
    """Tell whether a module uses the header: by its constant, or as a text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            name = node.name if isinstance(node, ast.alias) else name
            if name == "REQUEST_INFO":
                return True
        if isinstance(node, ast.Constant) and node.value in {
            b"Nats-Request-Info",
            "Nats-Request-Info",
        }:
            return True
    return False
