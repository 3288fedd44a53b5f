"""The base of all pages: rendering, access, and the addresses to which a browser may be sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme

from identity.federation.freshness import Fresh
from identity.models import User

from . import frame

P = ParamSpec("P")
SIGN_IN = "/signin"
ACCOUNT = "/account"
#: The most characters of an address to return to. No request line is longer.
MAX_NEXT = 8190
#: Schemes whose addresses stay in the browser: "" is that of an address without a scheme.
_SCHEMES_OF_PAGES = frozenset({"", "http", "https", "javascript", "data", "blob"})
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)


def show(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    status: int = 200,
    *,
    leads_to: str = "",
    referrer: str = "same-origin",
) -> HttpResponse:
    """A page. leads_to: the address of an application to which its form may redirect the browser.

    Browsers apply `form-action` to redirects too, so this address must be in the policy.
    """
    # An address that may hold a secret is in no page.
    back = request.get_full_path() if request.method == "GET" and referrer == "same-origin" else ""
    # Browsers send forms of a page without a referrer with `Origin: null`, which is refused as one from elsewhere.
    shown = {"title": "", "frame": frame.of(request), "back": back, "may_choose": referrer != "no-referrer", **context}
    return _answer(render_to_string(f"webui/{template}", shown, request), status, leads_to=leads_to, referrer=referrer)


def part(request: HttpRequest, template: str, context: Mapping[str, Any]) -> HttpResponse:
    """A part of a page, for a script that puts it there."""
    return _answer(render_to_string(f"webui/{template}", dict(context), request), 200)


def _answer(text: str, status: int, *, leads_to: str = "", referrer: str = "same-origin") -> HttpResponse:
    # A name that is not UTF-8 has lone surrogates. Where a template shows it unescaped, the page must not fail.
    answer = HttpResponse(text.encode("utf-8", "replace"), status=status)
    answer["Content-Security-Policy"] = " ".join(filter(None, (_POLICY, _source(leads_to))))
    answer["Cache-Control"] = "no-store"
    answer["Referrer-Policy"] = referrer
    answer["Cross-Origin-Opener-Policy"] = "same-origin"
    answer["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    return answer


def problem(request: HttpRequest, status: int, title: str, text: str, *, referrer: str = "same-origin") -> HttpResponse:
    """A page that says what went wrong, and what the user can do."""
    return show(request, "problem.html", {"title": title, "text": text, "status": status}, status, referrer=referrer)


def signed_in(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for users. Others sign in first and come back to it; from a form they come to the account page."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return to_sign_in(request.get_full_path() if request.method == "GET" else ACCOUNT)
        return view(request, *args, **kwargs)

    return wrapped


def signed_in_stream(
    view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """As `signed_in`, for a file that is written while it is read."""
    return signed_in(view)  # type: ignore[arg-type]


def user_of(request: HttpRequest) -> User:
    """The signed-in user, on a page for users."""
    return cast(User, request.user)


def to_sign_in(
    after: str, *, again: bool = False, fresh: Fresh = Fresh.REQUIRED, username: str = "", domains: Iterable[str] = ()
) -> HttpResponseRedirect:
    """Redirect to the sign-in page, which leads to `after`. again: ask also a signed-in user.

    fresh: with `again`, what is demanded of another provider. domains: one of which the identity shall have.
    """
    query = [("next", after), *([("again", "1"), ("fresh", fresh.value)] if again else [])]
    query += [("username", username)] * bool(username) + [("domain", one) for one in domains]
    return HttpResponseRedirect(f"{SIGN_IN}?{urlencode([one for one in query if one[1]])}")


def own_path(text: str | None) -> str:
    """`text` if it is a path of this site, else the first page: a link to this site cannot send users elsewhere."""
    if text and len(text) <= MAX_NEXT and text.startswith("/") and url_has_allowed_host_and_scheme(text, None):
        return text
    return frame.first_page()


def _source(address: str) -> str:
    """The origin of an address, as a source of a policy; "" where it has none that a policy can hold."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme in ("http", "https") and host and all(letter.isalnum() or letter in "-.:" for letter in host):
        name = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{name}" + (f":{port}" if port else "")
    return f"{parts.scheme}:" if _is_of_an_app(parts.scheme) else ""


def _is_of_an_app(scheme: str) -> bool:
    """Whether links of this scheme lead into another program (RFC 8252 section 7.1), not into a page."""
    letters = scheme.replace(".", "").replace("-", "")
    return scheme.isascii() and letters.isalnum() and scheme not in _SCHEMES_OF_PAGES
