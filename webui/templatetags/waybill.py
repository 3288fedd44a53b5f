"""The tags of all pages: icons, chips, names from endpoints, times and amounts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django import template
from django.utils.formats import number_format
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from endpoints.errors import StepUpRequiredError
from identity import shown_names
from identity.models import User
from webui import assets
from webui.sign_in import step_up

register = template.Library()
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
#: Format characters that change the order or the look of the text around them, besides control characters.
_HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


@register.simple_tag
def asset(name: str) -> str:
    """Return the address of a file that pages load."""
    return assets.address(name)


@register.simple_tag
def icon(name: str, size: int = 20, label: str = "") -> SafeString:
    """An icon; label: its meaning, where no text beside it says it."""
    return assets.svg(name, size, label)


@register.filter
def name(text: object) -> SafeString:
    """A name from an endpoint: isolated, so that it cannot turn the text around it, and with nothing unseen in it."""
    return format_html('<bdi class="name">{}</bdi>', mark_safe("".join(_visible(str(text)))))  # noqa: S308 - escaped


@register.filter
def shown_name(user: User) -> str:
    return shown_names.short_name_of(user)


@register.filter
def plain_name(text: object) -> str:
    """As `name`, for attributes: Unicode's isolates keep the text around it in its order."""
    return f"\u2068{''.join(map(_readable, str(text)))}\u2069"


def _readable(letter: str) -> str:
    return _escape(ord(letter)) if unicodedata.category(letter) in _HIDDEN else letter


def _visible(text: str) -> Iterator[str]:
    for letter in text:
        if unicodedata.category(letter) in _HIDDEN:
            yield f'<span class="esc">{_escape(ord(letter))}</span>'
        else:
            yield escape(letter)


def _escape(code: int) -> str:
    """The escape of a character; of an octet that is not UTF-8, the octet."""
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


@register.filter
def when(time: datetime | None) -> SafeString:
    """A time to the minute. A module shows it in the reader's zone; without scripts it is UTC."""
    return _time(time, "%Y-%m-%d %H:%M", "")


@register.filter
def moment(time: datetime | None) -> SafeString:
    """As `when`, to the second."""
    return _time(time, "%Y-%m-%d %H:%M:%S", "seconds")


def _time(time: datetime | None, shown: str, exact: str) -> SafeString:
    if time is None:
        return mark_safe("&ndash;")
    utc = time.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC" data-when{}>{} UTC</time>',
        utc.isoformat(timespec="seconds"),
        utc.strftime("%Y-%m-%d %H:%M:%S"),
        format_html('="{}"', exact) if exact else "",
        utc.strftime(shown),
    )


@register.filter
def octets(amount: float | None) -> str:
    """An amount of data: "1.5 GiB"."""
    if amount is None:
        return "–"
    value, step = float(amount), 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    digits = 0 if step == 0 or value >= 100 else 1
    # `number_format` cuts digits off, and scripts round.
    return f"{number_format(_rounded(value, digits), digits)} {_UNITS[step]}"


def _rounded(value: float, digits: int) -> Decimal:
    """As `Intl.NumberFormat` rounds: halves away from zero."""
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


@register.filter
def rate(amount: float | None) -> str:
    return "–" if amount is None else f"{octets(amount)}/s"


@register.filter
def count(number: int) -> str:
    """A number with its thousands apart, by thin spaces that do not break."""
    return f"{number:,}".replace(",", "\u202f")


@register.filter
def duration(seconds: float | None) -> str:
    """A span of time in its two largest units: "3 h 12 min"."""
    if seconds is None:
        return "–"
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in ((86400, _("d")), (3600, _("h")), (60, _("min")), (1, _("s"))):
        if left >= size or (size == 1 and not parts):
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])


@register.filter
def age(time: datetime, now: datetime) -> str:
    """The time since then in its largest unit: "3 h"."""
    seconds = (now - time).total_seconds()
    step = next((step for step in (86400, 3600, 60) if seconds >= step), 1)
    return duration(seconds // step * step)


@register.simple_tag
def field(
    name: str, label: str, value: str = "", kind: str = "text", hint: str = "", wrong: str = "", **more: Any
) -> SafeString:
    """A field with its label, its help and its error. more: further attributes; True writes the name alone.

    A `_` in the name of an attribute is a `-`; `id` is the name unless it is given.
    """
    at = str(more.pop("id", name))
    described = " ".join(part for part in (f"{at}-hint" if hint else "", f"{at}-wrong" if wrong else "") if part)
    attributes = {**more, **({"aria_describedby": described} if described else {})}
    # The page is an answer to a form somewhere on it: the browser goes to the field that is wrong.
    attributes |= {"aria_invalid": "true", "autofocus": True} if wrong else {}
    flat = format_html_join(
        "",
        ' {}="{}"',
        ((key.replace("_", "-"), "" if given is True else given) for key, given in attributes.items() if given),
    )
    return format_html(
        '<p class="field"><label for="{0}">{1}</label><input id="{0}" name="{2}" type="{3}" value="{4}"{5}>{6}{7}</p>',
        at,
        label,
        name,
        kind,
        value,
        flat,
        format_html('<span class="hint" id="{}-hint">{}</span>', at, hint) if hint else "",
        format_html('<span class="wrong" id="{}-wrong">{}{}</span>', at, assets.svg("alert", 16), wrong)
        if wrong
        else "",
    )


@register.simple_tag(takes_context=True)
def sign_in_again(context: template.Context, error: StepUpRequiredError) -> str:
    """The address that signs in as an endpoint demands it, and leads back to this page."""
    return step_up.address(context["request"], error)


@register.inclusion_tag("webui/parts/chip.html")
def chip(state: Any) -> dict[str, Any]:
    """state: a state of a task, as `webui.states` has it."""
    return {"state": state}


@register.inclusion_tag("webui/parts/empty.html")
def empty(icon: str, title: str, text: str = "", href: str = "", do: str = "") -> dict[str, str]:
    """An empty state: its icon, its title, a sentence, and the next action (href: a page of ours)."""
    return {"icon": icon, "title": title, "text": text, "href": href, "do": do}


@register.filter
def unlocalized(number: float) -> str:
    """A number for an attribute: with a point in every language."""
    return f"{number:g}"
