"""The page of one endpoint: facts for all who may view it, and forms for those who may change it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from endpoints import endpoint_view, pause_rules, registry
from endpoints.connect import setup
from endpoints.errors import EndpointNotFoundError
from endpoints.models import AccessRule, Endpoint, PauseRule, Role
from endpoints.permissions import Permission, RoleName, may
from endpoints.server_spec import PINNED_SCHEMES
from endpoints.sharing import access_rules, roles, shares
from identity import groups
from identity import linked_identities as linked
from identity.database_rows import enum_value
from identity.models import User
from identity.provider import identities
from webui.page import problem, show, signed_in, user_of

#: Rules, roles and shares of one page.
MAX_SHOWN = 1000
ROLES: dict[RoleName, str | Promise] = {
    RoleName.ADMINISTRATOR: _("Administrator: may change everything"),
    RoleName.ACCESS_MANAGER: _("Access manager: may give and remove access"),
    RoleName.ACTIVITY_MANAGER: _("Activity manager: may see, pause and cancel tasks"),
    RoleName.ACTIVITY_MONITOR: _("Activity monitor: may see tasks"),
}
PAUSES: dict[str, str | Promise] = {
    "pause_task_transfer_read": _("transfers from here"),
    "pause_task_transfer_write": _("transfers to here"),
    "pause_task_delete": _("deletions"),
    "pause_ls": _("listings"),
    "pause_mkdir": _("new folders"),
    "pause_rename": _("renaming"),
    "pause_symlink": _("symbolic links"),
}


@dataclass(frozen=True, slots=True)
class Given:
    """An access rule or a role, with the name of the user or the group."""

    row: AccessRule | Role
    whom: str | Promise
    removable: bool = True

    @property
    def role(self) -> str:
        """The word for the role, without its explanation."""
        if not isinstance(self.row, Role):
            return ""
        return str(ROLES.get(enum_value(RoleName, self.row.role), self.row.role)).partition(":")[0]


@dataclass(frozen=True, slots=True)
class ShownPauseRule:
    row: PauseRule
    operations: list[str | Promise]
    editable: bool


@signed_in
@require_safe
def endpoint_page(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    return page(request, str(ref))


def page(
    request: HttpRequest, ref: str, /, *, refusal: tuple[str, str] | None = None, status: int = 200
) -> HttpResponse:
    """refusal: the section of the page, and a sentence."""
    user = user_of(request)
    try:
        found = registry.resolve(user, ref, Permission.VIEW)
    except EndpointNotFoundError as error:
        return problem(request, 404, str(_("No such endpoint")), error.message)
    section = refusal[0] if refusal else ""
    typed = {
        "refusal": refusal,
        "given": {section: request.POST},
        "edited": request.POST if section == "details" else found,
        "chosen": request.POST.getlist("operation") if section == "pauses" else list(PAUSES),
    }
    return show(request, "endpoints/endpoint.html", {**_context(user, found), **typed}, status)


def _context(user: User, found: Endpoint) -> dict[str, Any]:
    now = timezone.now()
    seen = endpoint_view.views_for(user, [found])[found.pk]
    permitted = {verb.name: may(user, verb, found) for verb in Permission}
    return {
        "title": found.display_name or registry.canonical_name(found),
        "endpoint": found,
        "canonical_name": registry.canonical_name(found),
        "host": found.host if seen.knows_host else None,
        "seen": seen,
        "seconds_left": seen.activation_status.seconds_left(now),
        "may": permitted,
        "now": now,
        "edited_jump_host": str(found.jump_host_id or ""),
        "agent": setup.agent_row(found) if found.personal and permitted["MANAGE"] else None,
        **_servers(found),
        "shares": shares.mine(user, str(found.pk))[:MAX_SHOWN] if seen.shareable else [],
        **_access(user, found, edits_rules=seen.editable, appoints=permitted["APPOINT"]),
        "pauses": _pauses(user, found),
        "pause_words": PAUSES.items(),
    }


def _servers(found: Endpoint) -> dict[str, Any]:
    servers = registry.servers(found)
    schemes = {row.scheme for row in servers}
    return {
        "servers": [(row, registry.server_uri(row)) for row in servers],
        "by_ssh": "ssh" in schemes,
        "has_host_keys": not schemes.isdisjoint(PINNED_SCHEMES),
    }


def _access(user: User, found: Endpoint, *, edits_rules: bool, appoints: bool) -> dict[str, Any]:
    """The rules and roles that this user may change, and the choices for new ones."""
    return {
        "rules": _rules(user, found) if edits_rules else [],
        "roles": _roles(user, found) if appoints else [],
        "role_words": _roles_for(found),
        "groups": [one.group for one in groups.mine(user)] if edits_rules or appoints else [],
    }


def _roles_for(found: Endpoint) -> list[tuple[RoleName, str | Promise]]:
    return [(role, words) for role, words in ROLES.items() if found.host_id or role is not RoleName.ACCESS_MANAGER]


def _rules(user: User, found: Endpoint) -> list[Given]:
    _share, rows = access_rules.of_share(user, str(found.pk))
    names = _names(user, [row.principal for row in rows])
    return [Given(row, _whom(row.principal_type, row.principal, names)) for row in rows]


def _roles(user: User, found: Endpoint) -> list[Given]:
    rows = roles.of_endpoint(user, str(found.pk))
    names = _names(user, [row.principal for row in rows])
    first = roles.of_owner(found).pk
    return [Given(row, _whom(row.principal_type, row.principal, names), row.pk != first) for row in rows]


def _names(user: User, ids: list[uuid.UUID | None]) -> dict[uuid.UUID, str]:
    """The names of users, of their linked identities, and of the groups that the reader sees."""
    wanted = list({one for one in ids if one is not None})
    people = {one.pk: one.username for one in identities.by_id(wanted)}
    named = {one.pk: one.username for one in linked.by_id(wanted).values()}
    return people | named | groups.names(user, wanted)


def _whom(principal_type: str, principal: uuid.UUID | None, names: dict[uuid.UUID, str]) -> str | Promise:
    if principal is None:
        return _("everybody") if principal_type == "anonymous" else _("everybody who is signed in")
    return names.get(principal, str(principal))


def _pauses(user: User, found: Endpoint) -> list[ShownPauseRule]:
    """The rules that the user manages, or else those that affect the user."""
    managed = may(user, Permission.OVERSEE, found)
    rows = pause_rules.listed(user, str(found.pk)) if managed else pause_rules.effective(user, found)
    mine = pause_rules.editable_ones(user, rows) if managed else set()
    return [
        ShownPauseRule(row, [words for flag, words in PAUSES.items() if getattr(row, flag)], row.pk in mine)
        for row in rows
    ]
