"""The rooms, their floors, and the imports between modules, read from the source files."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

#: Top-level folders of the product.
TOPS = ("webui", "transferapi", "workers", "endpoints", "identity")

#: Room -> floor; the longest matching prefix counts. deploy, bench, docs and tests stand outside the floors.
FLOORS = {
    "webui": 5,
    "transferapi.shell": 5,
    "transferapi.rest": 4,
    "transferapi.relay": 4,
    "workers": 4,
    "transferapi.timers": 3,
    "transferapi.tasks": 3,
    "endpoints": 2,
    "endpoints.gridftp": 1,
    "transferapi.logs": 0,
    "transferapi.outages": 0,
    "transferapi.traces": 0,
    "identity": 1,
    "identity.gsi": 0,
}
#: Django's project files: they connect the rooms, so they may import all of them.
WIRING = frozenset(
    {
        "transferapi.settings",
        "transferapi.urls",
        "transferapi.asgi",
        "transferapi.wsgi",
        "transferapi.config",
        *(
            f"transferapi.config.{name}"
            for name in (
                *("declaration", "limits", "mail", "reading"),
                *("secret_files", "sections", "servers", "urls", "values"),
            )
        ),
        "transferapi.redis_client",
        "transferapi.schema_migration",
        "transferapi.schema_version",
        "transferapi.version",
    }
)

Graph = Mapping[str, frozenset[str]]


@cache
def modules(tops: tuple[str, ...] = TOPS) -> Mapping[str, Path]:
    """Each module below these folders (migrations left out), by its dotted name, in the order of the names."""
    found = {}
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            if "migrations" not in path.parts:
                found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return MappingProxyType(found)


class _Statement(NamedTuple):
    """One import statement: the module, what is taken from it, and whether only type checkers see it."""

    module: str
    taken: tuple[str, ...]
    for_types: bool


@cache
def _statements(name: str, path: Path) -> tuple[_Statement, ...]:
    """Import statements anywhere in a module, also inside functions."""
    tree = ast.parse(path.read_text())
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    guarded = _for_type_checkers(tree)
    found: list[_Statement] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [_Statement(alias.name, (), node in guarded) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found.append(_Statement(stem, tuple(f"{stem}.{alias.name}" for alias in node.names), node in guarded))
    return tuple(found)


def _for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """The nodes below `if TYPE_CHECKING`."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    return {node for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING" for node in ast.walk(block)}


def imports(name: str) -> Iterator[str]:
    """All that this module imports, by full name: modules, and what it takes from them."""
    for statement in _statements(name, modules()[name]):
        yield statement.module
        yield from statement.taken


@cache
def module_graph(tops: tuple[str, ...] = TOPS) -> Graph:
    """Each module -> modules below these folders that it imports when it runs.

    `from package import module` counts for the module.
    Imports below `if TYPE_CHECKING` are left out.
    """
    known = modules(tops)
    found = {}
    for name, path in known.items():
        targets = {
            one if one in known else statement.module
            for statement in _statements(name, path)
            if not statement.for_types
            for one in (statement.taken or (statement.module,))
        }
        found[name] = frozenset((targets & set(known)) - {name})
    return MappingProxyType(found)


def room(name: str) -> str | None:
    """The room of `FLOORS` that this module belongs to."""
    found = [prefix for prefix in FLOORS if name == prefix or name.startswith(prefix + ".")]
    return max(found, key=len, default=None)


def package(name: str) -> str:
    """The folder that this module lies in; of a package, itself."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


def collapse(graph: Graph, group: Callable[[str], str | None]) -> Graph:
    """The same graph between groups of modules; modules without a group are left out."""
    found: dict[str, set[str]] = {}
    for name, targets in graph.items():
        here = group(name)
        if here is not None:
            found.setdefault(here, set()).update(filter(None, map(group, targets)))
    return {here: frozenset(targets - {here}) for here, targets in sorted(found.items())}


@cache
def packages() -> tuple[str, ...]:
    """Every folder of modules, by dotted name."""
    return tuple(sorted({package(name) for name in modules()}))


def folder_in(parent: str) -> Callable[[str], str | None]:
    """Groups the modules below a package by its subfolders; those that lie in it directly are in no group."""

    def group(name: str) -> str | None:
        inner = name.removeprefix(f"{parent}.").partition(".")[0]
        folder = f"{parent}.{inner}"
        return folder if name.startswith(f"{parent}.") and folder in packages() else None

    return group


def sentence(name: str) -> str:
    """The first sentence of the docstring of a module or a package."""
    text = ast.get_docstring(ast.parse(modules()[name].read_text())) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    first, stop, _ = paragraph.partition(". ")
    return f"{first}." if stop else first


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other in a circle: the strongly connected components (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in order:
            visit(name)
    return found


def reduced(graph: Graph) -> list[tuple[str, str]]:
    """The arrows of a graph without circles, without those that a longer way implies."""

    def reachable(starts: Iterable[str]) -> set[str]:
        found: set[str] = set()
        left = list(starts)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += graph[name]
        return found

    return [
        (name, target)
        for name, targets in graph.items()
        for target in sorted(targets)
        if target not in reachable(targets - {target})
    ]
