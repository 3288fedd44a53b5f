"""The pages of docs/ agree with the code: pictures, named functions, paths, links, the index, and the cited truths."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from docs.draw import floors, page
from docs.draw.imports import FLOORS, ROOT, cycles, modules, reduced

DOCS = ROOT / "docs"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))])
#: `path.py` followed by `function`, `Class` or `Class.method`.
_PLACE = re.compile(r"`([\w/]+\.py)`\s+`([A-Za-z_][\w.]*)`")
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`")
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
_TRUTH = re.compile(r"\btruth (\d+)")
#: A page that a comment or a docstring cites: its path, or its name at the root.
_PAGE = re.compile(r"\b(docs/(?:[a-z-]+/)*[a-z-]+\.md|docs/decisions/\w[\w.-]*\w|(?<!/)[A-Z]+\.md)\b")
#: These write pages of their own into a folder of the test.
_INVENTED = frozenset({"tests/unit/test_prose.py"})
DECISIONS = DOCS / "decisions" / "README.md"
#: The last section of a page of decisions: entries with a date, each of them of one or several lines.
_HISTORY = re.compile(r"\n## History\n\n(?:- \d{4}-\d{2}-\d{2}: .+\n(?:  .+\n)*)+\Z")
_NUMBERED = re.compile(r"decisions/\d\S*|\b[Dd]ecisions? \[?\d+|\[0\d{3}\]\(")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


#: Drawn with the first test that asks: each process of a run would draw them to collect the tests.
drawn = cache(page.files)


@pytest.mark.parametrize("path", page.PATHS, ids=name_of)
def test_what_is_drawn_is_up_to_date(path: Path) -> None:
    assert path.read_text() == drawn()[path], "run: make map"


def test_all_that_is_drawn_is_compared() -> None:
    assert set(drawn()) == set(page.PATHS)


def test_the_picture_is_the_same_each_time() -> None:
    assert floors.svg() == floors.svg()


def test_arrows_of_a_longer_way_are_left_out() -> None:
    graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset[str]()}
    assert reduced(graph) == [("a", "b"), ("b", "c"), ("c", "d")]


def test_circles_are_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("b"), "d": frozenset("a"), "e": frozenset[str]()}
    assert cycles(graph) == [["b", "c"]]


@cache
def names_in(path: str) -> set[str]:
    """Functions, classes, methods and variables of a module."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{one.name}" for one in inner}
        if isinstance(node, ast.Assign):
            found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_every_function_that_a_page_names_exists() -> None:
    places = [(name_of(path), *place) for path in PAGES for place in _PLACE.findall(path.read_text())]
    assert places
    assert [one for one in places if not (ROOT / one[1]).exists() or one[2] not in names_in(one[1])] == []


def test_the_map_names_functions_of_each_step() -> None:
    rows = re.findall(r"^\| \d+\. .*$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert len(rows) > 12
    assert [row for row in rows if not _PLACE.search(row)] == []


def named_in_pages(pattern: str | re.Pattern[str]) -> list[tuple[str, str]]:
    """The matches, each with its page; CONTRIBUTING names old modules in its table of what moved."""
    texts = {name_of(path): path.read_text().partition("## Moved modules")[0] for path in PAGES}
    found = [(name, one) for name, text in texts.items() for one in re.findall(pattern, text)]
    assert found
    return found


def test_every_path_that_a_page_names_exists() -> None:
    """Paths that begin with one of our folders."""
    tops = {name.partition("/")[0] for name in tracked() if "/" in name}
    named = [(name, found) for name, found in named_in_pages(_PATH) if found.partition("/")[0] in tops]
    assert [(name, found) for name, found in named if not (ROOT / found).exists()] == []


def test_every_module_that_a_page_names_exists() -> None:
    known = {name.rpartition("/")[2] for name in tracked()}
    assert [(name, found) for name, found in named_in_pages(r"`(\w+\.py)`") if found not in known] == []


@cache
def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split("\0")


def test_every_link_leads_somewhere() -> None:
    pages = [*PAGES, ROOT / "CHANGELOG.md"]
    assert {name_of(path): broken for path in pages if (broken := _broken_links(path))} == {}


def _broken_links(path: Path) -> list[str]:
    broken = []
    for target, anchor in _LINK.findall(path.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (path.parent / target).resolve() if target else path
        if not there.exists() or (anchor and there.suffix == ".md" and anchor[1:] not in anchors(there)):
            broken.append(target + anchor)
    return broken


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-"))
    return found


def test_the_index_has_every_page() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target).resolve() for target, _ in _LINK.findall(index.read_text()) if "://" not in target}
    assert [name_of(path) for path in sorted(set(DOCS.rglob("*.md")) - {index} - linked)] == []


def test_every_truth_that_the_code_cites_is_in_the_map() -> None:
    stated = set(re.findall(r"^(\d+)\. \*\*", (DOCS / "architecture.md").read_text(), re.MULTILINE))
    cited = {number for path in modules().values() for number in _TRUTH.findall(path.read_text())}
    assert cited
    assert cited <= stated


def test_every_page_that_the_code_cites_exists() -> None:
    texts = {name: (ROOT / name).read_text() for name in tracked() if is_source(name)}
    cited = {(name, page) for name, text in texts.items() for page in _PAGE.findall(text)}
    assert cited
    assert [one for one in sorted(cited) if one[1] not in tracked()] == []


def is_source(name: str) -> bool:
    """Whether the file has comments or docstrings that cite pages; the pages of tests of texts are invented."""
    return name.endswith((".py", ".toml", ".yml", ".sh", "Makefile")) and name not in _INVENTED


def test_the_readme_has_at_most_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_table_of_floors_is_that_of_the_test() -> None:
    rows = re.findall(r"^\| (\d) \| `([\w/]+)/` \|", CONTRIBUTING, re.MULTILINE)
    rooms = {name: floor for name, floor in FLOORS.items() if any(one.startswith(name) for one in modules())}
    assert {where.replace("/", "."): int(floor) for floor, where in rows} == rooms


def test_moved_modules_are_at_their_new_place_only() -> None:
    table = re.findall(r"^\| (`.*) \| (.*) \|$", CONTRIBUTING.partition("## Moved modules")[2], re.MULTILINE)
    assert table
    for before, now in table:
        assert [path for path in _PATH.findall(before) if (ROOT / path).is_file()] == []
        assert [path for path in _PATH.findall(now) if not (ROOT / path).exists()] == []


def test_a_page_of_decisions_ends_with_its_dated_history() -> None:
    pages = set((DOCS / "decisions").glob("*.md")) - {DECISIONS}
    assert pages
    assert [name_of(page) for page in sorted(pages) if not _HISTORY.search(page.read_text())] == []


def test_the_overview_of_decisions_has_every_page() -> None:
    linked = {target for target, _ in _LINK.findall(DECISIONS.read_text())}
    assert {page.name for page in (DOCS / "decisions").glob("*.md")} == linked | {DECISIONS.name}


def test_no_text_names_a_decision_by_a_number() -> None:
    """Numbers end with the pages that had them: a subject keeps its name. The overview has the numbers of before."""
    texts = [name for name in tracked() if is_source(name) or name.endswith(".md")]
    named = {name: found for name in texts if (found := _NUMBERED.findall((ROOT / name).read_text()))}
    assert named == {}
