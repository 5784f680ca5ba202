"""All limits of the engine, with their sources."""

from typing import Final

READ_RECORDS_PER_TURN: Final = 1000  # contracts.md, Reads
READ_BYTES_PER_TURN: Final = 256 * 1024  # contracts.md, Reads
DIRECT_GET_BYTES_MAX: Final = 64 * 1024 * 1024  # ADR-31: the server's max_pending
MIN_LAST_SEQ_WAIT_NS: Final = 500_000_000  # decisions.md, Read-after-write
HELD_READS_MAX: Final = 10_000  # decisions.md, Read-after-write, of a server
HELD_READS_PER_CLIENT: Final = 1_000  # decisions.md, Read-after-write, of a connection
PURGE_STEP: Final = 20_000  # sequences that one step of a purge removes: a few milliseconds
APPLIED_PER_TURN: Final = 8_192  # of a group: records, and other units of a turn (turn.py)
NAMES_PAGE: Final = 1024  # wire.md, API requests
LIST_PAGE: Final = 256  # wire.md, API requests
SUBJECTS_PAGE: Final = 100_000  # wire.md, API requests, subjects in STREAM.INFO
# Sequences that STREAM.INFO lists with deleted_details: some megabytes. A gap may be 2^62 long.
DELETED_LISTED_MAX: Final = 1_000_000
MESSAGE_HEADERS_MAX: Final = 0xFFFF  # wire.md, Publishing, error 10097
# An id costs about 200 bytes; beyond this number the next message with one is refused (10023).
DUPLICATE_IDS_MAX: Final = 32_000_000
# A page of a list ends earlier if its answer would be longer than about this; one source of a
# stream takes this much of it, and one filter, pause or metadata of a consumer.
LIST_BYTES: Final = 1024 * 1024
COPY_BYTES: Final = 128
ENTRY_BYTES: Final = 24
