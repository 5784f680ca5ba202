"""`jetspark stream export` and `import` over the wire (decisions.md, Server.

Each test runs against our server and nats-server. Messages are compared one by one: subject,
headers, payload.
"""

import errno
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.servers import ServerProcess

from jetspark import StreamConfig, sync
from jetspark.cli.main import main
from jetspark.cli.stream import files
from jetspark.headers.block import encode_headers
from jetspark.units import format_rfc3339

HOSTILE = encode_headers([("A", "1"), ("A", "ü"), ("b", "")])
BINARY = b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n"
PAYLOADS = [b"", b"\x00" * 10, bytes(range(256)), b'{"a":1}\n\n', b"PAR1", b"x" * 300_000]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["stream", *arguments])


def ok(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def source(jetstream: sync.JetStream, name: str) -> sync.Stream:
    """A stream with every kind of header and payload, and a hole."""
    made = jetstream.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True, allow_batched=True)
    )
    blocks = [b"", HOSTILE, BINARY, b"", HOSTILE, b"", b""]
    payloads = [*PAYLOADS, b"gone"]
    with jetstream.fast_publisher() as publisher:
        publisher.extend(
            [f"{name}.{row % 2}" for row in range(len(payloads))],
            payloads,
            blocks,
            [f"id{row}" for row in range(len(payloads))],
        )
    made.delete_msg(7)
    jetstream.publish(f"{name}.last.\u00fc", b"end", headers={"Nats-Expected-Stream": name})
    return made


def content(stream: sync.Stream, *, own: bool = False) -> list[tuple[str, bytes, list[Any]]]:
    """Subject, payload and headers of every message; ``own``: without those of publishing."""
    found = []
    for chunk in stream.scan(1, None):
        for subject, payload, block in zip(chunk.subjects, chunk.data, chunk.headers, strict=True):
            lines = block.split(b"\r\n")[1:-2]
            if own:
                lines = [line for line in lines if not line.startswith(b"Nats-")]
            rest = subject.partition(".")[2]
            found.append((rest, payload, lines))
    return found


def copy_of(jetstream: sync.JetStream, name: str, **more: Any) -> sync.Stream:
    subjects = (f"{name}.>",)
    return jetstream.create_stream(
        StreamConfig(name=f"{name}c", subjects=subjects, allow_direct=True, **more)
    )


@pytest.mark.parametrize("kind", ["parquet", "ndjson"])
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_exported_and_imported_is_the_same(
    server: ServerProcess,
    jetstream: sync.JetStream,
    source: sync.Stream,
    tmp_path: Path,
    kind: str,
    fast: bool,
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"out.{kind}"
    before = content(source, own=True)

    exported = ok("export", source.name, str(file), "-s", server.url, "--batch", "2")
    jetstream.delete_stream(source.name)
    copy = copy_of(jetstream, source.name, allow_batched=fast)
    first = ok("import", copy.name, str(file), "-s", server.url)
    again = ok("import", copy.name, str(file), "-s", server.url)

    assert exported["messages"] == len(before) == 7
    assert exported["last"] == 8
    assert (first["messages"], first["already_there"]) == (7, 0)
    assert (again["messages"], again["already_there"]) == (0, 7)
    assert content(copy, own=True) == before
    assert copy.info().state.messages == 7
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


# A pipe gets rows, or none: redirected, it can be imported if the stream was not empty.
@pytest.mark.parametrize(
    ("target", "empty"),
    [*itertools.product(["out.parquet", "out.ndjson", "folder"], [True, False]), ("-", False)],
)
def test_every_export_can_create_its_stream(
    server: ServerProcess, jetstream: sync.JetStream, source: sync.Stream, tmp_path: Path,
    target: str, empty: bool,
) -> None:  # fmt: skip
    """Configuration included: whatever was written to, and with or without messages."""
    if target not in {"-", "out.ndjson"}:
        pytest.importorskip("pyarrow")
    source.update(max_age=3600, description="exported")
    if empty:
        source.purge()
    before = content(source, own=True)
    file = tmp_path / target
    if target == "-":
        file = tmp_path / "redirected.ndjson"
        file.write_bytes(run("export", source.name, "-", "-s", server.url).stdout_bytes)
    else:
        ok("export", source.name, str(file), "-s", server.url)
    jetstream.delete_stream(source.name)

    ok("import", source.name, str(file), "--create", "-s", server.url)

    made = jetstream.stream(source.name)
    assert (made.config.max_age, made.config.description) == (3600, "exported")
    assert made.config.subjects == (f"{source.name}.>",)
    assert content(made, own=True) == before


def test_a_repeat_beyond_the_duplicate_window_stores_nothing_twice(
    server: ServerProcess, jetstream: sync.JetStream, source: sync.Stream, tmp_path: Path
) -> None:
    file = tmp_path / "out.ndjson"
    ok("export", source.name, str(file), "-s", server.url)
    jetstream.delete_stream(source.name)
    copy = copy_of(jetstream, source.name, duplicate_window=0.1)
    lines = file.read_bytes().splitlines(keepends=True)
    half = tmp_path / "half.ndjson"
    half.write_bytes(b"".join(lines[:4]))
    ok("import", copy.name, str(half), "-s", server.url)
    # The window is 0.1 s: as long as it is open, this id is a duplicate.
    jetstream.publish(f"{source.name}.w", msg_id="w")
    while jetstream.publish(f"{source.name}.w", msg_id="w").duplicate:
        time.sleep(0.02)
    stored = copy.info().state.messages

    summary = ok("import", copy.name, str(file), "-s", server.url)

    assert (summary["messages"], summary["already_there"]) == (3, 4)
    assert copy.info().state.messages == stored + 3


def test_a_folder_of_parts_is_resumed_after_its_last_part(
    server: ServerProcess, jetstream: sync.JetStream, source: sync.Stream, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    more = ("-s", server.url, "--format", "ndjson", "--batch", "2", "--rows-per-file", "3")

    first = ok("export", source.name, str(folder), *more)
    refused = run("export", source.name, str(folder), *more)
    jetstream.publish(f"{source.name}.new", b"new")
    (folder / ".part-00000000000000000009.partial").write_bytes(b"half a part")
    second = ok("export", source.name, str(folder), *more, "--resume")
    other = run("export", source.name, str(folder), *more, "--resume", "--subject", "x")

    ranges = [path.name[5:46] for path in sorted(folder.glob("part-*"))]
    assert [tuple(map(int, each.split("-"))) for each in ranges] == [(1, 4), (5, 8), (9, 9)]
    assert (first["messages"], second["messages"]) == (7, 1)
    assert "continue it with --resume" in refused.output
    assert "has subjects all, but this export has x" in other.output
    texts = [path.read_text() for path in sorted(folder.glob("part-*"))]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6, 8, 9]


def test_a_folder_recreates_the_stream(
    server: ServerProcess, jetstream: sync.JetStream, source: sync.Stream, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    ok("export", source.name, str(folder), "-s", server.url, "--format", "ndjson")
    before = content(source, own=True)
    jetstream.delete_stream(source.name)

    refused = run("import", source.name, str(folder), "-s", server.url)
    ok("import", source.name, str(folder), "--create", "-s", server.url)

    assert "use --create to create it like the exported one" in refused.output
    made = jetstream.stream(source.name)
    assert content(made, own=True) == before
    assert made.info().config.allow_batched
    assert made.info().config.subjects == (f"{source.name}.>",)


def test_an_export_that_was_cut_is_not_imported_by_mistake(
    server: ServerProcess, source: sync.Stream, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    ok("export", source.name, str(folder), "-s", server.url, "--format", "ndjson")
    manifest = folder / "export.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))

    refused = run("import", source.name, str(folder), "-s", server.url)
    taken = ok("import", source.name, str(folder), "-s", server.url, "--incomplete")

    assert refused.exit_code == 1
    assert "is incomplete" in refused.output
    assert taken["messages"] == 7


def test_filters_and_bounds(server: ServerProcess, source: sync.Stream, tmp_path: Path) -> None:
    name = source.name

    def exported(*arguments: str) -> list[int]:
        result = run("export", name, "-", "-s", server.url, *arguments)
        assert result.exit_code == 0, result.output
        return [json.loads(line)["seq"] for line in result.stdout.splitlines()]

    every = [1, 2, 3, 4, 5, 6, 8]
    times = {seq: source.get_msg(seq=seq).time_ns for seq in every}
    late = [seq for seq in every if times[seq] >= times[5]]
    assert exported() == every
    assert exported("--subject", f"{name}.0") == [1, 3, 5]
    assert exported("--subject", f"{name}.1", "--subject", f"{name}.0") == [1, 2, 3, 4, 5, 6]
    assert exported("--first", "3", "--last", "5") == [3, 4, 5]
    assert exported("--first", "9") == []
    assert exported("--since", format_rfc3339(times[5])) == late
    assert exported("--since", "1h") == every
    assert exported("--since", "2999-01-01T00:00:00Z") == []
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_done_is_one_clear_line(
    server: ServerProcess, source: sync.Stream, tmp_path: Path
) -> None:
    file = tmp_path / "out.ndjson"
    file.write_text("mine")
    bad = tmp_path / "bad.ndjson"
    bad.write_text('{"subject":"x","data":"AA=="}\n{"subject":7}\n')
    elsewhere = tmp_path / "elsewhere.ndjson"
    elsewhere.write_text('{"subject":"elsewhere","data":"AA=="}\n')
    at = ("-s", server.url)
    cases = [
        (("export", source.name, str(file), *at), "exists: choose another name, or use --force"),
        (
            ("export", "NOPE", "-", *at),
            "stream NOPE does not exist on this server; existing streams: ",
        ),
        (("export", source.name, "-", "--last", "99", *at), "ends at 8"),
        (("export", source.name, "-", "--subject", "a..b", *at), "a..b"),
        (("export", source.name, "-", "--since", "soon", *at), "nor an age such as 2h30m"),
        (("export", source.name, str(tmp_path / "x.csv"), *at), "unknown extension"),
        (("export", source.name, "-", "--format", "parquet", *at), "name a file"),
        (("export", source.name, str(tmp_path / "no" / "x.ndjson"), *at), "create it first"),
        (("export", source.name, "-", "-s", "nats://127.0.0.1:1"), "127.0.0.1:1"),
        (("import", source.name, str(tmp_path / "none"), *at), "does not exist"),
        (("import", source.name, str(tmp_path), *at), "it has no export.json"),
        (("import", source.name, str(bad), *at), "line 2: subject is 7"),
        (("import", source.name, str(elsewhere), *at), "does not belong to stream"),
    ]
    # These commands cannot work on any server.
    usage = {"nor an age such as 2h30m", "unknown extension", "name a file"}
    for arguments, told in cases:
        result = run(*arguments)

        assert result.exit_code == (2 if told in usage else 1), arguments
        assert told in result.output, (arguments, result.output)
        assert "Traceback" not in result.output
    assert file.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_no_half_file(
    server: ServerProcess, source: sync.Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk:
        def __init__(self, file: Any, config: str) -> None:
            assert config
            self._file = file

        def write(self, rows: Any) -> None:
            assert len(rows)
            self._file.write(b"something")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "NdjsonWriter", FullDisk)
    file = tmp_path / "out.ndjson"
    file.write_text("older")

    result = run("export", source.name, str(file), "--force", "-s", server.url)

    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["out.ndjson"]
    assert file.read_text() == "older"


def test_files_of_others_are_taken(
    server: ServerProcess, jetstream: sync.JetStream, name: str, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    made = jetstream.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    foreign = tmp_path / "foreign.parquet"
    table = pa.table({"subject": [f"{name}.a", f"{name}.a"], "data": ["same", "same"]})
    pq.write_table(table, foreign)
    doctor = tmp_path / "doctor.ndjson"
    line = {"seq": 5, "time": "2026-11-15T12:00:00.5Z", "subject": f"{name}.b", "data": "aGk="}
    damage = {"unreadable": {"first_seq": 6, "last_seq": 6, "reason": "checksum"}}
    doctor.write_text(f"{json.dumps(line)}\n{json.dumps(damage)}\n")

    for _ in range(2):
        ok("import", name, str(foreign), str(doctor), "-s", server.url)

    found = [(subject, payload) for subject, payload, _ in content(made)]
    assert found == [("a", b"same"), ("a", b"same"), ("b", b"hi")]
    last = made.get_msg(seq=3)
    assert last.headers["Nats-Msg-Id"] == "import::5:1794744000500000000"


def test_parquet_columns_are_typed(
    server: ServerProcess, source: sync.Stream, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file = tmp_path / "out.parquet"
    ok("export", source.name, str(file), "-s", server.url)

    table = pq.read_table(file)

    assert table.schema.field("time").type == pa.timestamp("ns", tz="UTC")
    assert table["seq"].to_pylist() == [1, 2, 3, 4, 5, 6, 8]
    assert table["data"].to_pylist()[:6] == PAYLOADS
    assert dict(table["headers"][1].as_py())["A"] == ["1", "ü"]
    assert table["headers"][2].as_py() is None
    assert table["headers_block"][2].as_py().startswith(BINARY[:14])
    assert table["time"].cast(pa.int64())[0].as_py() == source.get_msg(seq=1).time_ns
