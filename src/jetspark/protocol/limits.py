"""Numbers of the wire, each with the place it comes from."""

from typing import Final

# nats-server's default for `max_control_line` (wire.md, Limits and timings). It counts the
# arguments of a line, without the operation, the blanks after it and the line end.
CONTROL_LINE_MAX: Final = 4096

# nats-server's default for `max_payload`, announced in INFO (wire.md, Core protocol). Headers
# count.
PAYLOAD_MAX: Final = 1024 * 1024
# nats-server's default for `max_pending`; `max_payload` may not be above it (wire.md, Limits
# and timings).
PENDING_MAX: Final = 64 * 1024 * 1024

# nats-server refuses sizes with more digits (parseSize in its util.go).
SIZE_DIGITS_MAX: Final = 9

# What our client takes as one line of a server. INFO is the long one: a large cluster lists
# hundreds of connect_urls in it and no server limits it, so this only keeps a broken peer from
# filling our memory.
CLIENT_CONTROL_LINE_MAX: Final = 1024 * 1024

# A server adds headers of its own to a stored message (direct get, republish), so a message may
# exceed the announced max_payload. Stored headers are at most 64 KiB (wire.md, Limits and
# timings); this is room for as much again.
CLIENT_PAYLOAD_ROOM: Final = 128 * 1024

# Subscription ids are chosen by the client; ours are numbers that fit 64 bits in any server.
SID_DIGITS_MAX: Final = 18

# Pieces of a cut frame are joined in lots of this many, so that a peer that sends single bytes
# makes us hold little more than the bytes themselves (a bytes object has 33 bytes of its own).
PIECES_MAX: Final = 256
# Lots that are larger are of large pieces, which are not worth a copy.
LOT_MAX: Final = 256 * 1024

# A frame of this size or more is put together beside the loop: a copy of it takes milliseconds.
BESIDE_MIN: Final = 2 * 1024 * 1024
# If no more than this stands before its payload, the payload is put together by itself.
HEAD_MAX: Final = 128 * 1024
