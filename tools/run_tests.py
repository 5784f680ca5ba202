"""Run the tests part by part, print the time of each with its budget, and a summary.

Each part has a share of the 14 minutes that all may take on two cores, and is a separate process,
so that a crash or a leak in one does not affect the next. Compiled parts run on the installed
wheel; the interpreted ones run the same environment with PYTHONPATH=src.

The order of the tests and their random values come from a seed, printed at the beginning and at
the end: `make test SEED=n` repeats a run.

Parts whose tests wait for other processes (a nats-server, a JVM, a browser) depend on how busy the
machine is. A few failures there are run a second time, alone and with the same seed; those that
then pass are listed at the end, to be investigated, but do not fail the run. Everything else,
simulation above all, must pass at once, and a process that crashes fails the run.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# The layers below client and server that have compiled modules: their unit and property tests run
# on both builds.
LOWER = ("subjects", "headers", "protocol", "store", "engine")


@dataclass(frozen=True)
class Part:
    """Some tests that run together."""

    name: str
    budget_s: int
    paths: tuple[str, ...]
    interpreted: bool = False
    arguments: tuple[str, ...] = ()
    # Depends on other programs, and so on how busy the machine is.
    shares_machine: bool = False


@dataclass
class Result:
    """The result of a part."""

    part: Part
    seconds: float
    cpu_seconds: float
    ok: bool
    counts: dict[str, int] = field(default_factory=dict)
    passed_alone: list[str] = field(default_factory=list)


PARTS = (
    Part("unit and property", 100, ("tests/unit", "tests/property"), arguments=("-n2",)),
    Part(
        "lower layers, interpreted",
        60,
        (
            *(f"tests/{kind}/{layer}" for kind in ("unit", "property") for layer in LOWER),
            "tests/property/server",
        ),
        interpreted=True,
        arguments=("-n2",),
    ),
    # Few tests, some of them long: a worker gets the next one when it is idle.
    Part(
        "engine and store simulation",
        80,
        ("tests/simulation",),
        arguments=("-n2", "--maxschedchunk=1"),
    ),
    # Most of the time these wait for servers, or to see that something does not happen: four on
    # two cores. Files start in the order given by tests/interop/conftest.py, the longest first.
    Part(
        "interop",
        100,
        ("tests/interop", "tests/integration"),
        arguments=("-n4", "--dist", "loadfile", "--no-loadscope-reorder"),
        shares_machine=True,
    ),
    # Test by test, so that all workers end at the same time; tests that share a cluster are in a
    # group.
    Part(
        "client",
        120,
        ("tests/client",),
        arguments=("-n4", "--dist", "loadgroup"),
        shares_machine=True,
    ),
    # Two JVMs serve the tests that share a session, and which of its sessions is active depends on
    # what ran before: a fixed order makes failures reproducible. The third worker has the tests
    # with their own processes, which wait for each other as they start.
    Part(
        "spark",
        200,
        ("tests/spark",),
        arguments=("-p", "no:randomly", "-n3", "--dist", "loadfile"),
        shares_machine=True,
    ),
    # A browser for each file, which mostly waits; the servers of a file are shared by its tests.
    Part(
        "browser",
        60,
        ("tests/browser",),
        arguments=("-n4", "--dist", "loadfile"),
        shares_machine=True,
    ),
    # 20 s more than the examples of the client alone: every guide and recipe runs on two servers,
    # and the site is built. By file, because one build serves the tests of the site.
    Part("docs", 40, ("tests/docs",), arguments=("-n2", "--dist", "loadfile")),
)
STATIC_BUDGET_S = 60
# The maximum that both pytest-randomly and Hypothesis accept.
SEED_MAX = 2**32 - 1
# More failures than this have a common cause that a second run would only hide.
MOST_AGAIN = 6
TESTS_FAILED = 1
# The text of pytest-xdist for a test whose process ended.
CRASHED = "crashed while running"


class Stopwatch:
    """Wall and CPU seconds since it was created, of processes that ended since then."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._cpu = self._children_cpu()

    def read(self) -> tuple[float, float]:
        """Return wall and CPU seconds."""
        return time.monotonic() - self._begun, self._children_cpu() - self._cpu

    def _children_cpu(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def static_commands() -> dict[str, list[str]]:
    """The checks that run no product code, by name; the longest is the first."""
    return {
        "mypy": [str(BIN / "mypy")],
        "pyright": [sys.executable, "-m", "pytest", "-q", "tests/test_types.py"],
        "tidy": [sys.executable, "-m", "pytest", "-q", "tests/test_tidy.py"],
        "layers": [str(BIN / "lint-imports"), "--no-cache"],
        "lint": [str(BIN / "ruff"), "check", "--quiet", "."],
        "format": [str(BIN / "ruff"), "format", "--check", "--quiet", "."],
    }


def run_static() -> Result:
    """Types, layers, format, lint, tidiness; all of them, so that one run shows everything.

    Most of them use one core, so two run at the same time.
    """
    watch = Stopwatch()
    commands = static_commands()
    with ThreadPoolExecutor(max_workers=2) as pool:
        codes = list(pool.map(static_check, commands, commands.values()))
    return Result(Part("static", STATIC_BUDGET_S, ()), *watch.read(), not any(codes))


def static_check(name: str, command: list[str]) -> int:
    """Run one check; print its output if it failed."""
    env = os.environ | {"PYTHONPATH": "src"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        print(f"-- {name} failed\n{done.stdout}{done.stderr}", flush=True)
    return done.returncode


def run_part(part: Part, *, expect: str, seed: int) -> Result | None:
    """Run one part with pytest; None if the project has no such tests."""
    paths = [path for path in part.paths if (ROOT / path).exists()]
    if not paths:
        return None
    print(f"== {part.name} ({expect}, seed {seed})", flush=True)
    env = os.environ | {"JETSPARK_EXPECT": expect}
    if expect == "interpreted":
        env["PYTHONPATH"] = "src"
    watch = Stopwatch()
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}"]
        command += ["-o", f"cache_dir={folder}/cache", f"--hypothesis-seed={seed}"]
        if "no:randomly" not in part.arguments:
            command += [f"--randomly-seed={seed}"]
        together = [*command, *part.arguments, *paths]
        code = subprocess.run(together, cwd=ROOT, env=env, check=False).returncode
        counts, failures, crashed = read_report(report)
        passed_alone: list[str] = []
        few = 0 < len(failures) <= MOST_AGAIN and not crashed
        if part.shares_machine and code == TESTS_FAILED and few:
            print(f"== {part.name}: {len(failures)} failed among others; alone", flush=True)
            report.unlink()
            order = [each for each in part.arguments if each in {"-p", "no:randomly"}]
            alone = [*command, "--last-failed", "--last-failed-no-failures=none", *order, *paths]
            code = subprocess.run(alone, cwd=ROOT, env=env, check=False).returncode
            _, again, crashed = read_report(report)
            passed_alone = [] if crashed else sorted(set(failures) - set(again))
            counts["passed"] += len(passed_alone)
            counts["failed"] -= len(passed_alone)
    return Result(part, *watch.read(), code == 0, counts, passed_alone)


def read_report(report: Path) -> tuple[dict[str, int], list[str], bool]:
    """The numbers of passed, failed and skipped tests, which failed, whether a process crashed."""
    if not report.exists():
        return {"passed": 0, "failed": 1, "skipped": 0}, [], True
    root = ET.parse(report).getroot()  # noqa: S314 - pytest wrote it
    # A test that fails and whose teardown fails as well is listed twice.
    tests: dict[str, set[str]] = {}
    crashed = False
    for case in root.iter("testcase"):
        found = tests.setdefault(f"{case.get('classname')}.{case.get('name')}", set())
        found.update(result.tag for result in case)
        crashed |= any(CRASHED in result.get("message", "") for result in case)
    failures = sorted(name for name, found in tests.items() if found & {"failure", "error"})
    skipped = sum("skipped" in found for found in tests.values())
    passed = len(tests) - len(failures) - skipped
    return {"passed": passed, "failed": len(failures), "skipped": skipped}, failures, crashed


def installed_build() -> str:
    """The build of the installed package, which the compiled parts must find."""
    code = "import jetspark; print('compiled' if jetspark.COMPILED else 'interpreted')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BIN, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def chosen(arguments: argparse.Namespace) -> list[Result]:
    """Run the requested parts."""
    results = []
    if arguments.only in {None, "static"} and not arguments.interpreted:
        print("== static checks", flush=True)
        results.append(run_static())
    if arguments.only == "static":
        return results  # `make check` has no package installed
    build = "interpreted" if arguments.interpreted else installed_build()
    for part in PARTS:
        if arguments.only not in {None, part.name} or (arguments.interpreted and part.interpreted):
            continue
        if part.interpreted and build == "interpreted":
            continue
        expect = "interpreted" if part.interpreted else build
        done = run_part(part, expect=expect, seed=arguments.seed)
        if done is not None:
            results.append(done)
    return results


def main() -> None:
    """Run, then print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["static", *(part.name for part in PARTS)])
    parser.add_argument("--interpreted", action="store_true", help="run everything interpreted")
    parser.add_argument("--seed", type=int, help="the seed printed by an earlier run")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randint(0, SEED_MAX)
    elif not 0 <= arguments.seed <= SEED_MAX:
        parser.error(f"--seed: expected 0 to {SEED_MAX}")
    # Dozens of processes import the same modules: each would compile them again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    results = chosen(arguments)
    print(f"\n{'part':<30} {'seconds':>8} {'budget':>7} {'CPU s':>7}  result")
    for result in results:
        verdict = "ok" if result.ok else "FAILED"
        if result.ok and result.seconds > result.part.budget_s:
            verdict = "ok, over budget"
        line = (
            f"{result.part.name:<30} {result.seconds:>8.1f} {result.part.budget_s:>7} "
            f"{result.cpu_seconds:>7.1f}  {verdict}"
        )
        skipped = result.counts.get("skipped", 0)
        print(line + (f" ({skipped} skipped)" if skipped else ""))
    total = {
        key: sum(r.counts.get(key, 0) for r in results) for key in ("passed", "failed", "skipped")
    }
    broken = sum(1 for r in results if not r.ok and not r.counts.get("failed"))
    failed = total["failed"] + broken
    for name in [name for result in results for name in result.passed_alone]:
        print(f"failed among others, passed alone: {name}")
    print(f"\nseed {arguments.seed}: make test SEED={arguments.seed} repeats this run")
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped")
    sys.exit(0 if all(result.ok for result in results) else 1)


if __name__ == "__main__":
    main()
