"""The translations of pages and mails, and the language in which a user reads mails.

Translations are text files, `LANGUAGE/*.po`, in the folders of the setting `LOCALE_PATHS`. They are read when a text is
first needed in a language: there is no compiled file that could be older than its source, and no program is needed to
make one. The language of mails is the user's choice, else that of the pages at the first sign-in.

InvalidFieldError
`- LanguageUnknownError()  no text of this service is in that language
"""

from __future__ import annotations

import gettext
import re
from ast import literal_eval
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils import translation
from django.utils.translation import trans_real

from .error_categories import InvalidFieldError
from .models import User

#: Language -> its name in itself. English is the language of the source.
LANGUAGES = {"en": "English", "de": "Deutsch"}
ENGLISH = "en"
#: A text, or a text that depends on a number, with the number of the plural form.
Key = str | tuple[str, int]


def activate(language: str) -> None:
    """Make it the language of this thread, or of this asyncio task."""
    _load(language)
    translation.activate(language)


def speaking(language: str) -> AbstractContextManager[None]:
    """`with speaking("de"):` gettext gives German within, and what it gave before afterwards."""
    _load(language)
    return translation.override(language)


def messages(language: str) -> dict[Key, str]:
    """Text -> translation, of all files of a language."""
    files = sorted(path for folder in settings.LOCALE_PATHS for path in (Path(folder) / language).glob("*.po"))
    return {key: said for path in files for key, said in _pairs(path.read_text())}


@cache
def _load(language: str) -> None:
    """Add our texts to Django's own of this language."""
    if language == ENGLISH:
        return
    ours = gettext.NullTranslations()
    ours._catalog = messages(language)  # type: ignore[attr-defined]  # as `merge` of Django reads it
    ours.plural = lambda n: int(n != 1)  # type: ignore[attr-defined]
    trans_real.translation(language).merge(ours)


def _pairs(text: str) -> Iterator[tuple[Key, str]]:
    """The entries of a .po file with their translations; entries without one are left out."""
    for entry in re.split(r"\n\s*\n", text):
        fields = dict(_fields(line for line in entry.splitlines() if not line.startswith("#")))
        text = fields.get("msgid", "")
        keys: dict[str, Key] = {"msgstr": text, "msgstr[0]": (text, 0), "msgstr[1]": (text, 1)}
        yield from ((key, fields[name]) for name, key in keys.items() if text and fields.get(name))


def _fields(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A keyword, and its text: the strings of its line and of the lines below it."""
    keyword, parts = "", list[str]()
    for line in filter(None, map(str.strip, lines)):
        if not line.startswith('"'):
            yield keyword, "".join(parts)
            keyword, _, line = line.partition(" ")
            parts = []
        parts.append(literal_eval(line.strip()))
    yield keyword, "".join(parts)


class LanguageUnknownError(InvalidFieldError):
    def __init__(self) -> None:
        super().__init__("language", f"expected one of {', '.join(LANGUAGES)}")


def language_of(user: User) -> str:
    """The language of the user's mails; English until one is known."""
    return user.language if user.language in LANGUAGES else ENGLISH


def speaking_to(user: User) -> AbstractContextManager[None]:
    """`with speaking_to(user):` gettext gives the language of this user's mails within."""
    return speaking(language_of(user))


def choose(user: User, language: str) -> None:
    """Set the language of the user's mails. Raises LanguageUnknownError."""
    if language not in LANGUAGES:
        raise LanguageUnknownError
    User.objects.filter(pk=user.pk).update(language=language)
    user.language = language


def begin_with(user: User, language: str) -> None:
    """Set the language, unless the user has one: that of the page on which the user signs in."""
    if not user.language and language in LANGUAGES:
        User.objects.filter(pk=user.pk, language="").update(language=language)
        user.language = language
