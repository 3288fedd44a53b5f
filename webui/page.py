"""What all pages share: how they are shown, who may see them, and where a browser may be sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme

from identity.models import User

P = ParamSpec("P")
SIGN_IN = "/signin"
ACCOUNT = "/account"
#: Characters of an address that we send somebody back to; no request line is longer.
MAX_NEXT = 8190
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
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
    """A page. leads_to: the address of an application to which its form may send the browser on.

    Browsers hold `form-action` against redirects too, so the place must be in it.
    """
    text = render_to_string(f"webui/{template}", {"title": "", **context}, request)
    answer = HttpResponse(text, status=status)
    answer["Content-Security-Policy"] = " ".join(filter(None, (_POLICY, _source(leads_to))))
    answer["Cache-Control"] = "no-store"
    answer["Referrer-Policy"] = referrer
    answer["Cross-Origin-Opener-Policy"] = "same-origin"
    answer["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    return answer


def problem(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """A page that says what went wrong, and what can be done."""
    return show(request, "problem.html", {"title": title, "text": text}, status)


def signed_in(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for users: others sign in first, and come back to it (to the account page from a form)."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return to_sign_in(request.get_full_path() if request.method == "GET" else ACCOUNT)
        return view(request, *args, **kwargs)

    return wrapped


def user_of(request: HttpRequest) -> User:
    """Who is signed in, on a page that only such can see."""
    return cast(User, request.user)


def to_sign_in(after: str, *, again: bool = False, username: str = "") -> HttpResponseRedirect:
    """To the sign-in page, and from there to `after`. again: the password is asked for whoever is signed in."""
    query = {"next": after, **({"again": "1"} if again else {}), **({"username": username} if username else {})}
    return HttpResponseRedirect(f"{SIGN_IN}?{urlencode(query)}")


def own_path(text: str | None) -> str:
    """`text` where it is a path of ours, else the account page: nobody is sent elsewhere by a link to us."""
    if text and len(text) <= MAX_NEXT and text.startswith("/") and url_has_allowed_host_and_scheme(text, None):
        return text
    return ACCOUNT


def _source(address: str) -> str:
    """The origin of an address as a source of a policy; "" where it has none that can stand there."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme in ("http", "https") and host and all(letter.isalnum() or letter in "-.:" for letter in host):
        name = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{name}" + (f":{port}" if port else "")
    is_of_an_app = parts.scheme.isascii() and parts.scheme not in ("", "http", "https", "javascript", "data", "blob")
    return f"{parts.scheme}:" if is_of_an_app and parts.scheme.replace(".", "").replace("-", "").isalnum() else ""
