"""The language of a page: by the choice of the reader, else by Accept-Language. The API speaks English always."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.translation import trans_real

from identity.languages import ENGLISH, LANGUAGES, activate, messages

__all__ = ["COOKIE", "LANGUAGES", "PageLanguage", "activate", "messages", "of", "script_texts"]

COOKIE = "waybill-language"
#: `t("...")` in a module: the texts that scripts show.
_TEXT = r"""("(?:[^"\\\n]|\\.)*")"""
_IN_SCRIPTS = re.compile(rf"\bt\(\s*{_TEXT}")
#: `tn("...", "...", number)`: a text for 1, and one for all other numbers.
_PLURALS_IN_SCRIPTS = re.compile(rf"\btn\(\s*{_TEXT},\s*{_TEXT}")


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


@cache
def script_texts(language: str, sources: tuple[str, ...]) -> dict[str, str | list[str]]:
    """The translations that modules with these sources show; of two forms, both, below both texts."""
    known = messages(language)
    wanted = {literal_eval(text) for source in sources for text in _IN_SCRIPTS.findall(source)}
    pairs = {tuple(map(literal_eval, pair)) for source in sources for pair in _PLURALS_IN_SCRIPTS.findall(source)}
    translated = [pair for pair in sorted(pairs) if (pair[0], 1) in known]
    plurals = {"\n".join(pair): [known[pair[0], 0], known[pair[0], 1]] for pair in translated}
    return {**{text: known[text] for text in sorted(wanted) if text in known}, **plurals}


def _accepted(header: str) -> str:
    """The first language of ours in the order of the header; weights that are equal keep their order."""
    for code, _ in trans_real.parse_accept_lang_header(header):
        if code.partition("-")[0] in LANGUAGES:
            return code.partition("-")[0]
    return ENGLISH
