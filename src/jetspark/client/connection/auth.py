"""Client authentication: credentials in the URL, user, token, nkey, JWT."""

import base64
import inspect
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from jetspark.client.connection.server_pool import ServerAddress
from jetspark.client.connection.shown import shown_path
from jetspark.client.connection.tls import tls_context
from jetspark.client.connection.websocket import check_websocket
from jetspark.client.options import ClientOptions
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import AuthorizationFailed, BadCredentials, Error
from jetspark.protocol.handshake import ConnectOptions, ServerInfo
from jetspark.protocol.nkeys import USER, KeyPair, decode_public
from jetspark.version import VERSION

T = TypeVar("T")

SIGNATURE_SIZE: Final = 64  # bytes of an Ed25519 signature

# A block between two lines of dashes, as nsc writes them.
_BLOCK: Final = re.compile(r"-{3,}\s*BEGIN ([A-Z ]+?)\s*-{3,}\s*([\w\-.=]+)\s*-{3,}\s*END")


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of CONNECT that authenticate the client."""

    user: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    jwt: str = ""
    signature: str = ""


class UserCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a credentials file."""

    jwt: str
    key: KeyPair
    # Unix time after which the server refuses the JWT; 0 for never.
    expires: int


class _Claims(msgspec.Struct, frozen=True):
    """The claims of a user's JWT that a client needs."""

    sub: str
    exp: int = 0


def connect_options(
    options: ClientOptions, info: ServerInfo, address: ServerAddress
) -> ConnectOptions:
    """The CONNECT options for the server at ``address``."""
    proof = prove(options, info.nonce, address)
    return ConnectOptions(
        verbose=False,
        pedantic=False,
        tls_required=bool(options.tls) or options.tls_first or address.tls,
        user=proof.user,
        password=proof.password,
        auth_token=proof.token,
        nkey=proof.nkey,
        jwt=proof.jwt,
        sig=proof.signature,
        name=options.name,
        lang="python-jetspark",
        version=VERSION,
        protocol=1,
        echo=options.echo,
        # Without headers a server cannot report no responders.
        headers=info.headers,
        no_responders=info.headers,
    )


def prove(options: ClientOptions, nonce: str, address: ServerAddress) -> Proof:
    """Answer the server's ``nonce``; credentials in the URL take precedence."""
    if address.user or address.token:
        return Proof(user=address.user, password=address.password, token=address.token)
    if options.credentials:
        found = read_credentials(options.credentials)
        return Proof(jwt=found.jwt, signature=_sign(found.key.sign, nonce))
    if options.nkey_seed:
        key = KeyPair.from_seed(options.nkey_seed)
        _need_nonce(nonce)
        return Proof(nkey=key.public_key, signature=_sign(key.sign, nonce))
    if options.signature_callback is not None:
        if options.jwt_callback is None:
            _need_nonce(nonce)
        jwt = "" if options.jwt_callback is None else _ask_jwt(options.jwt_callback)
        signature = _sign(options.signature_callback, nonce)
        return Proof(nkey=options.nkey, jwt=jwt, signature=signature)
    return Proof(user=options.user, password=options.password, token=options.token)


def refusal(
    error: AuthorizationFailed, options: ClientOptions, address: ServerAddress, now_ns: int
) -> AuthorizationFailed:
    """The server's error, with the cause if we can determine it: servers do not give one."""
    if not options.credentials or address.user or address.token:
        return error
    try:
        found = read_credentials(options.credentials)
    except BadCredentials:
        return error
    expires = found.expires
    if not 0 < expires * 1_000_000_000 <= now_ns:
        return error
    at = datetime.fromtimestamp(expires, UTC).isoformat()
    explained = AuthorizationFailed(f"{error}; its JWT expired at {at}: get a new one")
    explained.__cause__ = error
    return explained


def check_before_dialling(options: ClientOptions) -> None:
    """Refuse addresses, keys and files that cannot work, before connecting."""
    check_websocket(options.servers)
    tls_context(options.tls)
    if options.credentials:
        read_credentials(options.credentials)
    if options.nkey_seed:
        _need_user(KeyPair.from_seed(options.nkey_seed), "nkey_seed")
    if options.signature_callback is None:
        if options.jwt_callback is not None or options.nkey:
            raise ValueError(
                "jwt_callback and nkey need signature_callback, which signs the nonce"
            )
        return
    if bool(options.nkey) == (options.jwt_callback is not None):
        raise ValueError(
            "signature_callback needs either nkey (the public key) or jwt_callback (the user JWT)"
        )
    if options.nkey:
        decode_public(options.nkey)


def read_credentials(source: str | os.PathLike[str]) -> UserCredentials:
    """Read a credentials file, or its text; BadCredentials says what is missing."""
    text = os.fspath(source)
    where = "the credentials"
    if "-----BEGIN" not in text:
        where = f"credentials file {shown_path(text)}"
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            # Without the cause: it repeats the path.
            reason = getattr(error, "strerror", None) or error
            raise BadCredentials(f"{where} cannot be read: {reason}") from None
    blocks = {match[1]: match[2] for match in _BLOCK.finditer(text)}
    jwt, seed = blocks.get("NATS USER JWT"), blocks.get("USER NKEY SEED")
    if jwt is None or seed is None:
        missing = "NATS USER JWT" if jwt is None else "USER NKEY SEED"
        raise BadCredentials(
            f"{where}: no block -----BEGIN {missing}-----; expected a file as written by"
            " 'nsc generate creds', with the user's JWT and its seed"
        )
    try:
        key = KeyPair.from_seed(seed)
    except BadCredentials as error:
        raise BadCredentials(f"{where}: {error}") from None
    _need_user(key, where)
    claims = _claims(jwt, where)
    if claims.sub != key.public_key:
        raise BadCredentials(
            f"{where}: the JWT is for {claims.sub}, the seed belongs to {key.public_key}: "
            "both must belong to the same user"
        )
    return UserCredentials(jwt=jwt, key=key, expires=claims.exp)


def _claims(jwt: str, where: str) -> _Claims:
    parts = jwt.split(".")
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(body, type=_Claims)
    except (IndexError, ValueError, *UNREADABLE) as error:
        raise BadCredentials(f"{where}: the JWT cannot be read: {error}") from error


def _need_user(key: KeyPair, where: str) -> None:
    if key.kind != USER:
        raise BadCredentials(f"{where}: expected the seed of a user (SU...), got S{key.kind}...")


def _need_nonce(nonce: str) -> None:
    if not nonce:
        raise AuthorizationFailed(
            "the server asked for no signature (no nonce in INFO): it has no users with nkeys; "
            "connect without nkey_seed and nkey, or configure them on the server"
        )


def _sign(sign: Callable[[bytes], bytes], nonce: str) -> str:
    if not nonce:
        return ""  # a server without authentication accepts the JWT and sends no nonce
    signature: object = _call("signature", sign, nonce.encode())
    if not isinstance(signature, bytes) or len(signature) != SIGNATURE_SIZE:
        raise AuthorizationFailed(
            f"the signature callback returned {_shape(signature)}: expected the {SIGNATURE_SIZE} "
            "bytes of an Ed25519 signature, raw, not base64"
        )
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _ask_jwt(callback: Callable[[], str]) -> str:
    jwt: object = _call("jwt", callback)
    if not isinstance(jwt, str) or not jwt:
        raise AuthorizationFailed(
            f"the jwt callback returned {_shape(jwt)}: expected the user's JWT (str)"
        )
    return jwt


def _shape(value: object) -> str:
    """Describe a value without showing it."""
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine (it must be a plain function)"
    size = f" of {len(value)}" if isinstance(value, str | bytes) else ""
    return f"{type(value).__name__}{size}"


def _call(name: str, callback: Callable[..., T], *arguments: object) -> T:
    """Run a user's callback; an exception counts as refused credentials."""
    try:
        return callback(*arguments)
    except Error:
        raise
    except Exception as error:
        raise AuthorizationFailed(f"the {name} callback failed: {error!r}") from error
