"""Routes that change an account ask in REST for the proof that its page asks for: a recent sign-in, and no token."""

from __future__ import annotations

from typing import Any

import pytest

from identity import password_recovery
from identity.models import (
    ApiToken,
    CertificateSubject,
    ClientSecret,
    Invitation,
    RecoveryLink,
    RecoveryRequest,
    SshPublicKey,
    User,
)
from identity.provider import applications
from identity.provider.applications import ApplicationSpec
from identity.sign_in_proof import RECENT
from identity.sign_up_policy import parse
from tests.integration.identity.test_ssh_keys import new_line
from tests.integration.rest import Api, assert_error, routes

pytestmark = pytest.mark.django_db
Key = tuple[str, str]
MADE = (ApiToken, CertificateSubject, SshPublicKey, ClientSecret, User, Invitation)

_C = "clients/<str:client>"
#: Routes that make a way in or an account, or end one, or whose page asks for a recent sign-in; a body that would pass.
GUARDED: dict[Key, dict[str, Any] | None] = {
    ("POST", "tokens"): {"label": "new"},
    ("POST", "certificate_subjects"): {"subject": "/O=Grid/CN=Alice"},
    ("POST", "ssh_keys"): {"public_key": ""},
    ("POST", "clients"): {"client": {"name": "new"}},
    ("PUT", _C): {"client": {"redirect_uris": ["https://evil.example/"]}},
    ("POST", f"{_C}/credentials"): {"credential": {"name": "second"}},
    ("DELETE", "linked_identities/<str:identity>"): None,
    ("PUT", "users/<str:identity>"): {"full_name": "New"},
    ("DELETE", "users/<str:identity>"): None,
    ("POST", "users/<str:identity>/deactivate"): {},
    ("POST", "users/<str:identity>/activate"): {},
    ("POST", "users"): {"username": "mallory", "email": "mallory@evil.example", "is_staff": True},
    ("POST", "invitations"): {"email": "mallory@evil.example"},
}
#: Routes that take a way in back, or that a session of any age may use on the pages: a token is enough.
OPEN: set[Key] = {
    ("DELETE", "tokens/<str:token>"),
    ("DELETE", "certificate_subjects/<str:subject>"),
    ("DELETE", "ssh_keys/<path:key>"),
    ("DELETE", "passkeys/<str:passkey>"),
    ("DELETE", "sessions/<str:session>"),
    ("DELETE", _C),
    ("DELETE", f"{_C}/credentials/<str:credential>"),
    ("DELETE", "users/<str:identity>/sessions"),
    ("DELETE", "invitations/<str:invitation>"),
}


@pytest.fixture
def staff(alice: User, settings: Any) -> User:
    """alice, who may do all, also invite."""
    settings.SIGN_UP = parse("invitation")
    alice.is_staff = True
    alice.save()
    return alice


@pytest.fixture
def client_id(staff: User) -> str:
    return str(applications.make(staff, ApplicationSpec("known"))[0].client_id)


def path_of(route: str, client_id: str, other: User) -> str:
    names = {"<str:client>": client_id, "<str:identity>": str(other.pk)}
    for variable, value in names.items():
        route = route.replace(variable, value)
    return f"/v2/api/{route}"


def body_of(key: Key) -> dict[str, Any] | None:
    return {"public_key": new_line()} if key == ("POST", "ssh_keys") else GUARDED[key]


def test_every_route_that_changes_an_account_is_in_one_of_the_tables() -> None:
    changing = {key for key in routes("v2/api/") if key[0] != "GET"}
    assert changing == GUARDED.keys() | OPEN
    assert not GUARDED.keys() & OPEN


@pytest.mark.parametrize("key", GUARDED, ids=" ".join)
@pytest.mark.parametrize("age", [None, RECENT + 1], ids=["token", "old session"])
def test_neither_a_token_nor_an_old_session_is_enough(
    key: Key, age: float | None, staff: User, bob: User, client_id: str
) -> None:
    api = Api(staff, root="", age=age)
    before = [kind.objects.count() for kind in MADE]
    refused = api.call(key[0], path_of(key[1], client_id, bob), body_of(key))
    assert_error(refused, 403, "PermissionDenied")
    assert ("no sign-in" if age is None else "sign in again") in refused.body["message"]
    assert before == [kind.objects.count() for kind in MADE]
    bob.refresh_from_db()
    assert bob.is_active
    assert applications.find(staff, client_id).redirect_uris == ""


@pytest.mark.parametrize("key", GUARDED, ids=" ".join)
def test_a_recent_sign_in_passes_the_guard(key: Key, staff: User, bob: User, client_id: str) -> None:
    api = Api(staff, root="", age=0)
    answer = api.call(key[0], path_of(key[1], client_id, bob), body_of(key))
    # An error is then about the thing itself: a subject is to be proven, a user to be deactivated first.
    assert answer.status in (200, 201, 404, 409) or answer.code == "ClientError.SubjectNotProven", answer.body


def test_a_stolen_token_of_staff_makes_no_account_that_gets_a_password_by_mail(staff: User) -> None:
    """The account would have the rights of staff, and outlive the token."""
    made = Api(staff, root="").post("/v2/api/users", GUARDED[("POST", "users")])
    assert_error(made, 403, "PermissionDenied")
    RecoveryRequest.objects.create(name="mallory@evil.example")
    password_recovery.answer_requests()
    assert not RecoveryLink.objects.exists()
    # A user whom other staff have shut out stays out.
    shut_out = User.objects.create_user("mallory", is_active=False)
    assert_error(Api(staff, root="").post(f"/v2/api/users/{shut_out.pk}/activate"), 403, "PermissionDenied")
    shut_out.refresh_from_db()
    assert not shut_out.is_active
