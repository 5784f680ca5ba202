"""``jetspark serve ...``: flags applied to a configuration file, or another instruction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from jetspark.server.config.blocks.block import Report, Setting
from jetspark.server.config.blocks.jetstream import JetStream
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import Authorization
from jetspark.server.config.checks import CheckTls
from jetspark.server.config.flags import BadFlag, Given, parse_flags
from jetspark.server.config.language.digest import config_digest
from jetspark.server.config.language.parser import Read, parse_word, read_file
from jetspark.server.config.language.problem import (
    NOWHERE,
    ConfigProblem,
    ConfigRefused,
    Place,
    refused,
)
from jetspark.server.config.language.tree import Node, Value
from jetspark.server.config.loader import finish, open_tree, read_file_values
from jetspark.server.config.not_yet import NOT_YET
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import PORT_DEFAULT, Settings
from jetspark.server.config.tls_files import tls_problem
from jetspark.server.config.top import FIELDS, Values, read_top
from jetspark.server.config.unsupported import UNSUPPORTED_FLAGS
from jetspark.server.config.values import INT32_MAX
from jetspark.units import parse_int64

# The signals that nats-server sends for each word.
SIGNALS: Final = {
    "ldm": "SIGUSR2",
    "stop": "SIGKILL",
    "quit": "SIGINT",
    "term": "SIGTERM",
    "reopen": "SIGUSR1",
    "reload": "SIGHUP",
}


class Exit(msgspec.Struct, frozen=True):
    """Print ``error`` to stderr and end with ``code``."""

    code: int
    error: str


class CheckedFile(msgspec.Struct, frozen=True):
    """The file of ``settings`` is readable; print ``line`` if its users can be served."""

    settings: Settings
    line: str


class ShowHelp(msgspec.Struct, frozen=True):
    """Print the help and end with 0."""


class ShowVersion(msgspec.Struct, frozen=True):
    """Print the version line and end with 0."""


class ShowTlsHelp(msgspec.Struct, frozen=True):
    """Print the help on TLS and end with 0."""


class SendSignal(msgspec.Struct, frozen=True):
    """Send ``signal`` to the process ``pid``; end with 0, or with 1 if that fails."""

    command: str
    signal: str
    pid: int


Instruction: TypeAlias = Exit | CheckedFile | ShowHelp | ShowVersion | ShowTlsHelp | SendSignal
"""What to do instead of serving."""


def from_command_line(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    read: Read = read_file,
    check_tls: CheckTls = tls_problem,
    not_yet: Mapping[str, str] = NOT_YET,
) -> Settings | Instruction:
    """Return the settings of a command line (without the program's name), or an instruction.

    Flags override the file of ``-c``. An unreadable command line is returned as an `Exit` with
    code 2, problems of the settings as one with code 1 and one ``[FTL]`` line each.
    """
    try:
        given, rest = parse_flags(arguments)
    except BadFlag as error:
        return _misused(str(error))
    named = {name: found for found in given for name in found.flag.names}
    asked = _asked(named, rest)
    if asked is not None:
        return asked
    try:
        if "signal" in named:
            return _signal(str(named["signal"].value), read)
    except ConfigRefused as error:
        return _misused(str(error.problems[0]))
    try:
        settings = _settings(given, named, environment, read, check_tls, not_yet)
    except ConfigRefused as error:
        return _refusal(error.problems)
    if not _is_on(named, "t"):
        return settings
    if not settings.config_file:
        return _refusal_text(
            "must specify [-c, --config] option to check configuration file syntax"
        )
    if settings.warnings:
        return _refusal(settings.warnings)
    return CheckedFile(
        settings,
        f"jetspark: configuration file {settings.config_file} is valid ({settings.digest})",
    )


def _asked(named: Mapping[str, Given], rest: list[str]) -> Instruction | None:
    """Return the instruction of flags or a word that need no configuration."""
    word = rest[0].lower() if rest else ""
    if _is_on(named, "version"):
        return ShowVersion()
    if _is_on(named, "help"):
        return ShowHelp()
    if _is_on(named, "help_tls"):
        return ShowTlsHelp()
    if word == "version":
        return ShowVersion()
    if word == "help":
        return ShowHelp()
    if word or rest:
        return _misused(f'unrecognized command: "{rest[0]}"; expected flags only')
    return None


def _is_on(named: Mapping[str, Given], name: str) -> bool:
    return name in named and named[name].value is True


def _misused(problem: str) -> Exit:
    """Refuse a command line, as other programs do: a script must not mistake it for a clean exit.

    nats-server exits with 0 after an unknown flag.
    """
    return Exit(2, f"{problem}\nRun 'jetspark serve --help' for the flags.\n")


def _refusal(problems: Sequence[ConfigProblem]) -> Exit:
    return Exit(1, "".join(f"[FTL] {problem}\n" for problem in problems))


def _refusal_text(text: str) -> Exit:
    return _refusal([ConfigProblem("", 0, text)])


def _signal(text: str, read: Read) -> SendSignal:
    command, equals, target = text.partition("=")
    signal = SIGNALS.get(command)
    if signal is None:
        raise refused(NOWHERE, f'unknown signal "{command}"; expected {", ".join(SIGNALS)}')
    if not equals or not target:
        # nats-server searches for processes of its own name; ours are called python.
        raise refused(NOWHERE, f"expected --signal {command}=<pid>, or the path of a pid file")
    with suppress(OSError):  # then it is the pid itself
        target = read(target).decode("utf-8", "replace").strip()
    pid = parse_int64(target)
    if pid is None or not 1 <= pid <= INT32_MAX:
        raise refused(NOWHERE, f"invalid pid: {target}; expected a number or a pid file")
    return SendSignal(command, signal, pid)


def _settings(
    given: list[Given],
    named: Mapping[str, Given],
    environment: Mapping[str, str],
    read: Read,
    check_tls: CheckTls,
    not_yet: Mapping[str, str],
) -> Settings:
    report = Report(not_yet)
    path = str(named["config"].value) if "config" in named else ""
    tree = open_tree(path, environment, read) if path else {}
    digest = config_digest(tree) if path else ""
    for found in given:
        if "jetspark" in found.flag.names:
            _set_ours(tree, str(found.value), environment, read)
        elif found.flag.path == "jetspark.replica":
            _set_replica(tree, found)
        elif found.flag.path == "jetspark.dashboard":
            _set_dashboard(tree, found)
    values = read_file_values(tree, path, report) if path else read_top(tree, report)
    for found in given:
        _note(found, report)
    _apply(given, values, report)
    _apply_tracing(named, values)
    _apply_jetstream(named, values)
    _apply_authorization(named, values, report)
    _apply_tls(given, values, report)
    return finish(values, path, digest, report, check_tls)


def _note(found: Given, report: Report) -> None:
    """Refuse an unsupported flag; record the setting of a supported one."""
    reason = next(filter(None, map(UNSUPPORTED_FLAGS.get, found.flag.names)), None)
    if reason is not None:
        report.problem(NOWHERE, f"'{found.name}' is not supported by jetspark: {reason}")
    elif found.flag.path:
        report.mention(found.flag.path, found.name, NOWHERE)


def _apply(given: list[Given], values: Values, report: Report) -> None:
    """Apply the flags that set one setting each."""
    for found in given:
        path = found.flag.path
        field = FIELDS.get(path)
        if field is None or path in _JOINED:
            continue
        setting = Setting(found.name, path, Node(found.value, NOWHERE), report)
        try:
            value = field.read(setting)
        except ConfigRefused as error:
            report.refused(error)
            continue
        values[path] = value if value is not msgspec.UNSET else _DEFAULTS[path]


# These have rules of their own, below.
_JOINED: Final = frozenset({"trace_verbose", "jetstream", "authorization", "tls"})
_DEFAULTS: Final = {"port": PORT_DEFAULT}
_NOT_A_WORD: Final = frozenset("[{(\"'$")


def _apply_tracing(named: Mapping[str, Given], values: Values) -> None:
    """Apply ``-DV`` and similar, which set several settings; later ones in this order win."""
    for name, paths in (
        ("DV", ("debug", "trace")),
        ("DVV", ("debug", "trace", "trace_verbose")),
        ("VV", ("trace", "trace_verbose")),
    ):
        if name in named:
            values.update(dict.fromkeys(paths, named[name].value))


def _apply_jetstream(named: Mapping[str, Given], values: Values) -> None:
    jetstream: JetStream = values.get("jetstream", JetStream())
    if "store_dir" in named:
        # The folder alone does not enable JetStream, as in nats-server.
        jetstream = replace(jetstream, store_dir=str(named["store_dir"].value))
    if "jetstream" in named:
        jetstream = replace(jetstream, enabled=bool(named["jetstream"].value))
    values["jetstream"] = jetstream


def _apply_authorization(named: Mapping[str, Given], values: Values, report: Report) -> None:
    flags = {"user": "user", "pass": "password", "auth": "token"}
    given = {field: str(named[name].value) for name, field in flags.items() if name in named}
    if not given:
        return
    authorization: Authorization = values.get("authorization", Authorization())
    changes: dict[str, Any] = {
        field: text if field == "user" else Secret(text) for field, text in given.items()
    }
    authorization = replace(authorization, **changes)
    values["authorization"] = authorization
    if authorization.password and not authorization.user:
        report.problem(NOWHERE, "--pass needs --user; alone it would have no effect")
    if authorization.user and authorization.token:
        report.problem(NOWHERE, "Cannot have a user/pass and token: --user and --auth")


def _apply_tls(given: list[Given], values: Values, report: Report) -> None:
    """Apply the TLS flags, which replace the block of the file; ``--tls=false`` removes it."""
    flags = {found.flag.names[0]: found.value for found in given if found.flag.path == "tls"}
    if not flags:
        return
    values["tls"] = None
    if flags.get("tls") is False:
        return
    certificate, key = str(flags.get("tlscert", "")), str(flags.get("tlskey", ""))
    if not certificate:
        report.problem(NOWHERE, "TLS Server certificate must be present and valid: use --tlscert")
    elif not key:
        report.problem(NOWHERE, "TLS Server private key must be present and valid: use --tlskey")
    values["tls"] = Tls(
        cert_file=certificate,
        key_file=key,
        ca_file=str(flags.get("tlscacert", "")),
        verify=bool(flags.get("tlsverify", False)),
    )


def _set_ours(
    tree: dict[str, Node], text: str, environment: Mapping[str, str], read: Read
) -> None:
    """Add ``--jetspark KEY=VALUE`` to the ``jetspark`` block of the tree."""
    key, equals, value = text.partition("=")
    place = Place(f"--jetspark {key}")
    if not equals or not key:
        raise refused(Place("--jetspark"), f"expected KEY=VALUE, got '{text}'")
    *blocks, name = ["jetspark", *key.split(".")]
    block = tree
    for part in blocks:
        block = _block(block, part, place)
    written = next((known for known in block if known.lower() == name.lower()), name)
    block[written] = _own_value(value, environment, read, place)


def _set_replica(tree: dict[str, Node], found: Given) -> None:
    """Add a flag of a read replica to the ``jetspark.replica`` block of the tree."""
    place = Place(found.name)
    key = {"replica-of": "of"}.get(found.flag.names[0], found.flag.names[0].replace("-", "_"))
    value: Value = found.value
    if isinstance(value, str):
        value = [Node(part.strip(), place) for part in value.split(",")]
    block = tree
    for part in ("jetspark", "replica"):
        block = _block(block, part, place)
    block[next((known for known in block if known.lower() == key), key)] = Node(value, place)


def _set_dashboard(tree: dict[str, Node], found: Given) -> None:
    """Add a flag of the dashboard to the ``jetspark.dashboard`` block of the tree."""
    place = Place(found.name)
    ours = _block(tree, "jetspark", place)
    name = next((written for written in ours if written.lower() == "dashboard"), "dashboard")
    if name in ours and isinstance(ours[name].value, bool):
        ours[name] = Node({"enabled": ours[name]}, place)
    block = _block(ours, name, place)
    block["enabled"] = Node(value=True, place=place)
    if found.flag.names[0] == "dashboard":
        block["enabled"] = Node(found.value, place)
    else:
        block["writable"] = Node(found.value, place)


def _block(block: dict[str, Node], part: str, place: Place) -> dict[str, Node]:
    """Return a block of a block; created if it does not exist."""
    known = next((written for written in block if written.lower() == part.lower()), part)
    node = block.setdefault(known, Node({}, place))
    if not isinstance(node.value, dict):
        raise refused(place, f"'{part}' is {node.kind} in the file; expected a block")
    return node.value


def _own_value(text: str, environment: Mapping[str, str], read: Read, place: Place) -> Node:
    """Return the value of ``--jetspark``. The shell removed the quotes: most texts are words."""
    try:
        value = parse_word(text, environment, read, place)
    except ConfigRefused as error:
        if text[:1] in _NOT_A_WORD:
            raise refused(place, error.problems[0].message) from None
        value = text
    return Node(value, place, text="" if text[:1] in _NOT_A_WORD else text)
