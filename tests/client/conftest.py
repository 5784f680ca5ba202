"""Servers to test the client against: the released nats-server, and ours."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import ReplicaProcess, ServerProcess
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from jetspark import Client, connect
from jetspark.ids import Nuid

KINDS = ["nats-server", "jetspark"]
# JETSPARK_THROUGH_REPLICA=1: everything through a read replica instead (tools/torture.py).
if os.environ.get("JETSPARK_THROUGH_REPLICA"):
    KINDS = ["replica of nats-server", "replica of jetspark"]
NUID = Nuid()

Connect = Callable[..., AbstractAsyncContextManager[Client]]

# Tests that our server cannot pass yet, and what it lacks. They are expected to fail: the day one
# passes, it is reported, and its line here goes.
LACKING: dict[str, str] = {}
# Whole modules likewise; they are not even tried, because what a server lacks it answers with
# silence.
LACKING_MODULES: dict[str, str] = {}
_LISTED = "CONSUMER.LIST shows the consumer that makes the copy"
_ENOUGH = "a copy that has reached min_last_seq answers, though others have written more since"
_HERE = "the leader does not see reads that the replica answers"
# What does not hold through a replica, by docs/replicas.md, and why.
NOT_THROUGH_REPLICA = {
    "test_a_member_that_joins_while_the_last_one_leaves_has_a_consumer": _LISTED,
    "test_a_member_whose_consumer_cannot_be_created_again_is_notified": _LISTED,
    "test_consumers_are_managed_by_the_name_of_their_stream": _LISTED,
    "test_what_the_library_made_is_deleted_on_unsubscribe": _LISTED,
    "test_an_existing_consumer_is_not_deleted": _LISTED,
    "test_drain_takes_what_has_arrived_then_deletes": _LISTED,
    "test_draining_the_connection_deletes_too": _LISTED,
    "test_a_drained_pull_subscription_waits_for_its_iterators": _LISTED,
    "test_members_of_a_queue_share_the_consumer_named_after_it": _LISTED,
    "test_the_member_that_made_the_consumer_leaves_it_to_the_others": _LISTED,
    "test_a_consumer_is_created_found_listed_and_deleted": _LISTED,
    "test_stop_and_close_end_watches": _LISTED,
    "test_a_backup_becomes_another_stream": _LISTED,
    "test_a_push_callback_may_end_its_subscription": _LISTED,
    "test_a_blocking_push_callback_may_end_its_subscription": _LISTED,
    "test_a_drain_that_takes_too_long_still_deletes_the_consumer": _LISTED,
    "test_a_drain_without_a_reader_reports_it": _LISTED,
    "test_a_drained_subscription_waits_for_its_reader": _LISTED,
    "test_a_drain_ends_when_its_time_is_up_whatever_callbacks_do": _LISTED,
    "test_an_alarm_that_makes_no_sense_is_refused": _LISTED,
    "test_it_can_be_stopped_while_its_consumer_is_being_made": _LISTED,
    "test_its_consumer_is_deleted_in_the_end": _LISTED,
    "test_what_cannot_work_is_refused": _LISTED,
    "test_an_existing_queue_stays": _LISTED,
    "test_a_member_that_left_just_before_the_last_one_does_not_keep_the_consumer": _LISTED,
    "test_keep_keeps_the_consumer_of_a_queue": _LISTED,
    "test_keep_keeps_the_consumer_of_a_subscription": _LISTED,
    "test_keep_keeps_the_consumer_of_a_pull_subscription": _LISTED,
    "test_a_member_that_has_just_lost_its_connection_keeps_its_consumer": _LISTED,
    "test_the_last_member_of_a_queue_deletes_what_another_made": _LISTED,
    "test_watches_that_were_given_up_leave_no_consumer": _LISTED,
    "test_a_cancelled_search_leaves_nothing": _LISTED,
    "test_a_call_that_is_cancelled_leaves_nothing": _LISTED,
    "test_lists_follow_their_pages": _LISTED,
    "test_two_that_fetch_at_once_use_one_consumer": _LISTED,
    "test_all_messages_are_printed_and_then_it_ends": _LISTED,
    "test_streams_are_listed_and_reported": _LISTED,
    "test_a_consumer_is_removed_after_a_confirmation": _LISTED,
    "test_consumers_are_listed_and_reported": _LISTED,
    "test_stored_messages_are_followed": _LISTED,
    "test_streams_are_found_by_conditions": _LISTED,
    "test_consumers_are_found_by_conditions": _LISTED,
    "test_a_stream_is_backed_up_and_restored": _LISTED,
    "test_what_a_handle_wrote_or_saw_is_asked_for": _ENOUGH,
    "test_what_a_watch_saw_is_asked_for": _HERE,
    "test_a_handle_is_monotonic_over_reconnects": _HERE,
    "test_requests_are_those_of_the_document": _HERE,
    "test_a_read_of_many_subjects_sends_the_requests_of_the_document": _HERE,
    "test_a_batch_sends_the_requests_of_the_document": _HERE,
    "test_a_handle_that_knows_that_direct_gets_are_off_does_not_ask_for_them": _HERE,
    "test_keys_are_asked_for_without_their_values": _HERE,
    "test_a_get_sends_the_request_of_the_document": _HERE,
}
# Rounds of kv/test_linearizable.py in which handles ask for no more than they know of.
_ASKING_ROUNDS = "test_concurrent_histories_are_linearizable"


class _ByCluster(LoadGroupScheduling):  # type: ignore[misc]  # it has no types
    """Gives tests that share a cluster to one worker.

    pytest-xdist 3.8 appends the name of a group to the private id of a test, which pytest 9.2 no
    longer reads: each worker started clusters of its own. Groups are known by their files here.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _GROUPS.get(Path(file).relative_to(Path(file).parents[1]).as_posix(), nodeid)


# The tests of a group run one after the other; these are the groups of their marks.
_GROUPS = {
    "cluster/test_cluster.py": "cluster",
    "cluster/test_command_line.py": "cluster",
    "cluster/test_jetstream.py": "cluster, JetStream",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByCluster | None:
    """Group tests, if that is asked for."""
    return _ByCluster(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect what our server lacks to fail, strictly; long groups begin first."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    for item in items:
        if not isinstance(item, pytest.Function) or Path(__file__).parent not in item.path.parents:
            continue
        kinds = item.callspec.params if hasattr(item, "callspec") else {}
        if KINDS[0].startswith("replica") and (reason := _not_through_replica(item, kinds)):
            item.add_marker(pytest.mark.skip(reason=reason))
            continue
        whole = LACKING_MODULES.get(item.path.stem)
        if whole is not None and "jetspark" in kinds.values():
            item.add_marker(pytest.mark.xfail(reason=f"jetspark has no {whole} yet", run=False))
            continue
        lacking = LACKING.get(item.originalname)
        if lacking is not None and "jetspark" in kinds.values():
            reason = f"jetspark has no {lacking} yet"
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _not_through_replica(item: pytest.Function, parameters: dict[str, Any]) -> str:
    plan = parameters.get("plan")
    if plan is not None and item.originalname == _ASKING_ROUNDS and plan.read_after_write:
        return _ENOUGH
    return NOT_THROUGH_REPLICA.get(item.originalname, "")


def started(kind: str, folder: Path) -> ServerProcess:
    """A server of a kind."""
    leader = kind.removeprefix("replica of ")
    return ServerProcess(kind, folder, "-js") if leader == kind else ReplicaProcess(leader, folder)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServerProcess]]:
    """One server of each kind for the whole run, whichever parameter comes next."""
    running: dict[str, ServerProcess] = {}

    def start(kind: str) -> ServerProcess:
        if kind not in running:
            running[kind] = started(kind, tmp_path_factory.mktemp("store"))
        return running[kind]

    yield start
    for each in running.values():
        each.kill()


@pytest.fixture(scope="session", params=KINDS)
def server(
    request: pytest.FixtureRequest, servers: Callable[[str], ServerProcess]
) -> ServerProcess:
    """A server that all tests share; they use names of their own."""
    return servers(request.param)


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test may kill."""
    running = started(request.param, tmp_path)
    yield running
    running.kill()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start a nats-server with a configuration of the test's own."""
    started: list[ServerProcess] = []

    def start(config: str) -> ServerProcess:
        file = tmp_path / f"server{len(started)}.conf"
        file.write_text(config)
        store = tmp_path / f"store{len(started)}"
        running = ServerProcess("nats-server", store, "-c", str(file))
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()


@pytest.fixture
def server_process() -> Iterator[Callable[..., ServerProcess]]:
    """Start servers as the test likes; all of them end with it."""
    started: list[ServerProcess] = []

    def start(kind: str, folder: Path, *arguments: str, port: str = "-1") -> ServerProcess:
        running = ServerProcess(kind, folder, *arguments, port=port)
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()


@pytest.fixture
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Connect:
    """Opens connections to the server of this run, for ``async with``."""
    # A verb that a server lacks is answered with silence: do not wait long for it.
    quick = {"timeout": 1.0} if request.node.get_closest_marker("xfail") else {}

    @contextlib.asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Client]:
        options = quick | options
        async with await connect(server.url, **options) as connected:
            yield connected

    return opened


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for streams and subjects."""
    return NUID.next()
