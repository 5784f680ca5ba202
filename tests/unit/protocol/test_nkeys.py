"""The nkey codec: text form, checksum, signatures; compared with PyPI's nkeys where installed."""

import pytest

from jetspark.errors import BadCredentials
from jetspark.protocol.nkeys import (
    ACCOUNT,
    KIND_WORDS,
    OPERATOR,
    USER,
    KeyPair,
    decode_public,
    verify,
)


@pytest.mark.parametrize("kind", KIND_WORDS)
def test_a_key_survives_its_text_form(kind: str) -> None:
    key = KeyPair.generate(kind)
    again = KeyPair.from_seed(key.seed)

    assert (again.public_key, again.kind, again.seed) == (key.public_key, kind, key.seed)
    assert key.public_key.startswith(kind)
    assert len(key.public_key) == 56
    assert key.seed.startswith("S" + kind)
    assert len(key.seed) == 58
    assert decode_public(key.public_key)[0] == kind


def test_a_signature_is_verified_and_a_changed_text_is_not() -> None:
    key = KeyPair.generate(USER)
    signature = key.sign(b"nonce")

    assert verify(key.public_key, b"nonce", signature)
    assert not verify(key.public_key, b"other", signature)
    assert not verify(KeyPair.generate(USER).public_key, b"nonce", signature)


@pytest.mark.parametrize("kind", [USER, ACCOUNT, OPERATOR])
def test_the_official_codec_agrees(kind: str) -> None:
    nkeys = pytest.importorskip("nkeys", reason="pip install nkeys")
    key = KeyPair.generate(kind)
    theirs = nkeys.from_seed(bytearray(key.seed.encode()))

    assert bytes(theirs.public_key).decode() == key.public_key
    assert theirs.sign(b"nonce") == key.sign(b"nonce")


def test_a_known_seed_gives_its_known_public_key() -> None:
    key = KeyPair(USER, bytes(range(32)))

    assert key.seed == "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
    assert key.public_key == "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"


SEED = KeyPair(USER, bytes(range(32))).seed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "got 0 characters"),
        ("hello", "got 5 characters"),
        (KeyPair.generate(USER).public_key, "this is the public key U"),
        (SEED[:-1] + "x", "only A to Z and 2 to 7"),
        (SEED[:20] + ("A" if SEED[20] != "A" else "B") + SEED[21:], "its checksum is wrong"),
    ],
    ids=["empty", "short", "public key", "bad letter", "changed"],
)
def test_a_bad_seed_says_what_is_wrong_and_shows_nothing(text: str, reason: str) -> None:
    with pytest.raises(BadCredentials, match=reason) as caught:
        KeyPair.from_seed(text)

    assert SEED[:20] not in str(caught.value)


def test_a_bad_public_key_says_what_is_wrong() -> None:
    with pytest.raises(BadCredentials, match="this is a seed, which is secret") as caught:
        decode_public(SEED)
    assert SEED not in str(caught.value)
    with pytest.raises(BadCredentials, match="got 'UABC'"):
        decode_public("UABC")


def test_a_key_shows_its_public_half_only() -> None:
    key = KeyPair.generate(USER)

    assert repr(key) == f"KeyPair({key.public_key})"
