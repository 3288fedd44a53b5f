"""The language of a page: by the choice of the reader, else by Accept-Language. The API speaks English always.

The translations are text files, `locale/LANGUAGE/*.po`. They are read when a page first needs them: there is no
compiled file that could be older than its source, and no program is needed to make one.
"""

from __future__ import annotations

import gettext
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.translation import trans_real

#: Language -> its name in itself. English is the language of the source.
LANGUAGES = {"en": "English", "de": "Deutsch"}
COOKIE = "waybill-language"
FOLDER = Path(__file__).parent / "locale"
#: A text, or a text that depends on a number, with the number of the plural form.
Key = str | tuple[str, int]
#: `t("...")` in a module: the texts that scripts show.
_IN_SCRIPTS = re.compile(r"""\bt\(\s*("(?:[^"\\\n]|\\.)*")""")


class PageLanguage:
    """Middleware: it activates the reader's language for views of this package, and for no others."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            answer = self._get_response(request)
        finally:
            translation.deactivate()
        return answer

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], *_: object) -> None:
        if view.__module__.startswith("webui."):
            activate(of(request))


def of(request: HttpRequest) -> str:
    chosen = request.COOKIES.get(COOKIE, "")
    return chosen if chosen in LANGUAGES else _accepted(request.headers.get("Accept-Language", "")[:1000])


def activate(language: str) -> None:
    _load(language)
    translation.activate(language)


def messages(language: str) -> dict[Key, str]:
    """Text -> translation, of all files of a language."""
    return {key: said for path in sorted((FOLDER / language).glob("*.po")) for key, said in _pairs(path.read_text())}


@cache
def script_texts(language: str, sources: tuple[str, ...]) -> dict[str, str]:
    """The translations that modules with these sources show."""
    known = messages(language)
    wanted = {literal_eval(text) for source in sources for text in _IN_SCRIPTS.findall(source)}
    return {text: known[text] for text in sorted(wanted) if text in known}


def _accepted(header: str) -> str:
    """The first language of ours in the order of the header; weights that are equal keep their order."""
    for code, _ in trans_real.parse_accept_lang_header(header):
        if code.partition("-")[0] in LANGUAGES:
            return code.partition("-")[0]
    return "en"


@cache
def _load(language: str) -> None:
    """Add our texts to Django's own of this language."""
    if language == "en":
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
