"""`jetspark pipeline status`: from checkpoints as Spark writes them, and the server."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml")

from jetspark import sync
from jetspark.cli.main import main
from jetspark.spark.pipelines.project import Project, find_project, load_project
from jetspark.spark.pipelines.resources import ensure_resources, publish_samples
from jetspark.spark.pipelines.status import flow_states
from jetspark.spark.pipelines.template import write_project
from jetspark.spark.stream.view import view_of


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(find_project(write_project("shop", tmp_path)))


def checkpoint(
    project: Project, place: str, *, planned: int, committed: int, offset: object, query: str = "q"
) -> None:
    folder = project.checkpoints / place
    for part, last in (("offsets", planned), ("commits", committed)):
        (folder / part).mkdir(parents=True)
        for number in range(last + 1):
            text = f"v1\n{{}}\n{json.dumps(offset)}" if part == "offsets" else "v1\n{}"
            (folder / part / str(number)).write_text(text)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    (folder / "state/0/0").mkdir(parents=True)
    (folder / "state/0/0/metadata").write_text("not for us")


def place_of(stream: str, following: int, created: str) -> dict[str, object]:
    return {"v": 1, "streams": {stream: {"next": following, "created": created}}}


def test_a_project_that_has_not_run_has_no_flows(project: Project) -> None:
    done = CliRunner().invoke(main, ["pipeline", "status", "--project", str(project.root)])

    assert done.exit_code == 0
    assert "has not run yet" in done.output


def test_the_newest_checkpoint_of_a_flow_counts(project: Project) -> None:
    old = place_of("ORDERS", 5, "")
    new = place_of("ORDERS", 9, "")
    table = "spark_catalog/default/orders/orders"
    checkpoint(project, f"{table}/0", planned=4, committed=4, offset=old, query="old")
    checkpoint(project, f"{table}/1", planned=2, committed=1, offset=new, query="new")
    checkpoint(project, "alerts/publish/0", planned=0, committed=0, offset={"logOffset": 3})

    alerts, orders = flow_states(project)

    assert (orders.flow, orders.target, orders.query) == ("orders", "orders", "new")
    assert (orders.planned_epoch, orders.committed_epoch) == (2, 1)
    assert [(source.stream, source.next_seq) for source in orders.sources] == [("ORDERS", 9)]
    assert (alerts.flow, alerts.target, alerts.sources) == ("publish", "alerts", ())


def test_the_throughput_is_that_of_the_last_micro_batches(project: Project) -> None:
    folder = project.checkpoints / "a/b/0"
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text('{"id": "q"}')
    for epoch in range(21):
        # A thousand messages in half a second; the first ten epochs took an hour each.
        begun = 1_000_000 + 1000 * epoch
        metadata = json.dumps({"batchTimestampMs": begun})
        offset = json.dumps(place_of("ORDERS", 1000 * epoch + 1, ""))
        (folder / f"offsets/{epoch}").write_text(f"v1\n{metadata}\n{offset}")
        (folder / f"commits/{epoch}").write_text("v1\n{}")
        ended = begun / 1000 + (0.5 if epoch > 10 else 3600)
        os.utime(folder / f"commits/{epoch}", (ended, ended))

    (state,) = flow_states(project)

    assert state.messages_per_second == pytest.approx(2000)
    assert state.committed_ms == 1_020_500


def test_a_table_named_state_is_shown(project: Project) -> None:
    offset = place_of("ORDERS", 5, "")
    table = "spark_catalog/default/state/state/0"
    checkpoint(project, table, planned=0, committed=0, offset=offset)

    (state,) = flow_states(project)

    assert (state.flow, state.target) == ("state", "state")


def test_a_flow_that_has_committed_nothing_names_what_it_reads(project: Project) -> None:
    offset = place_of("ORDERS", 5, "")
    checkpoint(project, "a/b/0", planned=0, committed=-1, offset=offset)

    (state,) = flow_states(project)

    assert (state.planned_epoch, state.committed_epoch) == (0, None)
    assert [(source.stream, source.next_seq) for source in state.sources] == [("ORDERS", None)]


def test_lag_and_ledger_come_from_the_server(project: Project) -> None:
    with sync.Server() as server, sync.connect(server.client_url) as client:
        js = client.jetstream()
        assert len(ensure_resources(js, project)) == 4
        assert ensure_resources(js, project) == []
        publish_samples(js, project)
        created = view_of(js.stream("ORDERS").info()).created
        table = "spark_catalog/default/orders/orders/0"
        checkpoint(project, table, planned=3, committed=3, offset=place_of("ORDERS", 151, created))
        other = place_of("ORDERS", 7, "1999-01-01T00:00:00Z")
        checkpoint(project, "b/b/0", planned=0, committed=0, offset=other, query="other")
        js.key_value("LEDGER").put("q", json.dumps({"epoch": 3, "last_seq": 40}).encode())

        said = CliRunner().invoke(
            main,
            [
                *("pipeline", "status", "--json", "--project", str(project.root)),
                *("--server", server.client_url),
            ],
        )

    assert said.exit_code == 0, said.output
    anew, orders = json.loads(said.output)["flows"]
    assert orders["committed_epoch"] == 3
    assert orders["sources"][0]["lag"] == 50
    assert orders["ledger"] == {"epoch": 3, "last_seq": 40}
    assert anew["sources"][0]["recreated"]
    assert anew["sources"][0]["lag"] is None
    assert anew["ledger"] is None


def test_without_a_server_the_checkpoints_are_shown_and_the_exit_code_is_1(
    project: Project,
) -> None:
    offset = place_of("ORDERS", 5, "")
    checkpoint(project, "a/b/0", planned=1, committed=0, offset=offset)

    done = CliRunner().invoke(
        main,
        ["pipeline", "status", "--project", str(project.root), "--server", "nats://127.0.0.1:1"],
    )

    assert done.exit_code == 1
    assert "0 (1 started)" in done.output
    assert "lag and ledger are unknown" in done.output
