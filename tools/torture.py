"""Long campaigns: those that `make test` runs in short form, for as long as you like.

    make torture MINUTES=30
    make torture MINUTES=5 ARGS="crashes flips"     only these, each for its share of the time

Each campaign prints its seed and one line of result. A campaign that fails prints why, and the
others still run; the exit status is then 1.
"""

import argparse
import asyncio
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.campaigns.cluster_copies import ClusterCopies  # noqa: E402
from tests.campaigns.consumer_kills import ConsumerKills  # noqa: E402
from tests.campaigns.fuzzed import campaign as run_fuzzed  # noqa: E402
from tests.campaigns.hostile import campaign as run_hostile  # noqa: E402
from tests.campaigns.kills import Kills  # noqa: E402
from tests.campaigns.kv_fights import fight  # noqa: E402
from tests.campaigns.large_dashboard import run as run_large_dashboard  # noqa: E402
from tests.campaigns.permissions import DECISIONS_PER_SET, judge_decisions  # noqa: E402
from tests.campaigns.power.cuts import Cuts, run_cuts  # noqa: E402
from tests.campaigns.remote_copies import RemoteCopies  # noqa: E402
from tests.campaigns.replica_histories import replica_histories  # noqa: E402
from tests.campaigns.rights import Campaign as Rights  # noqa: E402
from tests.campaigns.spark.archive import STANDALONE, unpacked  # noqa: E402
from tests.campaigns.spark.archive import campaign as run_spark_archive  # noqa: E402
from tests.campaigns.spark.batch_kills import campaign as run_spark_batch_kills  # noqa: E402
from tests.campaigns.spark.batch_sinks import KINDS as SINKS  # noqa: E402
from tests.campaigns.spark.connect import (  # noqa: E402
    connect_server,
    copy_stream,
    standalone,
    standalone_cluster,
)
from tests.campaigns.spark.demo import run_demo  # noqa: E402
from tests.campaigns.spark.kills import LIKE  # noqa: E402
from tests.campaigns.spark.kills import campaign as run_spark_kills  # noqa: E402
from tests.campaigns.spark.lives import campaign as run_spark_lives  # noqa: E402
from tests.campaigns.spark.notebook import campaign as run_spark_notebook  # noqa: E402
from tests.campaigns.spark.oldest import campaign as run_spark_oldest  # noqa: E402
from tests.campaigns.spark.oldest import oldest_python  # noqa: E402
from tests.campaigns.spark.options import run as run_spark_options  # noqa: E402
from tests.campaigns.spark.pipelines import campaign as run_spark_pipelines  # noqa: E402
from tests.campaigns.spark.replays import campaign as run_spark_replays  # noqa: E402
from tests.campaigns.spark.restarts import CASES, other_pythons  # noqa: E402
from tests.campaigns.spark.restarts import campaign as run_spark_restarts  # noqa: E402
from tests.campaigns.store.batch_crashes import run_batch_crashes  # noqa: E402
from tests.campaigns.store.crashes import run_crashes  # noqa: E402
from tests.campaigns.store.damage import run_flips  # noqa: E402
from tests.campaigns.store.files import run_file_faults  # noqa: E402
from tests.campaigns.store.lost_files import run as run_lost_files  # noqa: E402
from tests.campaigns.store.mutations import run_mutations  # noqa: E402
from tests.campaigns.store.replaced_files import run as run_replaced_files  # noqa: E402
from tests.campaigns.store.rewrites import run_rewrites  # noqa: E402
from tests.campaigns.store.shared import run_damaged, run_shared  # noqa: E402
from tests.campaigns.turns import campaign as run_turns  # noqa: E402
from tests.campaigns.wire_scripts import play_scripts  # noqa: E402
from tests.support.served import Served  # noqa: E402
from tests.support.servers import ServerProcess  # noqa: E402
from tests.support.store.sample import KINDS  # noqa: E402

from jetspark import sync  # noqa: E402

Campaign = Callable[[float, int], str]

CONSUMER_KILLS_MIN = 100
PERMISSION_SETS_MIN = 50_000
RIGHTS_ACTIONS = 200
WALKS = 50


def kills(deadline: float, seed: int) -> str:
    """SIGKILL under load, repeatedly, on one store."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        campaign = Kills(Path(folder, "store"), seed)
        while time.monotonic() < deadline or campaign.lives == 0:
            asyncio.run(campaign.live())
    return f"{campaign.lives} kills, {len(campaign.acked)} acknowledged, 0 lost, 0 duplicated"


def level_kills(deadline: float, seed: int) -> str:
    """SIGKILL under load, with other durability settings in each life."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        campaign = Kills(Path(folder, "store"), seed, streams=5, changes_levels=True)
        while time.monotonic() < deadline or campaign.lives == 0:
            asyncio.run(campaign.live())
    return f"{campaign.lives} kills, {len(campaign.acked)} acknowledged, 0 lost, 0 duplicated"


def consumer_kills(deadline: float, seed: int) -> str:
    """SIGKILL while messages are consumed: at least once, no ack floor ahead of the truth."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        campaign = ConsumerKills(Path(folder, "store"), seed)
        while time.monotonic() < deadline or campaign.lives < CONSUMER_KILLS_MIN:
            campaign.live()
        campaign.finish()
    return (
        f"{campaign.lives} kills, {len(campaign.delivered)} delivered, "
        f"{len(campaign.confirmed)} acknowledgements answered, 0 lost, 0 invented"
    )


def replicas(deadline: float, seed: int) -> str:
    """Reads and writes at a leader and its replica, both stopped now and then, linearizable."""
    runs = operations = 0
    while time.monotonic() < deadline or runs == 0:
        operations += replica_histories(seed + runs)
        runs += 1
    return f"{2 * runs} histories of {operations} operations, all linearizable"


def remote_copies(deadline: float, seed: int) -> str:
    """A mirror and a source of another server, while both servers and the network fail."""
    told = []
    for kind in ("jetspark", "nats-server"):
        half = time.monotonic() + (deadline - time.monotonic()) / (2 if kind == "jetspark" else 1)
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            campaign = RemoteCopies(Path(folder), kind, seed)
            try:
                asyncio.run(campaign.run(half))
            finally:
                campaign.close()
        told.append(f"{kind}: {campaign.broken} breaks, {campaign.published} messages")
    return f"{'; '.join(told)}; 0 skipped, 0 doubled"


def cluster_copies(deadline: float, seed: int) -> str:
    """A mirror and a source of a stream of three nodes that die and change the leader."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        campaign = ClusterCopies(Path(folder), seed)
        try:
            asyncio.run(campaign.run(deadline))
        finally:
            campaign.close()
    return f"{campaign.broken} breaks, {campaign.published} messages, 0 skipped, 0 doubled"


def fuzz_protocol(deadline: float, seed: int) -> str:
    """Coverage-guided fuzzing of both parsers, interpreted."""
    seconds = max(1, int(deadline - time.monotonic()))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                str(ROOT / "fuzz" / "fuzz_protocol.py"),
                f"-max_total_time={seconds}",
                f"-seed={seed}",
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return done.stderr.strip().splitlines()[-1]


def crashes(deadline: float, seed: int) -> str:
    """Power failures at every step of a simulated disk."""
    return str(run_crashes(2**62, seed=seed, go_on=lambda _done: time.monotonic() < deadline))


def shared(deadline: float, seed: int) -> str:
    """Streams that share writes of the journal: power failures, failing steps, damaged files."""
    states = damaged = 0
    while time.monotonic() < deadline:
        states += run_shared(5000, seed=seed + states).states
        done = run_crashes(5000, seed=seed + states, together=0.9)
        states += done.states
        run_damaged(200, seed=seed + damaged)
        damaged += 200
    return f"{states} states of streams that share writes, {damaged} damaged journals: 0 lost"


def power(deadline: float, seed: int) -> str:
    """Power failures of a real server whose file operations are recorded; failing syncs, too."""
    total = Cuts()
    while time.monotonic() < deadline or total.runs < 2:
        total.add(run_cuts(300, seed=seed + total.runs, faults=total.runs % 2 == 1))
    return str(total)


def batches(deadline: float, seed: int) -> str:
    """Power failures around the commits of batches."""
    return str(
        run_batch_crashes(2**62, seed=seed, go_on=lambda _done: time.monotonic() < deadline)
    )


def flips(deadline: float, seed: int) -> str:
    """Bits that flip, in every kind of file."""
    total = 0
    while time.monotonic() < deadline:
        run_flips(1000, seed=seed + total, kind=KINDS[total // 1000 % len(KINDS)])
        total += 1000
    return f"{total} flips, at most one record lost each, every loss reported"


def files(deadline: float, seed: int) -> str:
    """Files that are missing, truncated, foreign, swapped or unreadable."""
    total = 0
    while time.monotonic() < deadline:
        run_file_faults(100, seed=seed + total)
        total += 100
    return f"{total} stores with one damaged file, every loss reported, no sequence reused"


def lost_files(deadline: float, seed: int) -> str:
    """Two or three files of a stream that are missing, truncated, zeroed, foreign or older."""
    total = 0
    while time.monotonic() < deadline:
        total += run_lost_files(10, seed + total)
    return f"{total} stores with several damaged files, no silent loss, no sequence reused"


def replaced_files(deadline: float, seed: int) -> str:
    """Files of a store that are from another time or place."""
    total = 0
    while time.monotonic() < deadline:
        total += run_replaced_files(10, seed + total)
    return f"{total} stores with files of other times and places, nothing wrong silently"


def mutations(deadline: float, seed: int) -> str:
    """Randomly mutated files of a store."""
    total = 0
    while time.monotonic() < deadline:
        run_mutations(500, seed=seed + total)
        total += 500
    return f"{total} mutated stores, only the store's errors raised"


def rewrites(deadline: float, seed: int) -> str:
    """Segments that are rewritten constantly, and power failures meanwhile."""
    total = 0
    while time.monotonic() < deadline:
        run_rewrites(10, seed=seed + total)
        total += 10
    return f"{total} runs with rewritten segments, contents always exact"


def kv_histories(deadline: float, seed: int) -> str:
    """Clients that compete for keys: every history is linearizable."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        server = Served(Path(folder, "store"), "-js", "-p", "-1")
        try:
            total = asyncio.run(fight(server.url, deadline, seed))
        finally:
            server.end()
    return f"{total} operations, every history linearizable"


def wire_scripts(deadline: float, seed: int) -> str:
    """Generated byte scripts to our server and to nats-server: the same answers."""
    return play_scripts(deadline, seed)


def turns(deadline: float, seed: int) -> str:
    """Clients with extreme load: no turn of the server's loop takes long."""
    return run_turns(deadline, seed)


def dashboard(deadline: float, _seed: int) -> str:
    """The dashboard of 10,000 streams and 1,000,000 keys: fast pages, undisturbed clients."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        return run_large_dashboard(deadline, Path(folder, "store"))


def hostile(deadline: float, seed: int) -> str:
    """Hostile clients of full size: a neighbour's request never waits for long."""
    return run_hostile(deadline, seed)


def fuzzed(deadline: float, seed: int) -> str:
    """Random sessions with extreme values next to a neighbour, and random configurations."""
    return run_fuzzed(deadline, seed)


def permissions(deadline: float, seed: int) -> str:
    """Permission decisions compared with an independent evaluator."""
    total = 0
    while time.monotonic() < deadline or total < PERMISSION_SETS_MIN * DECISIONS_PER_SET:
        judge_decisions(10_000, seed=seed + total)
        total += 10_000
    sets = total // DECISIONS_PER_SET
    return f"{total} decisions of {sets} permission sets, all equal to the evaluator's"


def rights(deadline: float, seed: int) -> str:
    """Random users at a server and at a replica see what a naive model predicts, and no more."""
    runs = actions = delivered = denied = 0
    while time.monotonic() < deadline or runs < 2:
        campaign = Rights(seed + runs, replica=runs % 2 == 1)
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            asyncio.run(campaign.run(Path(folder), RIGHTS_ACTIONS))
        runs += 1
        actions += campaign.actions
        delivered += campaign.delivered
        denied += campaign.denied
    return f"{actions} actions, {delivered} delivered, {denied} denied, all as the model predicts"


def chaos(deadline: float, seed: int) -> str:
    """Connections that are cut, stalled and refused during every call of the client."""
    runs = 0
    while time.monotonic() < deadline or runs == 0:
        paths = ("tests/client/connection/test_chaos.py", "tests/client/consumers/test_chaos.py")
        run_tests(*paths, JETSPARK_CHAOS_SEEDS=str(seed + runs))
        runs += 1
    return f"{runs} runs against both servers, nothing acknowledged was lost"


def walks(deadline: float, seed: int) -> str:
    """Random walks over streams, consumers and publishes: nats-server and ours answer alike."""
    runs = 0
    while time.monotonic() < deadline or runs == 0:
        run_tests(
            "tests/interop/api/test_walk.py",
            "tests/interop/consumers/test_walk.py",
            "tests/interop/consumers/test_push_walk.py",
            "tests/interop/publishing/test_publish_differential.py",
            f"--hypothesis-seed={seed + runs}",
            JETSPARK_WALKS=str(WALKS),
            JETSPARK_PUBLISH_STEPS=str(100 * WALKS),
        )
        runs += 1
    return f"{runs} times {WALKS} walks of each kind and {100 * WALKS} publishes, all alike"


def extreme_values(_deadline: float, _seed: int) -> str:
    """Every extreme value in every field of every request, once, compared with nats-server."""
    return run_tests("tests/interop/api/test_limits_of_values.py", JETSPARK_WHOLE_TABLE="1")


def endings(_deadline: float, _seed: int) -> str:
    """Every waiting call of the client, ended in every way at both servers, once."""
    return run_tests("tests/client/core/test_one_ending.py", "-n2", JETSPARK_WHOLE_TABLE="1")


def through_replica(_deadline: float, _seed: int) -> str:
    """The client's whole suite through read replicas, once, without a time limit."""
    return run_tests("tests/client", "-n2", "--dist", "loadgroup", JETSPARK_THROUGH_REPLICA="1")


def run_tests(*arguments: str, **environment: str) -> str:
    """Run tests in another process; returns their summary line."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stdout[-10_000:])
    return done.stdout.strip().splitlines()[-1]


def spark_kills(deadline: float, seed: int) -> str:
    """SIGKILL of Spark's executors and drivers while they write; they restart on other cores."""
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        sync.Server(store_dir=f"{folder}/store") as server,
    ):
        return run_spark_kills(
            server.client_url, Path(folder), seed=seed, lives=2, deadline=deadline
        )


def spark_lives(deadline: float, seed: int) -> str:
    """Random lives of streaming reads on both servers, compared with the streams. No JVM."""
    results: list[str] = []
    for kind in ("jetspark", "nats-server"):
        left = max(0.0, deadline - time.monotonic()) / (2 - len(results))
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            server = ServerProcess(kind, Path(folder, "store"), "-js")
            try:
                done = run_spark_lives(server.url, seed=seed, deadline=time.monotonic() + left)
            finally:
                server.kill()
        results.append(f"{kind}: {done}")
    return "; ".join(results)


def spark_kills_like(_deadline: float, seed: int) -> str:
    """The same on a standalone cluster: tasks that run twice at once, executors that come and go.

    Once for each, without a time limit.
    """
    results = []
    for kind in LIKE:
        with (
            tempfile.TemporaryDirectory(dir=Path.cwd()) as name,
            sync.Server(store_dir=f"{name}/store") as server,
            standalone_cluster(Path(name), workers=2) as cluster,
        ):
            results.append(
                run_spark_kills(
                    server.client_url,
                    Path(name),
                    seed=seed,
                    lives=2,
                    deadline=0.0,
                    masters=(cluster.address,),
                    cluster=cluster,
                    like=(kind,),
                )
            )
    return "; ".join(results)


def spark_batch_kills(deadline: float, _seed: int) -> str:
    """SIGKILL of a driver between any two steps of an exactly-once write to each kind of sink."""
    results: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        sync.Server(store_dir=f"{folder}/store") as server,
    ):
        # PostgreSQL runs as a user of its own, below this folder.
        Path(folder).chmod(0o755)
        for done, kind in enumerate(SINKS):
            now = time.monotonic()
            share = now + (deadline - now) / (len(SINKS) - done)
            results.append(
                run_spark_batch_kills(server.client_url, Path(folder), deadline=share, kind=kind)
            )
    return "; ".join(results)


def spark_notebook(_deadline: float, _seed: int) -> str:
    """A notebook with a session, a progress view and a blocking client, in Jupyter's kernel."""
    return run_spark_notebook()


def spark_replays(deadline: float, seed: int) -> str:
    """Runs of epochs in random layouts that die, overlap and are repeated: rows are exact."""
    return run_spark_replays(deadline, seed)


def spark_restarts(deadline: float, seed: int) -> str:
    """Queries killed inside an epoch are restarted with something changed, case by case."""
    names = [case.name for case in CASES]
    random.Random(seed).shuffle(names)  # noqa: S311
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        figures = run_spark_restarts(
            Path(folder),
            names=names,
            pythons=other_pythons() | {"spark42": str(oldest_python())},
            go_on=lambda: time.monotonic() < deadline,
        )
    if figures.problems:
        raise AssertionError("\n".join(figures.problems))
    return str(figures)


def spark_oldest(_deadline: float, _seed: int) -> str:
    """The Spark tests with the oldest supported Spark, once, without a time limit."""
    return run_spark_oldest()


def spark_options(deadline: float, seed: int) -> str:
    """Options of the Spark formats are ignored, one after the other: a test must notice."""
    return run_spark_options(deadline, seed)


def spark_archive(_deadline: float, _seed: int) -> str:
    """Executors without jetspark, once: from an archive, missing, and of another version."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        # The interpreter that created this environment has no packages.
        found = run_spark_archive(
            unpacked(folder), f"{sys.base_prefix}/bin/python3", folder, master=STANDALONE
        )
    return "; ".join(found)


def spark_orders(deadline: float, seed: int) -> str:
    """Any order of actions on the same Spark objects, compared with Parquet, on each master.

    One process per master: a process has one JVM, and a client of Spark Connect has none.
    """
    masters = ("local[3]", "local[1]", "local-cluster[2,1,1024]", "standalone", "connect")
    results = []
    for number, master in enumerate(masters):
        left = max(0.0, deadline - time.monotonic()) / (len(masters) - number)
        command = [sys.executable, "-m", "tests.campaigns.spark.orders", "--master", master]
        command += ["--seconds", str(left), "--seed", str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[-10_000:])
        results.append(done.stdout.strip().splitlines()[-1])
    return "; ".join(results)


def spark_pipelines(_deadline: float, _seed: int) -> str:
    """A project from `init` over a kill to a full refresh, once, without a time limit."""
    return run_tests("tests/spark/pipelines/test_pipelines.py", JETSPARK_WHOLE_PIPELINE="1")


def spark_pipelines_killed(_deadline: float, _seed: int) -> str:
    """Runs of a project that are killed, started twice, scheduled, without a server; once each."""
    results = []
    for kind, master in (("nats-server", "local[2]"), ("jetspark", STANDALONE)):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
            results.append(run_spark_pipelines(Path(name), kind, master, lambda _line: None))
    return "; ".join(results)


def spark_demo(_deadline: float, _seed: int) -> str:
    """`make demo` with its own processes, once, without a time limit."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        return run_demo(Path(folder), events=100_000)


def spark_standalone(_deadline: float, _seed: int) -> str:
    """A Connect server on a standalone master and worker, once, without a time limit."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        with standalone(folder) as master, connect_server(folder, master) as remote:
            copy_stream(folder, remote)
    return "a client copied a stream through Connect and standalone, no duplicates"


CAMPAIGNS: tuple[Campaign, ...] = (
    kills,
    level_kills,
    kv_histories,
    consumer_kills,
    remote_copies,
    cluster_copies,
    replicas,
    crashes,
    shared,
    power,
    batches,
    flips,
    files,
    lost_files,
    replaced_files,
    mutations,
    rewrites,
    fuzz_protocol,
    wire_scripts,
    turns,
    dashboard,
    hostile,
    fuzzed,
    permissions,
    rights,
    chaos,
    walks,
    extreme_values,
    endings,
    through_replica,
    spark_kills,
    spark_kills_like,
    spark_lives,
    spark_batch_kills,
    spark_notebook,
    spark_replays,
    spark_oldest,
    spark_options,
    spark_restarts,
    spark_archive,
    spark_orders,
    spark_pipelines,
    spark_pipelines_killed,
    spark_demo,
    spark_standalone,
)


def main() -> None:
    """Run each campaign for its share of the time."""
    by_name = {campaign.__name__: campaign for campaign in CAMPAIGNS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))  # noqa: S311
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=", ".join(by_name))
    arguments = parser.parse_args()
    names: list[str] = arguments.campaigns or list(by_name)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        parser.error(f"no such campaign: {', '.join(unknown)}; expected {', '.join(by_name)}")
    # Servers in this process report each violation and slow consumer: thousands of lines.
    logging.getLogger("jetspark").setLevel(logging.ERROR)
    share = arguments.minutes * 60 / len(names)
    failed = [name for name in names if not _run(name, by_name[name], share, arguments.seed)]
    if failed:
        sys.exit(f"failed with seed {arguments.seed}: {', '.join(failed)}")


def _run(name: str, campaign: Campaign, share: float, seed: int) -> bool:
    print(f"{name}: seed {seed}, {share:.0f} s", flush=True)
    try:
        result = campaign(time.monotonic() + share, seed)
    except Exception:  # noqa: BLE001 - whatever it is, the other campaigns still run
        traceback.print_exc()
        print(f"{name}: FAILED", flush=True)
        return False
    print(f"{name}: {result}", flush=True)
    return True


if __name__ == "__main__":
    main()
