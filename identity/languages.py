"""The translations of pages and mails, and the language in which a user reads mails.

Translations are text files, `LANGUAGE/*.po`, in the folders of the setting `LOCALE_PATHS`. Babel reads them when a
text is first needed in a language: there is no compiled file that could be older than its source, and no program is
needed to make one. The language of mails is the user's choice, else that of the pages at the first sign-in.
"""

from __future__ import annotations

import gettext
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import ngettext, trans_real

from .error_categories import InvalidFieldError
from .gsi.sentences import ErrorName, Sentence, in_english
from .models import User

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

#: Language -> its name in itself. English is the language of the source.
LANGUAGES = {"en": "English", "de": "Deutsch"}
ENGLISH = "en"
#: A text, or a text that depends on a number, with the number of the plural form.
Key = str | tuple[str, int]
#: It stands between the context of a text and the text (GNU gettext manual, section "MO Files").
_CONTEXT = "\x04"


def activate(language: str) -> None:
    """Make it the language of this thread, or of this asyncio task."""
    _load(language)
    translation.activate(language)


def speaking(language: str) -> AbstractContextManager[None]:
    """`with speaking("de"):` gettext gives German within, and what it gave before afterwards."""
    _load(language)
    return translation.override(language)


def messages(language: str) -> dict[Key, str]:
    """Text -> translation, of all files of a language. A text with a context is preceded by it, as gettext does."""
    return {key: text for file in _files(language) for key, text in _pairs(file)}


@cache
def _load(language: str) -> None:
    """Add our texts to Django's own of this language."""
    if language == ENGLISH or not (files := _files(language)):
        return
    ours = gettext.NullTranslations()
    ours._catalog = messages(language)  # type: ignore[attr-defined]  # as `merge` of Django reads it
    ours.plural = gettext.c2py(files[0].plural_expr)  # type: ignore[attr-defined]
    trans_real.translation(language).merge(ours)


def translated(
    sentence: Sentence | Mapping[str, Any],
    show: Callable[[Any], str] = in_english,
    shown_form: Callable[[str], str] = str,
) -> str:
    """The sentence, or its record, in the language that is active.

    show: makes the text of each value that is no sentence itself: a text, a number, a time, or an `ErrorName`.
    shown_form: makes the text of each form, such as one with its characters escaped.
    """
    record = sentence.record(str) if isinstance(sentence, Sentence) else sentence
    values = {name: _value(value, show, shown_form) for name, value in record["values"].items()}
    many = record.get("many")
    form = ngettext(record["form"], many, record["values"]["number"]) if many else translation.gettext(record["form"])
    return shown_form(form) % values if values else shown_form(form)


def _value(value: Any, show: Callable[[Any], str], shown_form: Callable[[str], str]) -> str:
    if not isinstance(value, dict):
        return show(value)
    if "form" in value:
        return translated(value, show, shown_form)
    if "time" in value:
        return show(datetime.fromisoformat(value["time"]))
    return show(ErrorName(value["code"], value["english"]))


def _files(language: str) -> list[Catalog]:
    """The files of a language. Raises PoFileError where one is malformed."""
    # Most processes never need it.
    from babel.messages.pofile import read_po

    paths = sorted(path for folder in settings.LOCALE_PATHS for path in (Path(folder) / language).glob("*.po"))
    return [read_po(path.read_text().splitlines(keepends=True), locale=language, abort_invalid=True) for path in paths]


def _pairs(file: Catalog) -> Iterator[tuple[Key, str]]:
    """The entries with their translations; entries without one, and those that are marked as fuzzy, are left out."""
    for entry in file:
        if not entry.id or entry.fuzzy:
            continue
        text = entry.id if isinstance(entry.id, str) else entry.id[0]
        key = f"{entry.context}{_CONTEXT}{text}" if entry.context else text
        if isinstance(entry.string, str):
            yield from [(key, entry.string)] if entry.string else []
        else:
            yield from (((key, number), form) for number, form in enumerate(entry.string or ()) if form)


def language_of(user: User) -> str:
    """The language of the user's mails; English until one is known."""
    return user.language if user.language in LANGUAGES else ENGLISH


def speaking_to(user: User) -> AbstractContextManager[None]:
    """`with speaking_to(user):` gettext gives the language of this user's mails within."""
    return speaking(language_of(user))


def choose(user: User, language: str) -> None:
    """Set the language of the user's mails. Raises InvalidFieldError."""
    if language not in LANGUAGES:
        raise InvalidFieldError("language", f"expected one of {', '.join(LANGUAGES)}")
    User.objects.filter(pk=user.pk).update(language=language)
    user.language = language


def begin_with(user: User, language: str) -> None:
    """Set the language, unless the user has one: that of the page on which the user signs in."""
    if not user.language and language in LANGUAGES:
        User.objects.filter(pk=user.pk, language="").update(language=language)
        user.language = language
