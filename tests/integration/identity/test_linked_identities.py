"""Linked identities on a real database: signing in, up, linking and unlinking, and what a rule names."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Any

import pytest

from endpoints import permissions
from endpoints.models import Endpoint
from endpoints.permissions import Permission, may, visible
from endpoints.sharing import access_rules, roles, shares
from identity import certificate_subjects, linked_identities, shown_names, sign_up, tokens
from identity.hidden import Secret
from identity.models import AuditEvent, LinkedIdentity, ScimClient, User
from identity.proven_identities import (
    LAST_WAY_IN,
    MAX_SUBJECT,
    IdentityInactiveError,
    IdentityNotFoundError,
    IdentityNotUsableError,
    IdentityTakenError,
    ProofTooOldError,
    Proven,
    TooManyIdentitiesError,
    name_at,
)
from identity.provider import identities
from identity.scim import users as scim_users
from identity.scim.users import UserChange
from identity.sign_up import ADDRESS_NOT_PROVEN, SIGN_UP_CLOSED, AccountExistsError
from identity.sign_up_policy import parse
from tests.integration.cast import all_at_once, make_endpoint
from tests.integration.pages import Browser
from tests.integration.provider import CALLBACK, App, get, make
from tests.integration.rest import Answer, Api, assert_error, read
from tests.refusals import raises_refusal

KEYCLOAK, UNIVERSITY = "oidc:https://id.example.org/realms/lab", "saml:https://idp.example.edu/idp"


def proof(subject: str = "s-1", provider: str = KEYCLOAK, username: str = "al@example.org", **facts: Any) -> Proven:
    return Proven.of(provider, subject, username, time.time(), **facts)


def test_nobody_is_signed_in_by_an_identity_that_nobody_linked(alice: User) -> None:
    assert linked_identities.sign_in(proof()) is None


def test_a_linked_identity_signs_its_user_in_and_is_brought_up_to_date(alice: User) -> None:
    row = linked_identities.link(alice, proof(name="Al"), time.time())
    assert (
        linked_identities.sign_in(proof(name="Alice L.", username="alice@example.org", email="a@example.org")) == alice
    )
    row.refresh_from_db()
    assert (row.name, row.username, row.email, row.email_verified) == (
        "Alice L.", "alice@example.org", "a@example.org", False,
    )  # fmt: skip
    assert row.last_used_at is not None


def test_the_same_subject_of_another_provider_is_another_person(alice: User) -> None:
    linked_identities.link(alice, proof(), time.time())
    assert linked_identities.sign_in(proof(provider=UNIVERSITY)) is None


@pytest.mark.parametrize("verified", [True, False])
def test_an_address_signs_nobody_in_and_links_nothing(alice: User, settings: Any, verified: bool) -> None:
    settings.SIGN_UP = parse("invitation")
    invitation = Secret(sign_up.invite(None)[1].value.partition("code=")[2])
    alice.email = "alice@example.org"
    alice.save()
    linked_identities.link(alice, proof(email="alice@example.org", email_verified=True), time.time())
    stranger = proof("s-2", UNIVERSITY, email="alice@example.org", email_verified=verified)
    assert linked_identities.sign_in(stranger) is None
    if verified:
        # The person has two ways in, and no second account.
        with pytest.raises(AccountExistsError, match="link this identity"):
            linked_identities.sign_up(stranger, "mallory", invitation)
        assert not User.objects.filter(username="mallory").exists()
        assert not LinkedIdentity.objects.filter(provider=UNIVERSITY).exists()
        return
    made = linked_identities.sign_up(stranger, "mallory", invitation)
    assert made != alice
    assert made.email == ""
    assert [row.user for row in LinkedIdentity.objects.filter(provider=UNIVERSITY)] == [made]


def test_a_deactivated_person_does_not_come_back_by_another_identity(alice: User, settings: Any) -> None:
    settings.SIGN_UP = parse("open")
    alice.email, alice.is_active = "Alice@Example.org", False
    alice.save()
    again = proof("s-2", UNIVERSITY, email="alice@example.org", email_verified=True)
    with pytest.raises(AccountExistsError):
        linked_identities.sign_up(again, "alice2")
    assert not User.objects.filter(username="alice2").exists()
    # Nobody learns of the account without a proof of the address.
    with raises_refusal(ADDRESS_NOT_PROVEN):
        linked_identities.sign_up(proof("s-3", UNIVERSITY, email="alice@example.org", email_verified=False), "alice3")


@pytest.mark.django_db(transaction=True)
def test_of_two_identities_with_one_address_that_sign_up_at_once_one_has_an_account(settings: Any) -> None:
    settings.SIGN_UP = parse("open")
    facts: dict[str, Any] = {"email": "al@example.org", "email_verified": True}
    people = [proof(f"s-{number}", username=f"al{number}@example.org", **facts) for number in range(4)]
    ended = all_at_once([partial(linked_identities.sign_up, one, f"liddell{n}") for n, one in enumerate(people)])
    assert sorted(type(one).__name__ for one in ended) == ["AccountExistsError"] * 3 + ["User"]


def test_signing_up_makes_a_user_without_a_password_whose_identity_is_primary(db: None, settings: Any) -> None:
    verified = proof(name="Al Liddell", email="al@example.org", email_verified=True)
    with raises_refusal(SIGN_UP_CLOSED):
        linked_identities.sign_up(verified, "liddell")
    settings.SIGN_UP = parse("domain:example.org")
    with raises_refusal(ADDRESS_NOT_PROVEN):
        linked_identities.sign_up(proof(email="al@example.org", email_verified=False), "liddell")
    user = linked_identities.sign_up(verified, "liddell")
    assert (user.username, user.get_full_name(), user.has_usable_password()) == ("liddell", "Al Liddell", False)
    primary = shown_names.primary_of(user)
    assert primary is not None
    assert primary.username == "al@example.org"
    assert linked_identities.sign_in(proof()) == user
    with pytest.raises(IdentityTakenError):
        linked_identities.sign_up(proof(), "liddell2")
    assert not User.objects.filter(username="liddell2").exists()


def test_an_inactive_user_is_not_signed_in(alice: User) -> None:
    linked_identities.link(alice, proof(), time.time())
    alice.is_active = False
    alice.save()
    with pytest.raises(IdentityInactiveError):
        linked_identities.sign_in(proof())


def test_an_identity_of_another_user_is_not_linked(alice: User, bob: User) -> None:
    linked_identities.link(alice, proof(), time.time())
    with pytest.raises(IdentityTakenError):
        linked_identities.link(bob, proof(), time.time())
    assert linked_identities.sign_in(proof()) == alice


def test_an_old_session_and_an_old_proof_change_nothing(alice: User) -> None:
    with pytest.raises(ProofTooOldError):
        linked_identities.link(alice, proof(), time.time() - linked_identities.MOST_AGE - 1)
    old, future = (Proven.of(KEYCLOAK, "s", "a@b", time.time() + by) for by in (-linked_identities.MOST_AGE - 1, 120))
    for unusable in (old, future):
        with pytest.raises(ProofTooOldError):
            linked_identities.link(alice, unusable, time.time())
        with pytest.raises(ProofTooOldError):
            linked_identities.sign_in(unusable)
        with pytest.raises(ProofTooOldError):
            linked_identities.sign_up(unusable, "x")
    assert not LinkedIdentity.objects.exists()


def test_the_last_way_to_sign_in_stays(alice: User) -> None:
    alice.set_unusable_password()
    alice.save()
    first = linked_identities.link(alice, proof(), time.time())
    with raises_refusal(LAST_WAY_IN):
        linked_identities.unlink(alice, first.pk)
    second = linked_identities.link(alice, proof("s-2"), time.time())
    linked_identities.unlink(alice, first.pk)
    with raises_refusal(LAST_WAY_IN):
        linked_identities.unlink(alice, second.pk)
    assert linked_identities.sign_in(proof()) is None
    certificate_subjects.add(alice, "/O=Grid/CN=Alice", proven=["/O=Grid/CN=Alice"])
    linked_identities.unlink(alice, second.pk)


@pytest.mark.django_db(transaction=True)
def test_two_requests_do_not_remove_the_last_two_ways(django_user_model: Any) -> None:
    user = User.objects.create(username="alice", password="!")
    rows = [linked_identities.link(user, proof(f"s-{number}"), time.time()) for number in range(2)]
    ended = all_at_once([partial(linked_identities.unlink, user, row.pk) for row in rows])
    assert sorted(type(one).__name__ for one in ended) == ["LinkedIdentityError", "NoneType"]


@pytest.mark.django_db(transaction=True)
def test_one_identity_is_linked_once_whoever_asks_at_the_same_moment(django_user_model: Any) -> None:
    users = [User.objects.create(username=f"user{number}") for number in range(4)]
    ended = all_at_once([partial(linked_identities.link, user, proof(), time.time()) for user in users])
    assert sorted(type(one).__name__ for one in ended) == ["IdentityTakenError"] * 3 + ["LinkedIdentity"]


def test_nobody_unlinks_what_is_not_theirs(alice: User, bob: User) -> None:
    row = linked_identities.link(alice, proof(), time.time())
    for ref in (row.pk, uuid.uuid4(), "nothing", "\0"):
        with pytest.raises(IdentityNotFoundError):
            linked_identities.unlink(bob, ref)
        with pytest.raises(IdentityNotFoundError):
            linked_identities.set_primary(bob, ref)


def test_one_identity_is_primary_or_the_users_own_name(alice: User) -> None:
    rows = [linked_identities.link(alice, proof(f"s-{number}"), time.time()) for number in range(2)]
    assert shown_names.primary_of(alice) is None
    for row in rows:
        linked_identities.set_primary(alice, row.pk)
        assert linked_identities.of(alice)[0] == row
    linked_identities.set_primary(alice, alice.pk)
    assert shown_names.primary_of(alice) is None


def test_a_name_that_the_provider_gave_to_somebody_else_leaves_the_former_holder(alice: User, bob: User) -> None:
    linked_identities.link(alice, proof("s-1"), time.time())
    linked_identities.link(bob, proof("s-2"), time.time())
    assert linked_identities.by_username(["AL@example.org"])["al@example.org"].user == bob
    assert linked_identities.sign_in(proof("s-1", username="al.l@example.org")) == alice


def test_an_address_as_a_name_takes_no_name_from_anybody(alice: User, bob: User) -> None:
    """A person may type any address in at the provider, also that of alice."""
    linked_identities.link(alice, proof("s-1"), time.time())
    row = linked_identities.link(bob, proof("s-2", name_is_address=True), time.time())
    assert linked_identities.by_username(["al@example.org"])["al@example.org"].user == alice
    assert row.username == f"{row.pk}@example.org"
    linked_identities.sign_in(proof("s-2", username="AL@example.org", name_is_address=True))
    assert linked_identities.by_username(["al@example.org"])["al@example.org"].user == alice
    # It is free again.
    linked_identities.sign_in(proof("s-1", username="al.l@example.org"))
    linked_identities.sign_in(proof("s-2", name_is_address=True))
    assert linked_identities.by_username(["al@example.org"])["al@example.org"].user == bob


def test_a_name_that_differs_by_its_case_only_takes_no_name_from_anybody(alice: User, bob: User) -> None:
    linked_identities.link(alice, proof("s-1"), time.time())
    row = linked_identities.link(bob, proof("s-2", username="AL@example.org"), time.time())
    assert linked_identities.by_username(["al@example.org"])["al@example.org"].user == alice
    assert row.username == f"{row.pk}@example.org"
    assert linked_identities.of(alice)[0].username == "al@example.org"


def test_a_name_that_two_providers_give_names_nobody(alice: User, bob: User) -> None:
    linked_identities.link(alice, proof(), time.time())
    linked_identities.link(bob, proof(provider=UNIVERSITY), time.time())
    assert linked_identities.by_username(["al@example.org", "\0"]) == {}


def test_a_user_name_of_a_directory_takes_no_proven_name_from_anybody(alice: User, bob: User, charlie: User) -> None:
    """Else one organisation names a user as somebody of another one, and gets what is shared with that person."""
    linked_identities.link(bob, proof(), time.time())
    squatter = scim_users.create(ScimClient.objects.create(name="lab", max_users=9), UserChange("al@example.org")).user
    assert identities.by_username(["al@example.org"]) == [bob]
    [found] = Api(alice, root="").get("/v2/api/identities?usernames=al@example.org").body["identities"]
    assert found["id"] != str(squatter.pk)
    # Where nobody has proven it, the user is found by it, as before.
    linked_identities.unlink(bob, linked_identities.of(bob)[0].pk, may_be_last=True)
    assert identities.by_username(["al@example.org"]) == [squatter]


def test_a_user_has_a_bounded_number(alice: User) -> None:
    for number in range(linked_identities.MOST):
        linked_identities.link(alice, proof(f"s-{number}", username=f"a{number}@x"), time.time())
    with pytest.raises(TooManyIdentitiesError):
        linked_identities.link(alice, proof("one more"), time.time())


@pytest.mark.parametrize("subject", [None, 7, "", "x" * (MAX_SUBJECT + 1), "a\nb", "a\0", "\ud800"])
def test_a_subject_that_cannot_be_found_again_is_refused(subject: object) -> None:
    with pytest.raises(IdentityNotUsableError):
        Proven.of(KEYCLOAK, subject, "a@b", 0.0)


def test_what_is_not_usable_of_the_rest_is_left_out() -> None:
    one = Proven.of(KEYCLOAK, "s", "a@b", 0.0, email="no address", email_verified=True, name="a\nb", organization=7)
    assert (one.email, one.email_verified, one.name, one.organization) == ("", False, "", "")
    assert not Proven.of(KEYCLOAK, "s", "a@b", 0.0, email="a@b.org", email_verified="true").email_verified
    assert Proven.of_document(one.as_document()) == one


def test_a_name_keeps_only_a_domain_that_its_provider_may_give() -> None:
    assert name_at("alice", "Example.org") == "alice@example.org"
    assert name_at("alice@EXAMPLE.org", "example.org") == "alice@example.org"
    assert name_at("alice@bank.example", "example.org") == "alice@bank.example@example.org"
    assert name_at("alice@phys.example.edu", "idp.example.edu", ["phys.example.edu"]) == "alice@phys.example.edu"
    assert name_at("@example.org", "example.org") == "@example.org@example.org"


def test_a_rule_that_names_an_identity_holds_for_its_user_while_it_is_linked(
    alice: User, bob: User, charlie: User
) -> None:
    host = make_endpoint(alice, "host")
    share = shares.create(alice, str(host.pk), "/shared/", {"name": "share", "display_name": "share"})
    row = linked_identities.link(bob, proof(), time.time())
    assert not may(bob, Permission.VIEW, share)
    access_rules.create(alice, str(share.pk), access_rules.RuleSpec("identity", str(row.pk), "/", "r"))
    assert may(bob, Permission.VIEW, share)
    assert Endpoint.objects.filter(visible(bob), pk=share.pk).exists()
    assert not may(charlie, Permission.VIEW, share)
    assert not Endpoint.objects.filter(visible(charlie), pk=share.pk).exists()
    row.delete()
    assert not may(bob, Permission.VIEW, share)


def test_a_role_of_an_identity_lets_its_user_share(alice: User, bob: User) -> None:
    host = make_endpoint(alice, "host")
    row = linked_identities.link(bob, proof(), time.time())
    roles.create(alice, str(host.pk), "identity", str(row.pk), "activity_monitor")
    assert permissions.roles(bob, host) == {permissions.RoleName.ACTIVITY_MONITOR}


def test_programs_see_all_identities_and_find_a_user_by_each(alice: User, bob: User) -> None:
    row = linked_identities.link(
        bob, proof(name="Bob at work", email="bob@example.org", organization="Lab"), time.time()
    )
    api = Api(bob, root="")
    told = api.get("/v2/oauth2/userinfo").body["identity_set"]
    assert [one["sub"] for one in told] == [str(bob.pk), str(row.pk)]
    assert (told[1]["username"], told[1]["organization"], told[1]["email"]) == (
        "al@example.org", "Lab", "bob@example.org",
    )  # fmt: skip
    assert told[0]["identity_provider"] != told[1]["identity_provider"]
    linked_identities.set_primary(bob, row.pk)
    assert [one["sub"] for one in api.get("/v2/oauth2/userinfo").body["identity_set"]] == [str(row.pk), str(bob.pk)]
    theirs = Api(alice, root="")
    for query in ("usernames=AL%40example.org,bob", f"ids={row.pk},{bob.pk}"):
        found = theirs.get(f"/v2/api/identities?{query}").body["identities"]
        assert [one["id"] for one in found] == [str(row.pk), str(bob.pk)]
        assert all(one["email"] is None for one in found)
    assert theirs.get(f"/v2/api/identities/{row.pk}").body["identity"]["name"] == "Bob at work"
    assert identities.by_username(["al@example.org"]) == [bob]


# ---- by REST


def _rest(browser: Browser, row: LinkedIdentity | str) -> Answer:
    """DELETE by the session of the pages."""
    ref = row if isinstance(row, str) else row.pk
    headers = {"X-CSRFToken": browser.client.cookies["waybill-csrf"].value}
    return read(browser.client.delete(f"/v2/api/linked_identities/{ref}", headers=headers))


@pytest.fixture
def browser(alice: User, passwords: None) -> Browser:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    return browser


def test_a_person_takes_an_identity_off_by_rest(alice: User, bob: User, browser: Browser) -> None:
    row, others = (
        linked_identities.link(alice, proof(), time.time()),
        linked_identities.link(bob, proof("s-2", username="bo@example.org"), time.time()),
    )
    listed = read(browser.client.get("/v2/api/linked_identities")).body
    assert [(one["id"], one["username"]) for one in listed["DATA"]] == [(str(row.pk), "al@example.org")]
    for wrong in (others, str(alice.pk), "nonsense"):
        assert_error(_rest(browser, wrong), 404, "ClientError.NotFound")
    # Without the CSRF token the page of another site could do it.
    assert_error(read(browser.client.delete(f"/v2/api/linked_identities/{row.pk}")), 403, "PermissionDenied")
    assert _rest(browser, row).body["code"] == "Deleted"
    assert linked_identities.sign_in(proof()) is None
    assert linked_identities.sign_in(proof("s-2")) == bob
    assert_error(_rest(browser, row), 404, "ClientError.NotFound")


def test_rest_refuses_a_sign_in_that_is_old_and_a_token(alice: User, browser: Browser) -> None:
    row = linked_identities.link(alice, proof(), time.time())
    assert_error(Api(alice, root="").delete(f"/v2/api/linked_identities/{row.pk}"), 403, "PermissionDenied")
    # The session of the same request does not stand in for a token's.
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
    with_both = browser.client.delete(f"/v2/api/linked_identities/{row.pk}", headers=headers)
    assert_error(read(with_both), 403, "PermissionDenied")
    session = browser.client.session
    session["signed_in_at"] -= linked_identities.MOST_AGE + 1
    session.save()
    assert_error(_rest(browser, row), 403, "PermissionDenied")
    assert linked_identities.of(alice) == [row]


def test_rest_keeps_the_last_way_to_sign_in(alice: User, browser: Browser) -> None:
    row = linked_identities.link(alice, proof(), time.time())
    # The session stays: it depends on the hash of the password.
    session = browser.client.session
    alice.set_unusable_password()
    alice.save()
    session["_auth_user_hash"] = alice.get_session_auth_hash()
    session.save()
    assert_error(_rest(browser, row), 409, "Conflict")
    assert linked_identities.of(alice) == [row]


# ---- what an identity leaves behind


def consent(app: App, user: User, identity: str) -> tuple[str, str]:
    """The access token and the refresh token of a consent that was given in a sign-in with this identity."""
    code = app.code(user, "openid", access_type="offline", signed_in_as=identity)
    answer = app.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK)
    assert answer.status == 200, answer.body
    return answer.body["access_token"], answer.body["refresh_token"]


def works(app: App, tokens_: tuple[str, str]) -> tuple[bool, bool]:
    access, refresh = tokens_
    renewed = app.token(grant_type="refresh_token", refresh_token=refresh)
    return get("/v2/oauth2/userinfo", access).status == 200, renewed.status == 200


def test_the_consents_that_an_identity_gave_end_with_it(alice: User, bob: User) -> None:
    app = make(bob, CALLBACK)
    row = linked_identities.link(alice, proof(), time.time())
    by_it, by_own = consent(app, alice, "al@example.org"), consent(app, alice, "")
    unused = app.code(alice, "openid", signed_in_as="al@example.org")
    assert works(app, by_it) == works(app, by_own) == (True, True)
    linked_identities.unlink(alice, row.pk)
    assert works(app, by_it) == (False, False)
    assert works(app, by_own) == (True, True)
    late = app.token(grant_type="authorization_code", code=unused, redirect_uri=CALLBACK)
    assert (late.status, late.body["error"]) == (400, "invalid_grant")
    [event] = AuditEvent.objects.filter(what="consent_withdrawn")
    assert (event.username, event.details["identity"]) == ("alice", "al@example.org")


def test_the_consents_follow_an_identity_whose_name_changes(alice: User, bob: User) -> None:
    """Its own provider renames it, and then gives the name to another person."""
    app = make(bob, CALLBACK)
    row = linked_identities.link(alice, proof(), time.time())
    first = consent(app, alice, "al@example.org")
    linked_identities.sign_in(proof(username="al.l@example.org"))
    second = consent(app, alice, "al.l@example.org")
    linked_identities.link(bob, proof("s-2", username="al.l@example.org"), time.time())
    others = consent(app, bob, "al.l@example.org")
    linked_identities.unlink(alice, row.pk)
    assert works(app, first) == works(app, second) == (False, False)
    assert works(app, others) == (True, True)
