"""STREAM.UPDATE: what changes, durably, and what does not (wire.md, Streams)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.config import checked
from jetspark.engine.stream.config_update import updated
from jetspark.store.format.manifest import COPIES

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


def update(bench: Bench, body: bytes, name: bytes = b"S") -> dict[str, Any]:
    answer = msgspec.json.decode(bench.request(b"STREAM.UPDATE." + name, body))
    assert isinstance(answer, dict)
    return answer


def test_changed_subjects_are_stored_from_now_on(bench: Bench) -> None:
    bench.create("S", "old.>")
    before = bench.engine.generation

    assert update(bench, b'{"name":"S","subjects":["new.>"]}')["config"]["subjects"] == ["new.>"]

    assert bench.engine.generation > before  # routes made before are no longer good
    assert bench.engine.resolve(b"old.1") is None
    assert bench.engine.resolve(b"new.1") is not None


@pytest.mark.parametrize("damaged", [None, *COPIES])
def test_a_change_outlives_a_restart_and_a_damaged_manifest(
    bench: Bench, damaged: str | None
) -> None:
    """Both manifest copies are renewed."""
    stream = bench.create()
    for text in (b"1", b"2", b"3"):
        update(bench, b'{"name":"S","subjects":["s.>"],"description":"%s"}' % text)
    if damaged is not None:
        bench.files.replace(stream.log.segments.folder / damaged, b"rubbish")
    bench.restart()

    assert bench.engine.streams["S"].config.description == "3"
    assert bench.engine.streams["S"].allow_direct is False


def test_a_change_that_overlaps_with_another_stream_is_refused(bench: Bench) -> None:
    bench.create("S", "s.>")
    bench.create("T", "t.>")

    answer = update(bench, b'{"name":"S","subjects":["s.>","t.x"]}')

    assert answer["error"]["err_code"] == 10065
    assert bench.engine.streams["S"].config.subjects == ("s.>",)


def test_direct_get_is_switched_off_and_on(bench: Bench) -> None:
    bench.create("S", "s")
    update(bench, b'{"name":"S","subjects":["s"]}')
    assert bench.engine.resolve(b"$JS.API.DIRECT.GET.S") is None

    update(bench, b'{"name":"S","subjects":["s"],"allow_direct":true}')
    assert bench.engine.resolve(b"$JS.API.DIRECT.GET.S") is not None


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        (b"NONE", b'{"name":"NONE"}', 10059),
        (b"S", b'{"name":"T"}', 10056),
        (b"S", b"", 10052),
        (b"S", b'{"name":"S","nonsense":1}', 10025),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_is_refused(
    bench: Bench, name: bytes, body: bytes, code: int
) -> None:
    bench.create()

    assert update(bench, body, name)["error"]["err_code"] == code


def test_sealing_sets_what_a_sealed_stream_needs() -> None:
    """Deny_delete, deny_purge, discard new; rollup and max_age are cleared."""
    old = prepared_for_test()
    new = prepared_for_test(sealed=True, max_age=10**9, allow_rollup_hdrs=True)

    sealed = updated(old, new)

    assert (sealed.deny_delete, sealed.deny_purge, sealed.discard) == (True, True, "new")
    assert (sealed.allow_rollup_hdrs, sealed.max_age) == (False, 0)
    with pytest.raises(Refusal):
        updated(sealed, prepared_for_test(deny_delete=True, deny_purge=True))


def prepared_for_test(**fields: Any) -> StreamConfig:
    config = StreamConfig(name="S", **fields)
    return checked(config, pedantic=False, find=lambda _name: None)
