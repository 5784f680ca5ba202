"""The files of deploy/: systemd and YAML readers accept them, and servers run with them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.monitored import text

import jetspark
from jetspark.server.config.command_line import from_command_line
from jetspark.server.config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "jetspark.service"
INSTALLED = "/opt/jetspark/bin/jetspark"


def manifests() -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / "jetspark.yaml").read_text()
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def container() -> dict[str, Any]:
    (found,) = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def probes() -> dict[str, dict[str, Any]]:
    return {name: value for name, value in container().items() if name.endswith("Probe")}


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of deploy/, with another folder and free ports."""
    monkeypatch.setenv("JETSPARK_APP_PASSWORD", "secret")
    changed = (DEPLOY / "server.conf").read_text().replace("/var/lib/jetspark", str(tmp_path))
    changed = changed.replace("port: 4222", "host: 127.0.0.1, port: -1")
    changed = changed.replace("http_port: 8222", "http_port: -1")
    (path := tmp_path / "server.conf").write_text(changed)
    return path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(INSTALLED, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_starts_the_server_with_flags_that_exist() -> None:
    commands = re.findall(rf"^Exec\w+={INSTALLED} serve (.*)$", UNIT.read_text(), re.MULTILINE)

    assert len(commands) == 2
    for command in commands:
        words = command.replace("/etc/jetspark/server.conf", str(DEPLOY / "server.conf")).split()
        found = from_command_line(
            [word for word in words if word != "-t"], {"JETSPARK_APP_PASSWORD": "secret"}
        )
        assert isinstance(found, Settings), found


async def test_the_configuration_starts_a_server_that_requires_the_password(
    configuration: Path,
) -> None:
    async with jetspark.Server(config=str(configuration)) as server:
        with pytest.raises(jetspark.errors.AuthorizationFailed):
            await jetspark.connect(server.client_url, allow_reconnect=False)
        async with jetspark.connect(server.client_url, user="app", password="secret") as client:
            await client.jetstream().create_stream("ORDERS", subjects=["orders"])
            assert (await client.jetstream().publish("orders", b"1")).seq == 1


async def test_every_probe_of_the_manifest_succeeds_on_a_running_server(
    configuration: Path,
) -> None:
    async with jetspark.Server(config=str(configuration)) as server:
        for name, probe in probes().items():
            status, body = await text(server, probe["httpGet"]["path"])
            assert status == 200, f"{name}: {body}"
    assert set(probes()) == {"startupProbe", "readinessProbe", "livenessProbe"}


async def test_a_stream_that_cannot_be_served_is_unhealthy_but_no_reason_to_restart(
    configuration: Path, tmp_path: Path
) -> None:
    async with jetspark.Server(store_dir=str(tmp_path)) as server, server.connect() as client:
        await client.jetstream().create_stream("B", subjects=["b"])
    (segment,) = tmp_path.glob("acct-*/stream-*/*.seg")
    segment.unlink()
    segment.mkdir()
    async with jetspark.Server(config=str(configuration)) as server:
        health, reason = await text(server, "/healthz")
        live, _ = await text(server, probes()["livenessProbe"]["httpGet"]["path"])
        ready, _ = await text(server, probes()["readinessProbe"]["httpGet"]["path"])

    assert (health, live, ready) == (503, 200, 200), reason


def test_manifest_unit_and_image_agree_on_ports_folders_and_the_user() -> None:
    image = (ROOT / "Containerfile").read_text()
    configured = (DEPLOY / "server.conf").read_text()
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    serviced = {each["name"]: each["port"] for each in manifests()["Service"]["spec"]["ports"]}
    pod = manifests()["StatefulSet"]["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in container()["volumeMounts"]}

    assert ports == serviced == {"client": 4222, "monitor": 8222}
    assert f"\nport: {ports['client']}" in configured
    assert f"\nhttp_port: {ports['monitor']}" in configured
    assert {each["httpGet"]["port"] for each in probes().values()} == {"monitor"}
    assert f"USER {pod['securityContext']['runAsUser']}" in image
    assert container()["args"] == ["-c", f"{mounts['config']}/server.conf", "-sd", mounts["data"]]
    assert f"VOLUME {mounts['data']}" in image
    found = from_command_line(
        ["-c", str(DEPLOY / "server.conf"), *container()["args"][2:]],
        {"JETSPARK_APP_PASSWORD": "secret"},
    )
    assert isinstance(found, Settings)
    assert found.jetstream.store_dir == mounts["data"]
    assert 'store_dir: "/var/lib/jetspark"' in configured
    assert "StateDirectory=jetspark\n" in UNIT.read_text()
