"""The account page with all of its sections, and the answers of its forms.

The QR code of an address with a secret is drawn here: the secret leaves the page only to a camera.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import segno
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from endpoints.error_meanings import meaning
from identity import certificate_subjects, one_time_codes, ssh_keys, tokens
from identity.error_categories import CategorizedError
from identity.hidden import Secret
from identity.models import User
from identity.one_time_codes import Enrolment
from identity.provider import applications, consents, scopes
from transferapi.rest.http.client_certificates import accepted_subject
from webui.page import ACCOUNT, show, signed_in, user_of
from webui.reasons import said

from . import credentials, mails, passkeys, sessions, webhooks
from .confirmations import Shown

P = ParamSpec("P")
#: A change that a form asks for: returns a sentence, values to show once, or the page to go to.
Change = Callable[Concatenate[HttpRequest, User, P], str | Shown | HttpResponse]
#: The lifetimes of a token in days, with their words; 0: until it is revoked.
LIFETIMES = (
    (1, gettext_lazy("1 day")),
    (30, gettext_lazy("30 days")),
    (90, gettext_lazy("90 days")),
    (365, gettext_lazy("1 year")),
    (0, gettext_lazy("as long as I want")),
)
#: The most characters of a label.
MAX_LABEL = 128


@dataclass
class SubmittedAnswers:
    """The consents of one application, from all of its sign-ins together."""

    name: str
    client_id: str
    since: datetime
    words: list[str]


def given_access(user: User) -> list[SubmittedAnswers]:
    found: dict[str, SubmittedAnswers] = {}
    for one in consents.of_user(user):
        app = one.application
        known = found.setdefault(
            app.client_id,
            SubmittedAnswers(app.name or _("A program without a name"), app.client_id, one.created_at, []),
        )
        known.since = min(known.since, one.created_at)
        words = [said(scopes.KNOWN[name].words) for name in one.scope.split() if name in scopes.KNOWN]
        known.words += [word for word in words if word not in known.words]
    return list(found.values())


def proven(request: HttpRequest) -> tuple[str, ...]:
    """The verified certificate subject of this connection, if any."""
    found = accepted_subject(request)
    return () if found is None else (found,)


def page(
    request: HttpRequest,
    *,
    shown: Shown | None = None,
    enrolment: Enrolment | None = None,
    refused: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page. enrolment: the new secret of one-time codes. refused: what it shows of a form that was refused."""
    user = user_of(request)
    context = {
        "title": _("Your account"),
        "shown": shown,
        "now": datetime.now(UTC),
        "lifetimes": LIFETIMES,
        **(refused or {}),
        **_ways_to_sign_in(request, user),
        **_programs(user),
        **sessions.context(request, user),
        **passkeys.context(request, user),
        **webhooks.context(user),
        **credentials.credentials_context(user),
        **mails.context(user),
        **credentials.identities_context(user),
        "enrolment": enrolment,
        "scanning": enrolment is not None,
        "qr_code": svg(enrolment.uri) if enrolment else "",
    }
    return show(request, "account.html", context, status)


def refusal(request: HttpRequest, section: str, text: str, field: str = "", *, status: int = 400) -> HttpResponse:
    """The page after the refusal of a form: the text is at its field, or at its section where no field alone is wrong.

    The form stays filled with what was typed; templates show no secret of it.
    """
    key = section.replace("-", "_")
    shown = {"wrong": {key: {field: text}}} if field else {"refusal": (section, text)}
    return page(request, refused={"given": {key: request.POST}, **shown}, status=status)


def _ways_to_sign_in(request: HttpRequest, user: User) -> dict[str, Any]:
    known = certificate_subjects.of(user)
    ours = {one.subject for one in known}
    return {
        "certificates": known,
        "provable": sorted({*certificate_subjects.provable(user), *proven(request)} - ours),
        "ssh_keys": ssh_keys.list_of(user),
        "codes_enabled": one_time_codes.enabled(user),
        "codes_enrolling": one_time_codes.enrolling(user),
        "recovery_codes_left": one_time_codes.recovery_codes_left(user),
    }


def _programs(user: User) -> dict[str, Any]:
    return {"tokens": tokens.of(user), "apps": applications.of_user(user), "given_access": given_access(user)}


def done(request: HttpRequest, text: str | Promise, section: str) -> HttpResponse:
    messages.success(request, str(text))
    return HttpResponseRedirect(f"{ACCOUNT}#{section}")


def line(text: str) -> str:
    """The text as one printable line, or ""."""
    text = text.strip()
    return text if len(text) <= MAX_LABEL and text.isprintable() else ""


def change_in(section: str, field: str = "") -> Callable[[Change[P]], Callable[..., HttpResponse]]:
    """Make a view of the change that a form of this section asks for.

    An error of the domain shows the page again: at `field` where the request was invalid, else at the section.
    """

    def decorate(change: Change[P]) -> Callable[..., HttpResponse]:
        @wraps(change)
        def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            try:
                answer = change(request, user_of(request), *args, **kwargs)
            except CategorizedError as error:
                status, _code, message = meaning(error, "")
                at = field if status == 400 else ""
                return refusal(request, section, said(message), at, status=status)
            if isinstance(answer, Shown):
                return page(request, shown=answer)
            return answer if isinstance(answer, HttpResponse) else done(request, answer, section)

        return signed_in(require_POST(wrapped))

    return decorate


#: Modules of white around the code (ISO/IEC 18004 asks for four).
BORDER = 4


def svg(address: Secret) -> SafeString:
    """An <svg> element without colours of its own: the stylesheet draws it dark on white in both schemes."""
    found = io.BytesIO()
    code = segno.make(address.value, error="m", micro=False)
    code.save(
        found, kind="svg", border=BORDER, xmldecl=False, svgns=False, omitsize=True, svgclass="qr", lineclass=None
    )
    return mark_safe(found.getvalue().decode())  # noqa: S308 - drawn by segno from modules, with no text of ours in it
