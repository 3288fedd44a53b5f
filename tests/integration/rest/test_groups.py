"""The routes of the Groups API: documents as its clients read them, and who is let in."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from identity import groups
from identity.groups import Policies
from identity.models import Group, User
from identity.provider import bearer, scopes
from identity.provider.bearer import Bearer
from tests.integration.rest import Answer, Api, assert_error
from transferapi.rest.openapi import components

pytestmark = pytest.mark.django_db

G = "/v2/groups"


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice, root="")


@pytest.fixture
def bobs(bob: User) -> Api:
    return Api(bob, root="")


@pytest.fixture
def group(alice: User) -> Group:
    """alice's, private."""
    return groups.create(alice, name="beamline").group


def act(api: Api, group: Group, verb: str, whom: User, **more: Any) -> Answer:
    return api.post(f"{G}/{group.pk}", {verb: [{"identity_id": str(whom.pk), **more}]})


# ---- documents


def test_a_group_is_made_shown_changed_and_deleted(api: Api, alice: User) -> None:
    made = api.post(G, {"name": "beamline", "description": None, "parent_id": None})
    assert made.status == 201
    own = {
        "group_id": made.body["id"], "identity_id": str(alice.pk), "username": "alice@127.0.0.1", "role": "admin",
        "status": "active", "status_reason": None, "invite_email_address": None,
        "updated": made.body["my_memberships"][0]["updated"], "membership_fields": {},
    }  # fmt: skip
    assert made.body == {
        "id": made.body["id"], "name": "beamline", "description": "", "terms_and_conditions": "", "parent_id": None,
        "group_type": "regular", "enforce_session": False, "session_limit": 28800, "session_timeouts": {},
        "my_memberships": [own], "subscription_id": None, "subscription_info": None,
        "subscription_admin_verified_id": None,
        "policies": {
            "is_high_assurance": False, "authentication_assurance_timeout": None, "group_visibility": "private",
            "group_members_visibility": "managers", "join_requests": False, "signup_fields": [],
        },
    }  # fmt: skip
    where = f"{G}/{made.body['id']}"
    assert api.get(where).body == made.body
    assert api.get(f"{G}/my_groups").body == [made.body]
    changed = {"name": "new", "description": "a", "terms_and_conditions": "b", "subscription_admin_verified_id": None}
    assert api.put(where, changed).body == {**made.body, **changed}
    assert api.put(where, {"name": None}).body == {**made.body, **changed}
    assert api.delete(where).body == {**made.body, **changed}
    assert_error(api.get(where), 404, "ClientError.NotFound")
    assert api.get(f"{G}/my_groups").body == []


def test_more_of_a_group_is_shown_when_it_is_asked_for(api: Api, alice: User, group: Group) -> None:
    plain = api.get(f"{G}/{group.pk}").body
    whole = api.get(f"{G}/{group.pk}", include="memberships,my_memberships,policies,allowed_actions,child_ids").body
    more = {name: whole.pop(name) for name in ("memberships", "allowed_actions", "child_ids")}
    assert whole == plain
    assert more["memberships"] == plain["my_memberships"]
    assert more["child_ids"] == []
    assert more["allowed_actions"]["change_role"] == [str(alice.pk)]
    assert more["allowed_actions"]["join"] == []
    assert_error(api.get(f"{G}/{group.pk}", include="money"), 400, "ClientError.BadRequest")


def test_policies_are_read_and_written_as_the_cli_does(api: Api, group: Group) -> None:
    where = f"{G}/{group.pk}/policies"
    before = api.get(where).body
    after = {**before, "group_visibility": "authenticated", "signup_fields": ["city"]}
    assert api.put(where, after).body == after
    assert api.get(where).body == after == api.get(f"{G}/{group.pk}").body["policies"]
    for wrong in ({"group_visibility": "all"}, {"signup_fields": "city"}, {"signup_fields": [1]}, {"join_requests": 1}):
        assert_error(api.put(where, wrong), 400, "ClientError.BadRequest")
    assert_error(api.put(where, {"is_high_assurance": True}), 400, "ClientError.BadRequest.NotSupported")


def test_actions_are_answered_one_by_one(api: Api, alice: User, bob: User, group: Group) -> None:
    unknown = str(uuid.uuid4())
    add = [{"identity_id": str(bob.pk), "role": "manager"}, {"identity_id": unknown}]
    answer = api.post(f"{G}/{group.pk}", {"add": add, "invite": None, "leave": [{"identity_id": str(alice.pk)}]})
    assert answer.status == 200
    assert [(row["username"], row["role"], row["status"]) for row in answer.body["add"]] == [
        ("bob@127.0.0.1", "manager", "active")
    ]
    assert answer.body["errors"] == {
        "add": [{"identity_id": unknown, "code": "IDENTITY_NOT_FOUND", "detail": "There is no such identity."}],
        "leave": [
            {
                "identity_id": str(alice.pk),
                "code": "LAST_ADMIN",
                "detail": "The last admin of a group cannot leave.",
            }
        ],
    }
    assert "leave" not in answer.body
    done = act(api, group, "change_role", bob, role="admin")
    assert set(done.body) == {"change_role"}


@pytest.mark.parametrize(
    "document",
    [
        {}, {"add": []}, {"promote": [{"identity_id": str(uuid.UUID(int=1))}]}, {"add": {}}, {"add": [1]},
        {"add": [{}]},
        {"add": [{"identity_id": "bob"}]}, {"add": [{"identity_id": str(uuid.UUID(int=1)), "role": "owner"}]},
        {"join": [{"identity_id": str(uuid.UUID(int=1)), "membership_fields": []}]},
        {"add": [{"identity_id": str(uuid.UUID(int=1))}] * 2}, {"add": [{"identity_id": str(uuid.UUID(int=1))}] * 1001},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(api: Api, group: Group, document: dict[str, Any]) -> None:
    assert_error(api.post(f"{G}/{group.pk}", document), 400, "ClientError.BadRequest")


def test_somebody_asks_to_join_answers_the_questions_and_is_let_in(
    api: Api, bobs: Api, bob: User, group: Group, alice: User
) -> None:
    where = f"{G}/{group.pk}"
    asking = Policies(group_visibility="authenticated", join_requests=True, signup_fields=["city"])
    groups.set_policies(alice, group.pk, asking)
    assert bobs.get(f"{where}/membership_fields").body == {}
    refused = act(bobs, group, "request_join", bob)
    assert refused.body["errors"]["request_join"][0]["code"] == "FIELDS_MISSING"
    asked = act(bobs, group, "request_join", bob, membership_fields={"city": "Oslo"})
    assert asked.body["request_join"][0]["status"] == "pending"
    assert bobs.get(f"{G}/my_groups").body == []
    assert [one["id"] for one in bobs.get(f"{G}/my_groups", statuses="pending,invited").body] == [str(group.pk)]
    counted = api.get(f"{G}/statuses").body[str(group.pk)]
    assert (counted["active"], counted["pending"]) == (1, 1)
    act(api, group, "approve", bob)
    told = {str(bob.pk): {"city": "Bergen"}}
    assert bobs.put(f"{where}/membership_fields", told).body == told
    assert bobs.put(f"{where}/membership_fields", {}).body == told
    assert bobs.get(f"{where}/membership_fields").body == told
    assert_error(bobs.put(f"{where}/membership_fields", {str(alice.pk): {}}), 400, "ClientError.BadRequest")
    assert_error(bobs.put(f"{where}/membership_fields", {"city": 7}), 400, "ClientError.BadRequest")
    assert_error(bobs.get(f"{G}/my_groups", statuses="happy"), 400, "ClientError.BadRequest")


def test_preferences_are_by_identity_and_taken_without_one(api: Api, alice: User) -> None:
    assert api.get("/v2/preferences").body == {str(alice.pk): {"allow_add": True}}
    assert api.put("/v2/preferences", {"allow_add": False}).body == {str(alice.pk): {"allow_add": False}}
    assert api.put("/v2/preferences", {}).body == {str(alice.pk): {"allow_add": False}}
    assert api.put("/v2/preferences", {str(alice.pk): {"allow_add": True}}).body == {str(alice.pk): {"allow_add": True}}
    assert_error(api.put("/v2/preferences", {str(uuid.uuid4()): {"allow_add": True}}), 400, "ClientError.BadRequest")
    assert_error(api.put("/v2/preferences", {"allow_add": "no"}), 400, "ClientError.BadRequest")


def test_what_there_is_not_is_refused_by_name(api: Api, group: Group) -> None:
    some = str(uuid.uuid4())
    assert_error(api.post(G, {"name": "x", "parent_id": some}), 400, "ClientError.BadRequest.NotSupported")
    verified = {"name": "x", "subscription_admin_verified_id": some}
    assert_error(api.put(f"{G}/{group.pk}", verified), 400, "ClientError.BadRequest.NotSupported")
    assert_error(api.get(f"/v2/subscription_info/{some}"), 404, "ClientError.NotFound")
    body = {"subscription_admin_verified_id": some}
    assert_error(api.put(f"{G}/{group.pk}/subscription_admin_verified", body), 404, "ClientError.NotFound")
    assert api.get(f"{G}/{group.pk}/children").body == {"children": []}


def test_limits_are_reported(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 0)
    assert_error(api.post(G, {"name": "x"}), 409, "ClientError.LimitExceeded")
    for wrong in ({}, {"name": ""}, {"name": 7}, {"name": "x", "policies": []}):
        assert_error(api.post(G, wrong), 400, "ClientError.BadRequest")


def test_who_only_sees_a_group_changes_nothing(bobs: Api, group: Group, alice: User) -> None:
    groups.set_policies(alice, group.pk, Policies(group_visibility="authenticated"))
    where = f"{G}/{group.pk}"
    assert bobs.get(where).body["my_memberships"] == []
    assert bobs.get(f"{where}/policies").status == 200
    assert_error(bobs.get(where, include="memberships"), 403, "PermissionDenied")
    assert_error(bobs.put(where, {"name": "new"}), 403, "PermissionDenied")
    assert_error(bobs.put(f"{where}/policies", {"join_requests": True}), 403, "PermissionDenied")
    assert_error(bobs.put(f"{where}/membership_fields", {"city": "Oslo"}), 403, "PermissionDenied")
    assert_error(act(bobs, group, "remove", alice), 403, "PermissionDenied")
    assert_error(bobs.delete(where), 403, "PermissionDenied")
    assert_error(bobs.get(f"{G}/no-id"), 404, "ClientError.NotFound")


@pytest.mark.parametrize(
    ("scope", "reads", "writes"),
    [(scopes.GROUPS_ALL, 200, 201), (scopes.VIEW_MY_GROUPS, 200, 403), (scopes.TRANSFER_ALL, 403, 403)],
)
def test_a_token_to_look_with_does_no_more(
    api: Api, monkeypatch: pytest.MonkeyPatch, alice: User, scope: str, reads: int, writes: int
) -> None:
    limited = Bearer(alice, scopes.covered(scope))
    monkeypatch.setattr(bearer, "authenticate", lambda token: limited)
    assert api.get(f"{G}/my_groups").status == reads
    answer = api.post(G, {"name": "new"})
    assert answer.status == writes
    if writes == 403:
        assert answer.body["required_scopes"] == [scopes.GROUPS_ALL]


@pytest.mark.parametrize("name", [name for name in components.REQUEST_EXAMPLES if name.startswith("group")])
def test_the_examples_that_are_shown_are_taken(name: str, api: Api, alice: User, group: Group) -> None:
    where = {
        "group": ("POST", G),
        "group_change": ("PUT", f"{G}/{group.pk}"),
        "group_policies": ("PUT", f"{G}/{group.pk}/policies"),
        "group_actions": ("POST", f"{G}/{group.pk}"),
        "group_preferences": ("PUT", "/v2/preferences"),
    }
    body = components.REQUEST_EXAMPLES[name]
    if name == "group_preferences":
        body = {str(alice.pk): next(iter(body.values()))}
    assert api.call(*where[name], body).status in (200, 201)
