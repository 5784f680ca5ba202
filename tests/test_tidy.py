"""The house rules that no linter checks.

There is no limit on the length of files: a class is one thing in one file, and a limit would be
met by tearing it apart.
"""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PYTHON = sorted(
    path
    for folder in ("src", "tests", "tools", "bench", "fuzz", "demo", "docs", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)
FOLDERS = {
    *(".ci", "bench", "demo", "deploy", "docs", "examples", "fuzz"),
    *("requirements", "src", "tests", "tools"),
}
NAMELESS = {"utils.py", "helpers.py", "common.py", "misc.py"}
# A page by its name, and after a comma the heading: `wire.md, Consumers`.
CITATION = re.compile(r"(?<![\w/.-])([a-z][a-z0-9-]*\.md)(?:, ([A-Z][A-Za-z -]+))?")
NUMBERED = re.compile(r"[a-z][a-z0-9-]*\.md, [A-Z][A-Za-z -]+?(?:,| and) [0-9]+")
PAGES = {path.name: path.read_text() for path in (ROOT / "docs").rglob("*.md")}
# What people read; docs/reference is generated from docstrings.
PROSE = [
    *sorted(ROOT.glob("*.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "reference"),
    *sorted((ROOT / "examples").glob("*.*")),
]
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", flags=re.MULTILINE | re.DOTALL)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_says_what_it_is() -> None:
    silent = [named(p) for p in SOURCES if ast.get_docstring(tree(p)) is None]

    assert silent == []


def test_no_file_is_a_drawer_for_everything() -> None:
    assert [named(path) for path in PYTHON if path.name in NAMELESS] == []


def test_nothing_is_left_to_be_done() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        named(path) for path in PYTHON if path != Path(__file__) and marks.search(path.read_text())
    ]

    assert found == []


def test_no_compiled_module_lies_in_the_sources() -> None:
    """An extension next to its source would be run instead of it."""
    assert [named(path) for path in (ROOT / "src").rglob("*.so")] == []


def test_no_machine_registry_or_home_folder_is_named() -> None:
    """What is in the repository works anywhere."""
    places = re.compile(
        r"/(?:home|root|work)/|pypi\.org|files\.pythonhosted|registry\.npmjs|deb\.debian\.org"
    )
    found = [
        name
        for name in listed("--cached", "--others", "--exclude-standard")
        if name != "tests/test_tidy.py"
        and (ROOT / name).is_file()
        and places.search((ROOT / name).read_text(errors="replace"))
    ]

    assert found == []


def test_no_folder_that_a_run_has_left_is_in_the_repository() -> None:
    """`git add` of everything takes along what an interrupted run leaves at the top."""
    folders = {name.split("/")[0] for name in listed("--cached") if "/" in name}

    assert folders - FOLDERS == set()


def listed(*which: str) -> list[str]:
    """Return the files that git has, which may be unknown to it, or missing."""
    command = ["git", "ls-files", *which]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def test_no_module_imports_from_a_test() -> None:
    """What tests share is in tests/support, or in a module next to them that is no test."""
    # Parsing more than a thousand files takes long: only those that have the word in an import.
    statement = re.compile(r"^ *(?:from \S+ )?import (?:\([^)]*\)|.*)", re.MULTILINE)
    suspects = [
        path
        for path in PYTHON
        if any("test_" in one for one in statement.findall(path.read_text()))
    ]
    found = [
        f"{named(path)}: {module}"
        for path in suspects
        for node in ast.walk(tree(path))
        for module in imported(node)
        if re.search(r"(^|\.)test_\w+$", module)
    ]

    assert found == []


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        # A module may be imported from, or be what is imported.
        return [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
    return [each.name for each in node.names] if isinstance(node, ast.Import) else []


def test_every_test_that_is_named_in_a_page_or_a_comment_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    lost = [
        f"{named(path)}: {name}"
        for path in [*pages, *PYTHON]
        if path.name != "CHANGELOG.md"
        for name in re.findall(r"\btests/[\w/]+\.py\b", path.read_text())
        if not (ROOT / name).is_file()
    ]

    assert lost == []


def test_every_page_and_heading_that_code_cites_exists() -> None:
    lost = []
    for path in PYTHON:
        if path == Path(__file__):
            continue
        # A comment may be wrapped anywhere.
        text = re.sub(r"\n\s*(?:#\s)?\s*", " ", path.read_text())
        for name, heading in CITATION.findall(text):
            page = PAGES.get(name)
            if page is None:
                lost.append(f"{named(path)}: {name}")
            elif heading and not any(
                heading.startswith(line.lstrip("# ")) for line in headings(page)
            ):
                lost.append(f"{named(path)}: {name}, {heading}")
        # Sections have no numbers.
        lost += [f"{named(path)}: {cited}" for cited in NUMBERED.findall(text)]

    assert lost == []


def test_no_tracker_outside_the_repository_is_cited() -> None:
    """Its numbers mean nothing to those who have only the repository."""
    numbered = re.compile(r"\b(?:issue|ticket) #?\d+", flags=re.IGNORECASE)
    found = [
        f"{named(path)}: {cited[0]}"
        for path in [*PROSE, *PYTHON]
        if (cited := numbered.search(path.read_text(encoding="utf-8")))
    ]

    assert found == []


def headings(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("#")]


# Language ----------------------------------------------------------------------------------------


def avoided_words() -> dict[str, str]:
    """The words of the glossary's second table, each with what to write instead."""
    table = PAGES["glossary.md"].partition("## Words we do not use")[2]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", table, flags=re.MULTILINE)
    return {word: instead for words, instead in rows for word in re.findall(r"`([^`]+)`", words)}


# What the words below are part of, by file: names of another party, and what programs read.
WORDS_OF_OTHERS = {
    "tests/spark/pipelines/test_continuous.py": {"begun"},  # a file that marks a start
    "tests/spark/pipelines/test_pipelines.py": {"begun"},
}
# The table of the glossary, and this file, have to name the words.
LISTS_OF_WORDS = {ROOT / "docs" / "internals" / "glossary.md", Path(__file__)}
# Where every string counts: messages, help, log. Tests quote servers and scripts in theirs.
# From Python 3.12 on the text of an f-string has tokens of its own.
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
WHOLLY = ("src", "tools", "bench", "fuzz", "demo", "docs", "examples")


def prose(path: Path) -> list[tuple[int, str]]:
    """Texts without code and the lines they begin at: a page, or comments and docstrings.

    Of programs that users run, every string; of tests, the names of their functions as well.
    """
    if path.suffix != ".py":
        texts = [(1, path.read_text(encoding="utf-8"))]
    else:
        every = path.relative_to(ROOT).parts[0] in WHOLLY
        with path.open("rb") as file:
            texts = [
                (token.start[0], values_left_out(token.string))
                for token in tokenize.tokenize(file.readline)
                if token.type == tokenize.COMMENT
                or (token.type in STRINGS and (every or token.string.startswith('"""')))
                or (token.type == tokenize.NAME and token.string.startswith("test_"))
            ]
    # Blanks instead of code: lines keep their numbers.
    return [
        (line, CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)) for line, text in texts
    ]


def values_left_out(text: str) -> str:
    """A comment or string without what is no prose: values in braces; a name as words."""
    if text.startswith("test_"):
        return text.replace("_", " ")
    return re.sub(r"\{[^{}\n]*\}", " ", text)


def test_texts_and_names_of_tests_use_plain_words() -> None:
    instead = avoided_words()
    phrases = "|".join(word.replace(" ", r"\s+") for word in instead)
    # A hyphen, slash or dot before a word makes it a part of another one: an option, a file.
    pattern = re.compile(rf"(?<![\w./-])(?:{phrases})\b", flags=re.IGNORECASE)
    found = [
        f"{named(path)}:{line + text.count(chr(10), 0, match.start())}:"
        f" {match[0]!r}, write: {instead[' '.join(match[0].lower().split())]}"
        for path in [*(page for page in PROSE if page.suffix != ".py"), *PYTHON]
        # Taking a file apart takes long: only those that have one of the words somewhere.
        if path not in LISTS_OF_WORDS and pattern.search(path.read_text().replace("_", " "))
        for line, text in prose(path)
        for match in pattern.finditer(text)
        if match[0].lower() not in WORDS_OF_OTHERS.get(named(path), ())
    ]

    assert len(instead) > 30
    assert found == []


def test_a_heading_is_a_noun_and_no_riddle() -> None:
    found = [
        f"{named(path)}: {line}"
        for path in PROSE
        if path.suffix == ".md"
        for line in headings(CODE.sub("", path.read_text(encoding="utf-8")))
        if re.match(r"#+ What\b", line)
    ]

    assert found == []


# Classes and functions ---------------------------------------------------------------------------


def test_no_class_is_torn_into_a_base_class_elsewhere() -> None:
    """A base class with a single subclass, in another module, is a part of that class."""
    homes: dict[str, set[Path]] = {}
    subclasses: dict[str, list[Path]] = {}
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(path)
                for base in node.bases:
                    subclasses.setdefault(ast.unparse(base).partition("[")[0], []).append(path)
    torn = {
        f"{named(home)}: {base}"
        for base, users in subclasses.items()
        # A name that several modules use says nothing about any of them.
        if len(users) == 1 and len(homes.get(base, ())) == 1
        for home in homes[base]
        if users[0] != home
    }

    assert torn == set()


# Assignments to fields of a class of another module, and why they are no method of that class.
FOREIGN_FIELDS = {
    # The parsers fill one reused frame: a call per message would cost more than the assignments.
    "protocol/client_parser.py: frame",
    "protocol/client_parser.py: self._frame",
    "protocol/framing.py: frame",
    "protocol/framing.py: self._frame",
    "protocol/parser.py: frame",
    "protocol/parser.py: self._frame",
    # Several times per message, where a call would cost 5 ns (hot-path.md, mypyc idioms).
    "server/routing/client.py: receiver.traffic.in_bytes",
    "server/routing/client.py: receiver.traffic.in_msgs",
    "server/routing/client.py: router.last_subject",
    "server/routing/client.py: router.traffic.in_bytes",
    "server/routing/client.py: router.traffic.in_msgs",
    "server/routing/router.py: receiver.traffic.out_bytes",
    "server/routing/router.py: receiver.traffic.out_msgs",
    "server/routing/router.py: self.traffic.out_bytes",
    "server/routing/router.py: self.traffic.out_msgs",
    "server/routing/router.py: traffic.out_bytes",
    "server/routing/router.py: traffic.out_msgs",
    "store/log/staged.py: entry.staged_last",
    # Sinks are subclasses that are not compiled: each request would look the method up by name.
    "client/core.py: sink.deadline",
    "client/core.py: sink.subject",
    "client/inbox.py: sink.token",
    # Context that an exception gets on its way to the caller, as with `add_note`.
    "client/jetstream/streams.py: missing.about",
    "client/jetstream/kv/jetstream_backend.py: error.about",
    # Models refuse assignments: a copy gets the field of its own class this way.
    "client/models/consumer.py: made._default_acks",
    # How other packages, and Python, are configured.
    "__main__.py: sys.name",
    "cli/connection.py: decorated.__click_params__",
    "cli/serve/log.py: logger.propagate",
    "cli/shell/console.py: self.compile.compiler.flags",
    "cli/shell/console.py: sys.last_traceback",
    "cli/shell/console.py: sys.last_type",
    "cli/shell/console.py: sys.last_value",
    "cli/stream/parquet.py: self._writer.is_open",
    "dashboard/app.py: starlette.router.redirect_slashes",
    "dashboard/embedded.py: context.check_hostname",
    "dashboard/embedded.py: context.verify_mode",
    "dashboard/login.py: self.app.router.redirect_slashes",
    "dashboard/monitoring.py: secure.check_hostname",
    "dashboard/monitoring.py: secure.verify_mode",
    "replica/upstream.py: context.check_hostname",
    "replica/upstream.py: context.minimum_version",
    "replica/upstream.py: context.verify_mode",
    "server/monitor/web/app.py: starlette.router.redirect_slashes",
    "server/monitor/web/http.py: cycle.disconnected",
    "server/monitor/web/http.py: self.cycle.disconnected",
    # Spark's runner of pipelines offers no other way to see what it registers.
    "spark/pipelines/declarative.py: runner.SparkConnectGraphElementRegistry",
    "spark/pipelines/declarative.py: runner.load_pipeline_spec",
    "spark/pipelines/declarative.py: runner.start_run",
    "spark/pipelines/declarative.py: spec.configuration",
}


def test_no_function_assigns_the_fields_of_another_modules_class() -> None:
    """That is a method of the class, which then has one writer.

    Through a parameter, a local name or a chain, with `del` and `setattr` as well. A function
    completes what it creates of a class of its module, and an exception gets context where it is
    handled. Except through parameters, the classes of a module may share fields.
    """
    found = set()
    for path in SOURCES:
        module = tree(path)
        fields = fields_of(module)
        imported_here = names_from_jetspark(module)
        for function, inside in functions(module):
            known = created_or_caught(function, imported_here)
            given = parameters(function)
            # A class has its own fields as `self`.
            shared = {field for name, owned in fields.items() if name != inside for field in owned}
            for owner, field in assigned(function):
                if owner in known or field == "__cause__":
                    continue
                if field not in shared or owner in given:
                    # All fields of a frame are one entry.
                    text = owner if owner in {"frame", "self._frame"} else f"{owner}.{field}"
                    found.add(f"{named(path).removeprefix('src/jetspark/')}: {text}")

    assert found == FOREIGN_FIELDS


# In-place changes of collections of a class of another module, and why they are no method of it.
FOREIGN_COLLECTIONS = {
    # No collections: objects with methods of these names.
    "cli/doctor/report.py: console.options",
    "client/connection/websocket.py: request.headers",
    "engine/requests/consumers.py: engine.consumers",
    "engine/stream/checks.py: judged.headers",
}
_LISTS = {"[]", "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}
_HEAPS = {"heapify", "heappop", "heappush", "heappushpop", "heapreplace", "insort"}
_TABLES = {"[]", "clear", "pop", "popitem", "setdefault", "update"}
# By the type of a collection, what changes it.
CHANGES = {
    "bytearray": _LISTS,
    "Counter": _TABLES,
    "deque": _LISTS | {"appendleft", "extendleft", "popleft", "rotate"},
    "defaultdict": _TABLES,
    "dict": _TABLES,
    "LinearHashDict": _TABLES,
    "list": _LISTS | _HEAPS,
    "OrderedDict": _TABLES | {"move_to_end"},
    "set": {"add", "clear", "difference_update", "discard", "pop", "remove", "update"},
}


def test_no_function_changes_the_collections_of_another_modules_class() -> None:
    """As with fields: a class adds to its own lists, sets and tables, and removes from them.

    Through a parameter, a local name, a bound method or a chain. A collection is known by the name
    of its field and the type that a class of the sources declares for it.
    """
    types = types_of_collections()
    found = set()
    for path in SOURCES:
        module = tree(path)
        fields = fields_of(module)
        imported_here = names_from_jetspark(module)
        for function, inside in functions(module):
            known = created_or_caught(function, imported_here)
            given = parameters(function)
            shared = {field for name, owned in fields.items() if name != inside for field in owned}
            for owner, field, change in changed_in_place(function):
                if owner in known or not any(
                    change in CHANGES[each] for each in types.get(field, ())
                ):
                    continue
                if field not in shared or owner in given:
                    found.add(f"{named(path).removeprefix('src/jetspark/')}: {owner}.{field}")

    assert found == FOREIGN_COLLECTIONS


def types_of_collections() -> dict[str, set[str]]:
    """Return the fields that some class declares as a collection: of which types."""
    types: dict[str, set[str]] = {}
    for path in SOURCES:
        for kind in ast.walk(tree(path)):
            if not isinstance(kind, ast.ClassDef):
                continue
            for node in ast.walk(kind):
                if isinstance(node, ast.AnnAssign):
                    field = ast.unparse(node.target).removeprefix("self.")
                    text = ast.unparse(node.annotation).strip("'\"")
                    name = re.sub(r"^(?:Final|ClassVar)\[", "", text).partition("[")[0]
                    if name in CHANGES:
                        types.setdefault(field, set()).add(name)
    return types


def changed_in_place(function: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Return what may change collections in fields: of what, which field, and by what."""
    fields: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                fields[ast.unparse(target)] = node.value

    def changed(node: ast.expr, change: str) -> Iterator[tuple[str, str, str]]:
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            node = fields.get(node.id, node)
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node.value), node.attr, change

    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            yield from changed(node.value, node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield from changed(node.value, "[]")
        elif isinstance(node, ast.Call) and node.args:
            function_name = ast.unparse(node.func).rpartition(".")[2]
            if function_name in _HEAPS:
                yield from changed(node.args[0], function_name)


def functions(
    node: ast.AST, inside: str = ""
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Return all functions with the name of the class that they are in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child, inside
        yield from functions(child, child.name if isinstance(child, ast.ClassDef) else inside)


def assigned(function: ast.AST) -> Iterator[tuple[str, str]]:
    """Return the fields that a function assigns or deletes: of what, and which."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in SETTERS:
            yield ast.unparse(node.args[0]), ast.unparse(node.args[1]).strip("'")


SETTERS = {"setattr", "delattr", "object.__setattr__", "object.__delattr__"}


def fields_of(module: ast.Module) -> dict[str, set[str]]:
    """Return the fields that the classes of a module declare."""
    fields: dict[str, set[str]] = {}
    for kind in ast.walk(module):
        if isinstance(kind, ast.ClassDef):
            declared = fields.setdefault(kind.name, set())
            for node in ast.walk(kind):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                    if isinstance(node.ctx, ast.Store):
                        declared.add(node.attr)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    declared.add(node.target.id)
    return fields


def names_from_jetspark(module: ast.Module) -> set[str]:
    return {
        each.asname or each.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jetspark")
        for each in node.names
    }


def created_or_caught(
    function: ast.FunctionDef | ast.AsyncFunctionDef, imported_here: set[str]
) -> set[str]:
    """Return ``self``, and the names of what a function creates and of exceptions it handles."""
    names = {"self", "cls"}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if is_constructor(node.value, imported_here):
                names |= {ast.unparse(target) for target in targets}
    return names


def is_constructor(value: ast.expr | None, imported_here: set[str]) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func).partition("[")[0]
    if name.partition(".")[0] in imported_here:
        return False  # it is complete when its own module has made it
    name = name.rpartition(".")[2]
    return name in {"cls", "__new__"} or name.lstrip("_")[:1].isupper()


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {each.arg for each in given} - {"self", "cls"}


def constants_of(module: ast.Module) -> set[str]:
    """The names that are set to a number somewhere: mypyc puts the number in their place."""
    return {
        target.id
        for node in ast.walk(module)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def test_no_small_constant_is_shifted_by_a_variable_in_compiled_modules() -> None:
    """Compiled, ``1 << n`` is a shift of a C ``int``: of 32 bits, whatever the type of ``n``."""
    found = []
    for path in SOURCES:
        if "from mypy_extensions import" not in path.read_text():
            continue
        constants = constants_of(tree(path))
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.LShift):
                continue
            left, right = node.left, node.right
            small = isinstance(left, ast.Constant) or (
                isinstance(left, ast.Name) and left.id in constants
            )
            below_32 = isinstance(right, ast.BinOp) and ast.unparse(right).endswith(" & 7")
            if small and not isinstance(right, ast.Constant) and not below_32:
                found.append(f"{named(path)}:{node.lineno}: {ast.unparse(node)}")

    assert not found, found
