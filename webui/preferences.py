"""The reader's choice of language and colours, in cookies: it needs no account and no script."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_POST

from identity import languages

from . import cookies, language
from .frame import THEME_COOKIE, THEMES
from .page import own_path, user_of

_YEAR = 365 * 86400


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Set what the form has, and lead back. A theme that is none of ours removes the choice: as the system has it.

    The language holds also for mails to the user who is signed in.
    """
    answer = HttpResponseRedirect(own_path(request.POST.get("next")))
    if request.POST.get("language") in language.LANGUAGES:
        cookies.keep(answer, language.COOKIE, request.POST["language"], _YEAR)
        if request.user.is_authenticated:
            languages.choose(user_of(request), request.POST["language"])
    if request.POST.get("theme") in THEMES:
        cookies.keep(answer, THEME_COOKIE, request.POST["theme"], _YEAR)
    elif "theme" in request.POST:
        answer.delete_cookie(THEME_COOKIE)
    return answer
