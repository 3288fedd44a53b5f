"""Deactivation ends all that acts for a user, activation lets in again, deletion leaves the id and the audit log."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db.models import Model
from oauth2_provider.models import AccessToken, Application

from endpoints.models import Endpoint, Role
from endpoints.sharing import roles
from identity import deactivation, password_sign_in, ssh_keys, tokens, users
from identity.clock import moment
from identity.deactivation import NOT_DEACTIVATED, STAFF_STAYS
from identity.error_categories import NotFoundError
from identity.hidden import Secret
from identity.models import ApiToken, AuditEvent, SshPublicKey, User, UserSession
from identity.provider import applications, bearer, issue, scopes
from identity.users import NOT_STAFF, OWN_ACCOUNT
from tests.integration.cast import submit, take
from tests.integration.identity.test_ssh_keys import new_line
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api
from tests.refusals import raises_refusal
from transferapi.tasks import ended_accounts
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase
from transferapi.timers.models import Timer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def staff(bob: User) -> User:
    bob.is_staff = True
    bob.save()
    return bob


def again(row: Model) -> Model:
    row.refresh_from_db()
    return row


def test_all_that_acts_for_the_user_ends(alice: User, staff: User, ep1: Endpoint, ep2: Endpoint) -> None:
    browser = Browser()
    browser.sign_in(alice)
    _, token = tokens.make(alice, "backup")
    application, _secret = applications.make(alice, applications.ApplicationSpec("portal"))
    [given] = issue.access(application, alice, [scopes.TRANSFER_ALL])
    ssh_keys.add(alice, new_line())
    waiting, running = submit(alice, ep1, ep2), submit(alice, ep1, ep2)
    take(running)
    timer = Timer.objects.create(
        owner=alice, schedule={}, body="{}", submitted_at=moment(), next_run=moment() + timedelta(days=1)
    )
    deactivation.deactivate(staff, alice, "left the laboratory")

    assert browser.get("/account").status_code == 302
    assert bearer.authenticate(token.value) is None
    assert bearer.authenticate(given.access_token) is None
    for model in (UserSession, ApiToken, SshPublicKey, AccessToken):
        assert not model.objects.filter(user=alice).exists()
    with pytest.raises(password_sign_in.WrongPasswordError):
        password_sign_in.sign_in("alice", Secret(PASSWORD), "")
    assert (Task.objects.get(pk=waiting.pk).phase, Task.objects.get(pk=waiting.pk).fatal_error_code) == (
        Phase.DONE,
        "CANCELED",
    )
    assert Task.objects.get(pk=running.pk).cancel_requested_at is not None
    timer.refresh_from_db()
    assert (timer.status, timer.next_run) == ("inactive", None)
    row = AuditEvent.objects.get(what="user_deactivated")
    assert (row.username, row.actor, row.details) == ("alice", "bob", {"reason": "left the laboratory"})

    deactivation.activate(staff, alice)
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "") == alice
    assert bearer.authenticate(token.value) is None
    assert AuditEvent.objects.get(what="user_activated").actor == "bob"


def test_what_was_made_during_the_deactivation_does_not_survive_it(
    alice: User, staff: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    deactivation.deactivate(staff, alice)
    token = tokens.issue(alice)
    User.objects.filter(pk=alice.pk).update(is_active=True)
    late = submit(alice, ep1, ep2)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert ended_accounts.cancel_left_over() == 1
    assert Task.objects.get(pk=late.pk).phase == Phase.DONE
    assert ended_accounts.cancel_left_over() == 0
    deactivation.activate(staff, alice)
    assert bearer.authenticate(token) is None


def test_tasks_of_others_go_on(alice: User, staff: User, public: Endpoint, ep1: Endpoint) -> None:
    task = submit(staff, public, public, ("/a", "/b"))
    deactivation.deactivate(staff, alice)
    assert Task.objects.get(pk=task.pk).phase == Phase.QUEUED


def test_who_may_deactivate(alice: User, staff: User, charlie: User) -> None:
    for call in (deactivation.deactivate, deactivation.activate, deactivation.delete):
        with raises_refusal(NOT_STAFF):
            call(charlie, alice)
    with raises_refusal(OWN_ACCOUNT):
        deactivation.deactivate(staff, staff)
    with raises_refusal(STAFF_STAYS):
        deactivation.deactivate_own(staff)
    for ref in (uuid.uuid4(), "x", "\0"):
        with pytest.raises(NotFoundError):
            deactivation.find(staff, ref)
    assert not deactivation.deactivate_own(charlie).is_active
    assert not AuditEvent.objects.filter(username="alice", what__startswith="user_").exists()


def test_no_token_ends_its_owners_account(alice: User) -> None:
    """A token may have been found; the page asks for a recent sign-in."""
    for path in ("/v2/api/deactivate_own", f"/v2/api/users/{alice.pk}/deactivate"):
        assert Api(alice, root="").post(path, {}).status in (403, 404)
    alice.refresh_from_db()
    assert alice.is_active


def test_a_deleted_user_leaves_the_id_and_the_audit_log(
    alice: User, staff: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint
) -> None:
    alice.email, alice.first_name = "alice@example.org", "Alice Doe"
    alice.save()
    roles.create(staff, str(public.pk), "identity", str(alice.pk), "activity_monitor")
    applications.make(alice, applications.ApplicationSpec("portal"))
    task = submit(alice, ep1, ep2)
    with raises_refusal(NOT_DEACTIVATED):
        deactivation.delete(staff, alice)
    deactivation.deactivate(staff, alice)
    deactivation.delete(staff, alice)

    row = User.objects.get(pk=alice.pk)
    assert (row.username, row.email, row.get_full_name(), row.is_active) == (f"deleted-{alice.pk.hex}", "", "", False)
    assert Task.objects.get(pk=task.pk).owner == row
    assert not Endpoint.objects.filter(owner=row, deleted_at__isnull=True).exists()
    assert not Role.objects.filter(principal=row.pk).exists()
    assert not Application.objects.filter(user=row).exists()
    assert AuditEvent.objects.get(what="user_deleted").username == "alice"
    with pytest.raises(NotFoundError):
        deactivation.find(staff, alice.pk)
    # The name is free again, and nothing of the old account comes with it.
    assert users.add("alice", users.UserDetails()).pk != row.pk
