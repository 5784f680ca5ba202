"""Export files on their own (docs/export.md): whole or not there, hostile content, bad input."""

import errno
import gc
import io
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from jetspark.cli.main import main
from jetspark.cli.stream.files import (
    ExportRefused,
    parts_of,
    read_manifest,
    read_rows,
    whole_file,
    writer_of,
)
from jetspark.cli.stream.parquet import pyarrow
from jetspark.cli.stream.rows import ExportRows, UnreadableRow
from jetspark.errors import MissingExtra
from jetspark.headers.block import encode_headers

KINDS = ["ndjson", "parquet"]

SUBJECTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters=" \r\n\t"), min_size=1),
    st.binary(min_size=1).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
BLOCKS = st.one_of(
    st.just(b""),
    st.lists(st.tuples(st.sampled_from("AaBb"), st.sampled_from(["", "1", "ü", "x y"])))
    .map(encode_headers),
    st.binary().map(lambda raw: b"NATS/1.0\r\n" + raw + b"\r\n\r\n"),
)  # fmt: skip
MESSAGES = st.lists(
    st.tuples(
        st.integers(1, 2**63 - 1), st.integers(0, 2**62), SUBJECTS, st.binary(max_size=50), BLOCKS
    ),
    max_size=20,
)


def rows_of(messages: list[tuple[int, int, str, bytes, bytes]]) -> ExportRows:
    rows = ExportRows.empty()
    for message in messages:
        rows.streams.append("S")
        rows.messages.append(*message)
    return rows


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)  # the first example imports pyarrow, and each one syncs a file
@given(messages=MESSAGES)
def test_every_byte_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    messages: list[tuple[int, int, str, bytes, bytes]],
) -> None:
    path = tmp_path_factory.mktemp("export") / "file"
    given_rows = rows_of(messages)

    with whole_file(path, replace=False) as file:
        writer = writer_of(kind, file, {})
        writer.write(given_rows)
        writer.finish()
    found = ExportRows.empty()
    shares = [0.0]
    for rows, share in read_rows(path):
        found.extend(rows)
        shares.append(share)

    assert found.streams == given_rows.streams
    assert astuple(found.messages) == astuple(given_rows.messages)
    assert shares == sorted(shares)
    assert shares[-1] == (1 if messages else 0)


class FullDisk(io.RawIOBase):
    """A file that takes 100 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 100

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(bytes(data))  # type: ignore[call-overload]
        self._left -= size
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_reported(kind: str) -> None:
    writer = writer_of(kind, FullDisk(), {})  # type: ignore[arg-type]
    rows = rows_of([(n, n, "s", bytes([n]) * 50, b"") for n in range(1, 9)])

    def write() -> None:
        writer.write(rows)
        writer.finish()

    with pytest.raises(OSError, match="No space left"):
        write()


def test_a_name_is_given_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("older")
    seen: list[str] = []

    with whole_file(path, replace=True) as file:
        file.write(b"newer")
        seen += [path.read_text(), *sorted(each.name for each in tmp_path.iterdir())]

    assert seen == ["older", ".file.partial", "file"]
    assert path.read_text() == "newer"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_export_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".file.partial").write_text("half of something much longer")

    with whole_file(tmp_path / "file", replace=False) as file:
        file.write(b"whole")

    assert (tmp_path / "file").read_text() == "whole"


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with (
        pytest.raises(ExportRefused, match="is not a file: choose another name"),
        whole_file(tmp_path / "pipe", replace=True),
    ):
        pass

    assert (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 1


def test_two_exports_to_one_name_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with (
        whole_file(path, replace=False),
        pytest.raises(ExportRefused, match="another process is writing"),
        whole_file(path, replace=False),
    ):
        pytest.fail("the second one began")


def test_a_part_that_is_missing_is_noticed(tmp_path: Path) -> None:
    for first, last in ((1, 4), (9, 12)):
        (tmp_path / f"part-{first:020d}-{last:020d}.ndjson").touch()

    with pytest.raises(ExportRefused, match=r"the part after part-0+1-0+4.ndjson is missing"):
        parts_of(tmp_path)


def test_a_manifest_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text('{"version":1}')

    with pytest.raises(ExportRefused, match="not an export manifest"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"nonsense", "line 1: JSON is malformed"),
        (b"[]", "Expected `object`"),
        (b'{"data":"AA=="}', "subject is None"),
        (b'{"subject":"a","data":7}', "data is not base64"),
        (b'{"subject":"a","data":"@@"}', "line 1"),
        (b'{"subject":"a","data":"AA==","seq":"7"}', "seq is '7'"),
        (b'{"subject":"a","data":"AA==","seq":-1}', "seq is -1"),
        (b'{"subject":"a","data":"AA==","time":"noon"}', "bad time 'noon'"),
        (b'{"subject":"a","data":"AA==","headers":7}', "headers must map"),
        (b'{"subject":"a","data":"AA==","headers":{"a":[7]}}', "headers must map"),
        (b'{"subject":"a","data":"AA==","headers":{"a":"b\\r\\nc: d"}}', "headers must map"),
        (b'{"subject":"a","data":"AA==","headers_block":"AA=="}', "headers_block is not a block"),
        (b'{"subject":"a","data":"AA==","seq":' + b"[" * 100_000, "line 1"),
    ],
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: bytes, told: str) -> None:
    path = tmp_path / "file.ndjson"
    path.write_bytes(line + b"\n")

    with pytest.raises(UnreadableRow) as caught:
        list(read_rows(path))

    assert told in str(caught.value)


def test_a_parquet_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(UnreadableRow, match="no column subject and no column data"):
        list(read_rows(path))
    with pytest.raises(UnreadableRow, match=r"torn\.parquet"):
        list(read_rows(torn))


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtra, match=r"jetspark\[spark\]"):
        pyarrow()
    told = CliRunner().invoke(main, ["stream", "export", "S", "x.parquet"])
    assert told.exit_code == 1
    assert "--format ndjson does not" in told.output


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_that_is_given_up_reports_nothing_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def interrupted() -> None:
        with whole_file(tmp_path / "file", replace=False) as file:
            _writer = writer_of(kind, file, {})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    gc.collect()

    assert reported == []
    assert list(tmp_path.iterdir()) == []
