"""Operator, account and user JWTs as nsc makes them, for tests of the client's credentials."""

import base64
import hashlib
import json
import time
from typing import Any

from jetspark.protocol.nkeys import ACCOUNT, OPERATOR, USER, KeyPair


def encode(claims: dict[str, Any], signer: KeyPair) -> str:
    """A JWT of the form that nats-server reads (alg ed25519-nkey)."""
    claims = {"iat": int(time.time()), "iss": signer.public_key} | claims
    digest = hashlib.sha512(json.dumps(claims).encode()).digest()[:32]
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    head = _text({"typ": "JWT", "alg": "ed25519-nkey"})
    body = f"{head}.{_text(claims)}"
    return f"{body}.{_base64(signer.sign(body.encode()))}"


def _text(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Operator:
    """An operator with one account, and the configuration of a server that trusts it."""

    def __init__(self) -> None:
        self._key = KeyPair.generate(OPERATOR)
        self._account = KeyPair.generate(ACCOUNT)

    def config(self, *, jetstream: bool = False) -> str:
        """The settings of a server with the account preloaded, with JetStream if asked for."""
        operator = encode(
            {
                "sub": self._key.public_key,
                "name": "O",
                "nats": {"type": "operator", "version": 2},
            },
            self._key,
        )
        names = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"]
        plain = self._claims(self._account, dict.fromkeys(names, -1))
        preloaded = f"{self._account.public_key}: {plain}"
        more = ""
        if jetstream:
            stored = ["mem_storage", "disk_storage", "streams", "consumer"]
            account = self._claims(self._account, dict.fromkeys([*names, *stored], -1))
            # JetStream needs a system account, which has none itself.
            system = KeyPair.generate(ACCOUNT)
            preloaded = (
                f"{self._account.public_key}: {account}, "
                f"{system.public_key}: {self._claims(system, dict.fromkeys(names, -1))}"
            )
            more = f"system_account: {system.public_key}\njetstream: enabled\n"
        return (
            f"operator: {operator}\nresolver: MEMORY\nresolver_preload: {{ {preloaded} }}\n{more}"
        )

    def _claims(self, account: KeyPair, limits: dict[str, int]) -> str:
        """The JWT of an account."""
        kind = {"type": "account", "version": 2, "limits": limits | {"wildcards": True}}
        return encode({"sub": account.public_key, "name": "A", "nats": kind}, self._key)

    def user(self, **more: Any) -> tuple[str, KeyPair]:
        """A user's JWT and key; ``more`` are further claims, such as ``exp``."""
        key = KeyPair.generate(USER)
        claims = {
            "sub": key.public_key,
            "name": "U",
            "nats": {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1},
        }
        return encode(claims | more, self._account), key


def credentials_text(jwt: str, key: KeyPair) -> str:
    """The text of a credentials file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
    )
