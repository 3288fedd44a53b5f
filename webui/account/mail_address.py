"""The mail address of the account: the form that asks for a link, the link of the mail, and its confirmation.

The code of the link goes from the address into a cookie at once, so that no further page, log or referrer has it.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods

from identity import mail_addresses
from identity.hidden import Secret
from identity.mail_addresses import AddressLinkLapsedError
from identity.models import User
from identity.password_sign_in import SignInError
from transferapi.rest.http.trusted_proxies import address_of
from webui import cookies
from webui.page import ACCOUNT, problem, show, signed_in, user_of
from webui.reasons import said
from webui.sign_in.session_start import refused, status_of

from .confirmations import recently_signed_in
from .page import refusal

SECTION, CONFIRM = "mails", "/account/address"
#: The cookie with the code, and the seconds for which a browser keeps it.
COOKIE, KEPT = "waybill-address", 3600


@recently_signed_in(SECTION)
def ask(request: HttpRequest, user: User) -> str | HttpResponse:
    """A stolen session must not lead the links for a lost password to another mailbox."""
    try:
        mail_addresses.ask(user, request.POST.get("email", ""), address_of(request))
    except SignInError as error:
        answer = refusal(request, SECTION, said(error.message), "email", status=status_of(error))
        return refused(answer, error)
    return _("A mail with a link is on its way to this address. Your address changes when you open the link.")


@require_GET
@sensitive_variables("code")
def link(request: HttpRequest) -> HttpResponse:
    """The address in the mail. It uses nothing up: programs that look into mails open such addresses too."""
    return cookies.keep_code(request.GET.get("code", ""), COOKIE, KEPT, CONFIRM, CONFIRM)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def confirm(request: HttpRequest) -> HttpResponse:
    """The question to the user who asked for it, who is signed in; the answer sets the address."""
    code = Secret(request.COOKIES.get(COOKIE, ""))
    try:
        email = mail_addresses.find(user_of(request), code)
        if request.method != "POST":
            context = {"title": _("Your new mail address"), "email": email, "name": user_of(request).username}
            return show(request, "address_confirm.html", context)
        mail_addresses.use(user_of(request), code)
    except AddressLinkLapsedError as error:
        answer = problem(request, 404, _("This link is over"), said(error.message))
        answer.delete_cookie(COOKIE, path=CONFIRM)
        return answer
    messages.success(request, _("Mails go to %(email)s from now on.") % {"email": email})
    done = HttpResponseRedirect(f"{ACCOUNT}#{SECTION}")
    done.delete_cookie(COOKIE, path=CONFIRM)
    return done
