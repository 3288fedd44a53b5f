"""The grammars of `filter`, `orderby` and `fields` (Transfer API v0.10)."""

from __future__ import annotations

import fnmatch
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from endpoints.gridftp.facts import Entry
from transferapi.tasks.queries import ORDERS, Order, TaskFilter, TextMatch, TimeRange
from transferapi.tasks.states import Status, TaskType

from . import documents
from .errors import BadRequest
from .parsing import parse_moment

MAX_VALUES = 1000

T = TypeVar("T")


def conditions(text: str) -> dict[str, list[str]]:
    """`key:v1,v2/key2:v` as a dict. "" is no condition."""
    found: dict[str, list[str]] = {}
    for part in filter(None, text.split("/")):
        key, colon, values = part.partition(":")
        if not colon or not key or key in found:
            raise BadRequest(f"filter: '{_shown(part)}' is not of the form key:value, or comes twice")
        found[key] = values.split(",")
        if len(found[key]) > MAX_VALUES:
            raise BadRequest(f"filter: at most {MAX_VALUES} values for {key}")
    return found


def task_filter(text: str) -> TaskFilter:
    """The filter of a task list."""
    wanted = conditions(text)
    unknown = wanted.keys() - {"task_id", "type", "status", "label", "request_time", "completion_time"}
    if unknown:
        raise BadRequest(f"filter: unknown field '{_shown(min(unknown))}'")
    return TaskFilter(
        task_ids=[_uuid(value) for value in wanted["task_id"]] if "task_id" in wanted else None,
        types=_words("type", wanted, TaskType.values),
        statuses=_words("status", wanted, Status.values),
        labels=[text_match(value) for value in wanted.get("label", ())],
        request_time=_time_range("request_time", wanted),
        completion_time=_time_range("completion_time", wanted),
    )


def text_match(value: str) -> TextMatch:
    """`x` or `=x` exact, `~pat` a pattern, `!` in front turns it round."""
    negate = value.startswith("!")
    value = value.removeprefix("!")
    if value.startswith("~"):
        return TextMatch(value[1:], glob=True, negate=negate)
    return TextMatch(value.removeprefix("="), negate=negate)


def event_filter(text: str) -> bool | None:
    """`is_error:1`, `is_error:0`, or nothing."""
    wanted = conditions(text)
    if wanted.keys() - {"is_error"}:
        raise BadRequest("filter: only is_error is known here")
    values = wanted.get("is_error")
    if values is None:
        return None
    if values not in (["0"], ["1"]):
        raise BadRequest("filter: is_error is 0 or 1")
    return values == ["1"]


def task_order(text: str | None) -> list[Order]:
    """`field [ASC|DESC],...`."""
    return [Order(field, descending) for field, descending in order_terms(text, ORDERS)]


def order_terms(text: str | None, known: Iterable[str]) -> list[tuple[str, bool]]:
    """(field, descending) pairs. An unknown field is an error: silently another order would be worse."""
    terms: list[tuple[str, bool]] = []
    for part in filter(None, (text or "").split(",")):
        field, _, direction = part.strip().partition(" ")
        if field not in known or direction.upper() not in ("", "ASC", "DESC"):
            raise BadRequest(f"orderby: '{_shown(part)}' is not a known field, with ASC or DESC")
        terms.append((field, direction.upper() == "DESC"))
    return terms


def pick(document: dict[str, Any], fields: str | None) -> dict[str, Any]:
    """Only these fields of a document, and what it is."""
    wanted = _wanted(fields)
    return document if wanted is None else {name: value for name, value in document.items() if name in wanted}


def picked(document: Callable[[T], dict[str, Any]], fields: str | None) -> Callable[[T], dict[str, Any]]:
    """The same for each row of a list."""
    wanted = _wanted(fields)
    if wanted is None:
        return document
    return lambda row: {name: value for name, value in document(row).items() if name in wanted}


def _wanted(fields: str | None) -> set[str] | None:
    return {name.strip() for name in fields.split(",")} | {"DATA_TYPE"} if fields else None


# ---- listings

EntryTest = Callable[[Entry], bool]

#: What `orderby` and `filter` know of an entry, by its name in a file document.
LISTING_FIELDS: dict[str, Callable[[Entry], Any]] = {
    "name": attrgetter("name"),
    "type": documents.file_type,
    "size": attrgetter("size"),
    "last_modified": attrgetter("modified"),
    "permissions": attrgetter("mode"),
    "user": attrgetter("owner"),
    "group": attrgetter("group"),
}


def listing_filter(texts: Sequence[str]) -> EntryTest:
    """Several `filter` parameters are alternatives; within one, all conditions must hold."""
    alternatives = [_listing_conditions(text) for text in texts if text]
    if not alternatives:
        return lambda _: True
    return lambda entry: any(all(test(entry) for test in tests) for tests in alternatives)


def listing_sort(entries: list[Entry], terms: Sequence[tuple[str, bool]]) -> None:
    """Sort in place, by the last term first: Python's sort is stable. What a server does not tell comes first."""
    for field, descending in reversed(terms):
        get = LISTING_FIELDS[field]
        entries.sort(key=lambda entry: _sortable(get(entry)), reverse=descending)


def _sortable(value: Any) -> tuple[bool, Any]:
    return value is not None, value


def _listing_conditions(text: str) -> list[EntryTest]:
    return [_listing_condition(key, values) for key, values in conditions(text).items()]


def _listing_condition(key: str, values: Sequence[str]) -> EntryTest:
    if key not in LISTING_FIELDS:
        raise BadRequest(f"filter: unknown field '{_shown(key)}'")
    get = LISTING_FIELDS[key]
    if key == "size":
        return _size_condition(values)
    if key == "last_modified":
        return _time_condition(key, values)
    tests = [_text_test(text_match(value)) for value in values]
    return lambda entry: any(test(get(entry)) for test in tests)


def _text_test(match: TextMatch) -> Callable[[str], bool]:
    if match.glob:
        pattern = re.compile(fnmatch.translate(match.text.replace("[", "[[]")), re.IGNORECASE)
        return lambda text: bool(pattern.match(text)) is not match.negate
    return lambda text: (text == match.text) is not match.negate


_SIZE = re.compile(r"(<=|>=|<|>|=)?(\d{1,18})\Z", re.ASCII)
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__,
}  # fmt: skip


def _size_condition(values: Sequence[str]) -> EntryTest:
    """`size:>=10,<20`: the bounds hold together."""
    found = [_SIZE.match(value) for value in values]
    if not all(found):
        raise BadRequest("filter: a size is a number of octets, with <, <=, >, >= or = before it")
    tests = [(_COMPARE[match[1] or "="], int(match[2])) for match in found if match]
    return lambda entry: all(compare(entry.size, size) for compare, size in tests)


def _time_condition(key: str, values: Sequence[str]) -> EntryTest:
    wanted = _time_range(key, {key: list(values)}) or TimeRange()
    start, end = wanted.start, wanted.end

    def test(entry: Entry) -> bool:
        moment = entry.modified
        return moment is not None and (start is None or moment >= start) and (end is None or moment <= end)

    return test


# ---- values


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BadRequest(f"filter: '{_shown(text)}' is not a task id") from None


def _words(key: str, wanted: Mapping[str, list[str]], known: Sequence[str]) -> list[str] | None:
    values = wanted.get(key)
    if values and set(values) - set(known):
        raise BadRequest(f"filter: {key} is one of {', '.join(known)}")
    return values


def _time_range(key: str, wanted: Mapping[str, list[str]]) -> TimeRange | None:
    values = wanted.get(key)
    if values is None:
        return None
    if len(values) > 2:
        raise BadRequest(f"filter: {key} has a beginning and an end")
    ends = [parse_moment(value) if value else None for value in values]
    if any(value and end is None for value, end in zip(values, ends, strict=True)):
        raise BadRequest(f"filter: {key} is not a time")
    return TimeRange(ends[0], ends[1] if len(ends) == 2 else None)


def time_range(name: str, text: str) -> TimeRange:
    """`from,to`; either may be empty."""
    return _time_range(name, {name: text.split(",")}) or TimeRange()


def _shown(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:100]
