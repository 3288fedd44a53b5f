"""Roles over REST: given, shown, taken back, given up."""

from __future__ import annotations

import uuid

import pytest

from endpoints.models import Endpoint, Role
from endpoints.sharing import roles
from identity.models import Group, Membership, User
from tests.integration.rest import Answer, Api, assert_error
from tests.integration.shared import make_share

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice: User, ep1: Endpoint) -> Api:
    make_share(ep1, "share")
    return Api(alice)


def appoint(api: Api, who: User | Group, role: str, endpoint: str = "share") -> Answer:
    kind = "identity" if isinstance(who, User) else "group"
    document = {"DATA_TYPE": "role", "principal_type": kind, "principal": str(who.pk), "role": role}
    return api.post(f"/endpoint/{endpoint}/role", document)


def test_a_role_is_given_shown_and_taken_back(api: Api, bob: User) -> None:
    answer = appoint(api, bob, "access_manager")
    assert answer.status == 201
    assert answer.body == {
        "DATA_TYPE": "role", "id": answer.body["id"], "principal_type": "identity", "principal": str(bob.pk),
        "role": "access_manager",
    }  # fmt: skip
    one = f"/endpoint/share/role/{answer.body['id']}"
    assert api.get(one).body == answer.body
    assert api.delete(one).body["code"] == "Deleted"
    assert_error(api.get(one), 404, "ClientError.NotFound")
    assert_error(api.delete(one), 404, "ClientError.NotFound")


def test_the_owner_is_an_administrator_and_stays_one(api: Api, alice: User, bob: User) -> None:
    appoint(api, bob, "administrator")
    listed = api.get("/endpoint/share/role_list").body
    assert (listed["DATA_TYPE"], listed["length"]) == ("role_list", 2)
    owner = listed["DATA"][0]
    assert (owner["principal"], owner["role"]) == (str(alice.pk), "administrator")
    one = f"/role/{owner['id']}"
    assert api.get(f"/endpoint/share{one}").body == owner
    for who, ref in ((api, "share"), (Api(bob), "alice%23share")):
        assert_error(who.delete(f"/endpoint/{ref}{one}"), 409, "Conflict")
    assert_error(appoint(api, alice, "administrator"), 409, "Exists")
    # The same person at another endpoint has another role.
    assert api.get("/endpoint/ep1/role_list").body["DATA"][0]["id"] != owner["id"]


def test_a_role_is_given_once_and_several_may_be(api: Api, bob: User) -> None:
    assert appoint(api, bob, "activity_monitor").status == 201
    assert_error(appoint(api, bob, "activity_monitor"), 409, "Exists")
    assert appoint(api, bob, "activity_manager").status == 201
    shown = Api(bob).get("/endpoint/alice%23share").body
    assert shown["my_effective_roles"] == ["activity_manager", "activity_monitor"]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"role": "owner"}, "role"), ({"role": None}, "role"), ({"role": "restricted_administrator"}, "role"),
        ({"principal_type": "all_authenticated_users"}, "principal_type"), ({"principal_type": None}, "principal_type"),
        ({"principal": "bob"}, "principal"), ({"principal": str(uuid.UUID(int=9))}, "principal"),
        ({"principal": None}, "principal"), ({"principal_type": "group"}, "principal"), ({"role": 7}, "role"),
    ],
)  # fmt: skip
def test_what_makes_no_role_is_refused_by_name(api: Api, bob: User, more: dict[str, object], named: str) -> None:
    document = {"principal_type": "identity", "principal": str(bob.pk), "role": "administrator", **more}
    answer = api.post("/endpoint/share/role", document)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{named}:")
    assert not Role.objects.exists()


def test_access_is_managed_on_shared_endpoints_only(api: Api, bob: User) -> None:
    assert_error(appoint(api, bob, "access_manager", "ep1"), 400, "ClientError.BadRequest")
    assert appoint(api, bob, "activity_manager", "ep1").status == 201


@pytest.mark.parametrize("role", ["access_manager", "activity_manager", "activity_monitor"])
def test_only_administrators_give_roles_and_everybody_may_give_up_an_own_role(
    api: Api, alice: User, bob: User, charlie: User, role: str
) -> None:
    mine, others = appoint(api, bob, role).body, appoint(api, charlie, "activity_monitor").body
    bobs, place = Api(bob), "/endpoint/alice%23share"
    assert bobs.get(f"{place}/role_list").body["DATA"] == [mine]
    assert bobs.get(f"{place}/role/{mine['id']}").body == mine
    for answer in (bobs.get(f"{place}/role/{others['id']}"), bobs.delete(f"{place}/role/{others['id']}")):
        assert_error(answer, 404, "ClientError.NotFound")
    document = {"principal_type": "identity", "principal": str(bob.pk), "role": "administrator"}
    assert_error(bobs.post(f"{place}/role", document), 403, "PermissionDenied")
    assert bobs.delete(f"{place}/role/{mine['id']}").status == 200
    assert_error(bobs.get(place), 404, "EndpointNotFound")
    assert Role.objects.count() == 1


def test_the_role_of_a_group_is_not_its_members_to_give_up(api: Api, bob: User) -> None:
    group = Group.objects.create(name="people")
    Membership.objects.create(group=group, user=bob, status="active")
    role = appoint(api, group, "activity_monitor").body
    bobs = Api(bob)
    assert_error(bobs.delete(f"/endpoint/alice%23share/role/{role['id']}"), 403, "PermissionDenied")
    assert_error(bobs.get("/endpoint/alice%23share/role_list"), 403, "PermissionDenied")
    assert Role.objects.count() == 1


def test_an_administrator_appoints_as_the_owner_does(api: Api, bob: User, charlie: User) -> None:
    appoint(api, bob, "administrator")
    assert appoint(Api(bob), charlie, "activity_monitor", "alice%23share").status == 201
    assert len(Api(bob).get("/endpoint/alice%23share/role_list").body["DATA"]) == 3


def test_an_endpoint_has_a_bounded_number_of_roles(
    api: Api, bob: User, charlie: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "MAX_ROLES", 1)
    assert appoint(api, bob, "activity_monitor").status == 201
    assert_error(appoint(api, charlie, "activity_monitor"), 409, "ClientError.LimitExceeded")


def test_a_role_of_one_endpoint_is_not_found_at_another(api: Api, bob: User) -> None:
    role = appoint(api, bob, "activity_monitor", "ep1").body
    for ref in (role["id"], "x", str(uuid.uuid4())):
        assert_error(api.get(f"/endpoint/share/role/{ref}"), 404, "ClientError.NotFound")
        assert_error(api.delete(f"/endpoint/share/role/{ref}"), 404, "ClientError.NotFound")
    assert Role.objects.count() == 1
