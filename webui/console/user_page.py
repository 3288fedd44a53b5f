"""The page of one user, for staff: what is known of the user, how the user signs in, and what acts for the user."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from identity import deactivation, password_recovery, user_account
from identity.error_categories import CategorizedError
from identity.models import User
from identity.users import MAX_FULL_NAME
from transferapi.rest.http.errors import meaning
from webui.account.page import given_access
from webui.page import problem, signed_in, user_of

from .page import USERS, show_section, staff_only
from .user_confirmations import CONFIRMATIONS


@signed_in
@staff_only
@require_safe
def user_page(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    return page(request, str(ref))


def page(
    request: HttpRequest, ref: str, /, *, refusal: tuple[str, str] | None = None, status: int = 200
) -> HttpResponse:
    """refusal: the section of the page, and a sentence."""
    actor = user_of(request)
    try:
        found = deactivation.find(actor, ref)
        seen = user_account.overview(actor, found)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("No such user") if status == 404 else _("Not permitted"), message)
    context = {
        "title": found.username,
        "whose": found,
        "seen": seen,
        "given_access": given_access(found),
        "is_self": found.pk == actor.pk,
        "may_mail": found.is_active and bool(found.email) and password_recovery.is_offered(),
        "edited": _typed(request) if refusal and refusal[0] == "about" else _known(found),
        "most_name": MAX_FULL_NAME,
        "confirmations": CONFIRMATIONS,
        "now": timezone.now(),
        "refusal": refusal,
    }
    return show_section(request, USERS, "user.html", context, status)


def _known(found: User) -> dict[str, object]:
    return {"email": found.email, "full_name": found.get_full_name(), "staff": found.is_staff}


def _typed(request: HttpRequest) -> dict[str, object]:
    texts = {name: request.POST.get(name, "") for name in ("email", "full_name")}
    return {**texts, "staff": "staff" in request.POST}
