"""The page that shows a code which the user copies into a program (`globus login --no-local-server`)."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from webui.page import show

#: The most characters of a code; those of this service are far shorter.
MAX_CODE = 256
_WORDS = {
    "access_denied": gettext_lazy("You did not allow it. The program that asked was given nothing."),
    "login_required": gettext_lazy("You have to sign in first."),
    "invalid_scope": gettext_lazy("The program asked for something that this service does not have."),
}
#: The form of error codes of OAuth (RFC 6749 section 4.1.2.1).
_NAME = re.compile(r"[a-z_]{1,40}")


@require_safe
@sensitive_variables("code")
def auth_code(request: HttpRequest) -> HttpResponse:
    """Show the code from the query, or the reason why there is none. The page does not use, store or send it."""
    code, error = request.GET.get("code", ""), request.GET.get("error", "")
    if error or not code or len(code) > MAX_CODE or not code.isprintable():
        # Not the description in the query: anybody can write such a link.
        text = _WORDS.get(error, _("There is no code here. Begin again in your program."))
        name = error if _NAME.fullmatch(error) else ""
        context = {"title": _("No code"), "text": text, "error": name}
        return show(request, "code.html", context, 400, referrer="no-referrer")
    return show(request, "code.html", {"title": _("Your code"), "code": code}, referrer="no-referrer")
