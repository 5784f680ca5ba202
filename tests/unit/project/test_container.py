"""The Containerfile, as far as it can be checked without an engine that builds it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jetspark

ROOT = Path(__file__).resolve().parents[3]
KNOWN = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE"}
KNOWN |= {"STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    parted = [line.partition(" ") for line in lines if line.strip()]
    return [(name, rest.strip()) for name, _, rest in parted]


def last(name: str) -> str:
    return [rest for each, rest in instructions() if each == name][-1]


def command(name: str) -> list[str]:
    words: list[str] = json.loads(last(name).partition("CMD ")[2] or last(name))
    return words


def copied() -> list[str]:
    """What is copied from the repository."""
    plain = [rest for name, rest in instructions() if name == "COPY" and "--from" not in rest]
    return [source for rest in plain for source in rest.split()[:-1]]


def test_every_instruction_is_one_that_builders_know() -> None:
    assert {name for name, _ in instructions()} <= KNOWN


def test_what_is_copied_exists_and_is_all_that_the_builder_is_sent() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}

    assert [name for name in copied() if not (ROOT / name).exists()] == []
    assert sent == set(copied())


def test_the_build_is_sent_what_it_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    used = {"pyproject.toml", "setup.py", "src", project["readme"], *project["license-files"]}
    locks = set(re.findall(r"requirements/\w+\.txt", " ".join(r for _, r in instructions())))

    assert used <= set(copied())
    assert locks == {"requirements/build.txt", "requirements/serve.txt"}
    assert [name for name in locks if not (ROOT / name).exists()] == []


def test_a_stage_copies_from_one_that_exists() -> None:
    stages = {rest.partition(" AS ")[2] for name, rest in instructions() if name == "FROM"}
    froms = {found for _, rest in instructions() for found in re.findall(r"--from=(\S+)", rest)}

    assert froms <= stages
    # Compiled modules run on the Python and the C library that they were compiled for.
    assert {r.split()[0] for name, r in instructions() if name == "FROM"} == {"${BASE}"}


def test_the_server_runs_as_a_user_without_rights_and_stores_in_the_volume() -> None:
    names = [name for name, _ in instructions()]

    assert int(last("USER")) > 0
    assert f"--uid {last('USER')} " in " ".join(rest for _, rest in instructions())
    assert names.index("USER") > max(n for n, name in enumerate(names) if name == "FROM")
    assert command("CMD")[command("CMD").index("-sd") + 1] == last("VOLUME")


def test_the_command_and_its_flags_exist(tmp_path: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    program, *arguments = command("ENTRYPOINT")
    flags = [word.replace(last("VOLUME"), str(tmp_path)) for word in command("CMD")]
    # Reads the flags and a file, then ends.
    check = ["-c", str(tmp_path / "some.conf"), "-t"]
    (tmp_path / "some.conf").write_text("debug: false\n")
    done = subprocess.run(
        [sys.executable, "-m", "jetspark", *arguments, *flags, *check],
        capture_output=True,
        text=True,
        check=False,
    )

    assert Path(program).name in scripts
    assert done.returncode == 0, done.stderr


def test_the_ports_of_the_command_are_exposed_and_checked() -> None:
    flags = command("CMD")
    ports = {flags[flags.index("-p") + 1], flags[flags.index("-m") + 1]}

    assert set(last("EXPOSE").split()) == ports
    assert f"'127.0.0.1', {flags[flags.index('-m') + 1]}," in command("HEALTHCHECK")[-1]


def test_podman_is_asked_for_a_format_that_has_health_checks() -> None:
    texts = [
        (ROOT / name).read_text() for name in ("Containerfile", "docs/operations/deployment.md")
    ]
    builds = [found for text in texts for found in re.findall(r"podman build .*", text)]

    assert len(builds) == len(texts)
    assert [build for build in builds if "--format docker" not in build] == []


@pytest.mark.parametrize("healthy", [True, False])
async def test_the_health_check_asks_the_monitoring_port(tmp_path: Path, healthy: bool) -> None:
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        assert server.monitor_url is not None
        port = server.monitor_url.rpartition(":")[2]
        if not healthy:
            await server.close()
        program = command("HEALTHCHECK")[-1].replace("8222", port)
        check = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", program, stderr=asyncio.subprocess.DEVNULL
        )

        assert (await check.wait() == 0) is healthy
