"""The page that asks a user whether an application may act for the user (OAuth2's authorization endpoint).

Where the application has no address for the code, a page shows it, and the user copies it into the program
(`globus login --no-local-server`).
"""

from __future__ import annotations

import re
import time

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirectBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from identity import shown_names
from identity.federation.freshness import Fresh
from identity.provider import authorization, clients, consents, scopes
from identity.provider.authorization import AuthorizationRequest
from identity.provider.errors import RequestNotTrustedError, RequestRefusedError
from webui.page import problem, show, to_sign_in, user_of
from webui.reasons import said

from .session_start import SIGNED_IN_FOR, is_anew, is_fresh, proof_of, signed_in_at
from .step_up import MOST_DOMAINS

#: Services that are not here, named on the page; the others are counted.
MOST_NAMED = 6


class _Back(HttpResponseRedirectBase):
    """A redirect to an application. `authorization` alone decides where to: programs have schemes that are not HTTP."""

    status_code = 302

    def __init__(self, address: str) -> None:
        self.allowed_schemes = [address.partition(":")[0].lower()]
        super().__init__(address)
        self["Cache-Control"] = "no-store"
        self["Referrer-Policy"] = "no-referrer"


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """The form is sent to the same address, which holds the whole request: no state is kept between."""
    try:
        asked = authorization.read(request.META.get("QUERY_STRING", ""), request.build_absolute_uri("/"))
        return _answer(request, asked) if request.method == "POST" else _ask(request, asked)
    except RequestNotTrustedError as error:
        more = _("You have been sent nowhere; report this to whoever made the link or the program.")
        text = f"{said(error.reason).rstrip('.')}. {more}"
        return problem(request, 400, _("This request for access is wrong"), text)
    except RequestRefusedError as error:
        return _Back(error.location)


def _ask(request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
    silent = "none" in asked.prompt
    if _must_sign_in(request, asked):
        return _Back(authorization.refuse(asked, "login_required")) if silent else _sign_in(request, asked)
    if _needs_no_question(request, asked):
        return _allow(request, asked)
    if silent:
        return _Back(authorization.refuse(asked, "consent_required"))
    return _form(request, asked)


def _answer(request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
    if request.POST.get("answer") == "other":
        return _sign_in(request, asked, Fresh.ASKED)
    if _must_sign_in(request, asked):
        return _sign_in(request, asked)
    if request.POST.get("answer") == "deny":
        return _Back(authorization.refuse(asked))
    user = user_of(request)
    objection = authorization.reason_to_refuse(asked, user, proof_of(request))
    if request.POST.get("answer") != "allow" or objection is not None:
        return _form(request, asked, 400)
    return _allow(request, asked)


def _allow(request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
    # A password that was given for this request has served its purpose.
    request.session.pop(SIGNED_IN_FOR, None)
    return _Back(authorization.grant(asked, user_of(request), proof_of(request)))


def _needs_no_question(request: HttpRequest, asked: AuthorizationRequest) -> bool:
    """Whether the user has given this application the same consent before, and only it can read the answer.

    Never for a program without a secret, or one that listens on the user's machine: any other program there could
    pretend to be it (RFC 8252 section 8.6).
    """
    application, user = asked.application, user_of(request)
    only_it = (
        clients.is_confidential(application) and asked.redirect_uri.startswith("https://") and not asked.shows_code
    )
    wants_page = asked.prompt & {"consent", "login", "select_account"} or asked.message
    if not only_it or wants_page or authorization.reason_to_refuse(asked, user, proof_of(request)) is not None:
        return False
    return consents.is_agreed(user, application, [scope.name for scope in asked.scopes], offline=asked.offline)


def _must_sign_in(request: HttpRequest, asked: AuthorizationRequest) -> bool:
    """Whether nobody is signed in, or the application wants the password again (`prompt`, `max_age`)."""
    if not request.user.is_authenticated:
        return True
    is_old = asked.max_age is not None and time.time() - signed_in_at(request) > asked.max_age
    return ("login" in asked.prompt and not is_anew(request)) or (is_old and not is_fresh(request))


def _sign_in(request: HttpRequest, asked: AuthorizationRequest, fresh: Fresh = Fresh.ANY) -> HttpResponse:
    """Lead to the sign-in page. fresh: the least that is demanded of another provider.

    The session of a provider may be new enough for `max_age`: only where it was not, the person is asked again.
    """
    if "login" in asked.prompt:
        fresh = Fresh.ASKED
    if asked.max_age is not None and (request.user.is_authenticated or not asked.max_age):
        fresh = Fresh.REQUIRED
    domains = asked.required_domains[:MOST_DOMAINS]
    return to_sign_in(request.get_full_path(), again=True, fresh=fresh, username=asked.login_hint, domains=domains)


def _unserved(asked: AuthorizationRequest) -> str:
    """The services that are not here, and for which the application asks; "": none."""
    names = scopes.unserved(scope.name for scope in asked.scopes)
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" (+{more})" if more > 0 else "")


def _form(request: HttpRequest, asked: AuthorizationRequest, status: int = 200) -> HttpResponse:
    context = {
        "title": _("Allow access"),
        "name": asked.application.name or _("A program without a name"),
        "client_id": asked.application.client_id,
        "may": [said(scope.words) for scope in asked.scopes if scope.words],
        "unserved": _unserved(asked),
        "offline": asked.offline,
        "identity_name": shown_names.name_of(user_of(request)),
        "host": _("a page of ours, which shows you a code to copy") if asked.shows_code else asked.redirect_host,
        "message": asked.message,
        "objection": authorization.reason_to_refuse(asked, user_of(request), proof_of(request)),
    }
    return show(request, "consent.html", context, status, leads_to=asked.redirect_uri)


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
