"""The registry of endpoints and their servers: create, find, change, delete. Its errors are in `errors.py`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet, TextField, Value
from django.db.models.functions import Concat, Now

from identity.database_rows import single_row, unless_taken
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.gsi.printable import FORBIDDEN
from identity.models import User
from identity.user_names import canonical
from identity.vault import store as vault

from . import assurance
from .errors import (
    ENDPOINT_EXISTS,
    ENDPOINTS_FIXED,
    SERVER_EXISTS,
    TOO_MANY_ENDPOINTS,
    TOO_MANY_NEW_ENDPOINTS,
    EndpointNotFoundError,
    NotPermittedError,
)
from .fields import checked, checked_of_share, joined, wants_agent
from .host_key_registration import check_jump_host, pinned
from .models import Endpoint, Server
from .permissions import Permission, administered, functional_shares, is_restricted, may, shared_with, visible
from .server_spec import ServerSpec as ServerSpec
from .signals import host_key_settled

MAX_ENDPOINTS = 1000
#: Endpoints that a user creates in a day: the rows of deleted ones stay for a while.
MAX_NEW, DAY = 2000, timedelta(days=1)
MAX_SERVERS = 64
#: Distinct words of one search: each is a regular expression over all endpoints.
MAX_WORDS = 32


class SearchScope(StrEnum):
    """The `filter_scope` of a search. The last two select among the endpoints of the user's tasks."""

    ALL = "all"
    MINE = "my-endpoints"
    MY_PERSONAL = "my-gcp-endpoints"
    ADMINISTERED_BY_ME = "administered-by-me"
    SHARED_BY_ME = "shared-by-me"
    SHARED_WITH_ME = "shared-with-me"
    RECENTLY_USED = "recently-used"
    IN_USE = "in-use"


#: Entity types of the Transfer API: those that all its clients can show and change.
PLAIN, SHARED = "GCP_mapped_collection", "GCP_guest_collection"
#: Prefetches for documents and activation status: a shared endpoint uses the servers of its host.
SERVERS = ("servers", Prefetch("host__servers"))


def entity_type(endpoint: Endpoint) -> str:
    return PLAIN if endpoint.host_id is None else SHARED


def canonical_name(endpoint: Endpoint) -> str:
    """`owner#name`. Reads the owner: select it together with the endpoint."""
    return f"{endpoint.owner.username}#{endpoint.name}"


def server_uri(server: Server) -> str:
    """`gsiftp://host:2811`; also for a scheme that only a newer version knows."""
    return f"{server.scheme}://{joined(server.hostname, server.port)}"


def resolve(user: User, ref: str, verb: Permission) -> Endpoint:
    """The endpoint that `ref` names for this user: a UUID, `owner#name`, or the bare name of one of the user's own.

    Raises EndpointNotFoundError, NotPermittedError, StepUpRequiredError.
    """
    endpoint = single_row(existing().filter(_named_by(user, ref)))
    if endpoint is None or not may(user, Permission.VIEW, endpoint):
        raise EndpointNotFoundError(ref)
    require(user, verb, endpoint)
    return endpoint


def require(user: User, verb: Permission, endpoint: Endpoint) -> None:
    """Raises NotPermittedError; StepUpRequiredError where the endpoint demands another sign-in."""
    if not may(user, verb, endpoint):
        raise NotPermittedError(verb, endpoint)
    assurance.check(user, verb, endpoint)


def lock_existing(user: User, endpoint: Endpoint, verb: Permission) -> None:
    """Lock the endpoint against deletion until the transaction ends. Raises EndpointNotFoundError if it is gone."""
    row = single_row(existing().select_for_update(of=("self",), no_key=True).filter(pk=endpoint.pk))
    if row is None or not may(user, verb, row):
        raise EndpointNotFoundError(str(endpoint.pk))


def create(user: User, fields: Mapping[str, object], servers: Sequence[ServerSpec] = ()) -> Endpoint:
    """Create an endpoint of this user. Without a `name` its name is its UUID.

    Raises InvalidFieldError, ENDPOINT_EXISTS, SERVER_EXISTS, TOO_MANY_ENDPOINTS.
    """
    endpoint = Endpoint(id=uuid.uuid4(), owner=user, personal=wants_agent(fields, servers))
    values = _with_jump_host(user, endpoint, checked(endpoint, fields))
    if len(servers) > MAX_SERVERS:
        raise InvalidFieldError("DATA", f"An endpoint has at most {MAX_SERVERS} servers.")
    _check_one_scheme({spec.scheme for spec in servers})
    servers = [pinned(user, spec, endpoint.jump_host) for spec in servers]
    with transaction.atomic():
        insert(endpoint, values)
        for spec in servers:
            _add(endpoint, spec)
    return endpoint


def checked_fields(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """The column values that these fields of a document set. Raises InvalidFieldError."""
    if endpoint.host is None:
        return checked(endpoint, fields)
    _check_unchanged("host_path", fields, {endpoint.host_path, endpoint.host_path.rstrip("/")})
    hosts = {str(endpoint.host_id), canonical_name(endpoint.host)}
    for name in ("host_endpoint", "host_endpoint_id"):
        _check_unchanged(name, fields, hosts)
    return checked_of_share(endpoint, endpoint.host, fields)


def _check_unchanged(name: str, fields: Mapping[str, object], known: Collection[str]) -> None:
    """The shared folder cannot change: access was given to that folder."""
    if fields.get(name) is not None and fields[name] not in known:
        raise InvalidFieldError(name, "This cannot be changed; share another folder, and delete this share.")


def insert(endpoint: Endpoint, values: Mapping[str, object]) -> None:
    """Save it; without a `name` its name is its id. Raises the errors of `create`, ENDPOINTS_FIXED."""
    if is_restricted():
        raise RefusedError(ENDPOINTS_FIXED)
    if existing().filter(owner=endpoint.owner).count() >= MAX_ENDPOINTS:
        raise RefusedError(TOO_MANY_ENDPOINTS, limit=MAX_ENDPOINTS)
    if Endpoint.objects.filter(owner=endpoint.owner, created_at__gt=Now() - DAY).count() >= MAX_NEW:
        raise RefusedError(TOO_MANY_NEW_ENDPOINTS, limit=MAX_NEW)
    endpoint.name = str(endpoint.id)
    _save(endpoint, values, force_insert=True)


def update(user: User, ref: str, fields: Mapping[str, object]) -> Endpoint:
    """Change the given fields of the document. Raises the errors of `resolve` and `create`.

    When an endpoint stops being public, the credentials of other users for it are deleted: they could no longer use or
    delete them.
    """
    endpoint = resolve(user, ref, Permission.MANAGE)
    values = _with_jump_host(user, endpoint, checked_fields(endpoint, fields))
    with transaction.atomic():
        _save(endpoint, values)
        if values.get("public") is False:
            vault.forget_all(vault.endpoint_binding(endpoint.pk), but=endpoint.owner_id)
    return endpoint


def _with_jump_host(user: User, endpoint: Endpoint, values: dict[str, object]) -> dict[str, object]:
    """The values with the endpoint that `jump_host` names, which is set already."""
    if "jump_host" in values:
        ref = str(values["jump_host"])
        jump_host = resolve(user, ref, Permission.VIEW) if ref else None
        check_jump_host(endpoint, jump_host)
        values["jump_host"] = endpoint.jump_host = jump_host
    return values


class Deleted(NamedTuple):
    """shares: the number of shares that were deleted with it."""

    endpoint: Endpoint
    shares: int


def delete(user: User, ref: str) -> Deleted:
    """Delete an endpoint, its shares, and all credentials that are bound to it.

    The rows stay while a task refers to them, and for 30 days (`transferapi.tasks.upkeep.old_records`).
    Tasks that are still running get a fault. Raises the errors of `resolve`.
    """
    return delete_existing(resolve(user, ref, Permission.MANAGE))


def find(ref: str) -> Endpoint:
    """The endpoint that a UUID or `owner#name` names, for the operator of the service: no permission is asked.

    Raises EndpointNotFoundError.
    """
    if (named := _named(ref)) and (endpoint := single_row(existing().filter(named))):
        return endpoint
    raise EndpointNotFoundError(ref)


def delete_existing(endpoint: Endpoint) -> Deleted:
    """`delete` of an endpoint that the caller may delete, or for the operator of the service."""
    with transaction.atomic():
        # First the host: a transaction that creates a share on it locks its row, and ends before this update.
        existing().filter(pk=endpoint.pk).update(deleted_at=Now())
        shares = existing().filter(host=endpoint.pk).update(deleted_at=Now())
    vault.forget_all(vault.endpoint_binding(endpoint.pk))
    return Deleted(endpoint, shares)


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """None: no condition. host: the host of shared endpoints, a reference as for `resolve`. non_functional: the host no
    longer lets the share's owner share from it."""

    owner_id: uuid.UUID | None = None
    host: str | None = None
    entity_types: Collection[str] | None = None
    non_functional: bool | None = None


def search(
    user: User,
    *,
    scope: SearchScope = SearchScope.ALL,
    fulltext: str = "",
    filters: SearchFilters | None = None,
    among: Collection[uuid.UUID] = (),
    limit: int = 100,
    offset: int = 0,
) -> tuple[list[Endpoint], bool]:
    """One page of the endpoints that this user may view and that match, by name, and whether there are more.

    Each word of `fulltext` must be the beginning of a word in the endpoint's texts. among: the endpoints of the user's
    tasks, for the scopes that need them. Raises InvalidFieldError when there are too many words.
    """
    found = existing().filter(visible(user) & _in_scope(user, scope, among))
    found = _filtered(user, found, filters or SearchFilters())
    found = _matching(found, fulltext)
    found = found.prefetch_related(*SERVERS).order_by("display_name", "name", "id")
    page = list(found[offset : offset + limit + 1])
    return page[:limit], len(page) > limit


def servers(endpoint: Endpoint) -> list[Server]:
    """The servers of an endpoint, in the order in which they were added."""
    return list(endpoint.servers.all())


def add_server(user: User, ref: str, spec: ServerSpec) -> Server:
    """Raises the errors of `resolve`, SERVER_EXISTS, and InvalidFieldError (too many, or of another scheme)."""
    endpoint = resolve(user, ref, Permission.MANAGE)
    if endpoint.host_id is not None or endpoint.personal:
        raise InvalidFieldError("endpoint", "A shared or personal endpoint has no servers of its own.")
    _check_one_scheme({spec.scheme, *(row.scheme for row in servers(endpoint))})
    spec = pinned(user, spec, endpoint.jump_host)
    with transaction.atomic():
        others = _locked_servers(endpoint)
        if len(others) >= MAX_SERVERS:
            raise InvalidFieldError("DATA", f"An endpoint has at most {MAX_SERVERS} servers.")
        _check_one_scheme({spec.scheme, *(row.scheme for row in others)})
        return _add(endpoint, spec)


def server(endpoint: Endpoint, server_id: int) -> Server:
    """One server of an endpoint. Raises NotFoundError."""
    found = endpoint.servers.filter(pk=server_id).first()
    if found is None:
        raise NotFoundError(server_id, "server")
    return found


def server_spec(row: Server) -> ServerSpec:
    """The address of a server."""
    return ServerSpec(row.hostname, row.port, row.scheme, row.subject, row.host_key_confirmed)


def update_server(user: User, ref: str, server_id: int, spec: ServerSpec) -> Server:
    """Change the address of a server; the scheme only if the endpoint has no other server.

    Raises the errors of `resolve`, NotFoundError, SERVER_EXISTS, InvalidFieldError.
    """
    endpoint = resolve(user, ref, Permission.MANAGE)
    row = server(endpoint, server_id)
    spec = pinned(user, spec, endpoint.jump_host)
    for field, value in spec.columns.items():
        setattr(row, field, value)
    waited, row.shown_host_key = row.shown_host_key, ""
    with unless_taken("server_unique", RefusedError(SERVER_EXISTS, uri=spec.uri)):
        others = [other for other in _locked_servers(endpoint) if other.pk != server_id]
        _check_one_scheme({spec.scheme, *(other.scheme for other in others)})
        row.save()
    if waited:
        host_key_settled.send(sender=Server, endpoint=endpoint)
    return row


def remove_server(user: User, ref: str, server_id: int) -> None:
    """Raises the errors of `resolve`, NotFoundError."""
    endpoint = resolve(user, ref, Permission.MANAGE)
    deleted, _ = Server.objects.filter(endpoint=endpoint, pk=server_id).delete()
    if not deleted:
        raise NotFoundError(server_id, "server")


def _locked_servers(endpoint: Endpoint) -> list[Server]:
    """The servers, locked against changes until the transaction ends."""
    list(Endpoint.objects.select_for_update().filter(pk=endpoint.pk).values_list("pk"))
    return list(Server.objects.filter(endpoint=endpoint))


def _check_one_scheme(schemes: set[str]) -> None:
    """One credential must be valid at every server of an endpoint, so that a task can use any of them."""
    if len(schemes) > 1:
        listed = " and ".join(sorted(schemes))
        raise InvalidFieldError("scheme", f"All servers of an endpoint have one scheme, not {listed}.")


def existing() -> QuerySet[Endpoint]:
    return Endpoint.objects.select_related("owner", "host__owner").filter(deleted_at__isnull=True)


def _named_by(user: User, ref: str) -> Q:
    """The row that `ref` names for this user: also one of the user's own by its bare name."""
    return _named(ref) or Q(owner=user, name=ref)


def _named(ref: str) -> Q:
    """The row of a UUID or of `owner#name`; an empty condition for a bare name.

    Control characters and surrogates, which PostgreSQL cannot compare, are in no name. Raises EndpointNotFoundError.
    """
    if FORBIDDEN.search(ref) or len(ref) > 512:
        raise EndpointNotFoundError(ref)
    try:
        return Q(id=uuid.UUID(ref))
    except ValueError:
        owner, hash_sign, name = ref.partition("#")
        return Q(owner__username=canonical(owner), name=name) if hash_sign else Q()


def _in_scope(user: User, scope: SearchScope, among: Collection[uuid.UUID]) -> Q:
    """The endpoints of a scope, among those that this user may view."""
    if scope is SearchScope.MINE:
        return Q(owner=user)
    if scope is SearchScope.MY_PERSONAL:
        return Q(owner=user, host__isnull=True)
    if scope is SearchScope.ADMINISTERED_BY_ME:
        return administered(user)
    if scope is SearchScope.SHARED_BY_ME:
        return Q(owner=user, host__isnull=False)
    if scope is SearchScope.SHARED_WITH_ME:
        return shared_with(user)
    return Q() if scope is SearchScope.ALL else Q(pk__in=list(among))


def _filtered(user: User, found: QuerySet[Endpoint], filters: SearchFilters) -> QuerySet[Endpoint]:
    if filters.owner_id is not None:
        found = found.filter(owner_id=filters.owner_id)
    if filters.host is not None:
        found = found.filter(host__in=existing().filter(visible(user) & _named_by(user, filters.host)))
    if filters.entity_types is not None:
        if PLAIN not in filters.entity_types:
            found = found.exclude(host__isnull=True)
        if SHARED not in filters.entity_types:
            found = found.exclude(host__isnull=False)
    if filters.non_functional is not None:
        non_functional = Q(host__isnull=False) & ~functional_shares()
        found = found.filter(non_functional if filters.non_functional else ~non_functional)
    return found


def _matching(found: QuerySet[Endpoint], fulltext: str) -> QuerySet[Endpoint]:
    space = Value(" ")
    words = Concat(
        "display_name", space, "owner__username", Value("#"), "name", space, "description", space,
        "organization", space, "department", space, "keywords", output_field=TextField(),
    )  # fmt: skip
    found = found.annotate(words=words)
    terms = dict.fromkeys(fulltext.replace("\0", " ").split())
    if len(terms) > MAX_WORDS:
        raise InvalidFieldError("filter_fulltext", f"A search has at most {MAX_WORDS} words.")
    for term in terms:
        found = found.filter(words__iregex=r"\m" * term[0].isalnum() + re.escape(term))
    return found


def _save(endpoint: Endpoint, values: Mapping[str, object], *, force_insert: bool = False) -> None:
    for field, value in values.items():
        setattr(endpoint, field, value)
    with unless_taken("endpoint_name_unique_per_owner", RefusedError(ENDPOINT_EXISTS, name=canonical_name(endpoint))):
        endpoint.save(force_insert=force_insert, update_fields=None if force_insert else list(values))


def _add(endpoint: Endpoint, spec: ServerSpec) -> Server:
    with unless_taken("server_unique", RefusedError(SERVER_EXISTS, uri=spec.uri)):
        return Server.objects.create(endpoint=endpoint, **spec.columns)
