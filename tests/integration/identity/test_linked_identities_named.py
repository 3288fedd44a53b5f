"""A linked identity stands for its user wherever a user is named: groups, pause rules, consents, rules and roles."""

from __future__ import annotations

import time
from typing import Any

import pytest

from endpoints.models import AccessRule, Endpoint, PauseRule, Role
from identity import groups
from identity import linked_identities as linked
from identity.groups import Policies
from identity.models import LinkedIdentity, Membership, User
from identity.proven_identities import Proven
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Answer, Api, assert_error
from tests.integration.shared import make_share
from tests.shell_context import Shell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]

NAME = "bob@uni.example.edu"


@pytest.fixture
def identity(bob: User) -> LinkedIdentity:
    return linked.link(bob, Proven.of("saml:https://idp.example.edu", "bob-1", NAME, time.time()), time.time())


@pytest.fixture
def group(alice: User) -> str:
    """alice's; everybody sees it."""
    made = groups.create(alice, name="beamline", policies=Policies(group_visibility="authenticated"))
    return str(made.group.pk)


@pytest.fixture
def browser(alice: User) -> Browser:
    alice.set_password(PASSWORD)
    alice.save()
    browser = Browser()
    browser.sign_in(alice)
    return browser


def act(user: User, group: str, verb: str, *ids: object) -> Answer:
    return Api(user, root="").post(f"/v2/groups/{group}", {verb: [{"identity_id": str(one)} for one in ids]})


# ---- groups


def test_the_member_is_the_person_and_stays_when_the_identity_is_unlinked(
    alice: User, bob: User, identity: LinkedIdentity, group: str
) -> None:
    [told] = act(alice, group, "add", identity.pk).body["add"]
    assert (told["identity_id"], told["username"], told["status"]) == (str(bob.pk), "bob@127.0.0.1", "active")
    identity.delete()
    assert Membership.objects.get(user=bob).status == "active"


def test_a_person_acts_as_each_of_the_own_identities_and_as_nobody_else(
    alice: User, bob: User, charlie: User, identity: LinkedIdentity, group: str
) -> None:
    for actor, verb, ended in ((alice, "invite", "invited"), (bob, "accept", "active"), (bob, "leave", "left")):
        assert [one["status"] for one in act(actor, group, verb, identity.pk).body[verb]] == [ended]
    act(alice, group, "invite", bob.pk)
    [refused] = act(charlie, group, "accept", identity.pk).body["errors"]["accept"]
    assert (refused["code"], refused["identity_id"]) == ("FORBIDDEN", str(identity.pk))
    assert Membership.objects.get(user=bob).status == "invited"


def test_an_action_names_a_person_once_under_whatever_id(
    alice: User, bob: User, identity: LinkedIdentity, group: str
) -> None:
    assert_error(act(alice, group, "invite", bob.pk, identity.pk), 400, "ClientError.BadRequest")
    assert not Membership.objects.filter(user=bob).exists()


def test_an_identity_of_a_deactivated_user_is_not_added(
    alice: User, bob: User, identity: LinkedIdentity, group: str
) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    [refused] = act(alice, group, "add", identity.pk).body["errors"]["add"]
    assert refused["code"] == "IDENTITY_NOT_FOUND"


def test_a_person_who_does_not_want_to_be_added_is_not_added_by_a_linked_identity(
    alice: User, bob: User, identity: LinkedIdentity, group: str
) -> None:
    preference = {str(identity.pk): {"allow_add": False}}
    assert Api(bob, root="").put("/v2/preferences", preference).body == {str(bob.pk): {"allow_add": False}}
    [refused] = act(alice, group, "add", identity.pk).body["errors"]["add"]
    assert refused["code"] == "ADD_NOT_ALLOWED"
    assert_error(Api(alice, root="").put("/v2/preferences", preference), 400, "ClientError.BadRequest")


# ---- pause rules and consents


def test_a_pause_rule_on_an_identity_stops_its_person_also_after_it_is_unlinked(
    alice: User, bob: User, ep1: Endpoint, identity: LinkedIdentity
) -> None:
    body = {"endpoint_id": str(ep1.pk), "identity_id": str(identity.pk), "message": "Wait."}
    made = Api(alice, root="/v0.10/endpoint_manager").post("/pause_rule", body)
    assert (made.status, made.body["identity_id"]) == (201, str(bob.pk))
    identity.delete()
    assert PauseRule.objects.get().identity == bob


def test_the_consents_of_a_linked_identity_are_those_of_its_user(
    alice: User, bob: User, identity: LinkedIdentity
) -> None:
    path = f"/v2/api/identities/{identity.pk}/consents"
    assert Api(bob, root="").get(path).body == {"consents": []}
    assert_error(Api(alice, root="").get(path), 404, "ClientError.NotFound")


# ---- rules and roles: what is made under the name of an identity ends with it


@pytest.fixture
def share(alice: User, ep1: Endpoint) -> Endpoint:
    return make_share(ep1, "share")


def principals(share: Endpoint) -> list[Any]:
    return [row.principal for model in (AccessRule, Role) for row in model.objects.filter(endpoint=share)]


def test_the_page_gives_a_rule_and_a_role_to_the_identity_that_was_typed(
    browser: Browser, share: Endpoint, bob: User, identity: LinkedIdentity
) -> None:
    here = f"/endpoints/{share.pk}"
    browser.get(here)
    browser.post(f"{here}/rules", whom="identity", user=NAME.upper(), path="/", permissions="r")
    browser.post(f"{here}/roles", whom="identity", user=NAME, role="activity_monitor")
    assert principals(share) == [identity.pk, identity.pk]
    browser.post(f"{here}/rules", whom="identity", user="bob", path="/own/", permissions="r")
    assert AccessRule.objects.get(path="/own/").principal == bob.pk


def test_the_shell_gives_a_rule_and_a_role_to_the_identity_that_was_typed(
    alice: User, share: Endpoint, identity: LinkedIdentity
) -> None:
    shell = Shell(alice)
    for word in ("--identityusername", "--email"):
        shell.ok(f"acl-add share/{word.strip('-')}/ --perm r {word} {NAME}")
    shell.ok(f"endpoint-role-add share --role activity_monitor --identityusername {NAME}")
    assert principals(share) == [identity.pk] * 3
    shown = shell.run(f"identity-details {NAME}").json
    assert (shown["id"], shown["username"]) == (str(identity.pk), NAME)
    assert shown == Api(alice, root="").get(f"/v2/api/identities/{identity.pk}").body["identity"]


def test_the_page_of_a_group_admits_the_person_of_an_identity(
    browser: Browser, bob: User, identity: LinkedIdentity, group: str
) -> None:
    browser.get(f"/groups/{group}")
    browser.post(f"/groups/{group}/members", verb="add", user=NAME)
    assert Membership.objects.get(user=bob).status == "active"
