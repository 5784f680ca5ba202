"""The files of a ``tls`` block: do they exist, do certificate and key match."""

import ssl

from jetspark.server.config.blocks.tls import Tls


def tls_problem(tls: Tls) -> str | None:
    """Return what is wrong with the files of ``tls``, or None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for pair in tls.pairs():
        problem = _unreadable(pair.cert_file) or _unreadable(pair.key_file)
        if problem:
            return f"error parsing X509 certificate/key pair: {problem}"
        try:
            # For a key with a passphrase OpenSSL would prompt on the terminal.
            context.load_cert_chain(pair.cert_file, pair.key_file, password="")
        except (ssl.SSLError, ValueError) as error:
            return (
                f"error parsing X509 certificate/key pair {pair.cert_file} and {pair.key_file}: "
                f"{_reason(error)}; expected PEM files that belong together, without passphrase"
            )
    if not tls.ca_file:
        return None
    problem = _unreadable(tls.ca_file)
    if problem:
        return problem
    try:
        context.load_verify_locations(tls.ca_file)
    except ssl.SSLError as error:
        return f"failed to parse root ca certificate {tls.ca_file}: {_reason(error)}"
    return None


def _unreadable(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  a path is a text here, as it was written
            file.read(1)
    except OSError as error:
        return f"open {path}: {error.strerror}"
    return None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
