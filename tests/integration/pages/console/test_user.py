"""The page of one user, for staff, and what it does to the account of somebody else: each act is in the audit log."""

from __future__ import annotations

import re
import threading
import time
import uuid
from typing import Any

import pytest
from django.db import connection, transaction

from identity import certificate_subjects, password_recovery, tokens, user_account, users
from identity import linked_identities as linked
from identity.audit import What
from identity.error_categories import RefusedError
from identity.models import (
    ApiToken,
    AuditEvent,
    Invitation,
    LinkedIdentity,
    OneTimeCodeSecret,
    Passkey,
    RecoveryLink,
    ScimClient,
    SignIn,
    User,
)
from identity.proven_identities import Proven
from identity.scim import users as scim_users
from identity.scim.errors import SCIM_NOT_ACTIVATED
from identity.scim.users import UserChange
from identity.sign_in_proof import RECENT
from identity.sign_up_policy import parse
from identity.users import NOT_STAFF, UserDetails
from tests.database import is_waiting
from tests.integration.cast import make_user
from tests.integration.pages import PASSWORD, Browser
from tests.integration.provider import CALLBACK, make
from tests.refusals import raises_refusal
from tests.waiting import eventually
from transferapi.tasks.models import Mail
from webui.sign_in.session_start import SIGNED_IN_AT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
EVIL = '<img src=x onerror="alert(1)">\u202egnp.exe'


@pytest.fixture
def staff(bob: User) -> Browser:
    """bob is of the staff."""
    bob.set_password(PASSWORD)
    bob.is_staff = True
    bob.save()
    browser = Browser()
    browser.sign_in(bob)
    return browser


@pytest.fixture
def identity(alice: User) -> LinkedIdentity:
    proven = Proven.of(
        "oidc:https://id.example.org", "alice-1", "alice@lab.example.org", time.time(), name="A. Liddell"
    )
    return linked.link(alice, proven, time.time())


@pytest.fixture
def passkey(alice: User) -> Passkey:
    User.objects.filter(pk=alice.pk).update(passkey_after_password=True)
    return Passkey.objects.create(user=alice, label="laptop", credential_id=b"1", public_key=b"2")


@pytest.fixture
def codes(alice: User) -> OneTimeCodeSecret:
    from identity.clock import moment

    return OneTimeCodeSecret.objects.create(user=alice, confirmed_at=moment(None), key_id="k", sealed=b"s")


@pytest.fixture
def has_mail(alice: User, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    alice.email = "alice@example.org"
    alice.save()


def here(user: User, form: str = "") -> str:
    return f"/console/users/{user.pk}{f'/{form}' if form else ''}"


def audited(what: str) -> tuple[str, str]:
    """About whom the only row of this act is, and who did it."""
    row = AuditEvent.objects.get(what=what)
    return row.username, row.actor


def age(browser: Browser) -> None:
    """Let the sign-in of this browser be too old for what is dangerous."""
    session = browser.client.session
    session[SIGNED_IN_AT] -= RECENT + 1
    session.save()


# ---- what it shows


def test_the_page_shows_all_ways_to_sign_in_and_all_that_acts_for_the_user(
    staff: Browser, alice: User, identity: LinkedIdentity, passkey: Passkey, codes: OneTimeCodeSecret
) -> None:
    tokens.make(alice, "nightly")
    certificate_subjects.add(alice, "/O=Grid/CN=Alice", proven=["/O=Grid/CN=Alice"])
    make(alice, CALLBACK, name="A portal").tokens(alice, "openid")
    staff.get("/console/users?q=alice")
    assert f'href="{here(alice)}"' in staff.page
    assert staff.get(here(alice)).status_code == 200
    for words in ("alice@lab.example.org", "oidc:https://id.example.org", "laptop", "nightly", "A portal",
                  "/O=Grid/CN=Alice", "know who you are", "0 recovery codes left"):  # fmt: skip
        assert words in staff.text, words


def test_names_that_providers_gave_do_no_harm(staff: Browser, alice: User) -> None:
    proven = Proven.of("oidc:https://id.example.org", "1", EVIL.replace("\u202e", ""), time.time(), name="<b>x</b>")
    linked.link(alice, proven, time.time())
    ApiToken.objects.create(user=alice, label=EVIL, digest=b"1" * 32)
    staff.get(here(alice))
    assert "<img src=x" not in staff.page
    assert "\u202e" not in staff.page


# ---- who


FORMS = ("edit", "recovery", "codes", "passkeys", f"identities/{uuid.uuid4()}/unlink", f"tokens/{uuid.uuid4()}/revoke",
         f"apps/{uuid.uuid4()}/withdraw", "end", "begin", "delete")  # fmt: skip


def test_only_staff_see_the_page_and_use_its_forms(alice: User, charlie: User, passkey: Passkey) -> None:
    charlie.set_password(PASSWORD)
    charlie.save()
    his = Browser()
    assert his.get(here(alice)).headers["Location"].startswith("/signin")
    his.sign_in(charlie)
    assert his.get(here(alice)).status_code == 403
    assert "laptop" not in his.page
    his.get("/account")
    for form in FORMS:
        assert his.post(here(alice, form), confirmed="yes", name="alice", staff="on").status_code == 403, form
    assert his.post("/console/users", username="dora").status_code == 403
    with raises_refusal(NOT_STAFF):
        user_account.overview(charlie, alice)
    alice.refresh_from_db()
    assert alice.is_active
    assert not alice.is_staff
    assert Passkey.objects.exists()
    assert not User.objects.filter(username="dora").exists()


def test_a_page_of_another_site_cannot_use_the_forms_of_staff(staff: Browser, alice: User, passkey: Passkey) -> None:
    for form in FORMS:
        assert staff.client.post(here(alice, form), {"confirmed": "yes", "staff": "on"}).status_code == 403, form
    assert staff.client.post("/console/users", {"username": "dora"}).status_code == 403
    assert Passkey.objects.exists()


def test_a_user_who_is_not_there_has_no_page(staff: Browser) -> None:
    nobody = f"/console/users/{uuid.uuid4()}"
    assert staff.get(nobody).status_code == 404
    staff.get("/account")
    for form in FORMS:
        assert staff.post(f"{nobody}/{form}", confirmed="yes").status_code == 404, form


@pytest.mark.parametrize("form", ["edit", "recovery", "codes", "passkeys", "identities/{}/unlink", "delete"])
def test_what_is_dangerous_asks_staff_to_sign_in_again(
    staff: Browser, alice: User, identity: LinkedIdentity, passkey: Passkey, codes: OneTimeCodeSecret, form: str
) -> None:
    staff.get(here(alice))
    age(staff)
    answer = staff.post(here(alice, form.format(identity.pk)), confirmed="yes", email="m@example.org", name="alice")
    assert answer.headers["Location"].startswith("/signin?")
    assert "again=1" in answer.headers["Location"]
    alice.refresh_from_db()
    assert alice.email == ""
    for model in (LinkedIdentity, Passkey, OneTimeCodeSecret):
        assert model.objects.filter(user=alice).exists()


def test_an_old_session_of_staff_makes_invites_ends_and_reactivates_nobody(
    staff: Browser, alice: User, settings: Any
) -> None:
    """An account, and an invitation to make one, outlive the session; an end cancels tasks and deletes credentials."""
    settings.SIGN_UP = parse("invitation")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    staff.get(here(alice))
    age(staff)
    forms = ("/console/users", "/console/invitations", here(alice, "begin"), f"/console/users/{alice.pk}/activate")
    for form in forms:
        answer = staff.post(form, username="mallory", email="mallory@evil.example")
        assert answer.headers["Location"].startswith("/signin?"), form
    assert not User.objects.filter(username="mallory").exists()
    assert not Invitation.objects.exists()
    alice.refresh_from_db()
    assert not alice.is_active
    User.objects.filter(pk=alice.pk).update(is_active=True)
    for form in (here(alice, "end"), f"/console/users/{alice.pk}/deactivate"):
        assert staff.post(form).headers["Location"].startswith("/signin?"), form
    alice.refresh_from_db()
    assert alice.is_active


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("details", [UserDetails(full_name="Alice Doe"), UserDetails(staff=True)])
def test_a_request_that_was_under_way_gives_no_right_back(alice: User, details: UserDetails) -> None:
    """A member of the staff who expects to lose the right sends changes of the own account again and again."""
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    before, ended = User.objects.get(pk=alice.pk), threading.Event()
    outcome: list[object] = []

    def meanwhile() -> None:
        try:
            ended.wait(30)
            users.change(before, details, before)
        except RefusedError as error:
            outcome.append(error.refusal)
        finally:
            connection.close()

    other = threading.Thread(target=meanwhile)
    other.start()
    with transaction.atomic():
        users.change(User.objects.get(pk=alice.pk), UserDetails(staff=False))
        ended.set()
        eventually(is_waiting)
    other.join(30)
    assert outcome == [NOT_STAFF]
    alice.refresh_from_db()
    assert (alice.is_staff, alice.get_full_name()) == (False, "")


@pytest.mark.django_db(transaction=True)
def test_two_changes_of_one_user_are_both_there(alice: User) -> None:
    first, second = (User.objects.get(pk=alice.pk) for _ in range(2))
    users.change(first, UserDetails(email="alice@example.org"))
    users.change(second, UserDetails(full_name="Alice Doe"))
    alice.refresh_from_db()
    assert (alice.email, alice.get_full_name()) == ("alice@example.org", "Alice Doe")
    assert second.email == "alice@example.org"


def test_staff_change_their_own_ways_to_sign_in_on_the_account_page_only(staff: Browser, bob: User) -> None:
    """There the password and a code are asked for, which a stolen session does not have."""
    Passkey.objects.create(user=bob, label="laptop", credential_id=b"1", public_key=b"2")
    staff.get(here(bob))
    for form in FORMS[1:]:
        assert here(bob, form) not in staff.page
    for form in ("recovery", "codes", "passkeys"):
        assert staff.post(here(bob, form), confirmed="yes").status_code == 409
    assert staff.post(here(bob, "end")).status_code == 409
    assert "account page" in staff.text or "deactivate yourself" in staff.text
    assert Passkey.objects.filter(user=bob).exists()


# ---- what it does


def test_staff_add_a_user_and_change_name_address_and_rights(staff: Browser) -> None:
    staff.get("/console/users")
    assert staff.post("/console/users", username="no blanks please").status_code == 400
    assert 'value="no blanks please"' in staff.page
    answer = staff.post("/console/users", username="dora", email="dora@example.org", full_name="Dora")
    dora = User.objects.get(username="dora")
    assert answer.headers["Location"] == f"{here(dora)}#ways"
    assert audited("user_added") == ("dora", "bob")
    staff.get(here(dora))
    staff.post(here(dora, "edit"), email="d@example.org", full_name="Dora D.", staff="on")
    dora.refresh_from_db()
    assert (dora.email, dora.get_full_name(), dora.is_staff) == ("d@example.org", "Dora D.", True)
    staff.get(here(dora))
    assert staff.post(here(dora, "edit"), email="no address", full_name="", staff="on").status_code == 400
    assert 'value="no address"' in staff.page
    staff.post(here(dora, "edit"), email="", full_name="")
    dora.refresh_from_db()
    assert (dora.email, dora.is_staff) == ("", False)


def test_an_identity_is_unlinked_by_staff_also_the_last_way_and_all_sessions_end(
    staff: Browser, alice: User, identity: LinkedIdentity
) -> None:
    hers = Browser()
    alice.set_password(PASSWORD)
    alice.save()
    hers.sign_in(alice)
    User.objects.filter(pk=alice.pk).update(password="!")
    staff.get(here(alice))
    path = here(alice, f"identities/{identity.pk}/unlink")
    staff.post(path)
    assert "Unlink this identity?" in staff.text
    assert LinkedIdentity.objects.exists()
    assert staff.post(path, confirmed="yes").headers["Location"] == f"{here(alice)}#ways"
    assert not LinkedIdentity.objects.exists()
    assert audited("identity_unlinked") == ("alice", "bob")
    assert hers.get("/account").headers["Location"].startswith("/signin")
    staff.get(here(alice))
    assert staff.post(path, confirmed="yes").status_code == 404


def test_an_identity_of_another_user_is_not_unlinked_by_the_page_of_this_one(
    staff: Browser, alice: User, charlie: User, identity: LinkedIdentity
) -> None:
    staff.get(here(charlie))
    assert staff.post(here(charlie, f"identities/{identity.pk}/unlink"), confirmed="yes").status_code == 404
    token, _secret = tokens.make(alice, "hers")
    assert staff.post(here(charlie, f"tokens/{token.pk}/revoke"), confirmed="yes").status_code == 404
    assert LinkedIdentity.objects.exists()
    assert ApiToken.objects.exists()


@pytest.mark.usefixtures("has_mail")
def test_passkeys_and_codes_are_removed_and_the_user_gets_a_mail(
    staff: Browser, alice: User, passkey: Passkey, codes: OneTimeCodeSecret
) -> None:
    staff.get(here(alice))
    for form, what in (("passkeys", "passkeys_removed"), ("codes", "codes_off")):
        staff.post(here(alice, form))
        assert not AuditEvent.objects.filter(what=what).exists()
        staff.post(here(alice, form), confirmed="yes")
        assert audited(what) == ("alice", "bob")
    assert not Passkey.objects.exists()
    assert not OneTimeCodeSecret.objects.exists()
    alice.refresh_from_db()
    assert not alice.passkey_after_password
    mails = Mail.objects.filter(user=alice, key__startswith="account:")
    assert {"Those who run this service have done it." in mail.body for mail in mails} == {True}
    assert mails.count() == 2


def test_tokens_and_consents_are_taken_back(staff: Browser, alice: User) -> None:
    row, secret = tokens.make(alice, "nightly")
    portal = make(alice, CALLBACK, name="A portal")
    portal.tokens(alice, "openid")
    staff.get(here(alice))
    staff.post(here(alice, f"tokens/{row.pk}/revoke"), confirmed="yes")
    assert tokens.authenticate(secret.value) is None
    assert audited("token_revoked") == ("alice", "bob")
    path = here(alice, f"apps/{portal.id}/withdraw")
    staff.post(path, confirmed="yes")
    assert not SignIn.objects.filter(user=alice).exists()
    assert audited("consent_withdrawn") == ("alice", "bob")
    assert staff.post(path, confirmed="yes").status_code == 404


@pytest.mark.usefixtures("has_mail")
def test_a_link_for_a_new_password_is_sent_once_in_half_an_hour(staff: Browser, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(password="!")
    staff.get(here(alice))
    staff.post(here(alice, "recovery"), confirmed="yes")
    [mail] = Mail.objects.filter(user=alice, key__startswith="recovery:")
    assert audited(What.RECOVERY_SENT) == ("alice", "bob")
    assert staff.post(here(alice, "recovery"), confirmed="yes").status_code == 409
    code = password_recovery.new_code(uuid.UUID(mail.key.removeprefix("recovery:")))
    assert code is not None
    assert password_recovery.find(code) == alice


def test_no_link_is_sent_where_no_mail_reaches_the_user(staff: Browser, alice: User) -> None:
    staff.get(here(alice))
    assert "/recovery" not in staff.page
    assert staff.post(here(alice, "recovery"), confirmed="yes").status_code == 409
    assert not RecoveryLink.objects.exists()


@pytest.mark.usefixtures("has_mail")
def test_a_link_that_went_to_the_former_address_ends_when_the_address_changes(staff: Browser, alice: User) -> None:
    staff.get(here(alice))
    staff.post(here(alice, "recovery"), confirmed="yes")
    [mail] = Mail.objects.filter(user=alice, key__startswith="recovery:")
    code = password_recovery.new_code(uuid.UUID(mail.key.removeprefix("recovery:")))
    staff.post(here(alice, "edit"), email="alice@lab.example.org", full_name="")
    assert code is not None
    with pytest.raises(password_recovery.RecoveryLinkLapsedError):
        password_recovery.find(code)


def test_a_user_is_deactivated_reactivated_and_deleted_by_the_name(staff: Browser, alice: User) -> None:
    staff.get(here(alice))
    assert staff.post(here(alice, "delete"), name="alice").status_code == 409
    staff.post(here(alice, "end"), reason="left the laboratory")
    assert AuditEvent.objects.get(what=What.USER_DEACTIVATED).details == {"reason": "left the laboratory"}
    staff.post(here(alice, "begin"))
    alice.refresh_from_db()
    assert alice.is_active
    staff.post(here(alice, "end"))
    staff.get(here(alice))
    assert staff.post(here(alice, "delete"), name="alicia").status_code == 400
    assert "Type alice to delete the user." in staff.text
    assert staff.post(here(alice, "delete"), name="alice").headers["Location"] == "/console/users"
    assert audited(What.USER_DELETED) == ("alice", "bob")
    assert staff.get(here(alice)).status_code == 404


def test_staff_shut_out_a_user_whom_a_directory_has_suspended(staff: Browser, alice: User) -> None:
    """Else the next synchronisation brings the user back."""
    directory = ScimClient.objects.create(name="lab", max_users=9, takes_over=True)
    scim_users.create(directory, UserChange("alice"))
    scim_users.update(directory, str(alice.pk), UserChange(active=False))
    staff.get(here(alice))
    assert "A directory has deactivated this user" in staff.text
    staff.post(here(alice, "end"), reason="misuse")
    with raises_refusal(SCIM_NOT_ACTIVATED):
        scim_users.update(directory, str(alice.pk), UserChange(active=True))
    staff.get(here(alice))
    assert "A directory" not in staff.text
    assert "Reactivate" in staff.text


def test_the_page_is_complete_without_any_way_to_sign_in(staff: Browser) -> None:
    nobody = make_user("nobody")
    nobody.set_unusable_password()
    nobody.save()
    staff.get(here(nobody))
    assert re.search(r"Password\s+has none", staff.text)
    assert "No program acts for this user." in staff.text
