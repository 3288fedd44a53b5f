"""Shared endpoints, access rules and roles."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.models import AccessRule
from endpoints.sharing import access_rules, roles, shares
from endpoints.sharing.access_rules import RuleSpec
from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import Document, query_number
from transferapi.rest.openapi import description

from . import sharing_documents
from .endpoint_documents import ENDPOINT_CREATED, created, endpoint_list


class SharedEndpointCreate(View):
    @description.operation(
        "Share a folder of an endpoint", body="shared_endpoint", answer="endpoint_create_result", status=201
    )
    def post(self, request: Request) -> Response:
        document = sharing_documents.SHARED_ENDPOINT.open(request.data)
        host = document.text("host_endpoint_id") or document.required_text("host_endpoint")
        share = shares.create(self.user, host, document.required_text("host_path"), document.fields)
        message = "Shared endpoint created successfully"
        return ENDPOINT_CREATED.answer(request, message=message, **created(share))


class MySharedEndpointList(View):
    @description.operation("List what you share from an endpoint", answer="endpoint_list", query="fields")
    def get(self, request: Request, endpoint: str) -> Response:
        rows = shares.mine(self.user, endpoint)
        return Response(endpoint_list(self.user, rows, request.query_params.get("fields")))


class SharedEndpointList(View):
    @description.operation(
        "List what is shared from an endpoint", answer="shared_endpoint_list", query="max_results next_token"
    )
    def get(self, request: Request, endpoint: str) -> Response:
        query = request.query_params
        limit = query_number(query, "max_results", shares.MAX_PAGE, most=shares.MAX_PAGE)
        page = shares.of_host(self.user, endpoint, limit=max(1, limit), token=query.get("next_token") or None)
        found = [{"id": str(row.pk)} for row in page.rows]
        return Response({"DATA_TYPE": "shared_endpoint_list", "shared_endpoints": found, "next_token": page.next_token})


# ---- roles


class RoleList(View):
    @description.operation("List the roles of an endpoint", answer="role_list")
    def get(self, request: Request, endpoint: str) -> Response:
        return Response(sharing_documents.ROLE_LIST.of(roles.of_endpoint(self.user, endpoint)))


class RoleCreate(View):
    @description.operation("Give somebody a role", body="role", answer="role", status=201)
    def post(self, request: Request, endpoint: str) -> Response:
        made = roles.create(self.user, endpoint, **sharing_documents.ROLE_REQUEST.read(request.data))
        return Response(sharing_documents.ROLE.document(made), status=201)


class RoleDetail(View):
    @description.operation("Show a role", answer="role")
    def get(self, request: Request, endpoint: str, role: str) -> Response:
        return Response(sharing_documents.ROLE.document(roles.get(self.user, endpoint, role)))

    @description.operation("Take a role back", answer="result")
    def delete(self, request: Request, endpoint: str, role: str) -> Response:
        roles.delete(self.user, endpoint, role)
        return result(request, "Deleted", "Role deleted successfully", id=role)


# ---- access rules


class AccessList(View):
    @description.operation("List the access rules of a shared endpoint", answer="access_list")
    def get(self, request: Request, endpoint: str) -> Response:
        share, rows = access_rules.of_share(self.user, endpoint)
        return Response(sharing_documents.access_list(share, map(sharing_documents.ACCESS.document, rows)))


class AccessCreate(View):
    @description.operation("Give somebody access", body="access", answer="access_create_result", status=201)
    def post(self, request: Request, endpoint: str) -> Response:
        given = sharing_documents.ACCESS_REQUEST.read(request.data)
        spec = RuleSpec(
            principal_type=given["principal_type"],
            principal=given["principal"],
            path=given["path"],
            permissions=given["permissions"],
            expires_at=given["expiration_date"],
            notify_email=given["notify_email"] or "",
            notify_message=given["notify_message"] or "",
        )
        rule = access_rules.create(self.user, endpoint, spec)
        return sharing_documents.ACCESS_CREATED.answer(request, access_id=str(rule.pk))


class AccessDetail(View):
    @description.operation("Show an access rule", answer="access")
    def get(self, request: Request, endpoint: str, access: str) -> Response:
        return Response(sharing_documents.ACCESS.document(access_rules.get(self.user, endpoint, access)))

    @description.operation("Change an access rule", body="access_change", answer="result")
    def put(self, request: Request, endpoint: str, access: str) -> Response:
        document = sharing_documents.ACCESS_CHANGE.open(request.data)
        _refuse_others(document, access_rules.get(self.user, endpoint, access))
        given = sharing_documents.ACCESS_CHANGE.values(document)
        changes: dict[str, object] = {}
        if given["permissions"] is not None:
            changes["permissions"] = given["permissions"]
        if "expiration_date" in document.fields:
            changes["expires_at"] = given["expiration_date"]
        access_rules.update(self.user, endpoint, access, changes)
        return result(request, "Updated", "Access rule updated successfully", id=access)

    @description.operation("Take access back", answer="result")
    def delete(self, request: Request, endpoint: str, access: str) -> Response:
        access_rules.delete(self.user, endpoint, access)
        return result(request, "Deleted", "Access rule deleted successfully", id=access)


def _refuse_others(document: Document, rule: AccessRule) -> None:
    """The principal and the path of a rule do not change. Raises BadRequest.

    Their present values are accepted: a document that was read can be written back.
    """
    before = sharing_documents.ACCESS.document(rule)
    for name in ("principal_type", "principal", "path"):
        if document.has(name) and document.text(name) not in (before[name], before[name].rstrip("/")):
            raise BadRequest(f"{name}: this cannot be changed; make another rule, and delete this one")
