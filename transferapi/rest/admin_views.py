"""Users, their sessions, invitations and the audit log, for staff. The services check that the caller is staff."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response

from identity import audit_export, deactivation, sessions, sign_up, users
from identity.audit_export import FORMATS, MAX_PAGE, Selection
from identity.users import UserDetails

from . import admin_documents
from .auth import account_documents
from .auth.account import AccountView, WaysInView
from .http.authentication import RecentSignIn
from .http.base import result
from .http.errors import BadRequest
from .http.long_answers import paced
from .http.parsing import parse_id
from .openapi import description
from .openapi.types import wire_time

#: Users of one page, and where the last page may begin.
MAX_USERS, MAX_OFFSET = 500, 1_000_000
_LINES = "application/x-ndjson"


class Users(WaysInView):
    """An account is a way in that outlives the token or session that made it."""

    @description.operation("List the users, for staff", answer="user_list", query="text is_active limit offset")
    def get(self, request: Request) -> Response:
        limit, offset = _number(request, "limit", 100, MAX_USERS), _number(request, "offset", 0, MAX_OFFSET)
        text = request.query_params.get("text", "")[:150]
        active = {"1": True, "0": False}.get(request.query_params.get("is_active", ""))
        rows, total = users.listed(self.user, text, active=active, offset=offset, limit=limit)
        return Response(admin_documents.USER_LIST.of(rows, total=total))

    @description.operation("Make a user, for staff", body="user", answer="user", status=201)
    def post(self, request: Request) -> Response:
        given = admin_documents.USER_REQUEST.read(request.data)
        row = users.add(given["username"], _details(given), self.user)
        return Response(admin_documents.USER.document(row), status=201)


class UserDetail(AccountView):
    def get_permissions(self) -> list[Any]:
        """As the console asks."""
        return [*super().get_permissions(), *([RecentSignIn()] if self.request.method in ("PUT", "DELETE") else [])]

    @description.operation("Show a user, for staff", answer="user")
    def get(self, request: Request, identity: str) -> Response:
        return Response(admin_documents.USER.document(deactivation.find(self.user, identity)))

    @description.operation("Change a user, for staff", body="user_change", answer="user")
    def put(self, request: Request, identity: str) -> Response:
        given = admin_documents.USER_CHANGE.read(request.data)
        row = deactivation.find(self.user, identity)
        users.change(row, _details(given), self.user)
        return Response(admin_documents.USER.document(row))

    @description.operation("Delete a deactivated user, for staff", answer="result")
    def delete(self, request: Request, identity: str) -> Response:
        deactivation.delete(self.user, deactivation.find(self.user, identity))
        return result(request, "Deleted", "The user is deleted")


class UserActivity(AccountView):
    """POST deactivates or activates, by the route."""

    active = False

    def get_permissions(self) -> list[Any]:
        """No token ends an account, or lets its user in again. A program that does so for a directory uses SCIM."""
        return [*super().get_permissions(), RecentSignIn()]

    @description.operation("Deactivate or activate a user, for staff", answer="user")
    def post(self, request: Request, identity: str) -> Response:
        act = deactivation.activate if self.active else deactivation.deactivate
        return Response(admin_documents.USER.document(act(self.user, deactivation.find(self.user, identity))))


class UserSessions(AccountView):
    @description.operation("List the open sessions of a user, for staff", answer="session_list")
    def get(self, request: Request, identity: str) -> Response:
        found = sessions.open_sessions(deactivation.find(self.user, identity))
        return Response(account_documents.SESSION_LIST.of(found))

    @description.operation("End all sessions of a user, for staff", answer="result")
    def delete(self, request: Request, identity: str) -> Response:
        ended = deactivation.end_sessions(self.user, deactivation.find(self.user, identity))
        return result(request, "Deleted", f"{ended} sessions have ended")


class Invitations(WaysInView):
    @description.operation("List the open invitations, for staff", answer="invitation_list")
    def get(self, request: Request) -> Response:
        return Response(admin_documents.INVITATION_LIST.of(sign_up.list_invitations(self.user)))

    @description.operation(
        "Make an invitation, for staff", body="invitation", answer="invitation_create_result", status=201
    )
    def post(self, request: Request) -> Response:
        given = admin_documents.INVITATION_REQUEST.read(request.data)
        days = sign_up.INVITATION_DAYS if given["days"] is None else given["days"]
        row, link = sign_up.invite(self.user, given["email"] or "", days)
        return admin_documents.INVITATION_CREATED.answer(
            request, id=str(row.pk), link=link.value, expire_time=wire_time(row.expires_at)
        )


class InvitationDetail(AccountView):
    @description.operation("Take an invitation back, for staff", answer="result")
    def delete(self, request: Request, invitation: str) -> Response:
        sign_up.take_back_invitation(self.user, invitation)
        return result(request, "Deleted", "The invitation is taken back")


class Audit(AccountView):
    @description.operation(
        "Show the audit log, the newest first, for staff",
        answer="audit_event_list",
        query="since until user_id what limit marker",
    )
    def get(self, request: Request) -> Response:
        limit = _number(request, "limit", 100, MAX_PAGE)
        marker = _number(request, "marker", 0, 2**62) or None
        rows = audit_export.page(self.user, _selection(request), marker, limit)
        following = rows[-1].pk if len(rows) == limit else None
        return Response(admin_documents.AUDIT_EVENT_LIST.of(rows, next_marker=following))


class AuditExport(AccountView):
    @description.lines(
        "Export the audit log as lines of JSON or as CSV, for staff",
        _LINES,
        "since until user_id what form",
    )
    def get(self, request: Request) -> HttpResponseBase:
        form = request.query_params.get("form", "jsonl")
        if form not in FORMATS:
            raise BadRequest(f"form: one of {', '.join(FORMATS)}")
        parts = (part.encode() for part in audit_export.export(self.user, _selection(request), form))
        kind = "text/csv; charset=utf-8" if form == "csv" else _LINES
        answer = StreamingHttpResponse(paced(parts), content_type=kind)
        answer["Content-Disposition"] = f'attachment; filename="audit.{form}"'
        answer["Cache-Control"] = "no-store"
        return answer


def _details(given: dict[str, Any]) -> UserDetails:
    return UserDetails(given["email"], given["full_name"], given["is_staff"])


def _selection(request: Request) -> Selection:
    """Raises BadRequest."""
    user = request.query_params.get("user_id", "")
    user_id = parse_id(user, BadRequest("user_id: expected a UUID")) if user else None
    what = request.query_params.get("what", "").replace("\0", "")[:48]
    return Selection(_moment(request, "since"), _moment(request, "until"), user_id, what)


def _moment(request: Request, name: str) -> datetime | None:
    """Raises BadRequest."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{name}: expected a time such as 2027-01-31T12:00:00Z") from None


def _number(request: Request, name: str, usual: int, most: int) -> int:
    """Raises BadRequest."""
    text = request.query_params.get(name, "")
    if not text:
        return usual
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > most:
        raise BadRequest(f"{name}: expected a whole number from 0 to {most}")
    return int(text)


U = "v2/api/users/<str:identity>"

urlpatterns: list[URLPattern] = [
    path("v2/api/users", Users.as_view()),
    path(U, UserDetail.as_view()),
    path(f"{U}/deactivate", UserActivity.as_view()),
    path(f"{U}/activate", UserActivity.as_view(active=True)),
    path(f"{U}/sessions", UserSessions.as_view()),
    path("v2/api/invitations", Invitations.as_view()),
    path("v2/api/invitations/<str:invitation>", InvitationDetail.as_view()),
    path("v2/api/audit", Audit.as_view()),
    path("v2/api/audit/export", AuditExport.as_view()),
]
