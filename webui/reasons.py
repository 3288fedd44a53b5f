"""Sentences of the services in the language of the reader.

The services speak English, because programs read what they say, and mark sentences for translation
(`identity.gsi.printable.translatable`). A sentence that is not marked stays English.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext, ngettext

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
