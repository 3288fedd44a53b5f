"""Groups and their members (Groups API v2)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from identity import group_memberships, groups
from identity.error_categories import NOT_SUPPORTED
from identity.group_memberships import MembershipAction, MembershipVerb
from identity.groups import GroupNotFoundError, GroupRole, MembershipContext, MembershipStatus, Policies
from identity.models import User
from identity.provider import identities, scopes

from . import group_documents
from .http.base import View
from .http.errors import BadRequest, NotFound
from .http.parsing import Document, parse_id
from .openapi import description

_INCLUDES = ("memberships", "my_memberships", "policies", "allowed_actions", "child_ids")


class GroupsView(View):
    """The base of the views: the token is for the Groups API. To read, a token for reading suffices."""

    @property
    def scope(self) -> str:  # type: ignore[override]
        return scopes.VIEW_MY_GROUPS if self.request.method in ("GET", "HEAD") else scopes.GROUPS_ALL


def group_id(text: str) -> uuid.UUID:
    return parse_id(text, GroupNotFoundError(text[:100]))


def _words(request: Request, name: str, known: tuple[str, ...]) -> list[str]:
    """A list in the query: separated by commas, or as a repeated parameter."""
    given = [word.strip() for text in request.query_params.getlist(name) for word in text.split(",")]
    if unknown := [word for word in given if word and word not in known]:
        raise BadRequest(f"{name}: there is no '{unknown[0][:50]}'; there are {', '.join(known)}")
    return [word for word in given if word]


def _policies(value: object, where: str = "") -> Policies:
    """Raises BadRequest. A client that asks for a group of high assurance must know that this service has none."""
    given = group_documents.POLICIES_REQUEST.read(value, where)
    if given.pop("is_high_assurance"):
        raise BadRequest("is_high_assurance: there are no such groups", NOT_SUPPORTED)
    del given["authentication_assurance_timeout"]
    return Policies(**given)


def _answer(user: User, request: Request, context: MembershipContext, status: int = 200) -> Response:
    wanted = set(_words(request, "include", _INCLUDES))
    document = group_documents.GROUP.document(context)
    if "memberships" in wanted:
        document["memberships"] = [group_documents.MEMBERSHIP.document(row) for row in groups.members(context)]
    if "allowed_actions" in wanted:
        document["allowed_actions"] = group_documents.allowed_actions(user, context)
    if "child_ids" in wanted:
        document["child_ids"] = []
    return Response(document, status=status)


class GroupList(GroupsView):
    @description.operation("Make a group", body="group", answer="group", status=201)
    def post(self, request: Request) -> Response:
        given = group_documents.GROUP_REQUEST.read(request.data)
        if given["parent_id"] is not None:
            raise BadRequest("parent_id: there are no groups in groups", NOT_SUPPORTED)
        policies = given["policies"]
        context = groups.create(
            self.user,
            name=given["name"],
            description=given["description"] or "",
            terms=given["terms_and_conditions"] or "",
            policies=None if policies is None else _policies(policies, "policies."),
        )
        return _answer(self.user, request, context, 201)


class MyGroups(GroupsView):
    @description.operation("List the groups that you are in", answer="group", many=True, query="statuses")
    def get(self, request: Request) -> Response:
        statuses = _words(request, "statuses", tuple(MembershipStatus)) or [MembershipStatus.ACTIVE]
        return Response([group_documents.GROUP.document(context) for context in groups.mine(self.user, statuses)])


class Statuses(GroupsView):
    @description.operation("Count who stands how to the groups that you manage", answer="group_statuses")
    def get(self, request: Request) -> Response:
        return Response({str(group): counted for group, counted in groups.counts(self.user).items()})


class GroupDetail(GroupsView):
    @description.operation("Show a group", answer="group", query="include")
    def get(self, request: Request, group: str) -> Response:
        return _answer(self.user, request, groups.get(self.user, group_id(group)))

    @description.operation("Change a group", body="group_change", answer="group", query="include")
    def put(self, request: Request, group: str) -> Response:
        document = group_documents.GROUP_CHANGE.open(request.data)
        if document.has("subscription_admin_verified_id"):
            raise BadRequest("subscription_admin_verified_id: there are no subscriptions", NOT_SUPPORTED)
        given = group_documents.GROUP_CHANGE.values(document)
        terms = given.pop("terms_and_conditions")
        context = groups.update(self.user, group_id(group), terms=terms, **given)
        return _answer(self.user, request, context)

    @description.operation("Delete a group", answer="group")
    def delete(self, request: Request, group: str) -> Response:
        return Response(group_documents.GROUP.document(groups.delete(self.user, group_id(group))))

    @description.operation("Let people in and send them away", body="group_actions", answer="group_actions_result")
    def post(self, request: Request, group: str) -> Response:
        outcomes = group_memberships.act(self.user, group_id(group), list(_actions(Document(request.data))))
        return Response(group_documents.outcomes(outcomes))


def _actions(document: Document) -> Iterator[MembershipAction]:
    """One list for each verb. An unknown verb is an error: ignored, it would look like success."""
    for name in document.fields:
        if name not in tuple(MembershipVerb) and name != "DATA_TYPE":
            raise BadRequest(f"{str(name)[:50]}: there is no such action")
    for verb in MembershipVerb:
        for one in document.documents(verb):
            yield MembershipAction(verb, one.identifier("identity_id"), _role(one), _membership_fields(one))


def _role(document: Document) -> GroupRole:
    word = document.text("role") or GroupRole.MEMBER
    if word not in tuple(GroupRole):
        raise BadRequest(f"{document.where}role: expected one of {', '.join(GroupRole)}")
    return GroupRole(word)


def _membership_fields(document: Document) -> Mapping[str, object]:
    value = document.fields.get("membership_fields")
    return {} if value is None else Document(value, where=f"{document.where}membership_fields.").fields


class GroupPolicies(GroupsView):
    @description.operation("Show who may see and join a group", answer="group_policies")
    def get(self, request: Request, group: str) -> Response:
        return Response(group_documents.POLICIES.document(groups.get(self.user, group_id(group)).group))

    @description.operation("Say who may see and join a group", body="group_policies", answer="group_policies")
    def put(self, request: Request, group: str) -> Response:
        context = groups.set_policies(self.user, group_id(group), _policies(request.data))
        return Response(group_documents.POLICIES.document(context.group))


class GroupChildren(GroupsView):
    @description.operation("List the groups in a group: there are none", answer="group_children")
    def get(self, request: Request, group: str) -> Response:
        groups.get(self.user, group_id(group))
        return Response({"children": []})


class MembershipFields(GroupsView):
    @description.operation("Show the fields that you have filled in for a group", answer="membership_fields")
    def get(self, request: Request, group: str) -> Response:
        return Response(group_documents.membership_fields(groups.get(self.user, group_id(group))))

    @description.operation(
        "Fill in the fields of a group about yourself", body="membership_fields", answer="membership_fields"
    )
    def put(self, request: Request, group: str) -> Response:
        given = _of_one_identity(request, self.user).fields
        if not given:
            return self.get(request, group)
        return Response(group_documents.membership_fields(groups.set_fields(self.user, group_id(group), given)))


class Preferences(GroupsView):
    @description.operation("Show what groups may do with you", answer="group_preferences")
    def get(self, request: Request) -> Response:
        return Response({str(self.user.pk): {"allow_add": groups.allows_adding(self.user)}})

    @description.operation("Say what groups may do with you", body="group_preferences", answer="group_preferences")
    def put(self, request: Request) -> Response:
        allow = _of_one_identity(request, self.user).flag("allow_add")
        if allow is not None:
            groups.set_allows_adding(self.user, allow)
        return self.get(request)


def _of_one_identity(request: Request, user: User) -> Document:
    """The part about the user: by the id of an identity of the user, or (as the SDK documents it) without an id."""
    whole = Document(request.data)
    ids = [name for name, value in whole.fields.items() if isinstance(value, Mapping)]
    if not ids:
        return whole
    own = {str(one.id) for one in identities.of(user)}
    if others := [name for name in ids if name.lower() not in own]:
        raise BadRequest(f"{str(others[0])[:50]}: this identity is not yours")
    return Document(whole.fields[ids[0]], where=f"{ids[0]}.")


class SubscriptionInfo(GroupsView):
    @description.operation("Find the group of a subscription: there are no subscriptions", answer="error", status=404)
    def get(self, request: Request, subscription: str) -> Response:
        raise NotFound("There is no such subscription: this service has none")


class SubscriptionVerified(GroupsView):
    @description.operation("Put a group under a subscription: there are no subscriptions", answer="error", status=404)
    def put(self, request: Request, group: str) -> Response:
        groups.get(self.user, group_id(group))
        raise NotFound("There is no such subscription: this service has none")


G = "v2/groups/<str:group>"

urlpatterns = [
    path("v2/groups", GroupList.as_view()),
    path("v2/groups/my_groups", MyGroups.as_view()),
    path("v2/groups/statuses", Statuses.as_view()),
    path(G, GroupDetail.as_view()),
    path(f"{G}/policies", GroupPolicies.as_view()),
    path(f"{G}/children", GroupChildren.as_view()),
    path(f"{G}/membership_fields", MembershipFields.as_view()),
    path(f"{G}/subscription_admin_verified", SubscriptionVerified.as_view()),
    path("v2/preferences", Preferences.as_view()),
    path("v2/subscription_info/<str:subscription>", SubscriptionInfo.as_view()),
]
