"""The pages of groups: each form does what the Groups API does, for those who may."""

from __future__ import annotations

import pytest

from identity import groups
from identity.models import Group, Membership, User
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def sign_in(user: User) -> Browser:
    user.set_password(PASSWORD)
    user.save()
    browser = Browser()
    browser.sign_in(user)
    return browser


def test_a_group_is_made_bob_is_invited_accepts_and_leaves(alice: User, bob: User) -> None:
    hers, his = sign_in(alice), sign_in(bob)
    hers.get("/groups")
    answer = hers.post("/groups", name="The team", description="of the beamline")
    group = Group.objects.get()
    here = f"/groups/{group.pk}"
    assert answer.headers["Location"] == here
    assert his.get(here).status_code == 404
    hers.get(here)
    hers.post(f"{here}/members", verb="invite", user="bob", role="manager")
    his.get("/groups")
    assert "The team" in his.text
    his.post(f"{here}/members", verb="accept")
    assert Membership.objects.get(user=bob).status == "active"
    assert Membership.objects.get(user=bob).role == "manager"
    his.get(here)
    assert "alice" in his.text
    assert his.post(f"{here}/members", verb="leave", confirmed="yes").headers["Location"] == "/groups"
    assert Membership.objects.get(user=bob).status == "left"


def test_an_admin_changes_the_group_and_deletes_it_by_its_name(alice: User) -> None:
    group = groups.create(alice, name="The team").group
    browser, here = sign_in(alice), f"/groups/{group.pk}"
    browser.get(here)
    browser.post(f"{here}/edit", name="Our team", description="x", visible="on", join_requests="on")
    group.refresh_from_db()
    assert (group.name, group.group_visibility, group.group_members_visibility) == (
        "Our team", "authenticated", "managers",
    )  # fmt: skip
    assert group.join_requests
    assert browser.post(f"{here}/delete", name="The team").status_code == 400
    assert browser.post(f"{here}/delete", name="Our team").headers["Location"] == "/groups"
    assert not Group.objects.exists()


def test_a_request_to_join_is_admitted(alice: User, bob: User) -> None:
    group = groups.create(alice, name="The team").group
    groups.set_policies(alice, group.pk, groups.Policies(group_visibility="authenticated", join_requests=True))
    hers, his, here = sign_in(alice), sign_in(bob), f"/groups/{group.pk}"
    his.get(here)
    his.post(f"{here}/members", verb="request_join")
    hers.get(here)
    assert "asks to join" in hers.text
    hers.post(f"{here}/members", verb="approve", identity=str(bob.pk))
    assert Membership.objects.get(user=bob).status == "active"


@pytest.mark.parametrize(
    ("form", "fields", "status"),
    [
        ("members", {"verb": "explode"}, 400),
        ("members", {"verb": "invite", "user": "nobody"}, 400),
        ("members", {"verb": "invite", "identity": "x"}, 400),
        ("members", {"verb": "invite", "user": "bob", "role": "king"}, 400),
        ("members", {"verb": "leave", "confirmed": "yes"}, 403),
        ("edit", {"name": ""}, 400),
    ],
)
def test_a_wrong_form_is_refused_with_the_reason(
    alice: User, bob: User, form: str, fields: dict[str, str], status: int
) -> None:
    group = groups.create(alice, name="The team").group
    browser = sign_in(alice)
    browser.get(f"/groups/{group.pk}")
    assert browser.post(f"/groups/{group.pk}/{form}", **fields).status_code == status
    assert 'role="alert"' in browser.page
    assert Membership.objects.get().user == alice


@pytest.mark.parametrize("form", ["edit", "delete", "members"])
def test_a_member_does_not_administer(alice: User, bob: User, charlie: User, form: str) -> None:
    group = groups.create(alice, name="The team").group
    Membership.objects.create(group=group, user=bob, role="member", status="active")
    browser = sign_in(bob)
    browser.get(f"/groups/{group.pk}")
    fields = {"name": "The team", "verb": "add", "user": "charlie"}
    assert browser.post(f"/groups/{group.pk}/{form}", **fields).status_code == 403
    assert Group.objects.get().name == "The team"
    assert not Membership.objects.filter(user=charlie).exists()
