"""bcrypt as nats-server reads it, and comparison in constant time."""

from __future__ import annotations

import bcrypt
import pytest

from jetspark.server.auth.passwords import check, decoy, hash_problem, same

NOISE = bytes(range(100, 153))


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


def test_a_password_is_checked_against_its_hash() -> None:
    found = hashed(b"secret")

    assert check(found, "secret")
    assert not check(found, "Secret")
    assert not check(found, "")
    assert not check(found, found), "the hash is not the password"


@pytest.mark.parametrize("version", ["2a", "2b", "2x", "2y"])
def test_every_version_of_the_hash_is_the_same(version: str) -> None:
    found = hashed(b"secret").replace("$2b$", f"${version}$")

    assert hash_problem(found) is None
    assert check(found, "secret")


def test_only_the_first_72_bytes_count() -> None:
    """As on nats-server, which was seen to accept 80 bytes for the hash of 72."""
    found = hashed(b"x" * 72)

    assert check(found, "x" * 80)
    assert not check(found, "x" * 71)


def test_a_password_may_hold_any_character() -> None:
    assert check(hashed("é\0z".encode()), "é\0z")
    assert not check(hashed(b"a"), "\ud800")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("$2a$04$short", "60 characters"),
        ("$2a$04$" + "a" * 54, "60 characters"),
        ("$2a$04$" + "!" * 53, "60 characters"),
        ("$2a$03$" + "." * 53, "cost"),
        ("$2a$32$" + "." * 53, "cost"),
        ("$2a$04$" + "a" * 53, "salt"),
    ],
)
def test_a_damaged_hash_is_named(text: str, reason: str) -> None:
    problem = hash_problem(text)

    assert problem is not None
    assert reason in problem


def test_secrets_are_compared_as_bytes() -> None:
    assert same("", "")
    assert same("pä", "pä")
    assert not same("a", "b")
    assert not same("a", "\ud800")


def test_a_decoy_costs_as_much_and_is_valid() -> None:
    found = decoy("$2y$07$" + "." * 53, NOISE)

    assert found.startswith("$2y$07$")
    assert hash_problem(found) is None
    assert not check(decoy(hashed(b"secret"), NOISE), "secret")


def test_a_decoy_needs_noise_for_every_character() -> None:
    with pytest.raises(ValueError, match="53"):
        decoy("$2y$07$" + "." * 53, b"short")
