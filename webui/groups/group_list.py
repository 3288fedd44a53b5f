"""The groups of a user, the invitations, and the form for a new group."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from identity import groups
from identity.error_categories import CategorizedError
from identity.groups import MembershipStatus
from webui.forms import refused
from webui.page import show, signed_in, user_of


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def group_list(request: HttpRequest) -> HttpResponse:
    """The list; a POST makes a group."""
    if request.method != "POST":
        return _page(request)
    given = request.POST
    try:
        made = groups.create(
            user_of(request), name=given.get("name", "").strip(), description=given.get("description", "")
        )
    except CategorizedError as error:
        return _page(request, *refused("new", error))
    return HttpResponseRedirect(f"/groups/{made.group.pk}")


def _page(request: HttpRequest, refusal: tuple[str, str] | None = None, status: int = 200) -> HttpResponse:
    user = user_of(request)
    waiting = (MembershipStatus.INVITED, MembershipStatus.PENDING)
    context = {
        "title": _("Groups"),
        "mine": groups.mine(user),
        "invited": [one for one in groups.mine(user, waiting) if one.membership],
        "given": request.POST,
        "refusal": refusal,
    }
    return show(request, "groups/list.html", context, status)
