"""Sentences of the services in the language of the reader.

The services speak English, because programs read what they say, and mark sentences for translation
(`identity.gsi.printable.translatable`, and with values `identity.gsi.sentences.Sentence`). A sentence that is not
marked stays English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext

from identity.gsi.sentences import ErrorName
from identity.languages import translated
from transferapi.tasks.models import Event, Task
from transferapi.tasks.timeline import PlanChange
from webui.activity import advice
from webui.templatetags import waybill

_WAIT = re.compile(r"Too many attempts\. Try again in (\d+) minutes?\.")


def said(text: str) -> str:
    """The sentence in the language that is active."""
    if found := _WAIT.fullmatch(text):
        minutes = int(found[1])
        words = ngettext(
            "Too many attempts. Try again in %(minutes)d minute.",
            "Too many attempts. Try again in %(minutes)d minutes.",
            minutes,
        )
        return words % {"minutes": minutes}
    return gettext(text) if text else ""


def put_words(events: Iterable[Event]) -> None:
    """Give each event, for templates, `words`: what it says, as HTML, in the language that is active."""
    for event in events:
        words = _sentence(event.sentence) if event.sentence else waybill.name(said(event.description))
        event.words = words  # type: ignore[attr-defined]


def last_event(task: Task, code: str) -> Event | None:
    """The latest event of the task with this code."""
    return Event.objects.filter(task=task, code=code).order_by("-pk").first()


def plain_text(event: Event | None, stored: str | None) -> str:
    """The words of the event, without HTML. stored: the English text, where there is no event or no form."""
    return translated(event.sentence) if event and event.sentence else said(stored or "")


def _sentence(record: dict[str, Any]) -> SafeString:
    """A sentence as an event keeps it, as HTML, in the language that is active."""
    # Forms and values are escaped: a form can be the advice of a fault, with the words of a server.
    return mark_safe(translated(record, _shown, escape))  # noqa: S308


def _shown(value: object) -> SafeString:
    if isinstance(value, datetime):
        return waybill.moment(value)
    if isinstance(value, ErrorName):
        return escape(advice.title_of(value.code))
    if isinstance(value, int):
        return escape(waybill.count(value))
    return waybill.name(value)


def plan_reason(plan: PlanChange) -> SafeString:
    """The reason of a plan, as HTML, in the language that is active."""
    return _sentence(plan.reason) if isinstance(plan.reason, dict) else waybill.name(said(plan.reason))


def plain_reason(plan: PlanChange) -> str:
    """As `plan_reason`, without HTML."""
    return translated(plan.reason) if isinstance(plan.reason, dict) else said(plan.reason)
