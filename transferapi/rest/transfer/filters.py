"""The grammars of `filter`, `orderby` and `fields` (Transfer API v0.10)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from endpoints.gridftp.patterns import PatternError, collapsed
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import parse_id, parse_moment
from transferapi.tasks.queries import ORDERS, Order, TaskFilter, TextMatch, TimeRange
from transferapi.tasks.states import Status, TaskType

MAX_VALUES = 1000
#: Patterns in one condition: each row is compared with all of them.
MAX_PATTERNS = 20

T = TypeVar("T")


def conditions(text: str) -> dict[str, list[str]]:
    """`key:v1,v2/key2:v` as a dict. "" is no condition."""
    found: dict[str, list[str]] = {}
    for part in filter(None, text.split("/")):
        key, colon, values = part.partition(":")
        if not colon or not key or key in found:
            raise BadRequest(f"filter: '{shown(part)}' is not of the form key:value, or comes twice")
        found[key] = values.split(",")
        if len(found[key]) > MAX_VALUES:
            raise BadRequest(f"filter: at most {MAX_VALUES} values for {key}")
    return found


def task_filter(text: str) -> TaskFilter:
    """The filter of a task list."""
    wanted = conditions(text)
    unknown = wanted.keys() - {"task_id", "type", "status", "label", "request_time", "completion_time"}
    if unknown:
        raise BadRequest(f"filter: unknown field '{shown(min(unknown))}'")
    return TaskFilter(
        task_ids=[_task_id(value) for value in wanted["task_id"]] if "task_id" in wanted else None,
        types=_words("type", wanted, TaskType.values),
        statuses=_words("status", wanted, Status.values),
        labels=text_matches("label", wanted.get("label", ())),
        request_time=times_of("request_time", wanted),
        completion_time=times_of("completion_time", wanted),
    )


def text_matches(key: str, values: Sequence[str]) -> list[TextMatch]:
    """The values of a condition on a text. Raises BadRequest for too many or too long patterns."""
    found = [_text_match(value) for value in values]
    if sum(match.glob for match in found) > MAX_PATTERNS:
        raise BadRequest(f"filter: at most {MAX_PATTERNS} patterns for {key}")
    return found


def _text_match(value: str) -> TextMatch:
    """`x` or `=x` exact, `~pat` a pattern, `!` in front negates it."""
    negate = value.startswith("!")
    value = value.removeprefix("!")
    if not value.startswith("~"):
        return TextMatch(value.removeprefix("="), negate=negate)
    try:
        return TextMatch(collapsed(value[1:]), glob=True, negate=negate)
    except PatternError as error:
        raise BadRequest(f"filter: {error.reason}") from None


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
    """(field, descending) pairs. An unknown field is an error: another order without notice would be worse.

    A second mention of a field changes nothing.
    """
    terms: dict[str, bool] = {}
    for part in filter(None, (text or "").split(",")):
        field, _, direction = part.strip().partition(" ")
        if field not in known or direction.upper() not in ("", "ASC", "DESC"):
            raise BadRequest(f"orderby: '{shown(part)}' is not a known field, with ASC or DESC")
        terms.setdefault(field, direction.upper() == "DESC")
    return list(terms.items())


def pick(document: dict[str, Any], fields: str | None) -> dict[str, Any]:
    """Only these fields of a document, and the DATA_TYPE."""
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


# ---- values


def _task_id(text: str) -> uuid.UUID:
    return parse_id(text, BadRequest(f"filter: '{shown(text)}' is not a task id"))


def _words(key: str, wanted: Mapping[str, list[str]], known: Sequence[str]) -> list[str] | None:
    values = wanted.get(key)
    if values and set(values) - set(known):
        raise BadRequest(f"filter: {key} is one of {', '.join(known)}")
    return values


def times_of(key: str, wanted: Mapping[str, list[str]]) -> TimeRange | None:
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
    return times_of(name, {name: text.split(",")}) or TimeRange()


def shown(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:100]
