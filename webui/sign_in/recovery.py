"""The way back for a user who has lost the password: the form, the link of the mail, and the new password.

The code of the link goes from the address into a cookie at once, so that no further page, log or referrer has it. It is
in no session: the database has only its digest.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods

from identity import password_recovery
from identity.hidden import Secret
from identity.password_recovery import MAX_NAME, RecoveryLinkLapsedError
from identity.password_sign_in import SignInError
from transferapi.rest.http.trusted_proxies import address_of
from webui import cookies
from webui.page import SIGN_IN, problem, show
from webui.reasons import said

from .session_start import refused, status_of

RECOVER, NEW_PASSWORD = "/recover", "/recover/password"
#: The cookie with the code, and the seconds for which a browser keeps it.
COOKIE = "waybill-recovery"
KEPT = 900


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """The form. Its answer is the same whether such a user exists or not."""
    if not password_recovery.is_offered():
        text = _("This service sends no mails. Its operator can give you a new password.")
        return problem(request, 404, _("There is no way by mail here"), text)
    if request.method != "POST":
        return _form(request)
    name = request.POST.get("name", "").strip()
    if not 0 < len(name) <= MAX_NAME:
        return _form(request, name[:MAX_NAME], _("Enter your user name or your mail address."), 400)
    try:
        password_recovery.ask(name, address_of(request))
    except SignInError as error:
        return refused(_form(request, name, said(error.message), status_of(error)), error)
    minutes = int(password_recovery.LIFETIME.total_seconds() // 60)
    return show(request, "recover_sent.html", {"title": _("Look into your mailbox"), "minutes": minutes})


@require_GET
@sensitive_variables("code")
def link(request: HttpRequest) -> HttpResponse:
    """The address in the mail. It uses nothing up: programs that look into mails open such addresses too."""
    code = Secret(request.GET.get("code", ""))
    try:
        password_recovery.find(code)
    except RecoveryLinkLapsedError as error:
        return _lapsed(request, error)
    return cookies.keep_code(code.value, COOKIE, KEPT, NEW_PASSWORD, RECOVER)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def new_password(request: HttpRequest) -> HttpResponse:
    """The form for the new password. It signs nobody in: the second factor is asked for as always."""
    code = Secret(request.COOKIES.get(COOKIE, ""))
    try:
        user = password_recovery.find(code)
        if request.method != "POST":
            return _password_form(request, user.username)
        new = Secret(request.POST.get("new", ""))
        if new.value != request.POST.get("repeated", ""):
            return _password_form(request, user.username, repeated=_("The two passwords are not the same."), status=400)
        password_recovery.use(code, new)
    except RecoveryLinkLapsedError as error:
        return _lapsed(request, error)
    except SignInError as error:
        return _password_form(request, user.username, new=said(error.message), status=400)
    logout(request)
    messages.success(request, _("Your new password is set. Sign in with it."))
    answer = HttpResponseRedirect(SIGN_IN)
    answer.delete_cookie(COOKIE, path=RECOVER)
    return answer


def _form(request: HttpRequest, name: str = "", wrong: str = "", status: int = 200) -> HttpResponse:
    return show(request, "recover.html", {"title": _("Set a new password"), "name": name, "wrong": wrong}, status)


def _password_form(
    request: HttpRequest, username: str, *, new: str = "", repeated: str = "", status: int = 200
) -> HttpResponse:
    context = {"title": _("Set a new password"), "username": username, "wrong": {"new": new, "repeated": repeated}}
    # Not "no-referrer", with which browsers send `Origin: null`: the form would be refused as one from elsewhere.
    return show(request, "recover_password.html", context, status)


def _lapsed(request: HttpRequest, error: RecoveryLinkLapsedError) -> HttpResponse:
    context = {"title": _("This link is over"), "text": said(error.message)}
    answer = show(request, "recover_lapsed.html", context, 400)
    answer.delete_cookie(COOKIE, path=RECOVER)
    return answer
