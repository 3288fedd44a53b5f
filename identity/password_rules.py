"""A rule for new passwords (AUTH_PASSWORD_VALIDATORS): none is made of words that belong to this service or its user.

The words: the name of the service, its host name, the user name, the user's own name and mail address (ASVS 6.1.2).
A password is refused where hardly anything is left of it without them. Length and common passwords are checked by
Django's own validators.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from identity.gsi.printable import translatable as _

from .models import User

#: Characters that must be left without the words; shorter words are not looked for.
ENOUGH, SHORTEST = 8, 4
WORDS = ("waybill", "gridftp", "globus", "transfer", "password", "passwort")


class NotOfKnownWords:
    """The validator."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Raises ValidationError."""
        left = password.casefold()
        for word in sorted(_words(user), key=len, reverse=True):
            left = left.replace(word, "")
        if len(re.sub(r"[\W\d_]", "", left)) < ENOUGH and len(left) < len(password):
            raise ValidationError(
                _("This password is made of the name of the service or of yourself. Take other words."),
                code="password_of_known_words",
            )

    def get_help_text(self) -> str:
        return "It is not made of the name of this service, or of yours."


def _words(user: User | None) -> set[str]:
    texts = [*WORDS, urlsplit(settings.PUBLIC_URL).hostname or ""]
    if user is not None:
        texts += [user.username, user.email, user.first_name, user.last_name]
    parts = {part for text in texts for part in re.split(r"\W+", text.casefold())}
    return {word for word in parts if len(word) >= SHORTEST}
