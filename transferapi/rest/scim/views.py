"""The resources of SCIM, below `/scim/v2/`. The services in `identity.scim` decide what a directory may see and change.

Each request is authenticated and counted before its body is read. The audit log names the directory as the actor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import IO, Any, cast

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed

from endpoints.error_meanings import ApiError
from identity import call_origin
from identity.models import Group, ScimClient
from identity.scim import clients, groups, users
from transferapi.rest.http import json_documents, rate_limit
from transferapi.rest.http.errors import TOKEN_HEADER, NotFound, UnsupportedMediaType, headers_of, request_id
from transferapi.rest.http.parsing import StrictJSONParser
from transferapi.rest.http.trusted_proxies import address_of
from transferapi.rest.maintenance import MaintenanceMode
from transferapi.tasks import maintenance

from . import discovery, documents, errors, filters, patch
from .errors import MEDIA_TYPE, ScimRequestError

log = logging.getLogger(__name__)

#: A status, a document (None: no body), and the address of a new resource.
Answer = tuple[int, dict[str, Any] | None]
#: Takes the directory, the request, and the id in the path.
Handler = Callable[[ScimClient, HttpRequest, str], Answer]
_MEDIA_TYPES = (MEDIA_TYPE, "application/json", "")
#: Attributes that a request names.
_MAX_NAMES = 50


def resource(**handlers: Handler) -> Callable[..., HttpResponse]:
    """A view with these methods. Every answer, errors too, is a SCIM document."""

    @csrf_exempt  # it looks at no cookie
    @sensitive_variables()
    def view(request: HttpRequest, ref: str = "") -> HttpResponse:
        headers: dict[str, str] = {}
        try:
            status, found = _answered(handlers, request, ref)
        except Exception as error:  # each error has its document
            status, found = errors.document(error, request_id(request))
            headers = headers_of(error, status)
            if status in (500, 503) and not isinstance(error, MaintenanceMode):
                log.exception("request %s: SCIM failed", request_id(request))
        if status == 201 and found:
            headers["Location"] = found["meta"]["location"]
        content = b"" if found is None else json_documents.dumps(found)
        return HttpResponse(content, status=status, headers=headers, content_type=MEDIA_TYPE)

    return view


def _answered(handlers: dict[str, Handler], request: HttpRequest, ref: str) -> Answer:
    client = _authenticated(request)
    if request.method not in ("GET", "HEAD") and (notice := maintenance.current()):
        raise MaintenanceMode(notice.sentence)
    handler = handlers.get(str(request.method).lower())
    if handler is None:
        raise MethodNotAllowed(str(request.method))
    with call_origin.comes_from(call_origin.Origin(address_of(request), f"scim:{client.name}")):
        return handler(client, request, ref)


def _authenticated(request: HttpRequest) -> ScimClient:
    """Raises AuthenticationFailed, TooManyRequests."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    client = clients.authenticate(token.strip()) if scheme.lower() == "bearer" else None
    rate_limit.check(rate_limit.take(client and f"scim:{client.pk}", address_of(request)))
    if client is None:
        raise AuthenticationFailed(f"Token is not valid. Send {TOKEN_HEADER}")
    return client


def _body(request: HttpRequest) -> object:
    """Raises ApiError, ParseError."""
    if str(request.content_type).lower() not in _MEDIA_TYPES:
        raise UnsupportedMediaType(f"Send a document, with Content-Type: {MEDIA_TYPE}")
    return StrictJSONParser().parse(cast("IO[bytes]", request), None, {"request": request})


# ---- discovery


def _config(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    return 200, discovery.service_provider_config()


def _of(all_of: Callable[[], list[dict[str, Any]]], client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    if "filter" in request.GET:
        # RFC 7644, section 4.
        raise ApiError(403, "PermissionDenied", "These documents are not filtered")
    found = all_of()
    if not ref:
        return 200, documents.page(found, len(found), 1)
    one = next((one for one in found if one["id"].lower() == ref.lower()), None)
    if one is None:
        raise NotFound("There is no such document")
    return 200, one


def _nowhere(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    if ref.split("/")[0] in ("Bulk", "Me") or ref.endswith(".search"):
        raise ApiError(501, "ServiceNotHere", "This part of SCIM is not supported")
    raise NotFound("There is no such resource")


# ---- users


def _users(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    start, count = _window(request)
    rows, total = users.listed(client, filters.parse(request.GET.get("filter", "")), start - 1, count)
    return 200, documents.page([_selected(request, documents.user(row)) for row in rows], total, start)


def _user(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    return 200, _selected(request, documents.user(users.get(client, ref)))


def _new_user(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    row = users.create(client, documents.read_user(_body(request)))
    return 201, _selected(request, documents.user(row))


def _put_user(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    row = users.update(client, ref, documents.read_user(_body(request)))
    return 200, _selected(request, documents.user(row))


def _patch_user(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    row = users.update(client, ref, patch.user_change(_body(request)))
    return 200, _selected(request, documents.user(row))


def _no_user(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    users.delete(client, ref)
    return 204, None


# ---- groups


def _groups(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    start, count = _window(request)
    shows = _shows_members(request)
    conditions = filters.parse(request.GET.get("filter", ""))
    rows, total = groups.listed(client, conditions, start - 1, count, members=shows)
    return 200, documents.page(_shown(client, request, rows), total, start)


def _group(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    return 200, _shown(client, request, [groups.get(client, ref)])[0]


def _new_group(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    return 201, _shown(client, request, [groups.create(client, documents.read_group(_body(request)))])[0]


def _put_group(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    return 200, _shown(client, request, [groups.update(client, ref, documents.read_group(_body(request)))])[0]


def _patch_group(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    """Without a body: a directory sends a request for a few members of a large group at a time."""
    groups.update(client, ref, patch.group_change(_body(request)))
    return 204, None


def _no_group(client: ScimClient, request: HttpRequest, ref: str) -> Answer:
    groups.delete(client, ref)
    return 204, None


def _shown(client: ScimClient, request: HttpRequest, rows: list[Group]) -> list[dict[str, Any]]:
    found = groups.members(client, rows) if _shows_members(request) else {}
    return [_selected(request, documents.group(row, found.get(row.pk))) for row in rows]


# ---- the query


def _window(request: HttpRequest) -> tuple[int, int]:
    """startIndex, from 1, and count (RFC 7644, section 3.4.2.4). Raises ScimRequestError."""
    start = max(1, _number(request, "startIndex", 1))
    return start, min(max(0, _number(request, "count", discovery.COUNT)), discovery.MAX_COUNT)


def _number(request: HttpRequest, name: str, usual: int) -> int:
    text = request.GET.get(name, "")
    digits = text.removeprefix("-")
    if text and not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
        raise ScimRequestError("invalidValue", f"{name}: expected a whole number")
    return int(text) if text else usual


def _names(request: HttpRequest, name: str) -> frozenset[str]:
    """Attributes in the query, by their first parts, in small letters."""
    words = request.GET.get(name, "").split(",")[:_MAX_NAMES]
    return frozenset(filters.attribute_of(word.strip()).partition(".")[0] for word in words if word.strip())


def _selected(request: HttpRequest, document: dict[str, Any]) -> dict[str, Any]:
    found = documents.selected(document, _names(request, "attributes"), _names(request, "excludedAttributes"))
    # `meta` has the address of a new resource.
    return {**found, "meta": document["meta"]} if request.method == "POST" else found


def _shows_members(request: HttpRequest) -> bool:
    wanted = _names(request, "attributes")
    return "members" in wanted if wanted else "members" not in _names(request, "excludedAttributes")


service_provider_config = resource(get=_config)
resource_types = resource(get=partial(_of, discovery.resource_types))
schemas = resource(get=partial(_of, discovery.schemas))
all_users = resource(get=_users, post=_new_user)
one_user = resource(get=_user, put=_put_user, patch=_patch_user, delete=_no_user)
all_groups = resource(get=_groups, post=_new_group)
one_group = resource(get=_group, put=_put_group, patch=_patch_group, delete=_no_group)
nowhere = resource(get=_nowhere, post=_nowhere, put=_nowhere, patch=_nowhere, delete=_nowhere)


urlpatterns: list[URLPattern] = [
    path("scim/v2/ServiceProviderConfig", service_provider_config),
    path("scim/v2/ResourceTypes", resource_types),
    path("scim/v2/ResourceTypes/<str:ref>", resource_types),
    path("scim/v2/Schemas", schemas),
    path("scim/v2/Schemas/<str:ref>", schemas),
    path("scim/v2/Users", all_users),
    path("scim/v2/Users/<str:ref>", one_user),
    path("scim/v2/Groups", all_groups),
    path("scim/v2/Groups/<str:ref>", one_group),
    path("scim/v2/<path:ref>", nowhere),
]
