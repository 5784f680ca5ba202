"""Files that Spark's JVM needs are written whole and found again."""

import stat
from pathlib import Path

import pytest

from jetspark.spark.jvm.cache import (
    CacheUnavailable,
    cache_directory,
    content_digest,
    write_cached,
)


def test_xdg_cache_home_decides_where_files_go(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/users/ann"}

    assert cache_directory(environ) == tmp_path / "jetspark"


@pytest.mark.parametrize("configured", ["", "relative/cache"])
def test_without_an_absolute_xdg_path_the_home_directory_is_used(configured: str) -> None:
    """XDG base directory rules: a relative path is invalid and ignored."""
    environ = {"XDG_CACHE_HOME": configured, "HOME": "/users/ann"}

    assert cache_directory(environ) == Path("/users/ann/.cache/jetspark")


def test_an_executable_is_written_with_its_directories(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "run"

    write_cached(target, "#!/bin/sh\n", executable=True)

    assert target.read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


def test_a_right_file_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_cached(target, "same", executable=False)
    before = target.stat().st_ino

    write_cached(target, "same", executable=False)

    assert target.stat().st_ino == before


@pytest.mark.parametrize("damage", ["content", "mode"])
def test_a_damaged_file_is_replaced_and_nothing_else_is_left(tmp_path: Path, damage: str) -> None:
    target = tmp_path / "file"
    write_cached(target, "right", executable=True)
    if damage == "content":
        target.write_text("half")
    else:
        target.chmod(0o600)

    write_cached(target, "right", executable=True)

    assert target.read_text() == "right"
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert list(tmp_path.iterdir()) == [target]


def test_an_unusable_directory_is_named_with_the_way_out(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")

    with pytest.raises(CacheUnavailable, match=r"file/bin/java.*XDG_CACHE_HOME"):
        write_cached(in_the_way / "bin" / "java", "x", executable=True)


def test_digests_tell_contents_apart() -> None:
    assert content_digest("a") == content_digest("a")
    assert content_digest("a") != content_digest("b")
