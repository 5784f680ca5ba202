"""`jetspark doctor export`: the messages of a stream as lines of JSON, read from its files."""

import base64
from pathlib import Path
from typing import BinaryIO

import msgspec

from jetspark.cli.standard_output import standard_output
from jetspark.cli.stream.files import whole_file
from jetspark.engine.consumer.consumers import name_in
from jetspark.errors.storage import CorruptRecord, ReadFailed, StorageFault
from jetspark.headers.block import decode_headers
from jetspark.store.duplicate_folders import second_folders
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.log.stream_log import StreamLog
from jetspark.units import format_rfc3339


def find_stream(logs: list[StreamLog], name: str, account: str, folder: str = "") -> StreamLog:
    """The stream of this name; StorageFault lists the candidates if it is ambiguous.

    Without a ``folder`` it is the one that a server serves.
    """
    second = second_folders(logs)
    found = [
        log
        for log in logs
        if log.identity.name == name
        and (log.segments.folder.name == folder if folder else log.segments.folder not in second)
    ]
    if account:
        found = [log for log in found if log.identity.account == account]
    if len(found) == 1:
        return found[0]
    if found:
        accounts = ", ".join(sorted(log.identity.account for log in found))
        raise StorageFault(f"several accounts have a stream {name}: give --account, of {accounts}")
    if folder:
        folders = ", ".join(log.segments.folder.name for log in logs if log.identity.name == name)
        raise StorageFault(f"no folder {folder} has a stream {name}; folders: {folders or 'none'}")
    names = ", ".join(sorted(log.identity.name for log in logs)) or "none"
    where = f" of account {account}" if account else ""
    raise StorageFault(f"stream {name}{where} does not exist in this store; existing: {names}")


def find_consumer(log: StreamLog, name: str, number: int | None) -> int:
    """The number of a consumer; StorageFault lists the existing ones if it is unknown."""
    names = {
        each: name_in(records.document) or f"number {each}"
        for each, records in log.engine_state.consumers.items()
    }
    found = [each for each in names if each == number or (name and names[each] == name)]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(map(str, found))
        raise StorageFault(f"several consumers are named {name}: give --number, one of {numbers}")
    there = ", ".join(sorted(names.values())) or "none"
    raise StorageFault(f"consumer {name or number} does not exist; existing: {there}")


def write_messages(log: StreamLog, out: Path) -> tuple[int, int]:
    """Write all messages and list unreadable ones; returns the number of each."""
    if str(out) == "-":
        with standard_output() as file:
            return _write(log, file)
    if out.exists():
        raise StorageFault(f"{out} already exists: choose another name or remove it first")
    with whole_file(out, replace=False) as file:
        return _write(log, file)


def _write(log: StreamLog, file: BinaryIO) -> tuple[int, int]:
    written = 0
    unreadable: list[dict[str, object]] = []
    seq = int(log.index.next_seq(1, b""))
    while seq:
        try:
            data, at = log.reader.locate(seq)
        except (CorruptRecord, ReadFailed) as error:
            unreadable.append({"first_seq": seq, "last_seq": seq, "reason": str(error)})
        else:
            file.write(msgspec.json.encode(_message(seq, data, int(at))) + b"\n")
            written += 1
        seq = int(log.index.next_seq(seq + 1, b""))
    unreadable += [
        msgspec.to_builtins(damage) for damage in log.quarantine.known.values() if damage.messages
    ]
    file.writelines(msgspec.json.encode({"unreadable": lost}) + b"\n" for lost in unreadable)
    return written, sum(int(str(lost.get("messages", 1))) for lost in unreadable)


def _message(seq: int, data: bytes, at: int) -> dict[str, object]:
    begin, body = int(subject_end(data, at)), int(headers_end(data, at))
    message: dict[str, object] = {
        "seq": seq,
        "time": format_rfc3339(int(record_time(data, at))),
        "subject": data[at + int(FIXED) : begin].decode(errors="replace"),
    }
    if body > begin:
        message |= _headers(data[begin:body])
    message["data"] = base64.b64encode(data[body : int(body_end(data, at))]).decode()
    return message


def _headers(block: bytes) -> dict[str, object]:
    """Headers by name, each with its values; an undecodable block in base64."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return {"headers_block": base64.b64encode(block).decode()}
    found: dict[str, list[str]] = {}
    for name, value in decode_headers(block).items():
        found.setdefault(name, []).append(value)
    return {"headers": found}
