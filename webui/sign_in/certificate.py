"""Signs users in by the certificate that their browser shows, where its subject is registered (X.509, RFC 5280).

The front server or this service has verified the certificate. A browser sends its certificate with each request, so a
form with the token of its session begins the sign-in: no page of another site can.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_noop as _
from django.views.decorators.http import require_POST

from identity import certificate_subjects, password_sign_in
from identity.audit import log as audit
from identity.password_sign_in import SignInError
from transferapi.rest.http.client_certificates import accepted_subject
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import own_path

from .password import form
from .session_start import complete, refused, status_of

#: Attempts of one network in five minutes.
MOST = 50
NOT_SHOWN = _("Your browser shows no certificate that is accepted here.")
NOT_REGISTERED = _(
    "Nobody has added the subject of this certificate. Sign in in another way, and add it to your account."
)


@require_POST
def sign_in(request: HttpRequest) -> HttpResponse:
    """Begin the session of the user who has registered the subject."""
    after = own_path(request.POST.get("next"))
    try:
        password_sign_in.count_request("certificate", address_of(request), MOST)
    except SignInError as error:
        return refused(form(request, after, reason=error.reason, status=status_of(error)), error)
    subject = accepted_subject(request)
    if subject is None:
        return _refusal(request, after, NOT_SHOWN, "no certificate is accepted")
    user = certificate_subjects.user_of(subject)
    if user is None:
        return _refusal(request, after, NOT_REGISTERED, "not registered")
    return complete(request, user, after, "certificate")


def _refusal(request: HttpRequest, after: str, reason: str, recorded: str) -> HttpResponse:
    audit.record_refusal(None, "certificate", address_of(request), recorded)
    return form(request, after, reason=reason, status=403)
