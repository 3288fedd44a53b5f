"""The pages of sign-up: the address, the link of the mail, and the account; and the link of an invitation.

Codes go from the address into cookies at once, so that no further page, log or referrer has them.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods

from endpoints.error_meanings import meaning
from identity import password_recovery, sign_up
from identity.error_categories import CategorizedError
from identity.hidden import Secret
from identity.password_sign_in import SignInError
from identity.sign_up import (
    AddressRefusedError,
    InvitationRefusedError,
    NameRefusedError,
    SignUpError,
    SignUpLinkLapsedError,
)
from identity.sign_up_policy import SignUp
from transferapi.rest.http.trusted_proxies import address_of
from webui import cookies
from webui.page import SIGN_IN, problem, show
from webui.reasons import said

from .session_start import refused, status_of

SIGN_UP, ACCOUNT = "/signup", "/signup/account"
#: The cookies with the codes, and the seconds for which a browser keeps them. An invitation may also be used by the
#: sign-in with an identity of another service: its cookie is sent with every page.
LINK_COOKIE, INVITATION_COOKIE = "waybill-signup", "waybill-invitation"
KEPT = 3600


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """The form. Its answer is the same whether the address has an account or not."""
    if not sign_up.is_offered() or not password_recovery.is_offered():
        text = _("The operator of this service makes the accounts. Ask there for one.")
        return problem(request, 404, _("You cannot make an account here"), text)
    if request.method != "POST":
        return _form(request)
    address = request.POST.get("email", "")
    try:
        sign_up.ask(address, address_of(request), invitation_of(request))
    except SignInError as error:
        return refused(_form(request, address, said(error.message), status_of(error)), error)
    except AddressRefusedError as error:
        return _form(request, address, said(error.message), 400)
    except SignUpError as error:
        answer = _form(request, address, said(error.message), _status(error))
        if isinstance(error, InvitationRefusedError):
            answer.delete_cookie(INVITATION_COOKIE)
        return answer
    hours = int(sign_up.LIFETIME.total_seconds() // 3600)
    return show(request, "signup_sent.html", {"title": _("Look into your mailbox"), "hours": hours})


@require_GET
@sensitive_variables("code")
def invitation(request: HttpRequest) -> HttpResponse:
    """The address of an invitation. It uses nothing up: programs that look into mails open such addresses too."""
    return cookies.keep_code(request.GET.get("code", ""), INVITATION_COOKIE, KEPT, SIGN_UP, "/")


@require_GET
@sensitive_variables("code")
def link(request: HttpRequest) -> HttpResponse:
    """The address in the mail. It uses nothing up."""
    return cookies.keep_code(request.GET.get("code", ""), LINK_COOKIE, KEPT, ACCOUNT, SIGN_UP)


def invitation_of(request: HttpRequest) -> Secret | None:
    """The code of the invitation that this browser has opened."""
    code = request.COOKIES.get(INVITATION_COOKIE, "")
    return Secret(code) if code else None


def unknown(
    request: HttpRequest, name: str, after: str, wrong: str = "", status: int = 403, **more: object
) -> HttpResponse:
    """The page for somebody who has proven a name that no user has: it may offer an account. more: of its context."""
    context = {
        "title": _("Sign in"),
        "name": name,
        "after": after,
        "back": "",
        "sign_up": sign_up.is_offered(),
        "username": request.POST.get("username", "")[:40],
        "wrong": wrong,
        **more,
    }
    return show(request, "signin_unknown.html", context, status)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The form for the account. It signs nobody in: the link may be in the hands of who reads along."""
    code = Secret(request.COOKIES.get(LINK_COOKIE, ""))
    try:
        email = sign_up.find_address(code, address_of(request))
        if request.method != "POST":
            return _account_form(request, email)
        return _make(request, code, email)
    except SignInError as error:
        return refused(problem(request, status_of(error), _("Too many attempts"), said(error.message)), error)
    except SignUpError as error:
        return _lapsed(request, error)


def _make(request: HttpRequest, code: Secret, email: str) -> HttpResponse:
    """Raises SignUpError."""
    new = Secret(request.POST.get("new", ""))
    if new.value != request.POST.get("repeated", ""):
        return _account_form(request, email, repeated=_("The two passwords are not the same."))
    try:
        user = sign_up.finish(code, request.POST.get("username", ""), request.POST.get("full_name", "").strip(), new)
    except NameRefusedError as error:
        return _account_form(request, email, username=said(error.message))
    except SignInError as error:
        return _account_form(request, email, new=said(error.message))
    messages.success(request, _("Your account %(name)s is ready. Sign in with it.") % {"name": user.username})
    answer = HttpResponseRedirect(f"{SIGN_IN}?username={user.username}")
    answer.delete_cookie(LINK_COOKIE, path=SIGN_UP)
    answer.delete_cookie(INVITATION_COOKIE)
    return answer


def _form(request: HttpRequest, email: str = "", wrong: str = "", status: int = 200) -> HttpResponse:
    invited = invitation_of(request) is not None
    policy = sign_up.policy()
    context = {
        "title": _("Make an account"),
        "email": email[: sign_up.MAX_EMAIL],
        "wrong": {"email": wrong},
        "invited": invited,
        "needs_invitation": policy.kind is SignUp.INVITATION and not invited,
        "domains": ", ".join(policy.domains) if not invited else "",
    }
    return show(request, "signup.html", context, status)


def _account_form(request: HttpRequest, email: str, **wrong: str) -> HttpResponse:
    context = {
        "title": _("Make your account"),
        "email": email,
        "username": request.POST.get("username", ""),
        "full_name": request.POST.get("full_name", ""),
        "wrong": wrong,
    }
    return show(request, "signup_account.html", context, 400 if wrong else 200)


def _lapsed(request: HttpRequest, error: SignUpError) -> HttpResponse:
    title = _("This link is over") if isinstance(error, SignUpLinkLapsedError) else _("You cannot make an account here")
    answer = show(request, "signup_lapsed.html", {"title": title, "text": said(error.message)}, _status(error))
    answer.delete_cookie(LINK_COOKIE, path=SIGN_UP)
    return answer


def _status(error: CategorizedError) -> int:
    return meaning(error, "")[0]
