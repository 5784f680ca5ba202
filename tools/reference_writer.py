"""Converts classes and functions to Markdown, for ``gen_reference.py``.

Names and the order of inheritance come from the imported package, everything else from its source:
signatures as written, docstrings, fields with their defaults.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import UnionType

SOURCE = Path(__file__).resolve().parent.parent / "src"
WIDTH = 96
Function = ast.FunctionDef | ast.AsyncFunctionDef
OPENED = "\n\nWorks with `await` and with `async with`."
# In the docstring of a class whose objects a method returns: programs do not call the class.
FROM_A_CALL = re.compile(r"created\s+by\s+``|, from\s+``", flags=re.IGNORECASE)
# What a class supports in addition to its methods, by the special method.
SPECIAL = {
    "__aenter__": "`async with`",
    "__enter__": "`with`",
    "__aiter__": "`async for`",
    "__iter__": "`for`",
    "__await__": "`await`",
    "__len__": "`len()`",
    "__contains__": "`in`",
}


@dataclass(frozen=True)
class Page:
    """One file of the reference."""

    name: str
    title: str
    about: str
    # Dotted names of classes and functions, in order.
    parts: tuple[str, ...]
    # Of these classes only these members: the others are for other parts of jetspark.
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)


@cache
def tree_of(module: str) -> ast.Module:
    """The source of a module, parsed."""
    path = SOURCE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def found(dotted: str) -> object:
    """The object of a dotted name such as ``jetspark.client.KeyValue``."""
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def defined(module: str, name: str) -> ast.stmt:
    """The statement that defines a name in the module it comes from."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return node
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node
    raise LookupError(f"{module} does not define {name}")


def prose(text: str) -> str:
    """A docstring as Markdown."""
    text = inspect.cleandoc(text)
    head, mark, code = text.partition("\n\n::\n\n")
    text = re.sub(r"``([^`]+)``", r"`\1`", head)
    return f"{text}\n\n```text\n{inspect.cleandoc(code)}\n```" if mark else text


def signature(node: Function, *, bound: bool) -> str:
    """A function as it was written, without its body; lines of bearable width."""
    start = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def {node.name}("
    given = list(arguments(node.args))[1 if bound else 0 :]
    end = f") -> {annotation(node.returns)}" if node.returns is not None else ")"
    line = start + ", ".join(given) + end
    if len(line) <= WIDTH:
        return line
    return "\n".join([start, *(f"    {each}," for each in given), end])


def annotation(node: ast.expr) -> str:
    """A type as it was written; one in quotes without them."""
    return str(node.value) if isinstance(node, ast.Constant) and node.value else ast.unparse(node)


def arguments(given: ast.arguments) -> Iterator[str]:
    """Parameters with annotations and defaults, and the marks between them."""
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for number, (one, default) in enumerate(zip(plain, defaults, strict=True), 1):
        yield parameter(one, default)
        if number == len(given.posonlyargs):
            yield "/"
    if given.vararg is not None:
        yield f"*{parameter(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield parameter(one, default)
    if given.kwarg is not None:
        yield f"**{parameter(given.kwarg, None)}"


def parameter(one: ast.arg, default: ast.expr | None) -> str:
    """``name: type = default``."""
    typed = f"{one.arg}: {annotation(one.annotation)}" if one.annotation is not None else one.arg
    if default is None:
        return typed
    return f"{typed} = {ast.unparse(default)}" if one.annotation else f"{typed}={default}"


def write_page(page: Page) -> str:
    """The Markdown of one page."""
    lines = [f"# {page.title}", "", page.about, ""]
    for dotted in page.parts:
        lines += write_part(dotted, page)
    return "\n".join(lines).rstrip() + "\n"


def write_part(dotted: str, page: Page) -> list[str]:
    """One class or function."""
    value = found(dotted)
    package, _, name = dotted.rpartition(".")
    if inspect.isclass(value):
        return write_class(value, name, package, page.only.get(name))
    if isinstance(value, UnionType):
        return write_alias(package, name)
    node = defined(value.__module__, name)
    assert isinstance(node, Function), dotted
    opened = any(ast.unparse(each) == "opens" for each in node.decorator_list)
    return [
        f"## {name}",
        "",
        *fenced(f"from {package} import {name}\n\n{signature(node, bound=False)}"),
        prose(ast.get_docstring(node) or "") + (OPENED if opened else ""),
        "",
    ]


def write_alias(package: str, name: str) -> list[str]:
    """A type that has a name: what it stands for, and the text that follows it."""
    home = next(
        node.module
        for node in ast.walk(tree_of(package))
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}
    )
    assert home is not None
    node = defined(home, name)
    body = tree_of(home).body
    following = body[body.index(node) + 1]
    assert isinstance(following, ast.Expr), name
    assert isinstance(following.value, ast.Constant), name
    return [
        f"## {name}",
        "",
        *fenced(f"from {package} import {name}\n\n{ast.unparse(node)}"),
        prose(str(following.value.value)),
        "",
    ]


def write_class(value: type, name: str, package: str, only: tuple[str, ...] | None) -> list[str]:
    """A class: what it is, how it is made, its fields and its methods."""
    node = defined(value.__module__, value.__name__)
    assert isinstance(node, ast.ClassDef)
    lines = [f"## {name}", "", *fenced(class_line(node, name, package))]
    lines += [prose(ast.get_docstring(node) or ""), ""]
    codes = next((each.value for each in node.keywords if each.arg == "err_codes"), None)
    if codes is not None:
        lines += [f"Error codes of the server: {ast.unparse(codes).strip('(,)')}.", ""]
    if getattr(value, "transient", False) is True:
        lines += ["`transient`: a retry of the same call may succeed.", ""]
    fields: list[str] = []
    methods: list[str] = []
    abilities: dict[str, None] = {}
    seen: set[str] = set()
    for owner in owners(value):
        for index, each in enumerate(owner.body):
            member = member_name(each)
            if member in SPECIAL:
                abilities[SPECIAL[member]] = None
            if not member or member in seen or is_overload(each):
                continue
            seen.add(member)
            if (
                member.startswith("_")
                or member in {"err_codes", "transient"}
                or (only is not None and member not in only)
            ):
                continue
            if isinstance(each, Function):
                methods += write_method(each)
            else:
                fields += write_field(each, owner.body[index + 1 : index + 2])
    if abilities:
        lines += [f"Works with {', '.join(sorted(abilities))}.", ""]
    if fields:
        lines += [*fields, ""]
    return lines + methods


def is_overload(node: ast.stmt) -> bool:
    """Whether it is only for type checkers; the signature that follows says all of it."""
    marks = getattr(node, "decorator_list", ())
    return any(ast.unparse(each) == "overload" for each in marks)


def class_line(node: ast.ClassDef, name: str, package: str) -> str:
    """How to get at the class, and how it is made if users do that."""
    made = next((each for each in node.body if member_name(each) == "__init__"), None)
    line = f"from {package} import {name}"
    if isinstance(made, Function) and not FROM_A_CALL.search(ast.get_docstring(node) or ""):
        call = signature(made, bound=True).removesuffix(" -> None")
        line += "\n\n" + call.replace("def __init__(", f"{name}(", 1)
    bases = [ast.unparse(base) for base in node.bases if not ast.unparse(base).startswith("_")]
    shown = [base for base in bases if base.endswith(("Error", "Enum")) or "errors" in package]
    return line + (f"  # {', '.join(shown)}" if shown else "")


def owners(value: type) -> Iterator[ast.ClassDef]:
    """The class and what it inherits from within the package."""
    for each in value.__mro__:
        if each.__module__.startswith("jetspark.") and each is not BaseException:
            node = defined(each.__module__, each.__name__)
            if isinstance(node, ast.ClassDef):
                yield node


def member_name(node: ast.stmt) -> str:
    """The name that a statement in a class body defines; empty for others."""
    if isinstance(node, Function):
        return node.name
    target: ast.expr | None = None
    if isinstance(node, ast.AnnAssign):
        target = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def write_method(node: Function) -> list[str]:
    """A method or property with its docstring."""
    marks = {ast.unparse(each) for each in node.decorator_list}
    text = prose(ast.get_docstring(node) or "")
    if "property" in marks:
        returned = f": {annotation(node.returns)}" if node.returns is not None else ""
        return [f"### {node.name}", "", *fenced(f"{node.name}{returned}  # property"), text, ""]
    if "opens" in marks:
        text += OPENED
    bound = "staticmethod" not in marks
    shown = "".join(f"@{mark}\n" for mark in sorted(marks & {"classmethod", "staticmethod"}))
    return [f"### {node.name}", "", *fenced(shown + signature(node, bound=bound)), text, ""]


def write_field(node: ast.stmt, following: list[ast.stmt]) -> list[str]:
    """A field or enum member as a list item."""
    name = member_name(node)
    value = getattr(node, "value", None)
    text = f"`{name}"
    if isinstance(node, ast.AnnAssign):
        text += f": {ast.unparse(node.annotation)}"
    text += f" = {ast.unparse(bare(value))}`" if value is not None else "`"
    for each in following:
        said = each.value if isinstance(each, ast.Expr) else None
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            text += f": {' '.join(prose(said.value).split())}"
    return [f"- {text}"]


# How a default is written on the wire, and what it counts: of no interest to who reads it.
WRAPPERS = {"shown", "Nanoseconds", "ByteCount"}


def bare(value: ast.expr) -> ast.expr:
    """A default without what is only there for the wire and for type checkers."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in WRAPPERS
        and len(value.args) == 1
    ):
        value = value.args[0]
    return value


def fenced(code: str) -> list[str]:
    """Python code in Markdown."""
    return ["```python", code, "```", ""]
