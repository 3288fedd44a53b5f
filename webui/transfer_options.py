"""The options of a transfer in words, and as the form of the Transfer page asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from transferapi.tasks.options import TRANSFER, Flag, Number, OneOf, TaskOption

Words = str | Promise


class Choice(NamedTuple):
    """One value of a selection. short: for the summary; "" where it is the usual one."""

    value: str
    label: Words
    short: Words = ""


#: The options of the form that are on or off.
SWITCHES = tuple(one for one in TRANSFER.values() if one.in_form and isinstance(one.kind, Flag))
_LEVEL = TRANSFER["sync_level"]
#: Each level in the summary of the form.
_LEVELS_IN_SHORT = (
    gettext_lazy("only missing files"),
    gettext_lazy("files of another size"),
    gettext_lazy("newer files"),
    gettext_lazy("files with another checksum"),
)
#: Percent of the destination above which a mirror asks before it deletes; the first is chosen at the beginning.
_CONFIRM = (50, 10, 0)
DEADLINES = (
    Choice("1", gettext_lazy("1 day, and longer while it makes progress"), gettext_lazy("1 day")),
    Choice("3", gettext_lazy("3 days"), gettext_lazy("deadline 3 days")),
    Choice("7", gettext_lazy("7 days"), gettext_lazy("deadline 7 days")),
    Choice("30", gettext_lazy("30 days"), gettext_lazy("deadline 30 days")),
)


def value_words(one: TaskOption, value: Any) -> str:
    """The value of an option in words."""
    if isinstance(one.kind, Flag):
        return _("yes") if value else _("no")
    if one.name == "confirm_deletion_above":
        return (
            _("before more than %(n)s %% of the destination is deleted") % {"n": value}
            if value
            else _("before anything is deleted")
        )
    if one.name == "bandwidth_limit":
        return _("%(n)s MB a second") % {"n": _megabytes(value)}
    if isinstance(one.kind, Number):
        return _(one.kind.levels[value]) if one.kind.levels else str(value)
    if isinstance(one.kind, OneOf):
        return _(one.kind.words[value])
    return str(len(value)) if isinstance(value, list) else str(value)


def _megabytes(octets: int) -> str:
    """Octets as the form asks for them: 1500000 is "1.5"."""
    return f"{octets / 10**6:.6f}".rstrip("0").rstrip(".")


def levels() -> list[Choice]:
    """The choice of what is copied."""
    rows = [Choice(str(n), value_words(_LEVEL, n), words) for n, words in enumerate(_LEVELS_IN_SHORT)]
    return [Choice("", _("Everything")), *rows]


def confirm() -> list[Choice]:
    """The choice of when a mirror asks."""
    one = TRANSFER["confirm_deletion_above"]
    return [*(Choice(str(n), value_words(one, n)) for n in _CONFIRM), Choice("", _("never"))]


def priorities() -> list[Choice]:
    """The choice of the priority; the first is the usual one."""
    one = TRANSFER["priority"]
    assert isinstance(one.kind, OneOf)
    return [Choice(word, value_words(one, word)) for word in one.kind.words]


def choices() -> dict[str, Any]:
    """The choices that `webui/transfer/options.html` shows; `given` has those that are selected at first."""
    return {
        "switches": SWITCHES,
        "sync": levels(),
        "confirm": confirm(),
        "priorities": priorities(),
        "deadlines": DEADLINES,
    }


def form_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the form for these options of a task; the reverse of `of_form`."""
    chosen = {one.name: "on" for one in SWITCHES if options.get(one.name)}
    numbers = {name: options.get(name) for name in ("sync_level", "confirm_deletion_above")}
    limit = options.get("bandwidth_limit")
    more = {"bandwidth_limit": _megabytes(limit) if limit else "", "priority": options.get("priority") or ""}
    return {**chosen, **{name: "" if value is None else str(value) for name, value in numbers.items()}, **more}


def of_form(form: Mapping[str, str]) -> dict[str, object]:
    """The fields of a transfer document, from the form of the page."""
    found: dict[str, object] = {one.name: form.get(one.name) == "on" for one in SWITCHES}
    if form.get("sync_level", "").isdecimal():
        found["sync_level"] = int(form["sync_level"])
    confirm = form.get("confirm_deletion_above", str(_CONFIRM[0]))
    if found["delete_destination_extra"] and confirm.isdecimal():
        found["confirm_deletion_above"] = int(confirm)
    if limit := form.get("bandwidth_limit", "").strip():
        found["bandwidth_limit"] = _octets(limit)
    if form.get("priority"):
        found["priority"] = form["priority"]
    return found


def _octets(megabytes: str) -> object:
    """The number that the form means; a text that is none comes back, for the check of the option to refuse."""
    try:
        return round(float(megabytes.replace(",", ".")) * 10**6)
    except (ValueError, OverflowError):
        return megabytes


def deadline(form: Mapping[str, str]) -> datetime | None:
    """None: the default, which progress extends."""
    days = form.get("deadline_days", "1")
    known = {one.value for one in DEADLINES[1:]}
    return datetime.now(UTC) + timedelta(days=int(days)) if days in known else None
