"""Which options to check if a server cannot be reached: the client's errors name none."""

import ssl

from jetspark.errors import (
    AuthorizationFailed,
    BadCredentials,
    ConnectFailed,
    Error,
    PermissionsViolation,
)
from jetspark.spark.connection_settings import Connection

# OpenSSL's names of the alerts with which a server refuses a client.
_CERTIFICATE_WANTED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_CERTIFICATE_REFUSED = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN")
# X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_, _IP_ADDRESS_; X509_V_ERR_CERT_HAS_EXPIRED, _NOT_YET_VALID.
_OTHER_NAME = {62, 63, 64}
_OUT_OF_DATE = {9, 10}


class ConnectionRefused(ConnectFailed):
    """A server cannot be reached with these options; a retry does not help."""

    transient = False


def advice_for(error: Error, settings: Connection) -> str:
    """Say which options to change; empty if the options are not the cause."""
    if isinstance(error, AuthorizationFailed):
        return _identity_advice(settings)
    if isinstance(error, BadCredentials):
        return _file_advice(settings)
    if isinstance(error, PermissionsViolation):
        return _inbox_advice(error, settings)
    refusal = _tls_refusal(error)
    return "" if refusal is None else _tls_advice(refusal, settings)


def _inbox_advice(error: Error, settings: Connection) -> str:
    """The subscription's subject is internal: users know only its prefix."""
    if f'Subscription to "{settings.inbox_prefix}.' not in str(error):
        return ""
    return (
        f"that is where answers arrive (option nats.inboxPrefix is {settings.inbox_prefix!r}): "
        "set it to a prefix that this user may subscribe to"
    )


def _tls_refusal(error: BaseException) -> ssl.SSLError | None:
    """Return OpenSSL's error, if that is the cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__
    return None


def _tls_advice(refusal: ssl.SSLError, settings: Connection) -> str:
    tls = settings.tls
    authority = getattr(tls, "ca_file", "")
    if isinstance(refusal, ssl.SSLCertVerificationError):
        if refusal.verify_code in _OTHER_NAME:
            return "option servers must use the name in the server's certificate"
        if refusal.verify_code in _OUT_OF_DATE:
            return "the server needs a new certificate; no option can fix this"
        if authority:
            return (
                f"option nats.tlsCa is {authority!r}, which does not contain the authority that "
                "signed the server's certificate: use the file that does"
            )
        return (
            "set option nats.tlsCa to a PEM file with the authority that signed the server's "
            "certificate, which the system does not trust"
        )
    reason = refusal.reason or ""
    own = getattr(tls, "certificate_file", "")
    if own and reason.endswith((*_CERTIFICATE_WANTED, *_CERTIFICATE_REFUSED)):
        return f"the server rejects the certificate of option nats.tlsCert, {own!r}"
    if reason.endswith(_CERTIFICATE_WANTED):
        return "the server requires a client certificate: set options nats.tlsCert and nats.tlsKey"
    return ""


def _identity_advice(settings: Connection) -> str:
    given = {
        "nats.user and nats.password": settings.user,
        "nats.token": settings.token,
        "nats.nkeySeed": settings.nkey_seed,
        "credentialsFile": settings.credentials_file,
        "credentialsEnv": settings.credentials_env,
    }
    names = [name for name, value in given.items() if value]
    if names:
        return f"the credentials came from option {', '.join(names)}"
    return f"no credentials were given: set one of {', '.join(given)}"


def _file_advice(settings: Connection) -> str:
    if settings.nkey_seed:
        return "this is option nats.nkeySeed"
    if settings.credentials_file or settings.credentials_env:
        return "this is option " + (
            "credentialsFile" if settings.credentials_file else "credentialsEnv"
        )
    return (
        "these are options nats.tlsCa (ca_file), nats.tlsCert (certificate_file) and nats.tlsKey "
        "(key_file), whose key must not be encrypted"
    )
