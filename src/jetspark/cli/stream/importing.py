"""`jetspark stream import`: stores messages of export files in a stream of any server.

Each message gets the id `import:<stream>:<sequence>:<time>` of its origin. Within the duplicate
window the server drops a repeat; before that, the ids already in the stream are read, so that a
repeat stores nothing twice, however late.
"""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from jetspark import sync
from jetspark.api.base import decoder
from jetspark.api.stream import StreamConfig
from jetspark.cli.stream.files import (
    ExportRefused,
    parts_of,
    read_manifest,
    read_rows,
    saved_config,
)
from jetspark.cli.stream.rows import ExportRows
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.base import from_wire
from jetspark.client.models.stream import StreamConfig as PublicStreamConfig
from jetspark.errors import Error, StreamNotFound
from jetspark.headers import names
from jetspark.headers.block import (
    append_lines,
    find_value,
    has_nats_headers,
    remove_header,
    remove_headers_starting,
)
from jetspark.subjects.match import matches
from jetspark.sync.bulk import publish_columns
from jetspark.sync.retry import Retries

RETRIES_MAX: Final = 5
_IN_FLIGHT: Final = 4_000
_ID_PREFIX: Final = b"import:"
# Instructions to the stream that first stored the message; sent again they would refuse or remove.
_ORDERS: Final = (names.MSG_ID, names.ROLLUP, names.INCR, names.FAST_BATCH_ID, names.FLOW)
_ORDER_PREFIXES: Final = (names.EXPECTED_PREFIX, b"Nats-Batch-")

Progress = Callable[[int], None]


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command."""

    stream: str
    sources: tuple[Path, ...]
    create: bool = False
    incomplete: bool = False
    timeout: float = 5.0


class ImportSummary(msgspec.Struct, kw_only=True):
    """The result, as printed by `--json`."""

    stream: str
    messages: int = 0
    already_there: int = 0
    bytes: int = 0
    last_seq: int = 0
    files: list[str] = []
    seconds: float = 0.0


class Import:
    """One run of the command."""

    def __init__(self, jetstream: sync.JetStream, request: ImportRequest) -> None:
        self._jetstream = jetstream
        self._request = request
        self.files: list[Path] = [
            path for source in request.sources for path in self._files(source)
        ]
        if not self.files and not all(map(_is_of_empty_stream, request.sources)):
            raise ExportRefused(
                "no file to import: the folder has no parts; were they moved, or did no message "
                "match the filters of the export?"
            )
        self._stream = self._open()
        self._config = self._stream.info().config
        self._check_config()
        self._known_subjects: set[str] = set()
        self._rows_before = 0
        self._summary = ImportSummary(stream=request.stream)

    def run(self, progress: Progress) -> ImportSummary:
        """Store everything that is missing; ``progress`` is called with the bytes read."""
        begun = time.monotonic()
        stored = self._stored_ids()
        read = 0
        for path in self.files:
            self._rows_before = 0
            size = path.stat().st_size
            for rows, share in read_rows(path):
                self._take(rows, stored)
                self._rows_before += len(rows)
                progress(read + int(size * share))
            read += size
            progress(read)
            self._summary.files.append(str(path))
        self._summary.last_seq = self._stream.info().state.last_seq
        self._summary.seconds = round(time.monotonic() - begun, 3)
        return self._summary

    def _take(self, rows: ExportRows, stored: set[bytes]) -> None:
        self._check_subjects(rows)
        headers = [self._block(rows, row) for row in range(len(rows))]
        new = [
            row
            for row, block in enumerate(headers)
            if not stored or find_value(block, names.MSG_ID) not in stored
        ]
        self._summary.already_there += len(rows) - len(new)
        if not new:
            return
        taken = MessageColumns.to_publish(
            rows.messages.subjects, rows.messages.data, headers
        ).picked(new)
        self._send(taken)
        self._summary.messages += len(new)
        self._summary.bytes += sum(map(len, taken.data))

    def _block(self, rows: ExportRows, row: int) -> bytes:
        """Return the headers of a stored message: its own, without instructions, with our id."""
        block = rows.messages.headers[row]
        if block and has_nats_headers(block):
            for name in _ORDERS:
                block = remove_header(block, name)
            for prefix in _ORDER_PREFIXES:
                block = remove_headers_starting(block, prefix)
            if not self._config.allow_msg_ttl:
                block = remove_header(block, names.TTL)
            if not self._config.allow_msg_schedules:
                block = remove_headers_starting(block, names.SCHEDULE)
        return append_lines(block, b"%b: %b\r\n" % (names.MSG_ID, self._id(rows, row)))

    def _id(self, rows: ExportRows, row: int) -> bytes:
        seq = rows.messages.sequences[row]
        if seq:
            source = rows.streams[row].encode("utf-8", "replace")
            return b"%b%b:%d:%d" % (_ID_PREFIX, source, seq, rows.messages.times[row])
        # A file of another tool: the same content in the same place is the same message.
        digest = blake2b(rows.messages.data[row], digest_size=16)
        digest.update(rows.messages.headers[row])
        digest.update(rows.messages.subjects[row].encode("utf-8", "surrogateescape"))
        where = self._rows_before + row
        return b"%b:%d:%b" % (_ID_PREFIX, where, digest.hexdigest().encode())

    def _send(self, messages: MessageColumns) -> None:
        """Store messages; retried after transient errors with the same ids."""
        left, retries = messages, Retries(RETRIES_MAX)
        while len(left):
            publisher: sync.FastPublisher | None = None
            try:
                if not self._config.allow_batched:
                    publish_columns(
                        self._jetstream,
                        messages,
                        max_in_flight=_IN_FLIGHT,
                        timeout=self._request.timeout,
                    )
                    return
                publisher = self._jetstream.fast_publisher(ack_timeout=self._request.timeout)
                with publisher:
                    publisher.extend(left.subjects, left.data, left.headers)
            except Error as error:
                acked = publisher.acked if publisher is not None else 0
                left = left.part(acked, len(left))
                if acked:
                    retries.restart()
                retries.pause(error)
            else:
                return

    def _stored_ids(self) -> set[bytes]:
        """Return the ids that an earlier import stored; a new stream has none."""
        found: set[bytes] = set()
        last = self._stream.info().state.last_seq
        if not last:
            return found
        for chunk in self._stream.scan(1, last, columns=("headers",)):
            for block in chunk.headers:
                if block and _ID_PREFIX in block:
                    msg_id = find_value(block, names.MSG_ID)
                    if msg_id is not None and msg_id.startswith(_ID_PREFIX):
                        found.add(msg_id)
        return found

    def _check_subjects(self, rows: ExportRows) -> None:
        """Refuse subjects that the stream does not store: they would get no answer."""
        for subject in set(rows.messages.subjects) - self._known_subjects:
            name = subject.encode("utf-8", "surrogateescape")
            if not any(matches(name, own.encode()) for own in self._config.subjects):
                raise ExportRefused(
                    f"subject {subject!r} does not belong to stream {self._request.stream}, which "
                    f"stores {', '.join(self._config.subjects)}"
                )
            self._known_subjects.add(subject)

    def _files(self, source: Path) -> Iterator[Path]:
        if not source.is_dir():
            if not source.exists():
                raise ExportRefused(f"file {source} does not exist")
            yield source
            return
        manifest = read_manifest(source)
        if manifest is None:
            raise ExportRefused(f"{source} is not an export: it has no export.json")
        if not manifest.complete and not self._request.incomplete:
            raise ExportRefused(
                f"the export in {source} is incomplete: finish it with `jetspark stream export "
                "--resume`, or import what it has with --incomplete"
            )
        parts = parts_of(source)
        if parts and parts[0][0] != manifest.first:
            raise ExportRefused(f"{source}: the first part is missing")
        for _, _, path in parts:
            yield path

    def _open(self) -> sync.Stream:
        request = self._request
        try:
            return self._jetstream.stream(request.stream)
        except StreamNotFound:
            if not request.create:
                raise ExportRefused(
                    f"stream {request.stream} does not exist: create it, or use --create "
                    "to create it like the exported one"
                ) from None
        config = self._saved()
        if config is None:
            raise ExportRefused(
                "--create: these files do not contain the configuration of their stream (those of "
                "`jetspark stream export` do): create the stream first"
            )
        return self._jetstream.create_stream(
            from_wire(PublicStreamConfig, _own_config(config, request.stream))
        )

    def _saved(self) -> bytes | None:
        for source in self._request.sources:
            if source.is_dir():
                manifest = read_manifest(source)
                found = None if manifest is None else bytes(manifest.config)
            else:
                found = saved_config(source)
            if found is not None:
                return found
        return None

    def _check_config(self) -> None:
        config = self._config
        reason = ""
        if config.mirror is not None:
            reason = "is a mirror, which accepts no messages"
        elif config.sealed:
            reason = "is sealed, which accepts no messages"
        elif config.allow_msg_counter:
            reason = "is a counter: its values cannot be imported, only added up again"
        elif config.no_ack:
            reason = "has no_ack: it would be unknown what was stored"
        if reason:
            raise ExportRefused(f"stream {self._request.stream} {reason}")


def _is_of_empty_stream(folder: Path) -> bool:
    """Whether the export of a folder had nothing to write."""
    manifest = read_manifest(folder)
    return manifest is not None and manifest.complete and manifest.last < manifest.first


def _own_config(saved: bytes, name: str) -> StreamConfig:
    """Return the configuration of a new stream: that of the old one, storing messages itself."""
    try:
        config = decoder(StreamConfig).decode(saved)
    except msgspec.MsgspecError as error:
        raise ExportRefused(
            f"--create: the configuration in the export is invalid: {error}"
        ) from None
    if config.mirror is not None or not config.subjects:
        raise ExportRefused(
            "--create: the exported stream had no own subjects (a mirror): create the stream first"
        )
    metadata = {
        key: value
        for key, value in config.metadata.items()
        if not key.startswith(("_nats.", "_jetspark."))
    }
    return msgspec.structs.replace(
        config, name=name, sources=(), sealed=False, first_seq=0, placement=None, metadata=metadata
    )
