"""Protocol constants, each with its source."""

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

# The longest control line our client accepts from a server. INFO is the longest: a large cluster
# lists hundreds of connect_urls in it and no server limits it, so this only prevents a broken peer
# from exhausting our memory.
CLIENT_CONTROL_LINE_MAX: Final = 1024 * 1024

# A server adds headers of its own to a stored message (direct get, republish), so a message may
# exceed the announced max_payload. Stored headers are at most 64 KiB (wire.md, Limits and
# timings); this allows as much again.
CLIENT_PAYLOAD_ROOM: Final = 128 * 1024

# Subscription ids are chosen by the client; ours are numbers that fit 64 bits in any server.
SID_DIGITS_MAX: Final = 18

# Pieces of a truncated frame are joined in batches of this many, so that a peer that sends single
# bytes makes us hold little more than the bytes themselves (a bytes object has 33 bytes overhead).
PIECES_MAX: Final = 256
# Larger batches consist of large pieces, which are not worth a copy.
LOT_MAX: Final = 256 * 1024

# A frame of this size or more is assembled in a thread: copying it takes milliseconds.
ASSEMBLE_MIN: Final = 2 * 1024 * 1024
# If no more than this precedes its payload, only the payload is assembled there.
HEAD_MAX: Final = 128 * 1024
