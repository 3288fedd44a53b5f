"""The primary identity is shown for its user, on pages and in documents; ids and short names stay."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from endpoints.models import Endpoint
from identity import linked_identities as linked
from identity.models import Group, LinkedIdentity, Membership, User
from identity.proven_identities import Proven
from identity.provider import identities
from tests.integration.cast import make_endpoint
from tests.integration.pages import Browser
from tests.integration.provider import CALLBACK, make
from tests.integration.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
LAB, NAME = "oidc:https://id.lab.example", "al@lab.example"


def link(user: User, username: str = NAME) -> LinkedIdentity:
    proven = Proven.of(LAB, username, username, time.time(), organization="The Laboratory")
    row = linked.link(user, proven, time.time())
    linked.set_primary(user, row.pk)
    return row


def test_userinfo_and_introspection_show_the_primary_identity_and_keep_the_sub(alice: User, bob: User) -> None:
    portal = make(bob, CALLBACK)
    tokens = portal.tokens(alice, "openid profile email")
    api, asked = Api(alice, root=""), {"token": tokens["access_token"]}

    def seen() -> tuple[Any, ...]:
        told, found = api.get("/v2/oauth2/userinfo").body, portal.post("/v2/oauth2/token/introspect", asked).body
        assert told["sub"] == found["sub"] == str(alice.pk)
        assert told["preferred_username"] == found["username"]
        return told["preferred_username"], told["identity_provider"], told["organization"]

    own = ("alice@127.0.0.1", identities.provider_id(), None)
    assert seen() == own
    link(alice)
    assert seen() == (NAME, identities.id_of_provider(LAB), "The Laboratory")
    linked.set_primary(alice, alice.pk)
    assert seen() == own


def test_pages_show_the_primary_identity(alice: User, bob: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    assert "Signed in as alice" in browser.text
    link(alice)
    browser.get("/account")
    assert f"Signed in as {NAME}" in browser.text
    question = make(bob, CALLBACK).question("openid")
    browser.get(f"/v2/oauth2/authorize?{question}")
    assert f"You are signed in as {NAME}" in browser.text


def test_members_of_a_group_see_it(alice: User, bob: User) -> None:
    api = Api(alice, root="")
    group = api.post("/v2/groups", {"name": f"a group {uuid.uuid4()}"}).body["id"]
    link(bob, "bob@lab.example")
    added = api.post(f"/v2/groups/{group}", {"add": [{"identity_id": str(bob.pk)}]}).body["add"]
    assert [(one["username"], one["identity_id"]) for one in added] == [("bob@lab.example", str(bob.pk))]
    shown = api.call("GET", f"/v2/groups/{group}", query={"include": "memberships"}).body["memberships"]
    assert {one["username"] for one in shown} == {"alice@127.0.0.1", "bob@lab.example"}
    browser = Browser()
    browser.sign_in(alice)
    browser.get(f"/groups/{group}")
    assert "bob@lab.example" in browser.text


def test_the_owner_of_an_endpoint_is_shown_by_it_and_the_name_of_the_endpoint_stays(alice: User, ep1: Endpoint) -> None:
    link(alice)
    found = Api(alice).get(f"/endpoint/{ep1.pk}").body
    assert (found["owner_string"], found["username"], found["canonical_name"]) == (NAME, "alice", "alice#ep1")


def test_lists_of_any_length_look_names_up_at_once(alice: User) -> None:
    api, group = Api(alice, root=""), Group.objects.create(name="all")

    def queries(count: int) -> tuple[int, int]:
        for number in range(count):
            user = User.objects.create(username=f"user{uuid.uuid4().hex[:8]}")
            Membership.objects.create(group=group, user=user, role="member", status="active")
            make_endpoint(user, f"e{number}", public=True)
            link(user, f"{user.username}@lab.example")
        taken = []
        for path in (f"/v2/groups/{group.pk}?include=memberships", "/v0.10/endpoint_search?filter_fulltext=e"):
            with CaptureQueriesContext(connection) as captured:
                assert api.get(path).status == 200
            taken.append(len(captured))
        return taken[0], taken[1]

    Membership.objects.create(group=group, user=alice, role="admin", status="active")
    queries(1)
    assert queries(2) == queries(6)
