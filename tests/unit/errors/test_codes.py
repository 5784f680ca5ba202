"""The table of error codes and what is made from it."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from jetspark.errors import describe, error_body, fast_header_body
from jetspark.errors.codes import FAST_HEADER_TEXTS, ErrCode

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_errors", ROOT / "tools/gen_errors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_table_is_current() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools/gen_errors.py"), "--check"],
        capture_output=True,
        check=False,
        text=True,
    )

    assert (run.returncode, run.stdout) == (0, "")


def test_check_notices_an_old_table(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "codes.py"
    old.write_text("# old\n")
    monkeypatch.setattr(generator, "TARGET", old)
    monkeypatch.setattr(generator, "ROOT", tmp_path)

    assert generator.main(["--check"]) == 1
    assert old.read_text() == "# old\n"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            "\n".join(f'{name} = {{ err_code = 1, code = 400, text = "a" }}' for name in "AB"),
            "increase",
        ),
        ('A = { err_code = 1, code = 200, text = "a" }', "not an error"),
        ('A = { err_code = 1, code = 400, text = "{}" }', "without a name"),
        ("A = { err_code = 1, code = 400 }", "must have err_code"),
    ],
)
def test_generator_refuses_a_bad_table(generator: ModuleType, lines: str, complaint: str) -> None:
    table = tomllib.loads(f"[codes]\n{lines}\n[fast_header_texts]\n")

    with pytest.raises(ValueError, match=complaint):
        generator.render(table)


@pytest.mark.parametrize(
    ("err_code", "code", "text"),
    [
        (10003, 400, "bad request"),
        (10023, 503, "insufficient resources"),
        (10059, 404, "stream not found"),
        (10077, 503, "{err}"),
        (10158, 409, "duplicate message id is in process"),
        (10180, 412, "min last sequence"),
        (10185, 412, "JetStream minimum api level required"),
        (10210, 429, "atomic publish too many inflight"),
        (10227, 400, "message stream source header is not allowed"),
    ],
)
def test_numbers_and_texts(err_code: int, code: int, text: str) -> None:
    known = ErrCode(err_code)

    assert (code, text) == (known.code, known.text)


def test_description_is_filled_in() -> None:
    assert describe(10071, seq=5) == "wrong last sequence: 5"
    assert describe(ErrCode.STREAM_NOT_FOUND) == "stream not found"


def test_forgotten_field_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        describe(10071)
    with pytest.raises(KeyError):
        error_body(10071)


def test_unknown_code_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="99999"):
        describe(99999)


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        (
            error_body(10059),
            b'{"code":404,"err_code":10059,"description":"stream not found"}',
        ),
        (
            error_body(10071, seq=4),
            b'{"code":400,"err_code":10071,"description":"wrong last sequence: 4"}',
        ),
    ],
)
def test_body_is_that_of_the_released_server(body: bytes, wire: bytes) -> None:
    """Observed on nats-server 2.15.1."""
    assert wire == body


def test_every_code_has_a_body() -> None:
    fields = dict.fromkeys(
        ("err", "seq", "id", "max", "limit", "header", "size", "prefix", "subject"), 'a "b"\n'
    )
    for known in ErrCode:
        body = json.loads(error_body(known, **fields))

        assert (known.code, known.value) == (body["code"], body["err_code"])
        assert known.text.format_map(fields) == body["description"]


def test_header_dialect_has_the_texts_of_the_specification() -> None:
    """ADR-50, fast ingest, "Server Errors"; decisions.md, Batches, for 10202."""
    assert set(FAST_HEADER_TEXTS) == {10174, 10175, 10176, 10177, 10179, 10201, 10202}
    assert json.loads(fast_header_body(10202)) == {
        "code": 400,
        "err_code": 10202,
        "description": "Invalid batch gap mode",
    }
    assert b"(Nats-Expected-Last-Msg-Id)" in fast_header_body(
        10177, header="Nats-Expected-Last-Msg-Id"
    )
