"""Two runs of a project at the same time are refused (docs/pipelines.md, "Run modes")."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jetspark.spark.pipelines.only_run import CATALOG_LOCK_NAME, LOCK_NAME, only_run
from jetspark.spark.pipelines.project import PipelineRefused, Project

NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project; whatever tests ran before in this process, it has no JVM."""
    monkeypatch.setattr("jetspark.spark.pipelines.only_run._has_jvm", lambda: False)
    return Project(
        root=tmp_path, spec=tmp_path / "s.yml", name="shop", storage=tmp_path / "storage"
    )


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere; others are refused as they are."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def open_catalog(project: Project) -> Iterator["subprocess.Popen[str]"]:
    """Lock the catalog as Derby does, in a process that ends when its standard input does."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'a+'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('open', flush=True); sys.stdin.read()"
    )
    project.metastore.mkdir(parents=True)
    lock = project.metastore / CATALOG_LOCK_NAME
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_run_waits_until_spark_of_the_one_before_has_closed_the_catalog(
    project: Project,
) -> None:
    said: list[str] = []

    with open_catalog(project) as spark:

        def end_spark(line: str) -> None:
            said.append(line)
            assert spark.stdin is not None
            spark.stdin.close()

        with only_run(project, end_spark):
            assert spark.wait(timeout=60) == 0

    assert said == ["Waiting for Spark of an earlier run to end."]


def test_a_catalog_that_stays_open_is_named(project: Project) -> None:
    with (
        open_catalog(project),
        pytest.raises(PipelineRefused, match=f"still open after 0 s.*{project.metastore}"),
        only_run(project, print, patience_s=0),
    ):
        pass


def test_a_run_after_another_in_the_same_process_continues_with_its_jvm(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.spark.pipelines.only_run._has_jvm", lambda: True)

    with open_catalog(project), only_run(project, pytest.fail, patience_s=0.0):
        pass


def test_a_second_run_is_refused_and_names_the_process_of_the_first(project: Project) -> None:
    with (
        only_run(project, print),
        pytest.raises(PipelineRefused, match=f"shop is already running, as process {os.getpid()}"),
        only_run(project, print),
    ):
        pass


def test_a_run_that_was_killed_holds_nothing(project: Project) -> None:
    code = (
        "import fcntl, os, signal, sys; file = open(sys.argv[1], 'a+'); file.write('1\\n');"
        "file.flush(); fcntl.flock(file, fcntl.LOCK_EX); os.kill(os.getpid(), signal.SIGKILL)"
    )
    project.storage.mkdir()
    lock = project.storage / LOCK_NAME
    subprocess.run([sys.executable, "-c", code, str(lock)], check=False)

    with only_run(project, print):
        held = lock.read_text()

    assert held == f"{os.getpid()}\n"
    assert lock.read_text() == ""


def test_a_file_where_the_folder_should_be_is_named(project: Project) -> None:
    project.storage.touch()

    with (
        pytest.raises(PipelineRefused, match=r"'storage' .* cannot be created"),
        only_run(project, print),
    ):
        pass


def test_a_folder_that_may_not_be_written_to_is_named(project: Project) -> None:
    project.storage.mkdir()
    project.warehouse.mkdir(mode=0o555)

    with (
        without_rights(),
        pytest.raises(
            PipelineRefused, match=r"(storage|warehouse) cannot be .*: Permission denied"
        ),
        only_run(project, print),
    ):
        pass
