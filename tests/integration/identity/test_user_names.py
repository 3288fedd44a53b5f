"""Users by both forms of their names: `alice`, and `alice@example.org` where that is the domain of this service."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from endpoints import registry
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from identity import password_recovery, password_sign_in, ssh_keys, user_names, users
from identity.hidden import Secret
from identity.models import RecoveryLink, RecoveryRequest, User
from identity.password_sign_in import SignInError, TooManyAttemptsError
from identity.provider import authorization, identities, scopes
from identity.provider.authorization import AuthorizationRequest
from identity.sign_in_proof import SignInProof
from identity.ssh_public_keys import parse
from identity.users import UserDetails
from tests.integration.expectations import SSH_KEY
from tests.integration.pages import PASSWORD, Browser
from tests.integration.provider import CALLBACK, HERE, make
from tests.integration.rest import Api
from transferapi.config.values import domain as parse_domain

pytestmark = pytest.mark.django_db
FORMS = ("alice", "alice@example.org", "alice@EXAMPLE.org")


@pytest.fixture(autouse=True)
def _domain(settings: Any) -> None:
    settings.IDENTITY_DOMAIN = "example.org"


def test_the_domain_is_the_setting_else_the_host(settings: Any) -> None:
    assert user_names.domain() == "example.org"
    settings.IDENTITY_DOMAIN = ""
    assert user_names.domain() == "127.0.0.1"
    settings.PUBLIC_URL = "https://Move.Example.NET:8443"
    assert user_names.domain() == "move.example.net"


@pytest.mark.parametrize(
    "text", ["a b", "@", "example..org", "-a.org", "a@b.org", "x" * 64, "a." * 127 + "a", "https://a.org"]
)
def test_a_domain_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_domain(text)
    assert parse_domain("Example.ORG") == "example.org"


@pytest.mark.parametrize(
    "text",
    [
        "alice@example.net",
        "alice@sub.example.org",
        "a@lice@example.org",
        "@example.org",
        "alice@",
        "alice@example.org\0",
    ],
)
def test_another_domain_is_another_name(alice: User, text: str) -> None:
    assert user_names.local(text) == text
    assert identities.by_username([text]) == []
    assert users.named(text) is None


def test_an_identity_has_one_name_and_both_forms_find_it(alice: User, bob: User) -> None:
    found = Api(alice, root="").get("/v2/api/identities", usernames=",".join(FORMS)).body["identities"]
    assert [(one["id"], one["username"]) for one in found] == [(str(alice.pk), "alice@example.org")]
    for form in FORMS:
        assert identities.by_username([form]) == [alice]
        assert users.named(form) == alice


def test_a_name_with_a_domain_of_its_own_stays(alice: User) -> None:
    """An operator may have given names that are mail addresses, also in our own domain: nobody gets another's."""
    own = User.objects.create(username="alice@example.org")
    other = users.add("carol@uni.edu", UserDetails())
    assert user_names.identity_name(other) == "carol@uni.edu"
    assert identities.by_username(["alice@example.org", "alice", "carol@uni.edu"]) == [own, alice, other]
    assert users.named("alice@example.org") == own


def test_a_new_user_of_our_domain_has_the_name_before_it() -> None:
    assert users.add("dora@Example.org", UserDetails()).username == "dora"
    with pytest.raises(users.UserExistsError):
        users.add("dora", UserDetails())
    with pytest.raises(users.UserExistsError):
        users.add("dora@example.org", UserDetails())


@pytest.mark.usefixtures("passwords")
def test_the_page_of_sign_in_takes_both_forms(alice: User) -> None:
    for form in FORMS:
        browser = Browser()
        browser.get("/signin")
        assert browser.post("/signin", username=form, password=PASSWORD, next="/").status_code == 302
        browser.get("/account")
        assert "alice" in browser.text


@pytest.mark.usefixtures("passwords")
def test_the_forms_of_a_name_are_counted_together(alice: User) -> None:
    """Else the second form would give somebody who guesses as many attempts again."""
    seen: list[type[SignInError]] = []
    for number in range(40):
        with pytest.raises(SignInError) as caught:
            password_sign_in.sign_in(FORMS[number % len(FORMS)], Secret("wrong"), "192.0.2.7")
        seen.append(type(caught.value))
    assert seen.index(TooManyAttemptsError) == password_sign_in.MOST_OF_A_PAIR


def test_the_ssh_shell_takes_both_forms(alice: User) -> None:
    key = ssh_keys.add(alice, SSH_KEY)
    blob = parse(SSH_KEY).blob
    for form in FORMS:
        found = ssh_keys.find(form, blob)
        assert found is not None
        assert found.id == key.id
    assert ssh_keys.find("alice@example.net", blob) is None


def test_an_endpoint_keeps_its_short_name_and_is_found_by_both(alice: User) -> None:
    made = Endpoint.objects.create(owner=alice, name="dtn", public=True)
    assert registry.canonical_name(made) == "alice#dtn"
    for form in FORMS:
        assert registry.resolve(alice, f"{form}#dtn", Permission.VIEW) == made
        answer = Api(alice).get(f"/endpoint/{form.replace('@', '%40')}%23dtn")
        assert (answer.status, answer.body["canonical_name"]) == (200, "alice#dtn")
    assert (answer.body["username"], answer.body["owner_string"]) == ("alice", "alice@example.org")


def test_a_lost_password_is_mailed_for_both_forms(alice: User, bob: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="her@example.net")
    for form in FORMS:
        RecoveryLink.objects.all().delete()
        RecoveryRequest.objects.create(name=form)
        password_recovery.answer_requests()
        assert [link.user for link in RecoveryLink.objects.all()] == [alice], form
    User.objects.filter(pk=bob.pk).update(email="alice@example.org")
    RecoveryLink.objects.all().delete()
    RecoveryRequest.objects.create(name="alice@example.org")
    password_recovery.answer_requests()
    assert [link.user for link in RecoveryLink.objects.all()] == [bob], "it is his address"


@pytest.mark.parametrize("asked", [*FORMS, "ID"])
def test_a_program_may_ask_for_an_identity_by_both_forms(alice: User, bob: User, asked: str) -> None:
    portal = make(bob, CALLBACK)
    more = {"session_required_identities": str(alice.pk) if asked == "ID" else asked}
    request = authorization.read(portal.question(scopes.TRANSFER_ALL, **more), HERE)

    def refused(request: AuthorizationRequest, user: User) -> bool:
        proof = SignInProof(datetime.now(UTC), "password", user_names.identity_name(user))
        return authorization.reason_to_refuse(request, user, proof) is not None

    assert not refused(request, alice)
    assert refused(request, bob)
    for domain, fits in (("example.org", True), ("EXAMPLE.ORG", True), ("uni.edu", False)):
        question = portal.question(scopes.TRANSFER_ALL, session_required_single_domain=domain)
        assert refused(authorization.read(question, HERE), alice) is not fits


def test_a_member_has_the_name_that_clients_take(alice: User, bob: User) -> None:
    api = Api(alice, root="")
    group = api.post("/v2/groups", {"name": f"a group {uuid.uuid4()}"}).body["id"]
    answer = api.post(f"/v2/groups/{group}", {"add": [{"identity_id": str(bob.pk)}]})
    assert [one["username"] for one in answer.body["add"]] == ["bob@example.org"]
