"""Codecs of keys and values (ADR-8 1.1, 1.3): what is stored, and what does not decode."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from jetspark.client.jetstream.kv.codec import Base64Keys, PathKeys
from jetspark.client.jetstream.kv.encryption import AesGcmValues
from jetspark.errors import BadName, CodecFailed
from jetspark.subjects.tokens import key_problem

OLD, NEW = bytes(range(16)), bytes(range(32))


@pytest.mark.parametrize("key", ["a", "größe.x y", "a.b.c", "*", "with/slash.and=sign", "日本"])
def test_any_text_is_a_base64_key(key: str) -> None:
    codec = Base64Keys()
    stored = codec.encode(key)

    assert key_problem(stored) is None
    assert codec.decode(stored) == key


def test_base64_filters_keep_their_wildcards() -> None:
    codec = Base64Keys()

    assert codec.encode_filter("a.*.b.>") == f"{codec.encode('a')}.*.{codec.encode('b')}.>"
    assert codec.encode_filter(">") == ">"


@pytest.mark.parametrize("bad", ["", ".a", "a.", "a..b"])
def test_empty_tokens_are_refused(bad: str) -> None:
    with pytest.raises(BadName):
        Base64Keys().encode(bad)


def test_a_key_that_is_not_base64_does_not_decode() -> None:
    with pytest.raises(CodecFailed, match="without this codec"):
        Base64Keys().decode("a")


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("a/b/c", "a.b.c"),
        ("/a/b", "_root_.a.b"),
        ("a", "a"),
        ("/", "_root_"),
        ("_roots/a", "_roots.a"),
    ],
)
def test_paths_are_stored_with_dots(path: str, stored: str) -> None:
    codec = PathKeys()

    assert codec.encode(path) == stored
    assert codec.decode(stored) == path


def test_a_path_filter_keeps_its_wildcards() -> None:
    assert PathKeys().encode_filter("/a/*/>") == "_root_.a.*.>"
    with pytest.raises(BadName, match="must not contain dots"):
        PathKeys().encode("a.b")


# Encryption.


def test_an_encrypted_value_is_laid_out_as_documented() -> None:
    codec = AesGcmValues({"new": NEW}, random_bytes=lambda count: b"n" * count)
    stored = codec.encode("bucket", "key", b"value")
    bound = b"jetspark-kv-1\0bucket\0key\0\x01\x03new"

    assert stored[:2] == b"\x01\x03"
    assert stored[2:5] == b"new"
    assert stored[5:17] == b"n" * 12
    assert stored[17:] == AESGCM(NEW).encrypt(b"n" * 12, b"value", bound)
    assert len(stored) == 2 + 3 + 12 + 5 + 16


@pytest.mark.parametrize("value", [b"", b"x", bytes(100_000)])
def test_a_value_comes_back(value: bytes) -> None:
    codec = AesGcmValues({"a": OLD})

    assert codec.decode("b", "k", codec.encode("b", "k", value)) == value


def test_nonces_differ() -> None:
    codec = AesGcmValues({"a": OLD})

    assert codec.encode("b", "k", b"x") != codec.encode("b", "k", b"x")


def test_the_ring_reads_old_keys_and_writes_with_the_first() -> None:
    old = AesGcmValues({"old": OLD}).encode("b", "k", b"value")
    ring = AesGcmValues({"new": NEW, "old": OLD})

    assert ring.decode("b", "k", old) == b"value"
    assert ring.encode("b", "k", b"x")[2:5] == b"new"
    with pytest.raises(CodecFailed, match="'old', which is not in the ring"):
        AesGcmValues({"new": NEW}).decode("b", "k", old)


@pytest.mark.parametrize(("bucket", "key"), [("other", "k"), ("b", "other")])
def test_a_moved_value_does_not_decrypt(bucket: str, key: str) -> None:
    codec = AesGcmValues({"a": OLD})

    with pytest.raises(CodecFailed, match="changed or moved"):
        codec.decode(bucket, key, codec.encode("b", "k", b"value"))


def test_every_changed_byte_is_noticed() -> None:
    codec = AesGcmValues({"a": OLD})
    stored = codec.encode("b", "k", b"value")

    for index in range(len(stored)):
        changed = stored[:index] + bytes([stored[index] ^ 1]) + stored[index + 1 :]
        with pytest.raises(CodecFailed):
            codec.decode("b", "k", changed)


@pytest.mark.parametrize("stored", [b"", b"\x01", b"plain", b"\x01\x01a" + bytes(27)])
def test_what_is_not_encrypted_says_so(stored: bytes) -> None:
    with pytest.raises(CodecFailed):
        AesGcmValues({"a": OLD}).decode("b", "k", stored)


@pytest.mark.parametrize("keys", [{}, {"": OLD}, {"a": b"short"}, {"a" * 256: OLD}])
def test_a_bad_ring_is_refused(keys: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="key"):
        AesGcmValues(keys)
