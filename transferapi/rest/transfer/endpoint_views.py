"""Endpoints and their servers."""

from __future__ import annotations

from dataclasses import replace

from django.http import QueryDict
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks, endpoint_view, registry
from endpoints.connect import setup_keys
from endpoints.permissions import Permission
from endpoints.program_removal import remove_programs
from endpoints.protocols import USUAL, of_scheme
from endpoints.registry import SearchFilters, SearchScope, ServerSpec
from identity.error_categories import InvalidFieldError
from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest, NotFound
from transferapi.rest.http.parsing import Document, parse_id, query_page
from transferapi.rest.openapi import description
from transferapi.tasks import queries

from . import endpoint_documents

MAX_SEARCH = 1000


def server_spec(document: Document, before: ServerSpec | None = None, usual_scheme: str = USUAL) -> ServerSpec:
    """A server as `hostname`, `port` and `scheme`, or as one `uri`; absent values stay as they were."""
    given = document.text("subject")
    subject = given if given is not None else before.subject if before else ""
    return replace(_address(document, before, usual_scheme, subject), confirmed=_confirmed(document, given, before))


def _confirmed(document: Document, subject: str | None, before: ServerSpec | None) -> bool:
    """Whether a person vouches for the host key. The key of before, written back unread, is not compared by that."""
    if (said := document.flag("host_key_confirmed")) is None:
        return before.confirmed if before and subject in (None, before.subject) else True
    if said and not subject:
        raise InvalidFieldError("host_key_confirmed", "Give the host key that you have compared, as `subject`.")
    return said


def _address(document: Document, before: ServerSpec | None, usual_scheme: str, subject: str) -> ServerSpec:
    uri = document.text("uri")
    if uri and not document.has("hostname"):
        return ServerSpec.parse(uri, subject)
    scheme = document.text("scheme") or (before.scheme if before else usual_scheme)
    port = document.number("port")
    if port is None:
        port = before.port if before else of_scheme(scheme).port
    hostname = document.text("hostname") if before else document.required_text("hostname")
    return ServerSpec(before.hostname if before and hostname is None else hostname or "", port, scheme, subject)


class EndpointCreate(View):
    @description.operation("Create an endpoint", body="endpoint", answer="endpoint_create_result", status=201)
    def post(self, request: Request) -> Response:
        document = endpoint_documents.ENDPOINT_REQUEST.open(request.data)
        servers = [server_spec(one) for one in document.documents("DATA", "server")]
        endpoint, key = setup_keys.create_endpoint(self.user, document.fields, servers)
        return endpoint_documents.ENDPOINT_CREATED.answer(request, **endpoint_documents.created(endpoint, key))


class EndpointDetail(View):
    @description.operation("Show an endpoint", answer="endpoint", query="fields")
    def get(self, request: Request, endpoint: str) -> Response:
        found = bookmarks.show_endpoint(self.user, endpoint)
        return Response(endpoint_documents.endpoints(self.user, [found], request.query_params.get("fields"))[0])

    @description.operation("Change an endpoint", body="endpoint_change", answer="result")
    def put(self, request: Request, endpoint: str) -> Response:
        found = registry.update(self.user, endpoint, endpoint_documents.ENDPOINT_CHANGE.open(request.data).fields)
        return result(request, "Updated", "Endpoint updated successfully", id=str(found.pk))

    @description.operation("Delete an endpoint", answer="result")
    def delete(self, request: Request, endpoint: str) -> Response:
        found, shares = registry.delete(self.user, endpoint)
        more = f", with {shares} shared endpoint{'s' * (shares > 1)} of it" if shares else ""
        return result(request, "Deleted", f"Endpoint deleted successfully{more}", id=str(found.pk))


class EndpointSearch(View):
    cost = 5  # it looks at every endpoint that there is

    @description.operation(
        "Search endpoints",
        answer="endpoint_list",
        query="filter_fulltext filter_scope filter_owner_id filter_entity_type filter_host_endpoint "
        "filter_non_functional limit offset fields",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit, offset = query_page(query, 100, MAX_SEARCH, 10**6)
        rows, more = queries.search_endpoints(
            self.user,
            scope=self._scope(query.get("filter_scope")),
            fulltext=query.get("filter_fulltext") or "",
            filters=self._filters(query),
            limit=limit,
            offset=offset,
        )
        fields = query.get("fields")
        return Response(
            endpoint_documents.endpoint_list(self.user, rows, fields, limit=limit, offset=offset, more=more)
        )

    @staticmethod
    def _scope(name: str | None) -> SearchScope:
        try:
            return SearchScope(name or "all")
        except ValueError:
            raise BadRequest("filter_scope: there is no such scope") from None

    def _filters(self, query: QueryDict) -> SearchFilters:
        owner, kinds = query.get("filter_owner_id"), query.get("filter_entity_type")
        broken = query.get("filter_non_functional")
        return SearchFilters(
            owner_id=parse_id(owner, BadRequest("filter_owner_id: expected a UUID")) if owner else None,
            host=query.get("filter_host_endpoint") or None,
            entity_types=kinds.split(",") if kinds else None,
            non_functional=broken not in ("0", "false", "False") if broken else None,
        )


class EndpointList(View):
    @description.operation(
        "List your endpoints, as the oldest clients ask for them",
        answer="endpoint_list",
        query="limit offset fields",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit, offset = query_page(query, 100, MAX_SEARCH, 10**6)
        rows, more = registry.search(self.user, scope=SearchScope.MINE, limit=limit, offset=offset)
        fields = query.get("fields")
        return Response(
            endpoint_documents.endpoint_list(self.user, rows, fields, limit=limit, offset=offset, more=more)
        )


class ServerList(View):
    @description.operation("List the servers of an endpoint", answer="endpoint_server_list")
    def get(self, request: Request, endpoint: str) -> Response:
        found = registry.resolve(self.user, endpoint, Permission.VIEW)
        name = registry.canonical_name(found)
        return Response(endpoint_documents.SERVER_LIST.of(registry.servers(found), endpoint=name))


class ServerCreate(View):
    @description.operation("Add a server", body="server", answer="endpoint_server_add_result", status=201)
    def post(self, request: Request, endpoint: str) -> Response:
        usual = endpoint_view.usual_scheme(registry.resolve(self.user, endpoint, Permission.MANAGE))
        row = registry.add_server(
            self.user, endpoint, server_spec(endpoint_documents.SERVER_REQUEST.open(request.data), None, usual)
        )
        return endpoint_documents.SERVER_ADDED.answer(request, id=row.pk)


class SshProgram(View):
    cost = 5  # it logs in at each server

    @description.operation("Remove the server that this service keeps in your ssh account", answer="result")
    def delete(self, request: Request, endpoint: str) -> Response:
        found, gone = remove_programs(self.user, endpoint)
        more = "" if gone else "; the cache folder has other files, and stays"
        return result(request, "Deleted", f"The program was removed from your account{more}", id=str(found.pk))


class ServerDetail(View):
    @description.operation("Show a server", answer="server")
    def get(self, request: Request, endpoint: str, server: str) -> Response:
        found = registry.resolve(self.user, endpoint, Permission.VIEW)
        return Response(endpoint_documents.SERVER.document(registry.server(found, self._number(server))))

    @description.operation("Change a server", body="server", answer="result")
    def put(self, request: Request, endpoint: str, server: str) -> Response:
        document, number = endpoint_documents.SERVER_REQUEST.open(request.data), self._number(server)
        before = registry.server(registry.resolve(self.user, endpoint, Permission.MANAGE), number)
        registry.update_server(self.user, endpoint, number, server_spec(document, registry.server_spec(before)))
        return result(request, "Updated", "Server updated successfully", id=str(number))

    @description.operation("Remove a server", answer="result")
    def delete(self, request: Request, endpoint: str, server: str) -> Response:
        registry.remove_server(self.user, endpoint, self._number(server))
        return result(request, "Deleted", "Server deleted successfully")

    @staticmethod
    def _number(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > 18:
            raise NotFound("There is no such server")
        return int(text)
