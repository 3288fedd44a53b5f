"""The forms on the page of an endpoint: each calls the service that REST calls, and leads back to its section."""

from __future__ import annotations

import functools
import uuid
from dataclasses import replace
from datetime import UTC, datetime, time

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from endpoints import pause_rules, registry
from endpoints.activation import services as activation
from endpoints.errors import EndpointInvalidError
from endpoints.permissions import Permission
from endpoints.program_removal import remove_programs
from endpoints.registry import ServerSpec
from endpoints.sharing import access_rules, principals, roles, shares
from endpoints.sharing.access_rules import RuleSpec
from identity.provider import identities
from webui.forms import change_of, question
from webui.page import user_of

from .endpoint_list import with_scheme
from .endpoint_page import page

_section = functools.partial(change_of, page, "/endpoints")


@_section("details")
def edit(request: HttpRequest, endpoint: str) -> str:
    texts = ("display_name", "description", "organization", "contact_email", "default_directory", "user_message",
             "jump_host", "data_ports")  # fmt: skip
    fields: dict[str, object] = {name: request.POST[name].strip() for name in texts if name in request.POST}
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
        raise EndpointInvalidError("name", _("Type %(name)s to delete the endpoint.") % {"name": name})
    registry.delete(user, endpoint)
    messages.success(request, _("The endpoint %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect("/endpoints")


def _principal(request: HttpRequest) -> tuple[str, str | None]:
    """The type and the id of the user, the group or everybody that a form names. Raises EndpointInvalidError."""
    kind = request.POST.get("whom", principals.IDENTITY)
    if kind in principals.EVERYBODY:
        return kind, None
    if kind == principals.GROUP:
        return kind, request.POST.get("group", "")
    name = request.POST.get("user", "").strip()
    found = identities.with_usernames([name])
    if not found:
        raise EndpointInvalidError("user", _("There is no user with this name."))
    return principals.IDENTITY, str(found[0].id)


def _until(text: str) -> datetime | None:
    """The end of a day in UTC. Raises EndpointInvalidError."""
    if not text:
        return None
    try:
        return datetime.combine(datetime.fromisoformat(text).date(), time(23, 59, 59), UTC)
    except ValueError:
        raise EndpointInvalidError("until", _("Expected a date.")) from None
