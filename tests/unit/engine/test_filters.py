"""The language of filter_rules, against a reference that tries everything."""

from __future__ import annotations

import fnmatch
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import Side
from endpoints.gridftp.patterns import translate
from tests.unit.engine.world import World
from workers.engine.scan.selection import NameSelection

pytestmark = pytest.mark.virtual_time

ALPHABET = "ab-]!^.*é\udcff\n"


def matches(pattern: str, name: str) -> bool:
    """Match with the regex under test."""
    return re.compile(translate(pattern), re.DOTALL).fullmatch(name) is not None


def simply(pattern: str, name: str) -> bool:
    """The reference: one character of the pattern after another, in all ways."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(simply(pattern[1:], name[start:]) for start in range(len(name) + 1))
    one, rest = first(pattern)
    return bool(name) and one(name[0]) and simply(rest, name[1:])


def first(pattern: str) -> tuple[Callable[[str], bool], str]:
    """Return the predicate for the first character, and the pattern for the rest of the name."""
    if pattern[0] == "?":
        return (lambda _: True), pattern[1:]
    if pattern[0] == "[":
        start = 2 if pattern[1:2] == "!" else 1
        end = pattern.find("]", start + 1)
        if end > 0:
            members, negated = pattern[start:end], start == 2
            return (lambda character: among(character, members) is not negated), pattern[end + 1 :]
    literal = pattern[0]
    return (lambda character: character == literal), pattern[1:]


def among(character: str, members: str) -> bool:
    if len(members) >= 3 and members[1] == "-":
        return members[0] <= character <= members[2] or among(character, members[3:])
    return bool(members) and (character == members[0] or among(character, members[1:]))


@given(pattern=st.text(ALPHABET + "*?[]", max_size=9), name=st.text(ALPHABET, max_size=7))
def test_a_pattern_matches_what_the_reference_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) is simply(pattern, name)


@given(pattern=st.text("ab*?[]!-z", max_size=9), name=st.text("ab-z", max_size=7))
def test_a_pattern_of_usual_characters_matches_what_the_standard_library_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) is fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*.tmp", "a.tmp", True),
        ("*.tmp", "a.TMP", False),
        ("*", "", True),
        ("*", ".hidden", True),
        ("[!a]", "b", True),
        ("[!a]", "a", False),
        ("[^a]", "^", True),
        ("[a-c]x", "bx", True),
        ("[c-a]", "b", False),
        ("[]a]", "]", True),
        ("[!]a]", "]", False),
        ("[", "[", True),
        ("[]", "[]", True),
        ("{a,b}", "a", False),
        ("{a,b}", "{a,b}", True),
        ("\\*", "\\x", True),
        ("a\nb", "a\nb", True),
        ("?", "\n", True),
        ("?", "\udcff", True),
        ("[\udc80-\udcff]*", "\udcfe.dat", True),
        ("a.b", "axb", False),
        ("a/b", "a", False),
        ("a$", "a", False),
    ],
)
def test_the_language_has_no_surprises(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_a_hostile_pattern_takes_no_longer_than_another() -> None:
    """Were any star tried again, this would not end before the sun does."""
    for pattern in ("*a" * 120 + "*b", "*a?" * 80 + "b", "?*" * 120 + "b", "*[ab]" * 50 + "c", "*" * 254 + "b"):
        assert not matches(pattern, "a" * 255)
    assert matches("*" * 255, "a" * 255)


def test_the_first_rule_that_matches_decides() -> None:
    rules = [rule("include", "*.keep"), rule("exclude", "*e*"), rule("include", "*")]
    kept = [name for name in ("x.keep", "tree", "oak") if NameSelection(rules=rules).includes(name, folder=False)]
    assert kept == ["x.keep", "oak"]


def test_what_no_rule_names_is_included() -> None:
    assert NameSelection(rules=[rule("exclude", "*.tmp")]).includes("data", folder=False)
    assert NameSelection(rules=[]).includes("anything", folder=True)


def test_a_rule_may_be_for_files_or_for_folders_only() -> None:
    rules = NameSelection(rules=[rule("exclude", "a", "file"), rule("exclude", "b", "dir"), rule("exclude", "c")])
    assert [name for name in "abc" if rules.includes(name, folder=False)] == ["b"]
    assert [name for name in "abc" if rules.includes(name, folder=True)] == ["a"]


def test_a_thousand_rules_are_one_look() -> None:
    rules = NameSelection(rules=[rule("exclude" if n % 3 else "include", f"f{n}-*") for n in range(1000)])
    dice = random.Random(7)
    for n in dice.sample(range(1000), 50):
        assert rules.includes(f"f{n}-x", folder=False) is (n % 3 == 0)


def rule(method: str, name: str, kind: str | None = None) -> dict[str, object]:
    return {"method": method, "name": name, "type": kind}


# ---- whole tasks


async def test_what_is_excluded_is_not_transferred_nor_listed_nor_made() -> None:
    rules = [rule("include", "keep.tmp"), rule("exclude", "*.tmp"), rule("exclude", "cache", "dir")]
    world = World([("/src/", "/dst/", None)], options={"filter_rules": rules})
    for path in ("/a", "/b.tmp", "/in/c.tmp", "/in/keep.tmp", "/in/d", "/cache/e", "/in/cache/f", "/x.tmp/g"):
        world.source.write(f"/src{path}", b"x")
    world.source.write("/src/out/cache", b"a file of this name")
    listed: list[str] = []
    world.sessions.faults = lambda step, side, path: (
        listed.append(path) if (step, side) == ("list", Side.SOURCE) else None
    )
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == {"/a", "/in", "/in/keep.tmp", "/in/d", "/out", "/out/cache"}
    assert sorted(listed) == ["/src", "/src/in", "/src/out"]
    assert (world.store.totals.files, world.store.totals.directories) == (4, 3)


async def test_what_the_user_names_is_never_excluded() -> None:
    world = World([("/src", "/dst", None), ("/one", "/one", None)], options={"filter_rules": [rule("exclude", "*")]})
    world.source.write("/src/a", b"x")
    world.source.write("/one", b"1")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths() == {"/dst", "/one"}


@pytest.mark.parametrize("kept", [True, False])
async def test_a_kept_link_is_a_file_to_the_rules_and_a_followed_one_is_what_it_leads_to(kept: bool) -> None:
    rules = [rule("exclude", "l*", "dir")]
    options: dict[str, object] = {"filter_rules": rules, "recursive_symlinks": "keep" if kept else "copy"}
    world = World([("/src/", "/dst/", None)], options=options)
    world.source.write("/src/a", b"a")
    world.source.write("/far/b", b"b")
    world.source.link("/src/l-folder", "/far")
    world.source.link("/src/l-file", "/src/a")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == {"/a", "/l-file"} | ({"/l-folder"} if kept else set())
