"""Alert rules and the Grafana board use only metrics and labels that running servers have."""

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.monitored import text
from tests.support.remotes import HUB, caught_up, make, quick
from tests.support.replicas import copied, replica_of

import jetspark

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
TESTED_ALERTS = ALERTS.with_name("alerts_test.yaml")
BOARD = ROOT / "deploy" / "grafana" / "jetspark.json"
PAGE = (ROOT / "docs" / "operations" / "monitoring.md").read_text(encoding="utf-8")
# Prometheus adds these to every series.
OF_PROMETHEUS = {"instance", "job", "__name__"}
METRIC = re.compile(r"\b(?:gnatsd|jetspark|jetstream)_\w+|\bup\b")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads(BOARD.read_text())["panels"] if each["type"] != "row"]


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where an expression is, the expression, and the texts that name its labels."""
    for rule in rules():
        yield rule["alert"], rule["expr"], rule["annotations"]["summary"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in json.loads(BOARD.read_text())["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
        assert found is not None
        yield variable["name"], found[1], f"{{{{{found[2]}}}}}"


@asynccontextmanager
async def servers() -> AsyncIterator[list[Any]]:
    """A server with streams, consumers and copies of every kind, and a read replica."""
    async with (
        jetspark.Server() as hub,
        jetspark.Server(
            remotes={"hub": {"url": hub.client_url}}, upstreams=quick, http_port=-1
        ) as server,
        await jetspark.connect(hub.client_url) as there,
        await jetspark.connect(server.client_url) as here,
        replica_of(server.client_url, http_port=-1) as replica,
    ):
        await make(there, "A", subjects=["a.>"])
        await there.jetstream().publish("a.1", b"1")
        await make(here, "MIRROR", mirror={"name": "A", "external": HUB})
        await make(here, "SOURCING", sources=[{"name": "A", "external": HUB}])
        await caught_up(here, "MIRROR", 1)
        await caught_up(here, "SOURCING", 1)
        js = here.jetstream()
        await js.create_consumer("MIRROR", durable="worker")
        await (await js.create_key_value("cfg")).put("k", b"1")
        await copied(replica, "KV_cfg", 1)
        yield [server, replica]


async def known() -> dict[str, set[str]]:
    """The labels of every metric of these servers."""
    found: dict[str, set[str]] = {"up": set()}
    async with servers() as monitored:
        for server in monitored:
            status, body = await text(server, "/metrics")
            assert status == 200
            for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", body, flags=re.MULTILINE):
                found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


async def test_every_metric_and_label_of_the_rules_and_the_board_exists() -> None:
    metrics = await known()
    wrong: set[str] = set()
    for where, expression, shown in expressions():
        used = METRIC.findall(expression)
        assert used, f"{where}: {expression}"
        wrong.update(f"{where}: {name}" for name in used if name not in metrics)
        labels = OF_PROMETHEUS.union(*(metrics.get(name, set()) for name in used))
        asked = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", expression)
        asked += re.findall(r"\bby \(([^)]*)\)", expression)
        asked += re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown)
        named = {label for each in asked for label in re.split(r",\s*", each)}
        wrong.update(f"{where}: label {label}" for label in named - labels)

    assert len(metrics) > 150
    assert wrong == set()


def test_every_alert_says_what_to_do_and_is_on_the_page() -> None:
    names = [rule["alert"] for rule in rules()]

    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "action"}
        assert f"`{rule['alert']}`" in PAGE, rule["alert"]
    assert set(re.findall(r"`(Jetspark[A-Z]\w+)`", PAGE)) == set(names)


def test_the_panels_of_the_board_do_not_overlap_and_are_explained() -> None:
    board = json.loads(BOARD.read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert all(panel["description"] for panel in panels())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine")
def test_prometheus_accepts_the_rules_and_the_configuration_and_they_fire() -> None:
    for check, path in (("rules", ALERTS), ("config", ALERTS.with_name("prometheus.yaml"))):
        subprocess.run(["promtool", "check", check, str(path)], check=True)
    subprocess.run(["promtool", "test", "rules", str(TESTED_ALERTS)], check=True)


def test_every_metric_of_an_alert_is_in_both_of_its_tests() -> None:
    wrong, healthy = yaml.safe_load(TESTED_ALERTS.read_text())["tests"]
    used = {name for rule in rules() for name in METRIC.findall(rule["expr"])}

    for test in (wrong, healthy):
        given = {METRIC.findall(each["series"])[0] for each in test["input_series"]}
        assert used - given <= {"jetspark_stream_mirror_stuck"}  # `or`: one of two is enough
    assert wrong["promql_expr_test"][0]["exp_samples"][0]["value"] == len(rules())
