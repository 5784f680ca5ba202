"""The S2 stream format around backup archives: chunks with a masked CRC-32C each.

The nats command line reads every archive through an S2 decompressor, for its progress bar. We
write uncompressed chunks: the messages are often compressed already, and S2 in Python would cost
more than it saves. We read uncompressed chunks or no framing at all, as older versions wrote.
"""

from functools import cache
from typing import Final

__all__ = ["FRAME_MAX", "MAGIC", "CompressedChunk", "FramesBroken", "Unframer", "frame"]

MAGIC: Final = b"\xff\x06\x00\x00S2sTwO"
FRAME_MAX: Final = 64 * 1024
"""Bytes per chunk: what every reader of S2 and of its predecessor Snappy accepts."""

_COMPRESSED: Final = 0x00
_STORED: Final = 0x01
_SKIPPABLE: Final = 0x80
_IDENTIFIER: Final = 0xFF
_HEADER: Final = 4
_CHECK: Final = 4
_POLYNOMIAL: Final = 0x82F63B78
_LANE: Final = 256


class FramesBroken(Exception):
    """The bytes are not valid S2 framing, although they start like it; the text says why."""


class CompressedChunk(FramesBroken):
    """A chunk is compressed."""


def frame(data: bytes) -> bytes:
    """Return one uncompressed chunk; ``data`` has at most FRAME_MAX bytes."""
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    size = len(data) + _CHECK
    return b"".join(
        (bytes([_STORED]), size.to_bytes(3, "little"), masked.to_bytes(4, "little"), data)
    )


class Unframer:
    """Removes the framing of an archive, in any pieces, if it has one.

    The checksums of chunks are not verified: the archive inside has its own, over every byte.
    """

    def __init__(self) -> None:
        self._framed: bool | None = None  # unknown before the first bytes
        self._head = b""
        # Of the current chunk: bytes to skip, then bytes to pass on.
        self._skip = 0
        self._pass = 0
        # The number of chunks so far.
        self.chunks: int = 0

    def feed(self, data: bytes) -> bytes:
        """Take some bytes; return their content. Raises FramesBroken."""
        if self._framed is None:
            data = self._head + data
            self._head = b""
            if len(data) < len(MAGIC) and MAGIC.startswith(data):
                self._head = data
                return b""
            self._framed = data.startswith(MAGIC)
        return self._chunks(data) if self._framed else data

    def _chunks(self, data: bytes) -> bytes:
        found: list[bytes] = []
        at = 0
        while at < len(data):
            if self._skip:
                taken = min(self._skip, len(data) - at)
                self._skip -= taken
            elif self._pass:
                taken = min(self._pass, len(data) - at)
                found.append(data[at : at + taken])
                self._pass -= taken
            else:
                taken = min(_HEADER - len(self._head), len(data) - at)
                self._head += data[at : at + taken]
                if len(self._head) == _HEADER:
                    self._begin(self._head[0], int.from_bytes(self._head[1:], "little"))
                    self._head = b""
            at += taken
        return b"".join(found)

    def _begin(self, kind: int, size: int) -> None:
        self.chunks += 1
        if kind == _COMPRESSED:
            raise CompressedChunk("a chunk of the archive is compressed")
        if kind == _STORED and size >= _CHECK:
            self._skip, self._pass = _CHECK, size - _CHECK
        elif kind >= _SKIPPABLE and (kind != _IDENTIFIER or size == len(MAGIC) - _HEADER):
            self._skip = size
        else:
            raise FramesBroken(f"the framing of the archive is damaged: chunk of kind {kind}")


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes.

    Python has none. Byte by byte would be ten times slower than this: the data is split into lanes
    of 256 bytes, all lanes advance together (the states are four big integers, one per byte of a
    state, and a table lookup for all lanes is one ``bytes.translate``), and then the lanes are
    combined one by one.
    """
    table, planes, shifts = _tables()
    lanes = len(data) // _LANE
    whole = lanes * _LANE
    a = b = c = d = 0
    for column in range(_LANE if lanes else 0):
        step = int.from_bytes(data[column:whole:_LANE], "little")
        keys = (a ^ step).to_bytes(lanes, "little")
        a = b ^ int.from_bytes(keys.translate(planes[0]), "little")
        b = c ^ int.from_bytes(keys.translate(planes[1]), "little")
        c = d ^ int.from_bytes(keys.translate(planes[2]), "little")
        d = int.from_bytes(keys.translate(planes[3]), "little")
    crc = 0xFFFFFFFF
    s0, s1, s2, s3 = shifts
    states = (plane.to_bytes(lanes, "little") for plane in (a, b, c, d))
    for w, x, y, z in zip(*states, strict=True):
        crc = s0[crc & 255] ^ s1[crc >> 8 & 255] ^ s2[crc >> 16 & 255] ^ s3[crc >> 24]
        crc ^= w | x << 8 | y << 16 | z << 24
    for byte in data[whole:]:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache  # built for the first backup: saves a start two milliseconds
def _tables() -> tuple[list[int], list[bytes], list[list[int]]]:
    """Return the table of one byte, its four planes, and the tables to move a state by a lane."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    planes = [bytes(crc >> 8 * plane & 255 for crc in table) for plane in range(4)]
    moved = []
    for bit in range(32):
        crc = 1 << bit
        for _ in range(_LANE):
            crc = table[crc & 255] ^ crc >> 8
        moved.append(crc)
    shifts = []
    for plane in range(4):
        shift = [0] * 256
        for value in range(256):
            for bit in range(8):
                if value >> bit & 1:
                    shift[value] ^= moved[8 * plane + bit]
        shifts.append(shift)
    return table, planes, shifts
