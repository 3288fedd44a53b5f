"""The pages of groups: the list with invitations, and one group with its members, policies and forms."""

from __future__ import annotations

import functools
import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from identity import group_memberships, groups
from identity.database_rows import enum_value
from identity.error_categories import CategorizedError
from identity.group_memberships import ActionRefusal, MembershipAction, MembershipVerb
from identity.groups import (
    GroupForbiddenError,
    GroupInvalidError,
    GroupNotFoundError,
    GroupRole,
    MembershipStatus,
    Policies,
)
from identity.models import Group, Membership
from identity.provider import identities

from .forms import change_of, question, refused
from .page import problem, show, signed_in, user_of


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def group_list(request: HttpRequest) -> HttpResponse:
    """The list; a POST makes a group."""
    if request.method != "POST":
        return _show_list(request)
    given = request.POST
    try:
        made = groups.create(
            user_of(request), name=given.get("name", "").strip(), description=given.get("description", "")
        )
    except CategorizedError as error:
        return _show_list(request, *refused("new", error))
    return HttpResponseRedirect(f"/groups/{made.group.pk}")


def _show_list(request: HttpRequest, refusal: tuple[str, str] | None = None, status: int = 200) -> HttpResponse:
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


#: Members of one page.
MAX_SHOWN = 1000
ROLES: dict[GroupRole, str | Promise] = {
    GroupRole.MEMBER: gettext_lazy("Member"),
    GroupRole.MANAGER: gettext_lazy("Manager: may admit and remove members"),
    GroupRole.ADMIN: gettext_lazy("Admin: may change the group"),
}
STATUSES: dict[str, str | Promise] = {
    "active": gettext_lazy("member"),
    "invited": gettext_lazy("invited"),
    "pending": gettext_lazy("asks to join"),
    "rejected": gettext_lazy("rejected"),
    "removed": gettext_lazy("removed"),
    "left": gettext_lazy("has left"),
    "declined": gettext_lazy("has declined"),
}


@signed_in
@require_safe
def group_page(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    return page(request, str(ref))


def page(
    request: HttpRequest, ref: str, /, *, refusal: tuple[str, str] | None = None, status: int = 200
) -> HttpResponse:
    user = user_of(request)
    try:
        found = groups.get(user, uuid.UUID(ref))
    except GroupNotFoundError as error:
        return problem(request, 404, _("No such group"), error.message)
    members = groups.members(found) if found.sees_members else []
    context = {
        "title": found.group.name,
        "group": found.group,
        "mine": found,
        "standing": _standing(found.membership) if found.membership else "",
        "members": [(row, _standing(row)) for row in members[:MAX_SHOWN]],
        "more_members": max(0, len(members) - MAX_SHOWN),
        "allowed": {verb.name for verb in group_memberships.allowed(user, found)},
        "roles": ROLES.items(),
        "refusal": refusal,
        "given": {refusal[0]: request.POST} if refusal else {},
        "edited": request.POST if refusal and refusal[0] == "about" else _settings(found.group),
    }
    return show(request, "groups/group.html", context, status)


def _standing(row: Membership) -> str:
    """Role and status, without the explanation of the role."""
    role = str(ROLES.get(enum_value(GroupRole, row.role), row.role)).partition(":")[0]
    return f"{role}, {STATUSES.get(row.status, row.status)}"


def _settings(group: Group) -> dict[str, object]:
    """The fields of the form that changes a group."""
    return {
        "name": group.name,
        "description": group.description,
        "visible": group.group_visibility == "authenticated",
        "members_visible": group.group_members_visibility == "members",
        "join_requests": group.join_requests,
    }


_section = functools.partial(change_of, page, "/groups")


@_section("about")
def edit(request: HttpRequest, ref: str) -> str:
    given = request.POST
    policies = Policies(
        group_visibility="authenticated" if "visible" in given else "private",
        group_members_visibility="members" if "members_visible" in given else "managers",
        join_requests="join_requests" in given,
    )
    user, group = user_of(request), uuid.UUID(ref)
    groups.update(user, group, name=given.get("name", "").strip(), description=given.get("description", ""))
    groups.set_policies(user, group, policies)
    return _("The group was changed.")


@_section("members")
def member(request: HttpRequest, ref: str) -> HttpResponse | str:
    """One action on a membership: `verb`, and the user by name (`user`) or by id (`identity`)."""
    verb = _verb(request.POST.get("verb", ""))
    if ask := _question(request, verb, f"/groups/{ref}"):
        return ask
    action = MembershipAction(verb, _identity(request), _role(request.POST.get("role", "member")))
    [done] = group_memberships.act(user_of(request), uuid.UUID(ref), [action])
    if isinstance(done.result, ActionRefusal):
        raise GroupForbiddenError(done.result.reason)
    if verb in (MembershipVerb.LEAVE, MembershipVerb.DECLINE):
        messages.success(request, _("It is done."))
        return HttpResponseRedirect("/groups")
    return _("It is done.")


@_section("delete")
def delete(request: HttpRequest, ref: str) -> HttpResponse:
    user, group = user_of(request), uuid.UUID(ref)
    name = groups.get(user, group).group.name
    if request.POST.get("name", "").strip() != name.strip():
        raise GroupInvalidError("name", _("Type the name of the group to delete it."))
    groups.delete(user, group)
    messages.success(request, _("The group %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect("/groups")


def _question(request: HttpRequest, verb: MembershipVerb, back: str) -> HttpResponse | None:
    """A member who has left comes back with the help of a manager only."""
    text = _("Access that the group gives ends at once.")
    if verb is MembershipVerb.LEAVE:
        return question(request, _("Leave this group?"), text, _("Leave"), back)
    if verb is MembershipVerb.REMOVE:
        return question(request, _("Remove this member?"), text, _("Remove"), back)
    return None


def _verb(text: str) -> MembershipVerb:
    try:
        return MembershipVerb(text)
    except ValueError:
        raise GroupInvalidError("verb", _("There is no such action.")) from None


def _role(text: str) -> GroupRole:
    try:
        return GroupRole(text)
    except ValueError:
        raise GroupInvalidError("role", _("There is no such role.")) from None


def _identity(request: HttpRequest) -> uuid.UUID:
    """The user of the form; without a name and an id, the reader. Raises GroupInvalidError."""
    name, known = request.POST.get("user", "").strip(), request.POST.get("identity", "")
    if name:
        found = identities.by_username([name])
        if not found:
            raise GroupInvalidError("user", _("There is no user with this name."))
        return found[0].pk
    try:
        return uuid.UUID(known) if known else user_of(request).pk
    except ValueError:
        raise GroupInvalidError("identity", _("There is no user with this name.")) from None


urlpatterns: list[URLPattern] = [
    path("groups", group_list),
    path("groups/<uuid:ref>", group_page),
    path("groups/<uuid:ref>/edit", edit),
    path("groups/<uuid:ref>/members", member),
    path("groups/<uuid:ref>/delete", delete),
]
