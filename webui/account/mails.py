"""The section "Mails": where they go, their language, and whether the user wants those about tasks."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from identity import languages
from identity.languages import LANGUAGES
from identity.models import User
from transferapi.tasks.notify import mail_preferences

SECTION = "mails"


def context(user: User) -> dict[str, Any]:
    return {
        "mails_wanted": mail_preferences.enabled(user),
        "mail_language": languages.language_of(user),
        "mail_languages": LANGUAGES,
    }


def choose(request: HttpRequest, user: User) -> str:
    wanted = request.POST.get("enabled") == "yes"
    mail_preferences.choose(user, enabled=wanted)
    return _("You get mails about your tasks.") if wanted else _("You get no more mails about your tasks.")


def choose_language(request: HttpRequest, user: User) -> str:
    languages.choose(user, request.POST.get("language", ""))
    return _("Mails to you are in this language from now on.")
