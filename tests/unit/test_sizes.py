"""The bounds of modules and functions, and the names of classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from docs.draw.imports import ROOT, modules

#: Lines of a module, past which it is looked at whether it is one subject; complexity of a function.
MOST_LINES, MOST_COMPLEXITY = 700, 12


def test_a_module_is_of_one_subject() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert [name for name, count in lines.items() if count > MOST_LINES] == [], "make two modules of each"


def test_no_function_takes_more_branches_than_a_reader_can_follow() -> None:
    outside = (path for top in ("deploy", "docs") for path in (ROOT / top).rglob("*.py"))
    found = [one for path in (*modules().values(), *outside) for one in _complexities(path)]
    too_complex = [(name, size) for name, size in found if size > MOST_COMPLEXITY]
    assert not too_complex, "give parts of these functions names, or make a table of their branches"


def test_a_public_class_name_stands_for_one_thing() -> None:
    places = defaultdict[str, list[str]](list)
    for path in _product():
        for name in _public_classes(path.read_text()):
            places[name].append(str(path.relative_to(ROOT)))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert shared == {}, "name each of these classes by what it is"


def test_the_names_that_frameworks_demand_are_no_names_of_things() -> None:
    text = """
class Shown:
    class Meta: ...
    class Inner: ...
class _Hidden: ...
class Command(BaseCommand): ...
"""
    assert list(_public_classes(text)) == ["Shown", "Inner"]
    assert list(_public_classes("class Command(NamedTuple): ...")) == ["Command"]


def test_each_branch_and_condition_of_a_function_counts() -> None:
    text = """
def sample(values):
    try:
        for one in values:
            if one and (one > 1 or one < -1):
                continue
    except ValueError:
        return [one if one else 0 for one in values if one]
    match values:
        case []:
            return None
        case _:
            return lambda: any(one for one in values)
"""
    # 1; for, if, and, or, except: 5; the list and its condition, the ternary: 3; one case: 1; the generator: 1
    assert _complexity(ast.parse(text).body[0]) == 11


def _product() -> Iterator[Path]:
    """Modules with public names."""
    for path in (*modules().values(), *(ROOT / "deploy").rglob("*.py")):
        if "migrations" not in path.relative_to(ROOT).parts:
            yield path


def _public_classes(text: str) -> Iterator[str]:
    """Django demands the names `Meta` and, in modules of commands, `Command`."""
    found = sorted((node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)), key=_line)
    for node in found:
        is_run_by_django = any(ast.unparse(base).endswith("Command") for base in node.bases)
        of_django = node.name == "Meta" or (node.name == "Command" and is_run_by_django)
        if not node.name.startswith("_") and not of_django:
            yield node.name


def _line(node: ast.ClassDef) -> int:
    return node.lineno


def _complexities(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(ROOT)} {node.name}", _complexity(node)


def _complexity(function: ast.AST) -> int:
    """Cyclomatic complexity as radon counts it, with functions inside. Ruff's C901 counts statements only."""
    return 1 + sum(map(_branches, ast.walk(function)))


def _branches(node: ast.AST) -> int:
    match node:
        case ast.If() | ast.IfExp() | ast.For() | ast.AsyncFor() | ast.While() | ast.ExceptHandler():
            return 1
        case ast.comprehension():
            return 1 + len(node.ifs)
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.match_case():
            return 0 if ast.unparse(node.pattern) == "_" and node.guard is None else 1
    return 0
