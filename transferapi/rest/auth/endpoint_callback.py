"""The page that the OAuth server of an endpoint redirects the browser to. It only shows a line to copy.

The page does not use the code itself, because it does not know its reader: an attacker could lead users here with a
code of the attacker, and activate their endpoints with another credential. The user gives the line to `activate`, which
knows the user and the state in the line.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.html import escape
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from identity.issuers.oauth import MAX_ANSWER_TEXT
from identity.issuers.oauth_errors import BAD_ANSWER, OAuthError, OAuthRefusedError

#: The page shows only these parts of a query: the rest may be anything.
_SHOWN = ("code", "state", "iss")
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Waybill: {title}</title><meta name="robots" content="noindex"></head>
<body><h1>{title}</h1><p>{text}</p>{line}</body>
</html>
"""


@require_GET
@sensitive_variables()
def oauth_callback(request: HttpRequest, place: str | None = None) -> HttpResponse:
    """The line for `activate`, or the reason why there is none. place: of the server (`oauth.place_of`)."""
    try:
        line = _line(request, place)
    except OAuthError as error:
        return _page("Not activated", error.message, "", 400)
    text = "Copy this line, and give it to the activation that you began. It serves once, and for a few minutes."
    return _page("One more step", text, f"<pre>{escape(line)}</pre>", 200)


@sensitive_variables()
def _line(request: HttpRequest, place: str | None) -> str:
    """The part of the query that `activate` needs, in its own encoding, and its address. Raises OAuthError."""
    query = request.GET
    if "error" in query:
        raise OAuthRefusedError(query["error"])
    if any(len(query.getlist(name)) > 1 for name in _SHOWN) or not query.get("code"):
        raise OAuthError(BAD_ANSWER)
    chosen = query.copy()
    for name in list(chosen):
        if name not in _SHOWN:
            del chosen[name]
    if place:
        chosen["place"] = place
    line = chosen.urlencode()
    if len(line) > MAX_ANSWER_TEXT:
        raise OAuthError(BAD_ANSWER)
    return line


def _page(title: str, text: str, line: str, status: int) -> HttpResponse:
    response = HttpResponse(_PAGE.format(title=escape(title), text=escape(text), line=line), status=status)
    response["Content-Security-Policy"] = _POLICY
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex"
    return response
