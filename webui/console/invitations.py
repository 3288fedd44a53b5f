"""Invitations to sign up, for staff: a form that makes one, the list of the open ones, and their withdrawal."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from identity import sign_up
from identity.error_categories import CategorizedError
from identity.hidden import Secret
from transferapi.tasks.errors import RequestError
from webui.forms import question, refused
from webui.page import signed_in, to_sign_in, user_of
from webui.sign_in.session_start import signed_in_recently

from .page import INVITATIONS, show_section, staff_only


@signed_in
@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest) -> HttpResponse:
    """The list; in answer to the form also the link of the new invitation, which is shown this once.

    The account that it makes outlives the session that asked for it: the session has just begun.
    """
    if request.method != "POST":
        return _page(request)
    if not signed_in_recently(request):
        return to_sign_in(INVITATIONS, again=True)
    try:
        made, link = sign_up.invite(user_of(request), request.POST.get("email", "").strip(), _days(request))
    except CategorizedError as error:
        return _page(request, *refused("invite", error))
    return _page(request, link=link, whom=made.email)


@signed_in
@staff_only
@require_POST
def withdraw(request: HttpRequest, invitation: uuid.UUID) -> HttpResponse:
    text = _("Its link makes no account any more.")
    if ask := question(request, _("Withdraw this invitation?"), text, _("Withdraw"), INVITATIONS):
        return ask
    try:
        sign_up.take_back_invitation(user_of(request), invitation)
    except CategorizedError as error:
        return _page(request, *refused("list", error))
    messages.success(request, _("The invitation is withdrawn."))
    return HttpResponseRedirect(INVITATIONS)


def _page(
    request: HttpRequest,
    refusal: tuple[str, str] | None = None,
    status: int = 200,
    *,
    link: Secret | None = None,
    whom: str = "",
) -> HttpResponse:
    context = {
        "rows": sign_up.list_invitations(user_of(request)),
        "is_offered": sign_up.is_offered(),
        "link": link.value if link else "",
        "whom": whom,
        "given": request.POST if refusal else {},
        "days": sign_up.INVITATION_DAYS,
        "most_days": sign_up.MAX_INVITATION_DAYS,
        "refusal": refusal,
    }
    return show_section(request, INVITATIONS, "invitations.html", context, status)


def _days(request: HttpRequest) -> int:
    """Raises RequestError."""
    text = request.POST.get("days", "").strip() or str(sign_up.INVITATION_DAYS)
    if not text.isascii() or not text.isdecimal() or len(text) > 4:
        raise RequestError("days", _("Expected a whole number of days."))
    return int(text)
