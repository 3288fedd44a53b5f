"""Shared endpoints, access rules and roles."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import registry, roles, rules, shares
from endpoints.models import AccessRule
from endpoints.rules import RuleSpec

from . import documents_sharing, schemas
from .base import View, created, listing, result
from .errors import BadRequest
from .parsing import Document, query_number


class SharedEndpointCreate(View):
    @schemas.operation(
        "Share a folder of an endpoint", body="shared_endpoint", answer="endpoint_create_result", status=201
    )
    def post(self, request: Request) -> Response:
        document = Document(request.data, "shared_endpoint")
        host = document.text("host_endpoint_id") or document.required_text("host_endpoint")
        share = shares.create(self.user, host, document.required_text("host_path"), document.fields)
        more = {"id": str(share.pk), "canonical_name": registry.canonical_name(share)}
        more["globus_connect_setup_key"] = None  # type: ignore[assignment]
        return created(request, "endpoint_create_result", "Shared endpoint created successfully", 201, more)


class MySharedEndpointList(View):
    @schemas.operation("List what you share from an endpoint", answer="endpoint_list", query=["fields"])
    def get(self, request: Request, endpoint: str) -> Response:
        rows = shares.mine(self.user, endpoint)
        found = documents_sharing.endpoints(self.user, rows, request.query_params.get("fields"))
        return Response(listing("endpoint_list", found, limit=len(found), offset=0, has_next_page=False))


class SharedEndpointList(View):
    @schemas.operation(
        "List what is shared from an endpoint", answer="shared_endpoint_list", query=["max_results", "next_token"]
    )
    def get(self, request: Request, endpoint: str) -> Response:
        query = request.query_params
        limit = query_number(query.get("max_results"), "max_results", shares.MAX_PAGE, most=shares.MAX_PAGE)
        page = shares.of_host(self.user, endpoint, limit=max(1, limit), token=query.get("next_token") or None)
        found = [{"id": str(row.pk)} for row in page.rows]
        return Response({"DATA_TYPE": "shared_endpoint_list", "shared_endpoints": found, "next_token": page.next_token})


# ---- roles


class RoleList(View):
    @schemas.operation("List the roles of an endpoint", answer="role_list")
    def get(self, request: Request, endpoint: str) -> Response:
        found = [documents_sharing.role(row) for row in roles.of_endpoint(self.user, endpoint)]
        return Response(listing("role_list", found))


class RoleCreate(View):
    @schemas.operation("Give somebody a role", body="role", answer="role", status=201)
    def post(self, request: Request, endpoint: str) -> Response:
        document = Document(request.data, "role")
        words = (document.required_text(name) for name in ("principal_type", "principal", "role"))
        return Response(documents_sharing.role(roles.create(self.user, endpoint, *words)), status=201)


class RoleDetail(View):
    @schemas.operation("Show a role", answer="role")
    def get(self, request: Request, endpoint: str, role: str) -> Response:
        return Response(documents_sharing.role(roles.get(self.user, endpoint, role)))

    @schemas.operation("Take a role back", answer="result")
    def delete(self, request: Request, endpoint: str, role: str) -> Response:
        roles.delete(self.user, endpoint, role)
        return result(request, "Deleted", "Role deleted successfully", id=role)


# ---- access rules


class AccessList(View):
    @schemas.operation("List the access rules of a shared endpoint", answer="access_list")
    def get(self, request: Request, endpoint: str) -> Response:
        share, rows = rules.of_share(self.user, endpoint)
        found = [documents_sharing.access_by_role(row) for row in roles.managing_access(share)]
        found += [documents_sharing.access(row) for row in rows]
        return Response(listing("access_list", found, endpoint=str(share.pk)))


class AccessCreate(View):
    @schemas.operation("Give somebody access", body="access", answer="access_create_result", status=201)
    def post(self, request: Request, endpoint: str) -> Response:
        document = Document(request.data, "access")
        spec = RuleSpec(
            principal_type=document.required_text("principal_type"),
            principal=document.text("principal"),
            path=document.required_text("path"),
            permissions=document.required_text("permissions"),
            expires_at=document.moment("expiration_date"),
            notify_email=document.text("notify_email") or "",
            notify_message=document.text("notify_message") or "",
        )
        rule = rules.create(self.user, endpoint, spec)
        more = {"access_id": str(rule.pk)}
        return created(request, "access_create_result", "Access rule created successfully", 201, more)


class AccessDetail(View):
    @schemas.operation("Show an access rule", answer="access")
    def get(self, request: Request, endpoint: str, access: str) -> Response:
        return Response(documents_sharing.access(rules.get(self.user, endpoint, access)))

    @schemas.operation("Change an access rule", body="access_change", answer="result")
    def put(self, request: Request, endpoint: str, access: str) -> Response:
        document = Document(request.data, "access")
        _refuse_others(document, rules.get(self.user, endpoint, access))
        changes: dict[str, object] = {}
        if document.has("permissions"):
            changes["permissions"] = document.required_text("permissions")
        if "expiration_date" in document.fields:
            changes["expires_at"] = document.moment("expiration_date")
        rules.update(self.user, endpoint, access, changes)
        return result(request, "Updated", "Access rule updated successfully", id=access)

    @schemas.operation("Take access back", answer="result")
    def delete(self, request: Request, endpoint: str, access: str) -> Response:
        rules.delete(self.user, endpoint, access)
        return result(request, "Deleted", "Access rule deleted successfully", id=access)


def _refuse_others(document: Document, rule: AccessRule) -> None:
    """Whom a rule is for, and where, stays; a document that was read can be written back. -> BadRequest"""
    before = documents_sharing.access(rule)
    for name in ("principal_type", "principal", "path"):
        if document.has(name) and document.text(name) not in (before[name], before[name].rstrip("/")):
            raise BadRequest(f"{name}: this cannot be changed; make another rule, and delete this one")
