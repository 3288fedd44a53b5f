"""The registry of endpoints: make, find, change, delete; the servers behind them. What it refuses is in `errors.py`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet, TextField, Value
from django.db.models.functions import Concat, Now

from identity import vault
from identity.conflicts import unless_taken
from identity.models import User
from identity.one import one

from .errors import (
    EndpointExistsError,
    EndpointInvalidError,
    EndpointNotFoundError,
    NotPermittedError,
    ServerExistsError,
    ServerNotFoundError,
    TooManyEndpointsError,
)
from .fields import CONTROL, checked, checked_of_share, joined, refuse_personal
from .gate import valid_host
from .models import Endpoint, Server
from .permissions import Verb, administered, awake_rows, may, shared_with, visible
from .sshftp import valid_fingerprint

MAX_ENDPOINTS = 1000
MAX_SERVERS = 64
#: Different words of one search: each is a regular expression over all endpoints.
MAX_WORDS = 32
DEFAULT_PORTS = {"gsiftp": 2811, "ftp": 21, "sshftp": 22}


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """Where a server listens. Checked when it is made. -> EndpointInvalidError"""

    hostname: str
    port: int = 2811
    scheme: str = "gsiftp"
    subject: str = ""

    def __post_init__(self) -> None:
        if self.scheme not in DEFAULT_PORTS:
            raise EndpointInvalidError("scheme", "A server's scheme is one of gsiftp, ftp, sshftp.")
        if not valid_host(self.hostname):
            raise EndpointInvalidError("hostname", "This is not a host name or an IP address.")
        if not 1 <= self.port <= 65535:
            raise EndpointInvalidError("port", "A port is a number from 1 to 65535.")
        if len(self.subject) > 1024 or CONTROL.search(self.subject):
            raise EndpointInvalidError("subject", "A subject has at most 1024 characters, and no control ones.")
        if self.scheme == "sshftp" and self.subject and not valid_fingerprint(self.subject):
            reason = (
                "Of an sshftp server it is the fingerprint of the host's key, as ssh-keygen -l shows it: SHA256:..."
            )
            raise EndpointInvalidError("subject", reason)

    @classmethod
    def parse(cls, uri: str, subject: str = "") -> ServerSpec:
        """Read `gsiftp://host:2811`; the port may be left out, and nothing may follow it. -> EndpointInvalidError"""
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise EndpointInvalidError("uri", f"This is not an address: {error}.") from error
        if CONTROL.search(uri) or parts.path not in ("", "/") or "@" in parts.netloc or parts.query or parts.fragment:
            raise EndpointInvalidError("uri", "A server's address looks like gsiftp://host:2811, and has no more.")
        default = DEFAULT_PORTS.get(parts.scheme, 1)
        return cls(parts.hostname or "", default if port is None else port, parts.scheme, subject)

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{joined(self.hostname, self.port)}"


class SearchScope(StrEnum):
    """The `filter_scope` of a search. The last two are of the endpoints of the user's tasks, which others know of."""

    ALL = "all"
    MINE = "my-endpoints"
    MY_PERSONAL = "my-gcp-endpoints"
    ADMINISTERED_BY_ME = "administered-by-me"
    SHARED_BY_ME = "shared-by-me"
    SHARED_WITH_ME = "shared-with-me"
    RECENTLY_USED = "recently-used"
    IN_USE = "in-use"


#: What endpoints are in the words of the Transfer API: those kinds that all its clients can show and change.
PLAIN, SHARED = "GCP_mapped_collection", "GCP_guest_collection"
#: To be prefetched for documents and standings: of a shared endpoint, those of its host count.
SERVERS = ("servers", Prefetch("host__servers"))


def entity_type(endpoint: Endpoint) -> str:
    return PLAIN if endpoint.host_id is None else SHARED


def canonical_name(endpoint: Endpoint) -> str:
    """`owner#name`. Reads the owner: select it together with the endpoint."""
    return f"{endpoint.owner.username}#{endpoint.name}"


def server_uri(server: Server) -> str:
    """`gsiftp://host:2811`."""
    return server_spec(server).uri


def resolve(user: User, ref: str, verb: Verb) -> Endpoint:
    """The endpoint that `ref` means to this user: a UUID, `owner#name`, or the bare name of one of his own.

    -> EndpointNotFoundError, NotPermittedError
    """
    endpoint = one(living().filter(_meaning(user, ref)))
    if endpoint is None or not may(user, Verb.VIEW, endpoint):
        raise EndpointNotFoundError(ref)
    require(user, verb, endpoint)
    return endpoint


def require(user: User, verb: Verb, endpoint: Endpoint) -> None:
    """-> NotPermittedError"""
    if not may(user, verb, endpoint):
        raise NotPermittedError(verb, endpoint)


def still(user: User, endpoint: Endpoint, verb: Verb) -> None:
    """Nobody deletes or closes it until the end of this transaction. -> EndpointNotFoundError, where somebody has"""
    row = one(living().select_for_update(of=("self",), no_key=True).filter(pk=endpoint.pk))
    if row is None or not may(user, verb, row):
        raise EndpointNotFoundError(str(endpoint.pk))


def create(user: User, fields: Mapping[str, object], servers: Sequence[ServerSpec] = ()) -> Endpoint:
    """Make an endpoint of this user. Without a `name` it is called by its UUID.

    -> EndpointInvalidError, EndpointExistsError, ServerExistsError, TooManyEndpointsError
    """
    values = checked(Endpoint(), fields)
    refuse_personal(fields)
    if len(servers) > MAX_SERVERS:
        raise EndpointInvalidError("DATA", f"An endpoint has at most {MAX_SERVERS} servers.")
    _check_one_scheme({spec.scheme for spec in servers})
    endpoint = Endpoint(id=uuid.uuid4(), owner=user)
    with transaction.atomic():
        insert(endpoint, values)
        for spec in servers:
            _add(endpoint, spec)
    return endpoint


def checked_fields(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """What becomes of the columns of this endpoint. -> EndpointInvalidError"""
    if endpoint.host is None:
        return checked(endpoint, fields)
    _same("host_path", fields, {endpoint.host_path, endpoint.host_path.rstrip("/")})
    hosts = {str(endpoint.host_id), canonical_name(endpoint.host)}
    for name in ("host_endpoint", "host_endpoint_id"):
        _same(name, fields, hosts)
    return checked_of_share(endpoint, endpoint.host, fields)


def _same(name: str, fields: Mapping[str, object], known: Collection[str]) -> None:
    """What is shared stays what it is: who was given something there was given that."""
    if fields.get(name) is not None and fields[name] not in known:
        raise EndpointInvalidError(name, "This cannot be changed; share another folder, and delete this share.")


def insert(endpoint: Endpoint, values: Mapping[str, object]) -> None:
    """Keep a new endpoint; without a `name` it is called by its id. -> EndpointExistsError, TooManyEndpointsError"""
    if living().filter(owner=endpoint.owner).count() >= MAX_ENDPOINTS:
        raise TooManyEndpointsError(MAX_ENDPOINTS)
    endpoint.name = str(endpoint.id)
    _save(endpoint, values, force_insert=True)


def update(user: User, ref: str, fields: Mapping[str, object]) -> Endpoint:
    """Change what `fields` names of the document. -> as `resolve` and `create`

    One that is public no more has no credentials of others any more: they could neither use them nor take them back.
    """
    endpoint = resolve(user, ref, Verb.MANAGE)
    values = checked_fields(endpoint, fields)
    with transaction.atomic():
        _save(endpoint, values)
        if values.get("public") is False:
            vault.forget_all(vault.endpoint_binding(endpoint.pk), but=endpoint.owner_id)
    return endpoint


class Deleted(NamedTuple):
    """shares: how many were shared from it, and went with it."""

    endpoint: Endpoint
    shares: int


def delete(user: User, ref: str) -> Deleted:
    """Take an endpoint away, and all credentials that were given for it alone; its row stays for the history.

    What is shared from it goes with it. Tasks that still run meet a fault. -> as `resolve`
    """
    endpoint = resolve(user, ref, Verb.MANAGE)
    with transaction.atomic():
        # First the host: who shares from it at this moment holds its row, and is done when we have it.
        living().filter(pk=endpoint.pk).update(deleted_at=Now())
        shares = living().filter(host=endpoint.pk).update(deleted_at=Now())
    vault.forget_all(vault.endpoint_binding(endpoint.pk))
    return Deleted(endpoint, shares)


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """None: no condition. host: of shared endpoints, as `resolve` takes it. non_functional: nobody gets at what is
    shared, since the host does not let its owner in."""

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
    """The endpoints that this user may view and that match, by name, and whether there are more of them.

    Each word of `fulltext` must begin a word of the endpoint's texts. among: the endpoints of the user's tasks, where
    the scope is of those. -> EndpointInvalidError when there are too many words
    """
    found = living().filter(visible(user) & _in_scope(user, scope, among))
    found = _filtered(user, found, filters or SearchFilters())
    found = _matching(found, fulltext)
    found = found.prefetch_related(*SERVERS).order_by("display_name", "name", "id")
    page = list(found[offset : offset + limit + 1])
    return page[:limit], len(page) > limit


def servers(endpoint: Endpoint) -> list[Server]:
    """The servers of an endpoint, in the order in which they were added."""
    return list(endpoint.servers.all())


def add_server(user: User, ref: str, spec: ServerSpec) -> Server:
    """-> as `resolve`, ServerExistsError, EndpointInvalidError when there are too many or it is of another scheme"""
    endpoint = resolve(user, ref, Verb.MANAGE)
    if endpoint.host_id is not None:
        raise EndpointInvalidError("endpoint", "A shared endpoint has no servers of its own.")
    with transaction.atomic():
        others = _locked_servers(endpoint)
        if len(others) >= MAX_SERVERS:
            raise EndpointInvalidError("DATA", f"An endpoint has at most {MAX_SERVERS} servers.")
        _check_one_scheme({spec.scheme, *(row.scheme for row in others)})
        return _add(endpoint, spec)


def server(endpoint: Endpoint, server_id: int) -> Server:
    """One of the servers of an endpoint. -> ServerNotFoundError"""
    found = endpoint.servers.filter(pk=server_id).first()
    if found is None:
        raise ServerNotFoundError(endpoint, server_id)
    return found


def server_spec(row: Server) -> ServerSpec:
    """Where this server listens."""
    return ServerSpec(row.hostname, row.port, row.scheme, row.subject)


def update_server(user: User, ref: str, server_id: int, spec: ServerSpec) -> Server:
    """Say anew where a server listens. -> as `resolve`, ServerNotFoundError, ServerExistsError, EndpointInvalidError

    The scheme can be changed where there is no other server.
    """
    endpoint = resolve(user, ref, Verb.MANAGE)
    row = server(endpoint, server_id)
    row.scheme, row.hostname, row.port, row.subject = spec.scheme, spec.hostname, spec.port, spec.subject
    with unless_taken("server_unique", ServerExistsError(spec.uri)):
        others = [other for other in _locked_servers(endpoint) if other.pk != server_id]
        _check_one_scheme({spec.scheme, *(other.scheme for other in others)})
        row.save()
    return row


def remove_server(user: User, ref: str, server_id: int) -> None:
    """-> as `resolve`, ServerNotFoundError"""
    endpoint = resolve(user, ref, Verb.MANAGE)
    deleted, _ = Server.objects.filter(endpoint=endpoint, pk=server_id).delete()
    if not deleted:
        raise ServerNotFoundError(endpoint, server_id)


def _locked_servers(endpoint: Endpoint) -> list[Server]:
    """The servers as they are until the end of this transaction: nobody adds or changes one beside us."""
    list(Endpoint.objects.select_for_update().filter(pk=endpoint.pk).values_list("pk"))
    return list(Server.objects.filter(endpoint=endpoint))


def _check_one_scheme(schemes: set[str]) -> None:
    """One credential logs in at every server of an endpoint, so that a task can use any of them."""
    if len(schemes) > 1:
        raise EndpointInvalidError("scheme", f"All servers of an endpoint have one scheme, not {_listed(schemes)}.")


def _listed(words: set[str]) -> str:
    return " and ".join(sorted(words))


def living() -> QuerySet[Endpoint]:
    return Endpoint.objects.select_related("owner", "host__owner").filter(deleted_at__isnull=True)


def _meaning(user: User, ref: str) -> Q:
    """Which row `ref` names. Controls and surrogates, with which PostgreSQL cannot compare, are in no name."""
    if CONTROL.search(ref) or len(ref) > 512:
        raise EndpointNotFoundError(ref)
    try:
        return Q(id=uuid.UUID(ref))
    except ValueError:
        owner, hash_sign, name = ref.partition("#")
        return Q(owner__username=owner, name=name) if hash_sign else Q(owner=user, name=ref)


def _in_scope(user: User, scope: SearchScope, among: Collection[uuid.UUID]) -> Q:
    """Which of the endpoints that this user may view a scope holds."""
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
        found = found.filter(host__in=living().filter(visible(user) & _meaning(user, filters.host)))
    if filters.entity_types is not None:
        if PLAIN not in filters.entity_types:
            found = found.exclude(host__isnull=True)
        if SHARED not in filters.entity_types:
            found = found.exclude(host__isnull=False)
    if filters.non_functional is not None:
        asleep = Q(host__isnull=False) & ~awake_rows()
        found = found.filter(asleep if filters.non_functional else ~asleep)
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
        raise EndpointInvalidError("filter_fulltext", f"A search has at most {MAX_WORDS} words.")
    for term in terms:
        found = found.filter(words__iregex=r"\m" * term[0].isalnum() + re.escape(term))
    return found


def _save(endpoint: Endpoint, values: Mapping[str, object], *, force_insert: bool = False) -> None:
    for field, value in values.items():
        setattr(endpoint, field, value)
    with unless_taken("endpoint_name_unique_per_owner", EndpointExistsError(canonical_name(endpoint))):
        endpoint.save(force_insert=force_insert, update_fields=None if force_insert else list(values))


def _add(endpoint: Endpoint, spec: ServerSpec) -> Server:
    with unless_taken("server_unique", ServerExistsError(spec.uri)):
        return Server.objects.create(
            endpoint=endpoint, scheme=spec.scheme, hostname=spec.hostname, port=spec.port, subject=spec.subject
        )
