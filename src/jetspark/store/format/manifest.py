"""The identity of a stream, stored in two manifest copies and in the head of every segment.

A framed document is ``magic (4) | u32 length | JSON | 8 bytes xxh3-64 digest of all before``.
Manifests are written alternately to ``manifest.a`` and ``manifest.b``; the valid copy with the
highest epoch counts, so damage to one has no consequences. If both are damaged, the identity comes
from a segment head: damaged metadata never loses a stream.

A young stream has no manifest yet (``upkeep/manifests.py``): they would cost more than half of its
creation.
"""

import errno
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_digest

from jetspark.errors.storage import WrongStoreFormat
from jetspark.store.committer import manifest_change
from jetspark.store.files import Files

FORMAT: Final = 1
MANIFEST_MAGIC: Final = b"JSM1"
COPIES: Final = ("manifest.a", "manifest.b")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to open a stream.

    The store does not interpret ``config``, except for ``configuration.is_copy``. ``revision``
    counts the changes of configuration and limits: the highest one found, in a manifest, a segment
    head or a record, counts.
    """

    format: int = FORMAT
    stream_id: int
    account: str
    name: str
    created_ns: int
    config: msgspec.Raw = msgspec.Raw(b"{}")
    revision: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_per_subject: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The identity plus what changes: an epoch, used sequences, and the files.

    No sequence up to ``sequence_floor`` is assigned again; it may be ahead of what was stored.
    ``last_seq`` was on disk when the manifest was written, ``segments`` existed, and the newest of
    them had records up to ``end``: what is missing later is lost. ``versions`` has the generation
    of each of ``segments`` and, of the full ones, the end of the records, in the same order: a
    file that has less is an older version of itself. None: not recorded, as in older versions.
    """

    epoch: int
    identity: Identity
    sequence_floor: int = 0
    last_seq: int = 0
    segments: tuple[str, ...] | None = None
    end: tuple[str, int] | None = None
    versions: tuple[tuple[int, int], ...] | None = None


class Stored(NamedTuple):
    """What was on disk of a stream when its manifests were written, as in ``Manifest``."""

    last_seq: int = 0
    segments: tuple[str, ...] = ()
    end: tuple[str, int] | None = None
    versions: tuple[tuple[int, int], ...] = ()


_manifest_decoder = msgspec.json.Decoder(Manifest)
_identity_decoder = msgspec.json.Decoder(Identity)


def frame(magic: bytes, document: bytes) -> bytes:
    """Put a document into its checksummed frame."""
    framed = magic + struct.pack("<I", len(document)) + document
    return framed + xxh3_64_digest(framed)


def unframe(magic: bytes, data: bytes) -> bytes | None:
    """Extract a document from its frame; None if anything is wrong with it."""
    if len(data) < 16 or data[:4] != magic:
        return None
    end = 8 + int(struct.unpack_from("<I", data, 4)[0])
    if len(data) < end + 8 or xxh3_64_digest(data[:end]) != data[end : end + 8]:
        return None
    return data[8:end]


def encode_identity(identity: Identity) -> bytes:
    """Encode an identity as JSON, for the head of a segment."""
    return msgspec.json.encode(identity)


def decode_identity(document: bytes) -> Identity:
    """Decode an identity from a valid frame; WrongStoreFormat if it is not ours."""
    try:
        identity = _identity_decoder.decode(document)
    except ValueError as error:
        raise unreadable(document, error) from error
    return known(identity)


def known(identity: Identity) -> Identity:
    """Return the identity; WrongStoreFormat if another version of the format wrote it."""
    if identity.format != FORMAT:
        raise WrongStoreFormat(
            f"stream {identity.name!r} has disk format {identity.format}, "
            f"this version reads format {FORMAT}: open it with the jetspark that wrote it"
        )
    return identity


def unreadable(document: bytes, error: ValueError) -> WrongStoreFormat:
    """Return the error for a valid document with unexpected content."""
    return WrongStoreFormat(
        f"a stream's metadata is not what this version expects ({error}): open the store with the "
        f"version of jetspark that wrote it; it begins {document[:80]!r}"
    )


def write_manifest(files: Files, folder: Path, manifest: Manifest) -> None:
    """Write the copy whose turn it is; the other one stays valid meanwhile."""
    path = folder / COPIES[manifest.epoch % 2]
    try:
        files.replace(path, frame(MANIFEST_MAGIC, msgspec.json.encode(manifest)))
    except OSError:
        # On a full disk a partial file must not take the last space from others.
        with suppress(OSError):
            files.remove(path.with_name(path.name + ".tmp"))
        raise


def write_manifests(files: Files, folder: Path, identity: Identity, stored: Stored) -> bool:
    """Write both copies, for a stream without any; False if it has one.

    Then the other one is written if an earlier attempt failed before that.
    """
    with manifest_change(folder):
        found, missing = read_manifests(files, folder, identity.stream_id, strict=True)
        first = 1 if found is None else found.epoch + 1
        for epoch in range(first, first + len(missing)):
            manifest = Manifest(epoch=epoch, identity=identity, **stored._asdict())
            write_manifest(files, folder, manifest)
        if not missing:
            # An earlier attempt may have failed when it made their names durable.
            files.sync_folder(folder)
    return found is None


def renew_manifests(
    files: Files, folder: Path, identity: Identity, sequence_floor: int = 0
) -> None:
    """Write an identity to both copies, one after the other; the first one counts immediately.

    The floor is never lower than a known one: a copy may be unreadable at present.
    """
    with manifest_change(folder):
        found, _ = read_manifests(files, folder, identity.stream_id)
        if found is None:
            found = Manifest(epoch=0, identity=identity)
        floor = max(sequence_floor, found.sequence_floor)
        for step in (1, 2):
            renewed = msgspec.structs.replace(
                found, epoch=found.epoch + step, identity=identity, sequence_floor=floor
            )
            write_manifest(files, folder, renewed)


def raise_floor(files: Files, folder: Path, stream_id: int, floor: int) -> None:
    """Record durably that no later start may assign sequences up to ``floor``."""
    with manifest_change(folder):
        found, _ = read_manifests(files, folder, stream_id, strict=True)
        if found is None:
            raise OSError(errno.EIO, "no manifest can be read", str(folder))
        # Not the log's own identity: a manifest must not contain what a power failure may remove.
        renewed = msgspec.structs.replace(found, epoch=found.epoch + 1, sequence_floor=floor)
        write_manifest(files, folder, renewed)


def note_stored(files: Files, folder: Path, stream_id: int, stored: Stored) -> None:
    """Record durably how far a stream is on disk, and in which files.

    In both copies: if one of them is damaged, the other one reveals a missing or truncated
    file.
    """
    with manifest_change(folder):
        found, _ = read_manifests(files, folder, stream_id, strict=True)
        if found is None:
            return
        known = stored._replace(last_seq=max(stored.last_seq, found.last_seq))
        for step in (1, 2):
            renewed = msgspec.structs.replace(found, epoch=found.epoch + step, **known._asdict())
            write_manifest(files, folder, renewed)


def forget_segments(files: Files, folder: Path, stream_id: int, names: list[str]) -> None:
    """Record durably, in both copies, that files are about to be removed."""
    with manifest_change(folder):
        found, damaged = read_manifests(files, folder, stream_id, strict=True)
        older = None if damaged else _older(files, folder)
        for each in (older, found):
            if each is not None and each.segments and set(names) & set(each.segments):
                break
        else:
            return
        assert found is not None, "one of the copies has names"
        listed = found.segments or ()
        left = tuple(name for name in listed if name not in names)
        versions = found.versions
        if versions is not None:
            pairs = zip(listed, versions, strict=False)
            versions = tuple(version for name, version in pairs if name not in names)
        for step in (1, 2):
            renewed = msgspec.structs.replace(
                found, epoch=found.epoch + step, segments=left, versions=versions
            )
            write_manifest(files, folder, renewed)


def _read_copy(files: Files, path: Path) -> bytes:
    """Read a manifest, twice if necessary; empty if it does not exist."""
    for _ in range(2):
        try:
            return files.read_file(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            problem = error
    raise problem


def _older(files: Files, folder: Path) -> Manifest:
    """Return the older copy; both of them are valid."""
    both = [
        _manifest_decoder.decode(unframe(MANIFEST_MAGIC, files.read_file(folder / name)) or b"")
        for name in COPIES
    ]
    return min(both, key=lambda manifest: manifest.epoch)


def read_manifests(
    files: Files, folder: Path, stream_id: int = 0, *, strict: bool = False
) -> tuple[Manifest | None, list[str]]:
    """Return the newest valid copy, if any, and the names of the copies that are not valid.

    A copy of another stream than ``stream_id`` (0: of any) counts as invalid, and so does one that
    the disk fails to read; with ``strict`` that raises OSError. Raises WrongStoreFormat if a copy
    is valid but another version of jetspark wrote it.
    """
    best: Manifest | None = None
    damaged = []
    for name in COPIES:
        try:
            document = unframe(MANIFEST_MAGIC, _read_copy(files, folder / name))
        except OSError:
            if strict:
                raise
            document = None
        if document is None:
            damaged.append(name)
            continue
        try:
            manifest = _manifest_decoder.decode(document)
        except ValueError as error:
            raise unreadable(document, error) from error
        if stream_id and manifest.identity.stream_id != stream_id:
            damaged.append(name)
            continue
        known(manifest.identity)
        if best is None or manifest.epoch > best.epoch:
            best = manifest
    return best, damaged
