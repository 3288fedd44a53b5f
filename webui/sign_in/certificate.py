"""Signs users in by the certificate that their browser shows, where its subject is registered (X.509, RFC 5280).

A person with an invitation makes an account with a subject that nobody has registered. The front server or this service
has verified the certificate. A browser sends its certificate with each request, so a form with the token of its session
begins the sign-in: no page of another site can.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_noop as _
from django.views.decorators.http import require_POST

from endpoints.error_meanings import meaning
from identity import audit, certificate_subjects, password_sign_in
from identity import sign_up as sign_up_rules
from identity.certificate_subjects import CertificateSubjectError
from identity.password_sign_in import SignInError
from identity.proven_identities import IdentityInactiveError
from identity.sign_up import MOST_OF_A_NETWORK, SignUpError
from transferapi.rest.http.client_certificates import accepted_subject
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import own_path
from webui.reasons import said

from .password import form
from .session_start import complete, refused, status_of
from .sign_up import INVITATION_COOKIE, invitation_of, unknown

#: Attempts of one network in five minutes.
MOST = 50
NOT_SHOWN = _("Your browser shows no certificate that is accepted here.")


@require_POST
def sign_in(request: HttpRequest) -> HttpResponse:
    """Begin the session of the user who has registered the subject."""
    after = own_path(request.POST.get("next"))
    try:
        password_sign_in.count_request("certificate", address_of(request), MOST)
    except SignInError as error:
        return refused(form(request, after, reason=error.message, status=status_of(error)), error)
    subject = accepted_subject(request)
    if subject is None:
        return _refusal(request, after, NOT_SHOWN, "no certificate is accepted")
    user = certificate_subjects.user_of(subject)
    if user is not None:
        return complete(request, user, after, "certificate")
    if certificate_subjects.is_registered(subject):
        return _refusal(request, after, IdentityInactiveError.refusal.sentence, "not active")
    audit.record_refusal(None, "certificate", address_of(request), "not registered")
    return _unknown(request, subject, after)


@require_POST
def sign_up(request: HttpRequest) -> HttpResponse:
    """Make an account for the subject that this connection shows, and that nobody has registered."""
    after = own_path(request.POST.get("next"))
    subject = accepted_subject(request)
    if subject is None:
        return _refusal(request, after, NOT_SHOWN, "no certificate is accepted")
    try:
        password_sign_in.count_request("sign-up", address_of(request), MOST_OF_A_NETWORK)
        user = certificate_subjects.sign_up(subject, request.POST.get("username", ""), invitation_of(request))
    except SignInError as error:
        return refused(_unknown(request, subject, after, said(error.message), status_of(error)), error)
    except (CertificateSubjectError, SignUpError) as error:
        status, _code, message = meaning(error, "")
        return _unknown(request, subject, after, said(message), status)
    answer = complete(request, user, after, "certificate")
    answer.delete_cookie(INVITATION_COOKIE)
    return answer


def _unknown(request: HttpRequest, subject: str, after: str, wrong: str = "", status: int = 403) -> HttpResponse:
    """The page that says so. A certificate proves no mail address: only an invitation admits its owner."""
    offered = sign_up_rules.is_offered()
    more = {
        "of_certificate": True,
        "needs_invitation": offered,
        "sign_up": offered and invitation_of(request) is not None,
    }
    return unknown(request, subject, after, wrong, status, **more)


def _refusal(request: HttpRequest, after: str, reason: str, recorded: str) -> HttpResponse:
    audit.record_refusal(None, "certificate", address_of(request), recorded)
    return form(request, after, reason=reason, status=403)
