"""``jetspark serve ...``: flags as nats-server's, over a file (decisions.md, Server)."""

from pathlib import Path
from typing import Any, Final

import pytest

from jetspark.server.config.blocks.jetstream import AtomicLimits, Durability
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.command_line import (
    CheckedFile,
    Exit,
    Instruction,
    SendSignal,
    ShowHelp,
    ShowTlsHelp,
    ShowVersion,
    from_command_line,
)
from jetspark.server.config.flags import FLAGS, FlagKind
from jetspark.server.config.not_yet import NOT_YET
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings
from jetspark.server.config.unsupported import UNSUPPORTED_FLAGS
from jetspark.units import minutes, seconds

FILE: Final = "a.conf"


def run(*arguments: str, file: str = "") -> Settings | Instruction:
    files = {FILE: file, "pid": "123\n", "words": "abc"}

    def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path].encode()

    flags = [*arguments, "-c", FILE] if file else arguments
    return from_command_line(flags, {}, read=read, check_tls=lambda _tls: None, not_yet={})


def settings(*arguments: str, file: str = "") -> Settings:
    made = run(*arguments, file=file)
    assert isinstance(made, Settings), made
    return made


def refusal(*arguments: str, file: str = "") -> str:
    answer = run(*arguments, file=file)
    assert isinstance(answer, Exit), answer
    assert answer.code == 1
    return answer.error


@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (["-p", "4333"], "port", 4333),
        (["-p=4333"], "port", 4333),
        (["--p=4333"], "port", 4333),
        (["--port", "-1"], "port", -1),
        (["-port", "0x10ed"], "port", 4333),
        (["-port", "010"], "port", 8),
        (["-p", "1", "-p", "4333"], "port", 4333),
        (["-p", "0"], "port", 4222),
        (["-a", "::1"], "host", "::1"),
        (["--addr=localhost"], "host", "localhost"),
        (["--net", "localhost"], "host", "localhost"),
        (["-n", "one"], "server_name", "one"),
        (["--server_name=one"], "server_name", "one"),
        (["-m", "8222"], "http_port", 8222),
        (["-l", "log"], "logfile", "log"),
        (["-T=false"], "logtime", False),
        (["--logtime_utc"], "logtime_utc", True),
        (["--log_size_limit", "5"], "logfile_size_limit", 5),
        (["--max_traced_msg_len", "5"], "max_traced_msg_len", 5),
        (["-P", "pid"], "pid_file", "pid"),
        (["--ports_file_dir", "d"], "ports_file_dir", "d"),
        (["--client_advertise", "a:1"], "client_advertise", "a:1"),
        (["--user", "u", "--pass", "p"], "authorization.user", "u"),
        (["--user", "u", "--pass", "p"], "authorization.password", Secret("p")),
        (["--auth", "t"], "authorization.token", Secret("t")),
        (["--tls", "--tlscert", "c", "--tlskey", "k"], "tls", Tls(cert_file="c", key_file="k")),
        (["--tlsverify", "--tlscert=c", "--tlskey=k", "--tlscacert=a"], "tls",
         Tls(cert_file="c", key_file="k", ca_file="a", verify=True)),
        (["-js"], "jetstream.enabled", True),
        (["--jetstream"], "jetstream.enabled", True),
        (["-js"], "jetstream.store_dir", "jetspark-data"),
        ([], "jetstream.enabled", False),
        (["-sd", "d"], "jetstream.enabled", False),
        (["-js", "-sd", "d"], "jetstream.enabled", True),
        (["-sd=d"], "jetstream.store_dir", "d"),
        (["-sd=d", "-js=false"], "jetstream.enabled", False),
        (["--jetspark", "durability=async"], "jetstream.durability", Durability.ASYNC),
        (["--jetspark", "min_last_seq_wait=2m"], "jetspark.min_last_seq_wait", minutes(2)),
        (["--jetspark", "commit_delay=10s"], "jetspark.commit_delay", seconds(10)),
        (["--jetspark=held_reads_max=5"], "jetspark.held_reads_max", 5),
        (["--jetspark", "atomic.messages=5", "--jetspark", "atomic.per_stream=6"],
         "jetstream.limits.batch", AtomicLimits(messages=5, per_stream=6)),
        (["--jetspark", "monitor_token=a b=c"], "jetspark.monitor_token", Secret("a b=c")),
        (["--jetspark", "monitor_token=4711"], "jetspark.monitor_token", Secret("4711")),
        (["--jetspark", "monitor_token='4711'"], "jetspark.monitor_token", Secret("4711")),
        (["--jetspark", "memory={ cache: 1k }"], "jetspark.memory.cache", 1000),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_flag_makes_its_setting(arguments: list[str], attribute: str, value: object) -> None:
    found: Any = settings(*arguments)
    for name in attribute.split("."):
        found = getattr(found, name)

    assert found == value


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        (["-D"], (True, False, False)),
        (["-V"], (False, True, False)),
        (["-VV"], (False, True, True)),
        (["-DV"], (True, True, False)),
        (["-DVV"], (True, True, True)),
        (["--debug", "--trace"], (True, True, False)),
        (["-D", "-DV=false"], (False, False, False)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_log_levels_may_be_combined(flags: list[str], levels: tuple[bool, bool, bool]) -> None:
    made = settings(*flags)

    assert (made.debug, made.trace, made.trace_verbose) == levels


@pytest.mark.parametrize(
    ("flags", "file", "attribute", "value"),
    [
        (["-p", "-1"], "port: 4333", "port", -1),
        (["-p", "0"], "port: 4333", "port", 4222),
        (["-p", "4444"], "listen: 'localhost:4333'", "host", "localhost"),
        (["-n", "two"], "server_name: one", "server_name", "two"),
        (["-D=false"], "debug: true", "debug", False),
        ([], "debug: true", "debug", True),
        (["-T"], "logtime: false", "logtime", True),
        (["-sd", "d"], "jetstream { store_dir: e, domain: hub }", "jetstream.store_dir", "d"),
        (["-sd", "d"], "jetstream { store_dir: e, domain: hub }", "jetstream.domain", "hub"),
        (["-sd", "d"], "jetstream: disabled", "jetstream.enabled", False),
        (["-sd", "d"], "jetstream: enabled", "jetstream.enabled", True),
        (["-sd", "d"], "jetstream: enabled", "jetstream.store_dir", "d"),
        (["-js=false"], "jetstream: enabled", "jetstream.enabled", False),
        (["--pass", "p"], "authorization { user: u, timeout: 5 }", "authorization.user", "u"),
        (["--pass", "p"], "authorization { user: u, timeout: 5 }", "authorization.timeout",
         seconds(5)),
        (["--tls=false"], "tls { cert_file: c, key_file: k }", "tls", None),
        (["--jetspark", "held_reads_max=5"], "JetSpark { held_reads_max: 4, commit_delay: 1s }",
         "jetspark.held_reads_max", 5),
        (["--jetspark", "held_reads_max=5"], "JetSpark { held_reads_max: 4, commit_delay: 1s }",
         "jetspark.commit_delay", seconds(1)),
    ],
)  # fmt: skip
def test_flags_win_over_the_file(
    flags: list[str], file: str, attribute: str, value: object
) -> None:
    found: Any = settings(*flags, file=file)
    for name in attribute.split("."):
        found = getattr(found, name)

    assert found == value


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--nope"], "flag provided but not defined: -nope"),
        (["-p", "1", "-nope=3"], "flag provided but not defined: -nope"),
        (["-p"], "flag needs an argument: -p"),
        (["-p", "abc"], 'invalid value "abc" for flag -p: parse error'),
        (["-p", ""], 'invalid value "" for flag -p: parse error'),
        (["-p", "08"], 'invalid value "08" for flag -p: parse error'),
        (["-p", "9" * 20], f'invalid value "{"9" * 20}" for flag -p: value out of range'),
        (["-js=maybe"], 'invalid boolean value "maybe" for -js: parse error'),
        (["---p", "1"], "bad flag syntax: ---p"),
        (["-=1"], "bad flag syntax: -=1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_bad_flag_ends_with_2_and_names_the_help(arguments: list[str], error: str) -> None:
    """With nats-server's words, whose exit code is 0; test_config_verdicts compares with it."""
    assert run(*arguments) == Exit(2, f"{error}\nRun 'jetspark serve --help' for the flags.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve"], 'unrecognized command: "serve"'),
        (["--", "-p"], 'unrecognized command: "-p"'),
        (["-"], 'unrecognized command: "-"'),
        ([""], 'unrecognized command: ""'),
        (["--signal", "wave=1"], 'unknown signal "wave"'),
        (["--signal", "quit"], "expected --signal quit=<pid>"),
        (["--signal", "quit=x"], "invalid pid: x"),
        (["--signal", "quit=words"], "invalid pid: abc"),
        (["--signal", "quit=0"], "invalid pid: 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_unknown_commands_exit_with_2(arguments: list[str], words: str) -> None:
    refusal = run(*arguments)

    assert isinstance(refusal, Exit)
    assert refusal.code == 2
    assert refusal.error.startswith(words)


@pytest.mark.parametrize("delay", ["10001ms", "2562047h47m16s"])
def test_a_commit_delay_that_no_publisher_waits_for_is_refused(delay: str) -> None:
    refusal = run("--jetspark", f"commit_delay={delay}")

    assert isinstance(refusal, Exit)
    assert refusal.code == 1
    assert "'commit_delay': expected 0s to 10s, got " in refusal.error


@pytest.mark.parametrize(
    ("arguments", "instruction"),
    [
        (["-v"], ShowVersion()),
        (["--version"], ShowVersion()),
        (["version"], ShowVersion()),
        (["-h"], ShowHelp()),
        (["--help", "-v"], ShowVersion()),
        (["HELP"], ShowHelp()),
        (["--help_tls"], ShowTlsHelp()),
        (["-c", "nowhere", "-v"], ShowVersion()),
        (["--signal", "ldm=123"], SendSignal("ldm", "SIGUSR2", 123)),
        (["-sl", "reload=pid"], SendSignal("reload", "SIGHUP", 123)),
        (["-sl=quit=7"], SendSignal("quit", "SIGINT", 7)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_some_flags_do_something_else(arguments: list[str], instruction: Instruction) -> None:
    assert run(*arguments) == instruction


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-t"], "must specify [-c, --config]"),
        (["-c", "nowhere"], "nowhere: cannot read the configuration: No such file"),
        (["-p", "70000"], "'-p': 70000 is not between -1 and 65535"),
        (["--name", "a b"], "'--name': server name cannot contain spaces"),
        (["--pass", "p"], "--pass needs --user"),
        (["--user", "u", "--auth", "t"], "Cannot have a user/pass and token"),
        (["--tls"], "TLS Server certificate must be present"),
        (["--tlscert", "c"], "TLS Server private key must be present"),
        (["-ms", "8222"], "TLS cert and key required for HTTPS"),
        (["--jetspark", "durability"], "--jetspark: expected KEY=VALUE"),
        (["--jetspark", "colour=red"], '--jetspark colour: unknown field "colour"'),
        (["--jetspark", "durability=maybe"], "expected one of durable, interval, async"),
        (["--jetspark", "durability=async", "--jetspark", "durability.x=1"], "expected a block"),
        (["--jetspark", "held_reads_max=[1"], "--jetspark held_reads_max: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_line_that_cannot_work_ends_with_1(arguments: list[str], words: str) -> None:
    error = refusal(*arguments)

    assert error.startswith("[FTL] ")
    assert words in error


def test_users_of_the_file_and_a_user_of_the_flags_exclude_each_other() -> None:
    """nats-server would not look at the flags."""
    file = "authorization { users: [{user: a}] }"

    assert "Can not have a single user/pass" in refusal("--user", "u", file=file)
    assert "Can not have a token" in refusal("--auth", "t", file=file)


def test_every_problem_of_a_file_is_a_line() -> None:
    error = refusal(file="port: x\ncluster { }\nfoo: 1\n")

    assert [line.split(" ")[:2] for line in error.splitlines()] == [
        ["[FTL]", "a.conf:1:"],
        ["[FTL]", "a.conf:2:"],
        ["[FTL]", "a.conf:3:"],
    ]


@pytest.mark.parametrize("name", UNSUPPORTED_FLAGS)
def test_a_flag_we_do_not_have_is_refused_by_name(name: str) -> None:
    """``--routes``, ``--cluster*``, ``--profile``: exit 1."""
    flag = next(flag for flag in FLAGS if name in flag.names)
    value = {FlagKind.SWITCH: [], FlagKind.INTEGER: ["1"], FlagKind.TEXT: ["x"]}[flag.kind]

    error = refusal(f"--{name}", *value)

    assert error == (f"[FTL] '--{name}' is not supported by jetspark: {UNSUPPORTED_FLAGS[name]}\n")


@pytest.mark.parametrize(
    "name",
    [flag.names[0] for flag in FLAGS if flag.path in NOT_YET and flag.group != "TLS Options"],
)
def test_a_flag_that_is_not_honoured_yet_is_refused(name: str) -> None:
    flag = next(flag for flag in FLAGS if name in flag.names)
    value = {FlagKind.SWITCH: [], FlagKind.INTEGER: ["1"], FlagKind.TEXT: ["x"]}[flag.kind]

    answer = from_command_line([f"-{name}", *value], {})

    assert isinstance(answer, Exit)
    assert f"'-{name}' is not supported by jetspark yet: {NOT_YET[flag.path]}" in answer.error


def test_what_the_server_honours_today_is_accepted() -> None:
    made = from_command_line(["-a", "localhost", "-p", "-1", "-js", "-sd", "d", "-n", "one"], {})

    assert isinstance(made, Settings)


def test_the_configuration_can_be_tested() -> None:
    answer = run("-t", file="port: 1\n")

    assert isinstance(answer, CheckedFile)
    assert answer.settings.port == 1
    assert answer.line == (
        "jetspark: configuration file a.conf is valid "
        "(sha256:5b27b68e52c25859a76c94f378c31d5a499ca677a46b38fb5f58ded229b59650)"
    )


def test_the_test_fails_for_warnings_and_the_start_does_not() -> None:
    """As nats-server: -t is stricter."""
    file = "ping_interval: 30\n"

    assert "[FTL] a.conf:1: 'ping_interval' should be a duration" in refusal("-t", file=file)
    assert len(settings(file=file).warnings) == 1


def test_the_digest_is_that_of_the_file() -> None:
    plain, changed = (
        settings(file="port: 1"),
        settings("--jetspark", "commit_delay=1s", file="port: 1"),
    )

    assert plain.digest == changed.digest != ""
    assert settings().digest == ""


def test_flags_are_listed_for_the_help() -> None:
    names = [name for flag in FLAGS for name in flag.names]

    assert len(names) == len(set(names))
    assert all(flag.help for flag in FLAGS)
    assert all(bool(flag.value) == (flag.kind is not FlagKind.SWITCH) for flag in FLAGS)


def test_a_real_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("port: 4333")

    made = from_command_line(["-c", str(path)], {})

    assert isinstance(made, Settings)
    assert (made.port, made.config_file) == (4333, str(path))
