"""Who a stream is: its identity, kept in two manifest copies and in the head of every segment.

A framed document is ``magic (4) | u32 length | JSON | 8 bytes xxh3-64 digest of all before``.
Manifests are written alternately to ``manifest.a`` and ``manifest.b``; the copy with the highest
epoch that checks is the truth. Both exist from the beginning, so damage to one costs nothing.
When both are damaged the identity comes from a segment head: a stream is never lost because its
metadata is.
"""

import errno
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from xxhash import xxh3_64_digest

from jetspark.errors.storage import WrongStoreFormat
from jetspark.store.committer import manifest_change
from jetspark.store.files import Files

FORMAT: Final = 1
MANIFEST_MAGIC: Final = b"JSM1"
COPIES: Final = ("manifest.a", "manifest.b")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known of a stream to open it.

    The store does not look into ``config``, ``configuration.is_copy`` apart.
    ``revision`` counts the changes of configuration and limits: the highest one found, in a
    manifest, a segment head or a record, is the truth.
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
    """The identity plus what changes: an epoch, sequences that are used up, and the files.

    No sequence up to ``sequence_floor`` is given out again; it may be ahead of what was stored.
    ``last_seq`` was on the disk when the manifest was written, and ``segments`` existed: one
    that is not there later is lost. None: nobody wrote that down, as in older versions.
    """

    epoch: int
    identity: Identity
    sequence_floor: int = 0
    last_seq: int = 0
    segments: tuple[str, ...] | None = None


_manifest_decoder = msgspec.json.Decoder(Manifest)
_identity_decoder = msgspec.json.Decoder(Identity)


def frame(magic: bytes, document: bytes) -> bytes:
    """Put a document into its checked frame."""
    framed = magic + struct.pack("<I", len(document)) + document
    return framed + xxh3_64_digest(framed)


def unframe(magic: bytes, data: bytes) -> bytes | None:
    """Take a document out of its frame; None when anything about it is wrong."""
    if len(data) < 16 or data[:4] != magic:
        return None
    end = 8 + int(struct.unpack_from("<I", data, 4)[0])
    if len(data) < end + 8 or xxh3_64_digest(data[:end]) != data[end : end + 8]:
        return None
    return data[8:end]


def encode_identity(identity: Identity) -> bytes:
    """Identity as JSON, for the head of a segment."""
    return msgspec.json.encode(identity)


def decode_identity(document: bytes) -> Identity:
    """Identity from JSON that was in a frame that checks; WrongStoreFormat if it is not ours."""
    try:
        identity = _identity_decoder.decode(document)
    except ValueError as error:
        raise unreadable(document, error) from error
    return known(identity)


def known(identity: Identity) -> Identity:
    """The identity itself, or WrongStoreFormat when another version of the format wrote it."""
    if identity.format != FORMAT:
        raise WrongStoreFormat(
            f"stream {identity.name!r} has disk format {identity.format}, "
            f"this version reads format {FORMAT}: open it with the jetspark that wrote it"
        )
    return identity


def unreadable(document: bytes, error: ValueError) -> WrongStoreFormat:
    """The error for a document that is whole but says something else than this version expects."""
    return WrongStoreFormat(
        f"a stream's metadata is not what this version expects ({error}): open the store with the "
        f"version of jetspark that wrote it; it begins {document[:80]!r}"
    )


def write_manifest(files: Files, folder: Path, manifest: Manifest) -> None:
    """Write the copy whose turn it is; the other one stays good meanwhile."""
    path = folder / COPIES[manifest.epoch % 2]
    try:
        files.replace(path, frame(MANIFEST_MAGIC, msgspec.json.encode(manifest)))
    except OSError:
        # On a full disk a part of it must not take the last space from others.
        with suppress(OSError):
            files.remove(path.with_name(path.name + ".tmp"))
        raise


def write_manifests(
    files: Files, folder: Path, identity: Identity, segments: tuple[str, ...]
) -> None:
    """Write both copies, for a stream that has none."""
    for epoch in (1, 2):
        manifest = Manifest(epoch=epoch, identity=identity, segments=segments)
        write_manifest(files, folder, manifest)


def first_manifests(identity: Identity, segment: str) -> dict[str, bytes]:
    """Names and contents of both copies, for a stream that is being made with one segment."""
    copies = [Manifest(epoch=epoch, identity=identity, segments=(segment,)) for epoch in (1, 2)]
    return {
        COPIES[manifest.epoch % 2]: frame(MANIFEST_MAGIC, msgspec.json.encode(manifest))
        for manifest in copies
    }


def renew_manifests(
    files: Files, folder: Path, identity: Identity, sequence_floor: int = 0
) -> None:
    """Put an identity into both copies, one after the other; the first one decides at once.

    The floor is never lower than one that is known: a copy may be unreadable today.
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
    """Say durably that no start after this one may give out sequences up to ``floor``."""
    with manifest_change(folder):
        found, _ = read_manifests(files, folder, stream_id, strict=True)
        if found is None:
            raise OSError(errno.EIO, "no manifest can be read", str(folder))
        # Not the log's own identity: a manifest must not say what a power cut takes from the log.
        renewed = msgspec.structs.replace(found, epoch=found.epoch + 1, sequence_floor=floor)
        write_manifest(files, folder, renewed)


def note_stored(
    files: Files, folder: Path, stream_id: int, last_seq: int, segments: tuple[str, ...]
) -> None:
    """Say durably up to which sequence a stream is on the disk, and in which files.

    In both copies: with one of them damaged, a file that is missing or cut is noticed by the
    other.
    """
    with manifest_change(folder):
        found, _ = read_manifests(files, folder, stream_id, strict=True)
        if found is None:
            return
        last = max(last_seq, found.last_seq)
        for step in (1, 2):
            renewed = msgspec.structs.replace(
                found, epoch=found.epoch + step, last_seq=last, segments=segments
            )
            write_manifest(files, folder, renewed)


def forget_segments(files: Files, folder: Path, stream_id: int, names: list[str]) -> None:
    """Say durably, in both copies, that files are about to be removed."""
    with manifest_change(folder):
        found, damaged = read_manifests(files, folder, stream_id, strict=True)
        older = None if damaged else _older(files, folder)
        for each in (older, found):
            if each is not None and each.segments and set(names) & set(each.segments):
                break
        else:
            return
        assert found is not None, "one of them has names"
        left = tuple(name for name in found.segments or () if name not in names)
        for step in (1, 2):
            renewed = msgspec.structs.replace(found, epoch=found.epoch + step, segments=left)
            write_manifest(files, folder, renewed)


def _read_copy(files: Files, path: Path) -> bytes:
    """Read a manifest, twice if need be; empty when there is none."""
    for _ in range(2):
        try:
            return files.read_file(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            problem = error
    raise problem


def _older(files: Files, folder: Path) -> Manifest:
    """The copy that the other one replaced; both of them check."""
    both = [
        _manifest_decoder.decode(unframe(MANIFEST_MAGIC, files.read_file(folder / name)) or b"")
        for name in COPIES
    ]
    return min(both, key=lambda manifest: manifest.epoch)


def read_manifests(
    files: Files, folder: Path, stream_id: int = 0, *, strict: bool = False
) -> tuple[Manifest | None, list[str]]:
    """Return the newest copy that checks, if any, and the names of the copies that do not.

    A copy of another stream than ``stream_id`` (0: of any) counts as one that does not check, and
    so does one that the disk refuses to read; ``strict``: then OSError.
    WrongStoreFormat when a copy checks but another version of jetspark wrote it.
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
