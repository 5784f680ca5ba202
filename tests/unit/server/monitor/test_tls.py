"""What /connz says about a TLS session."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest
from tests.support.certificates import make_certificate

from jetspark.server.monitor.tls import cipher_name, describe


@pytest.mark.parametrize(
    ("openssl", "iana"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
        ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
        ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
        ("SOMETHING-ELSE", "SOMETHING-ELSE"),
    ],
)
def test_cipher_suites_have_the_names_that_nats_server_shows(openssl: str, iana: str) -> None:
    assert cipher_name(openssl) == iana


def test_a_certificate_is_described_by_its_digests(tmp_path: Path) -> None:
    cert_file, _ = make_certificate(tmp_path)
    der = ssl.PEM_cert_to_DER_cert(cert_file.read_text())

    found = describe(der)

    assert found.subject == "CN=localhost"
    assert found.cert_sha256 == hashlib.sha256(der).hexdigest()
    assert len(found.spki_sha256) == 64


def test_a_certificate_that_cannot_be_read_keeps_its_digest() -> None:
    assert describe(b"nonsense").cert_sha256 == hashlib.sha256(b"nonsense").hexdigest()
