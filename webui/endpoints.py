"""The pages of endpoints: the list, the facts of one endpoint, and the forms that change it.

Each form calls the service that REST calls, and leads back to its section.
"""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from endpoints import bandwidth, endpoint_view, pause_rules, protocols, registry
from endpoints.activation import services as activation
from endpoints.connect import setup
from endpoints.endpoint_view import EndpointView
from endpoints.errors import EndpointNotFoundError
from endpoints.models import AccessRule, Endpoint, PauseRule, Role
from endpoints.permissions import Permission, RoleName, may
from endpoints.program_removal import remove_programs
from endpoints.protocols import USUAL
from endpoints.registry import SearchScope, ServerSpec
from endpoints.sharing import access_rules, principals, roles, shares
from endpoints.sharing.access_rules import RuleSpec
from identity import groups
from identity import linked_identities as linked
from identity.database_rows import enum_value
from identity.error_categories import CategorizedError, InvalidFieldError
from identity.models import User
from identity.provider import identities
from transferapi.tasks import queries
from transferapi.tasks.errors import RequestError

from . import endpoint_activation
from .forms import change_of, question, refused
from .page import problem, show, signed_in, user_of

PAGE = 50
#: The longest text of a search.
MAX_TEXT = 200
SCOPES: dict[SearchScope, str | Promise] = {
    SearchScope.MINE: gettext_lazy("Yours"),
    SearchScope.SHARED_WITH_ME: gettext_lazy("Shared with you"),
    SearchScope.RECENTLY_USED: gettext_lazy("Recently used"),
    SearchScope.ADMINISTERED_BY_ME: gettext_lazy("Administered by you"),
    SearchScope.ALL: gettext_lazy("All"),
}


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint in the list."""

    endpoint: Endpoint
    seen: EndpointView

    @property
    def title(self) -> str:
        return self.endpoint.display_name or registry.canonical_name(self.endpoint)

    @property
    def canonical_name(self) -> str:
        return registry.canonical_name(self.endpoint)


@signed_in
@require_safe
def endpoint_list(request: HttpRequest) -> HttpResponse:
    user, text = user_of(request), request.GET.get("text", "")[:MAX_TEXT].strip()
    scope = _scope(request.GET["scope"]) if "scope" in request.GET else _first_scope(user)
    offset = _offset(request.GET.get("offset", ""))
    refusal, rows, more, hint, status = None, list[Endpoint](), False, False, 200
    try:
        rows, more = queries.search_endpoints(user, scope=scope, fulltext=text, limit=PAGE, offset=offset)
    except RequestError:
        # The service lists all endpoints by a text only; the page asks for one.
        hint = True
    except CategorizedError as error:
        refusal, status = refused("search", error)
    views = endpoint_view.views_for(user, rows)
    context = {
        "title": _("Endpoints"),
        "scopes": SCOPES.items(),
        "scope": scope,
        "text": text,
        "rows": [EndpointRow(row, views[row.pk]) for row in rows],
        "next_offset": offset + PAGE if more else None,
        "needs_text": hint,
        "refusal": refusal,
    }
    return show(request, "endpoints/list.html", context, status)


def _scope(name: str) -> SearchScope:
    found = SearchScope(name) if name in list(SearchScope) else SearchScope.MINE
    return found if found in SCOPES else SearchScope.MINE


def _first_scope(user: User) -> SearchScope:
    """The first of the lists that has endpoints: one's own, then what is shared with the user, then what was used."""
    first = (SearchScope.MINE, SearchScope.SHARED_WITH_ME, SearchScope.RECENTLY_USED)
    return next((scope for scope in first if queries.search_endpoints(user, scope=scope, limit=1)[0]), first[0])


def _offset(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form for a new endpoint, and what it sends."""
    if request.method != "POST":
        return show(request, "endpoints/new.html", {"title": _("Add an endpoint"), "given": {}})
    try:
        made = _create(user_of(request), {name: request.POST[name].strip() for name in request.POST})
    except CategorizedError as error:
        refusal, status = refused("new", error)
        context = {"title": _("Add an endpoint"), "given": request.POST, "refusal": refusal}
        return show(request, "endpoints/new.html", context, status)
    return HttpResponseRedirect(f"/endpoints/{made.pk}")


def _create(user: User, given: dict[str, str]) -> Endpoint:
    texts = ("name", "display_name", "description", "myproxy_server", "oauth_server", "default_directory")
    fields: dict[str, object] = {name: given[name] for name in texts if given.get(name)}
    fields["public"] = given.get("public") == "on"
    address = given.get("server", "")
    servers = [ServerSpec.parse(with_scheme(address), given.get("subject", ""))] if address else []
    return registry.create(user, fields, servers)


def with_scheme(address: str) -> str:
    """A host name alone is a GridFTP server."""
    return address if "://" in address else f"{USUAL}://{address}"


#: Rules, roles and shares of one page.
MAX_SHOWN = 1000
ROLES: dict[RoleName, str | Promise] = {
    RoleName.ADMINISTRATOR: gettext_lazy("Administrator: may change everything"),
    RoleName.ACCESS_MANAGER: gettext_lazy("Access manager: may give and remove access"),
    RoleName.ACTIVITY_MANAGER: gettext_lazy("Activity manager: may see, pause and cancel tasks"),
    RoleName.ACTIVITY_MONITOR: gettext_lazy("Activity monitor: may see tasks"),
}
PAUSES: dict[str, str | Promise] = {
    "pause_task_transfer_read": gettext_lazy("transfers from here"),
    "pause_task_transfer_write": gettext_lazy("transfers to here"),
    "pause_task_delete": gettext_lazy("deletions"),
    "pause_ls": gettext_lazy("listings"),
    "pause_mkdir": gettext_lazy("new folders"),
    "pause_rename": gettext_lazy("renaming"),
    "pause_symlink": gettext_lazy("symbolic links"),
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
        return problem(request, 404, str(gettext_lazy("No such endpoint")), error.message)
    section = refusal[0] if refusal else ""
    typed = {
        "refusal": refusal,
        "given": {section: request.POST},
        "edited": request.POST if section == "details" else found,
        "edited_limits": request.POST.get("bandwidth_limits") if section == "details" else _limits(found),
        "chosen": request.POST.getlist("operation") if section == "pauses" else list(PAUSES),
    }
    return show(request, "endpoints/endpoint.html", {**_context(user, found), **typed}, status)


def _limits(found: Endpoint) -> str:
    """The bandwidth limits, a line each."""
    return "\n".join(map(bandwidth.text_of_row, (found.host or found).bandwidth_limits))


def _context(user: User, found: Endpoint) -> dict[str, Any]:
    now = timezone.now()
    seen = endpoint_view.views_for(user, [found])[found.pk]
    permitted = {verb.name: may(user, verb, found) for verb in Permission}
    return {
        "title": found.display_name or registry.canonical_name(found),
        "endpoint": found,
        "canonical_name": registry.canonical_name(found),
        "limits": _limits(found).splitlines(),
        "limit_form": bandwidth.FORM,
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
    return {
        "servers": [(row, registry.server_uri(row)) for row in servers],
        "protocol": protocols.of_endpoint(found),
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
        return (
            gettext_lazy("everybody") if principal_type == "anonymous" else gettext_lazy("everybody who is signed in")
        )
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


_section = functools.partial(change_of, page, "/endpoints")


@_section("details")
def edit(request: HttpRequest, endpoint: str) -> str:
    texts = ("display_name", "description", "organization", "contact_email", "default_directory", "user_message",
             "jump_host", "data_ports")  # fmt: skip
    fields: dict[str, object] = {name: request.POST[name].strip() for name in texts if name in request.POST}
    if "bandwidth_limits" in request.POST:
        lines = filter(str.strip, request.POST["bandwidth_limits"].splitlines())
        fields["bandwidth_limits"] = [bandwidth.row_of_text("bandwidth_limits", line) for line in lines]
    if not fields.get("default_directory"):
        fields.pop("default_directory", None)
    fields |= {name: name in request.POST for name in ("public", "force_encryption", "force_verify")}
    registry.update(user_of(request), endpoint, fields)
    return _("The endpoint was changed.")


@_section("servers")
def add_server(request: HttpRequest, endpoint: str) -> str:
    address = with_scheme(request.POST.get("server", "").strip())
    spec = ServerSpec.parse(address, request.POST.get("subject", "").strip())
    registry.add_server(user_of(request), endpoint, spec)
    return _("The server was added.")


@_section("servers")
def remove_server(request: HttpRequest, endpoint: str, server: int) -> HttpResponse | str:
    text = _("Tasks that need it wait until the endpoint has another server.")
    if ask := question(request, _("Remove this server?"), text, _("Remove"), f"/endpoints/{endpoint}#servers"):
        return ask
    registry.remove_server(user_of(request), endpoint, server)
    return _("The server was removed.")


@_section("servers")
def accept_host_key(request: HttpRequest, endpoint: str, server: int) -> str:
    """The key is the one that was shown on the page: another one, shown since, is not accepted unseen."""
    user = user_of(request)
    row = registry.server(registry.resolve(user, endpoint, Permission.MANAGE), server)
    given = request.POST.get("fingerprint", "")
    registry.update_server(user, endpoint, server, replace(registry.server_spec(row), subject=given, confirmed=True))
    if given == row.subject:
        return _("The host key is confirmed.")
    return _("The host key was accepted. Waiting tasks go on.")


@_section("activation")
def remove_ssh_program(request: HttpRequest, endpoint: str) -> str:
    _found, gone = remove_programs(user_of(request), endpoint)
    if gone:
        return _("The program was removed from your account.")
    return _("The program was removed from your account. Its cache folder has other files, and stays.")


@_section("shares")
def share(request: HttpRequest, endpoint: str) -> HttpResponse:
    fields = {"display_name": request.POST.get("display_name", "").strip()}
    made = shares.create(user_of(request), endpoint, request.POST.get("path", "").strip(), fields)
    messages.success(request, _("The folder is shared. Now give somebody access."))
    return HttpResponseRedirect(f"/endpoints/{made.pk}#rules")


@_section("rules")
def add_rule(request: HttpRequest, endpoint: str) -> str:
    given = request.POST
    kind, principal = _principal(request)
    spec = RuleSpec(
        principal_type=kind,
        principal=principal,
        path=given.get("path", "").strip() or "/",
        permissions=given.get("permissions", "r"),
        expires_at=_until(given.get("until", "")),
        notify_email=given.get("email", "").strip(),
    )
    access_rules.create(user_of(request), endpoint, spec)
    return _("Access was given.")


@_section("rules")
def remove_rule(request: HttpRequest, endpoint: str, rule: uuid.UUID) -> HttpResponse | str:
    text = _("Who has access by this rule alone loses it at once. Transfers that need it fail.")
    if ask := question(request, _("Remove this access?"), text, _("Remove"), f"/endpoints/{endpoint}#rules"):
        return ask
    access_rules.delete(user_of(request), endpoint, str(rule))
    return _("Access was removed.")


@_section("roles")
def add_role(request: HttpRequest, endpoint: str) -> str:
    kind, principal = _principal(request)
    roles.create(user_of(request), endpoint, kind, principal or "", request.POST.get("role", ""))
    return _("The role was given.")


@_section("roles")
def remove_role(request: HttpRequest, endpoint: str, role: uuid.UUID) -> HttpResponse | str:
    text = _("Who has the role can no longer do what it allows.")
    if ask := question(request, _("Remove this role?"), text, _("Remove"), f"/endpoints/{endpoint}#roles"):
        return ask
    roles.delete(user_of(request), endpoint, str(role))
    return _("The role was removed.")


@_section("pauses")
def pause(request: HttpRequest, endpoint: str) -> str:
    chosen = set(request.POST.getlist("operation"))
    fields: dict[str, object] = {flag: flag in chosen for flag in pause_rules.FLAGS}
    pause_rules.create(user_of(request), endpoint, {**fields, "message": request.POST.get("message", "")})
    return _("The operations are paused. Tasks wait, and go on when you remove the pause.")


@_section("pauses")
def resume(request: HttpRequest, endpoint: str, rule: uuid.UUID) -> str:
    pause_rules.delete(user_of(request), str(rule))
    return _("The pause was removed. Waiting tasks go on.")


@_section("activation")
def deactivate(request: HttpRequest, endpoint: str) -> str:
    return f"{activation.deactivate(user_of(request), endpoint).message}."


@_section("delete")
def delete(request: HttpRequest, endpoint: str) -> HttpResponse:
    """The name is typed as a confirmation: a deletion ends all access that was given."""
    user = user_of(request)
    name = registry.canonical_name(registry.resolve(user, endpoint, Permission.MANAGE))
    if request.POST.get("name", "").strip() != name:
        raise InvalidFieldError("name", _("Type %(name)s to delete the endpoint.") % {"name": name})
    registry.delete(user, endpoint)
    messages.success(request, _("The endpoint %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect("/endpoints")


def _principal(request: HttpRequest) -> tuple[str, str | None]:
    """The type and the id of the user, the group or everybody that a form names. Raises InvalidFieldError."""
    kind = request.POST.get("whom", principals.IDENTITY)
    if kind in principals.EVERYBODY:
        return kind, None
    if kind == principals.GROUP:
        return kind, request.POST.get("group", "")
    name = request.POST.get("user", "").strip()
    found = identities.with_usernames([name])
    if not found:
        raise InvalidFieldError("user", _("There is no user with this name."))
    return principals.IDENTITY, str(found[0].id)


def _until(text: str) -> datetime | None:
    """The end of a day in UTC. Raises InvalidFieldError."""
    if not text:
        return None
    try:
        return datetime.combine(datetime.fromisoformat(text).date(), time(23, 59, 59), UTC)
    except ValueError:
        raise InvalidFieldError("until", _("Expected a date.")) from None


urlpatterns: list[URLPattern] = [
    path("endpoints", endpoint_list),
    path("endpoints/new", new),
    path("endpoints/<uuid:ref>", endpoint_page),
    path("endpoints/<uuid:ref>/edit", edit),
    path("endpoints/<uuid:ref>/delete", delete),
    path("endpoints/<uuid:ref>/activate", endpoint_activation.activate),
    path("endpoints/<uuid:ref>/deactivate", deactivate),
    path("endpoints/<uuid:ref>/servers", add_server),
    path("endpoints/<uuid:ref>/servers/<int:server>/remove", remove_server),
    path("endpoints/<uuid:ref>/servers/<int:server>/host-key", accept_host_key),
    path("endpoints/<uuid:ref>/ssh-program", remove_ssh_program),
    path("endpoints/<uuid:ref>/shares", share),
    path("endpoints/<uuid:ref>/rules", add_rule),
    path("endpoints/<uuid:ref>/rules/<uuid:rule>/remove", remove_rule),
    path("endpoints/<uuid:ref>/roles", add_role),
    path("endpoints/<uuid:ref>/roles/<uuid:role>/remove", remove_role),
    path("endpoints/<uuid:ref>/pauses", pause),
    path("endpoints/<uuid:ref>/pauses/<uuid:rule>/remove", resume),
]
