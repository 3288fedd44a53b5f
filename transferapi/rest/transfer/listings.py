"""The entries of a listing that are shown, and their order: `filter` and `orderby`.

All is done in portions of some milliseconds: one long call into C would stop all other threads of the process.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from endpoints import concurrency_limits
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.patterns import cost, translate
from transferapi.rest.http.errors import BadRequest
from transferapi.tasks.queries import TextMatch, TimeRange

from .filters import conditions, shown, text_matches, times_of
from .operation_documents import file_type

#: Entries that are compared, or sorted, without a pause.
PORTION = 1000
#: `filter` parameters of one request, and bounds of a size.
MAX_ALTERNATIVES, MAX_SIZES = 20, 10
#: Steps of some 10 ns for all comparisons of one request; and the fixed steps of each comparison.
MAX_STEPS, STEPS = 10**9, 30
#: The start of a comparison takes as long as so many characters.
BEGIN = 20

EntryTest = Callable[[Entry], bool]
Terms = Sequence[tuple[str, bool]]

#: The fields of an entry that `orderby` and `filter` know, by their names in a file document.
FIELDS: dict[str, Callable[[Entry], Any]] = {
    "name": attrgetter("name"),
    "type": file_type,
    "size": attrgetter("size"),
    "last_modified": attrgetter("modified"),
    "permissions": attrgetter("mode"),
    "user": attrgetter("owner"),
    "group": attrgetter("group"),
}


@dataclass(frozen=True, slots=True)
class _Condition:
    """of: the compared value of an entry; steps: for each character of it."""

    test: EntryTest
    of: Callable[[Entry], Any]
    steps: int = 0


class EntrySelection:
    """Several `filter` parameters are alternatives; within one, all conditions must hold. Raises BadRequest."""

    def __init__(self, texts: Sequence[str], *, hidden: bool = True) -> None:
        self._hidden = hidden
        given = (conditions(text) for text in texts if text)
        self._alternatives = [[_condition(key, values) for key, values in one.items()] for one in given]
        if len(self._alternatives) > MAX_ALTERNATIVES:
            raise BadRequest(f"filter: at most {MAX_ALTERNATIVES} alternatives")

    def of(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that are shown. Raises BadRequest where there is too much to compare, before it begins."""
        found: list[Entry] = []
        left = MAX_STEPS
        for start in range(0, len(entries), PORTION):
            with concurrency_limits.cpu_lock:
                portion = entries[start : start + PORTION]
                left -= self._steps(portion)
                if left < 0:
                    raise BadRequest("filter: takes too long on so many names; use fewer or simpler patterns")
                found += filter(self._keeps, portion)
        return found

    def _keeps(self, entry: Entry) -> bool:
        if entry.name.startswith(".") and not self._hidden:
            return False
        alternatives = self._alternatives
        return not alternatives or any(all(one.test(entry) for one in tests) for tests in alternatives)

    def _steps(self, entries: Sequence[Entry]) -> int:
        every = [condition for tests in self._alternatives for condition in tests]
        wild = [one for one in every if one.steps]
        letters = (one.steps * sum(len(one.of(entry)) + BEGIN for entry in entries) for one in wild)
        return STEPS * len(every) * len(entries) + sum(letters)


def ordered(entries: Sequence[Entry], terms: Terms) -> list[Entry]:
    """Sort by each term, the last one first: Python's sort is stable. Values that are not reported come first."""
    found = list(entries)
    for field, descending in reversed(terms):
        found = _sorted(found, FIELDS[field], descending)
    return found


def _sorted(entries: list[Entry], get: Callable[[Entry], Any], descending: bool) -> list[Entry]:
    """Merge sort of sorted portions: no single call sorts many unsorted entries, which would stop all threads."""

    def key(entry: Entry) -> tuple[bool, Any]:
        value = get(entry)
        return value is not None, value

    runs = [entries[start : start + PORTION] for start in range(0, len(entries), PORTION)]
    for run in runs:
        with concurrency_limits.cpu_lock:
            run.sort(key=key, reverse=descending)
    while len(runs) > 1:
        merged = []
        while runs:
            with concurrency_limits.cpu_lock:
                merged.append(sorted(itertools.chain(*runs[:2]), key=key, reverse=descending))
            del runs[:2]
        runs = merged
    return runs[0] if runs else []


# ---- conditions


def _condition(key: str, values: Sequence[str]) -> _Condition:
    if key not in FIELDS:
        raise BadRequest(f"filter: unknown field '{shown(key)}'")
    get = FIELDS[key]
    if key == "size":
        return _Condition(_size_test(values), get)
    if key == "last_modified":
        return _Condition(_time_test(key, values), get)
    matches = text_matches(key, values)
    test = _text_test(matches)
    steps = sum(cost(match.text, classes=False) for match in matches if match.glob)
    return _Condition(lambda entry: test(get(entry)), get, steps)


def _text_test(matches: Sequence[TextMatch]) -> Callable[[str], bool]:
    """One match suffices. Exact texts are looked up, however many there are."""
    exact = {match.text for match in matches if not match.glob and not match.negate}
    unequal = _unequal({match.text for match in matches if not match.glob and match.negate})
    patterns = [(_regex(match.text), match.negate) for match in matches if match.glob]

    def test(text: str) -> bool:
        if text in exact or unequal(text):
            return True
        return any((regex(text) is None) is negate for regex, negate in patterns)

    return test


def _unequal(texts: Collection[str]) -> Callable[[str], bool]:
    """Whether one of the negated conditions holds: with two texts one of them always does."""
    return (lambda text: text not in texts) if len(texts) == 1 else (lambda _: bool(texts))


def _regex(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern, classes=False), re.DOTALL | re.IGNORECASE).fullmatch


_SIZE = re.compile(r"(<=|>=|<|>|=)?(\d{1,18})\Z", re.ASCII)
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__,
}  # fmt: skip


def _size_test(values: Sequence[str]) -> EntryTest:
    """`size:>=10,<20`: the bounds hold together."""
    found = [_SIZE.match(value) for value in values]
    if not all(found):
        raise BadRequest("filter: a size is a number of octets, with <, <=, >, >= or = before it")
    if len(found) > MAX_SIZES:
        raise BadRequest(f"filter: a size has at most {MAX_SIZES} bounds")
    tests = [(_COMPARE[match[1] or "="], int(match[2])) for match in found if match]
    return lambda entry: all(compare(entry.size, size) for compare, size in tests)


def _time_test(key: str, values: Sequence[str]) -> EntryTest:
    wanted = times_of(key, {key: list(values)}) or TimeRange()
    start, end = wanted.start, wanted.end

    def test(entry: Entry) -> bool:
        moment = entry.modified
        return moment is not None and (start is None or moment >= start) and (end is None or moment <= end)

    return test
