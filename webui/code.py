"""The page that shows a code which the user copies into a program (`globus login --no-local-server`)."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from .page import show

#: Characters; what we make is far shorter.
MAX_CODE = 256
_WORDS = {
    "access_denied": "You did not allow it. The program that asked was given nothing.",
    "login_required": "You have to sign in first.",
    "invalid_scope": "The program asked for something that this service does not have.",
}
#: How OAuth names its errors (RFC 6749 section 4.1.2.1).
_NAME = re.compile(r"[a-z_]{1,40}")


@require_safe
@sensitive_variables("code")
def auth_code(request: HttpRequest) -> HttpResponse:
    """The code from the query, or why there is none. It does nothing with it, and tells it to nobody."""
    code, error = request.GET.get("code", ""), request.GET.get("error", "")
    if error or not code or len(code) > MAX_CODE or not code.isprintable():
        # Not the description that the link has: anybody may have written it.
        text = _WORDS.get(error, "There is no code here. Begin again in your program.")
        name = error if _NAME.fullmatch(error) else ""
        context = {"title": "No code", "text": text, "error": name}
        return show(request, "code.html", context, 400, referrer="no-referrer")
    return show(request, "code.html", {"title": "Your code", "code": code}, referrer="no-referrer")
