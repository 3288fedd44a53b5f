"""The language in which a user reads mails: the user's choice, else that of the pages at the first sign-in.

InvalidFieldError
`- LanguageUnknownError()  no text of this service is in that language
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from identity.error_categories import InvalidFieldError
from identity.models import User

from . import catalog


class LanguageUnknownError(InvalidFieldError):
    def __init__(self) -> None:
        super().__init__("language", f"expected one of {', '.join(catalog.LANGUAGES)}")


def of(user: User) -> str:
    """The language of the user's mails; English until one is known."""
    return user.language if user.language in catalog.LANGUAGES else catalog.ENGLISH


def speaking_to(user: User) -> AbstractContextManager[None]:
    """`with speaking_to(user):` gettext gives the language of this user's mails within."""
    return catalog.speaking(of(user))


def choose(user: User, language: str) -> None:
    """Set the language of the user's mails. Raises LanguageUnknownError."""
    if language not in catalog.LANGUAGES:
        raise LanguageUnknownError
    User.objects.filter(pk=user.pk).update(language=language)
    user.language = language


def begin_with(user: User, language: str) -> None:
    """Set the language, unless the user has one: that of the page on which the user signs in."""
    if not user.language and language in catalog.LANGUAGES:
        User.objects.filter(pk=user.pk, language="").update(language=language)
        user.language = language
