"""Groups and who is in them (Groups API v2)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from rest_framework.request import Request
from rest_framework.response import Response

from identity import groups, memberships
from identity.group_errors import GroupNotFoundError
from identity.groups import Policies, Role, Standing, Status
from identity.memberships import Action, Verb
from identity.models import User
from identity.provider import scopes

from . import documents_groups as documents
from . import schemas
from .base import View
from .errors import BadRequest, NotFound
from .parsing import Document

_INCLUDES = ("memberships", "my_memberships", "policies", "allowed_actions", "child_ids")


class GroupsView(View):
    """What all of them share: the token is for the Groups API. To look, one suffices that is good for no more."""

    @property
    def scope(self) -> str:  # type: ignore[override]
        return scopes.VIEW_MY_GROUPS if self.request.method in ("GET", "HEAD") else scopes.GROUPS_ALL


def group_id(text: str) -> uuid.UUID:
    """An id that is none is an unknown one."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise GroupNotFoundError(text[:100]) from None


def _words(request: Request, name: str, known: tuple[str, ...]) -> list[str]:
    """A list in the query: with commas, or the parameter again and again."""
    given = [word.strip() for text in request.query_params.getlist(name) for word in text.split(",")]
    if unknown := [word for word in given if word and word not in known]:
        raise BadRequest(f"{name}: there is no '{unknown[0][:50]}'; there are {', '.join(known)}")
    return [word for word in given if word]


def _strings(document: Document, name: str) -> list[str] | None:
    value = document.fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRequest(f"{document.where}{name}: a list of strings is wanted here")
    return value


def _policies(document: Document) -> Policies:
    """-> BadRequest: this service has no groups of high assurance, and says so rather than pretend."""
    if document.flag("is_high_assurance"):
        raise BadRequest("is_high_assurance: there are no such groups", "ClientError.BadRequest.NotSupported")
    return Policies(
        group_visibility=document.text("group_visibility"),
        group_members_visibility=document.text("group_members_visibility"),
        join_requests=document.flag("join_requests"),
        signup_fields=_strings(document, "signup_fields"),
    )


def _answer(user: User, request: Request, standing: Standing, status: int = 200) -> Response:
    wanted = set(_words(request, "include", _INCLUDES))
    document = documents.group(standing)
    if "memberships" in wanted:
        document["memberships"] = [documents.membership(row) for row in groups.members(standing)]
    if "allowed_actions" in wanted:
        document["allowed_actions"] = documents.allowed_actions(user, standing)
    if "child_ids" in wanted:
        document["child_ids"] = []
    return Response(document, status=status)


class GroupList(GroupsView):
    @schemas.operation("Make a group", body="group", answer="group", status=201)
    def post(self, request: Request) -> Response:
        document = Document(request.data)
        if document.has("parent_id"):
            raise BadRequest("parent_id: there are no groups in groups", "ClientError.BadRequest.NotSupported")
        policies = document.fields.get("policies")
        standing = groups.create(
            self.user,
            name=document.required_text("name"),
            description=document.text("description") or "",
            terms=document.text("terms_and_conditions") or "",
            policies=None if policies is None else _policies(Document(policies, where="policies.")),
        )
        return _answer(self.user, request, standing, 201)


class MyGroups(GroupsView):
    @schemas.operation("List the groups that you are in", answer="group", many=True, query=["statuses"])
    def get(self, request: Request) -> Response:
        statuses = _words(request, "statuses", tuple(Status)) or [Status.ACTIVE]
        return Response([documents.group(standing) for standing in groups.mine(self.user, statuses)])


class Statuses(GroupsView):
    @schemas.operation("Count who stands how to the groups that you manage", answer="group_statuses")
    def get(self, request: Request) -> Response:
        return Response({str(group): counted for group, counted in groups.counts(self.user).items()})


class GroupDetail(GroupsView):
    @schemas.operation("Show a group", answer="group", query=["include"])
    def get(self, request: Request, group: str) -> Response:
        return _answer(self.user, request, groups.get(self.user, group_id(group)))

    @schemas.operation("Change a group", body="group_change", answer="group", query=["include"])
    def put(self, request: Request, group: str) -> Response:
        document = Document(request.data)
        if document.has("subscription_admin_verified_id"):
            raise BadRequest(
                "subscription_admin_verified_id: there are no subscriptions", "ClientError.BadRequest.NotSupported"
            )
        standing = groups.update(
            self.user,
            group_id(group),
            name=document.text("name"),
            description=document.text("description"),
            terms=document.text("terms_and_conditions"),
        )
        return _answer(self.user, request, standing)

    @schemas.operation("Delete a group", answer="group")
    def delete(self, request: Request, group: str) -> Response:
        return Response(documents.group(groups.delete(self.user, group_id(group))))

    @schemas.operation("Let people in and send them away", body="group_actions", answer="group_actions_result")
    def post(self, request: Request, group: str) -> Response:
        outcomes = memberships.act(self.user, group_id(group), list(_actions(Document(request.data))))
        return Response(documents.outcomes(outcomes))


def _actions(document: Document) -> Iterator[Action]:
    """One list for each verb. A verb that we do not know is not passed over: nothing would be done, and nobody told."""
    for name in document.fields:
        if name not in tuple(Verb) and name != "DATA_TYPE":
            raise BadRequest(f"{str(name)[:50]}: there is no such action")
    for verb in Verb:
        for one in document.documents(verb):
            yield Action(verb, one.identifier("identity_id"), _role(one), _membership_fields(one))


def _role(document: Document) -> Role:
    word = document.text("role") or Role.MEMBER
    if word not in tuple(Role):
        raise BadRequest(f"{document.where}role: one of {', '.join(Role)} is wanted here")
    return Role(word)


def _membership_fields(document: Document) -> Mapping[str, object]:
    value = document.fields.get("membership_fields")
    return {} if value is None else Document(value, where=f"{document.where}membership_fields.").fields


class GroupPolicies(GroupsView):
    @schemas.operation("Show who may see and join a group", answer="group_policies")
    def get(self, request: Request, group: str) -> Response:
        return Response(documents.policies(groups.get(self.user, group_id(group)).group))

    @schemas.operation("Say who may see and join a group", body="group_policies", answer="group_policies")
    def put(self, request: Request, group: str) -> Response:
        standing = groups.set_policies(self.user, group_id(group), _policies(Document(request.data)))
        return Response(documents.policies(standing.group))


class GroupChildren(GroupsView):
    @schemas.operation("List the groups in a group: there are none", answer="group_children")
    def get(self, request: Request, group: str) -> Response:
        groups.get(self.user, group_id(group))
        return Response({"children": []})


class MembershipFields(GroupsView):
    @schemas.operation("Show what you have told of yourself to a group", answer="membership_fields")
    def get(self, request: Request, group: str) -> Response:
        return Response(documents.membership_fields(groups.get(self.user, group_id(group))))

    @schemas.operation("Tell a group of yourself", body="membership_fields", answer="membership_fields")
    def put(self, request: Request, group: str) -> Response:
        given = _of_one_identity(request, self.user.pk).fields
        if not given:
            return self.get(request, group)
        return Response(documents.membership_fields(groups.set_fields(self.user, group_id(group), given)))


class Preferences(GroupsView):
    @schemas.operation("Show what groups may do with you", answer="group_preferences")
    def get(self, request: Request) -> Response:
        return Response({str(self.user.pk): {"allow_add": groups.allows_adding(self.user)}})

    @schemas.operation("Say what groups may do with you", body="group_preferences", answer="group_preferences")
    def put(self, request: Request) -> Response:
        allow = _of_one_identity(request, self.user.pk).flag("allow_add")
        if allow is not None:
            groups.set_allows_adding(self.user, allow)
        return self.get(request)


def _of_one_identity(request: Request, identity_id: uuid.UUID) -> Document:
    """What is said of the caller: by the id of his identity, or (as the SDK shows it) without one."""
    whole = Document(request.data)
    ids = [name for name, value in whole.fields.items() if isinstance(value, Mapping)]
    if not ids:
        return whole
    if others := [name for name in ids if name.lower() != str(identity_id)]:
        raise BadRequest(f"{str(others[0])[:50]}: this identity is not yours")
    return Document(whole.fields[ids[0]], where=f"{ids[0]}.")


class SubscriptionInfo(GroupsView):
    @schemas.operation("Find the group of a subscription: there are no subscriptions", answer="error", status=404)
    def get(self, request: Request, subscription: str) -> Response:
        raise NotFound("There is no such subscription: this service has none")


class SubscriptionVerified(GroupsView):
    @schemas.operation("Put a group under a subscription: there are no subscriptions", answer="error", status=404)
    def put(self, request: Request, group: str) -> Response:
        groups.get(self.user, group_id(group))
        raise NotFound("There is no such subscription: this service has none")
