"""Tasks that wait at a shared endpoint: whose credential is missing, who gets which message, and when they go on."""

from __future__ import annotations

import pytest

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, make_endpoint, take
from tests.integration.shared import give as share_with
from tests.integration.shared import make_share
from tests.integration.tasks.test_renewal import codes, give, put_to_bed, status, unchecked
from transferapi.tasks import moves, queries
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import Forecast, ForecastWork
from transferapi.tasks.models import Event, Mail, Task
from transferapi.tasks.worker import renewal, slice_end


@pytest.fixture
def share(alice: User, bob: User, gsi: Endpoint) -> Endpoint:
    """A share of alice, which bob may read. Its host belongs to alice and is not visible to bob."""
    for user in (alice, bob):
        User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.org")
        user.refresh_from_db()
    share = make_share(gsi, "share")
    share_with(share, bob)
    return share


@pytest.fixture
def bobs(bob: User) -> Endpoint:
    return make_endpoint(bob, "bobs")


def mails_to(user: User) -> list[Mail]:
    return list(Mail.objects.filter(user=user).order_by("pk"))


def test_the_task_says_who_must_act_and_nothing_of_the_host(
    bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint
) -> None:
    refused = Fault(Kind.AUTH, Side.SOURCE, advice="Check it.", raw="530 Could not map /O=Grid/CN=Alice")
    task = put_to_bed(bob, share, bobs, refused)
    assert (task.status, task.waits_at) == ("INACTIVE", share)
    event = queries.events(bob, task.pk).rows[0]
    assert "alice#share (the source) refused the login" in event.description
    assert "alice, the owner of this shared endpoint, must activate its host" in event.description
    assert "gsi" not in event.description
    assert str(gsi.pk) not in event.description
    assert event.details == ""


def test_the_owner_of_the_share_is_asked_by_mail_and_the_owner_of_the_task_learns_it(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint
) -> None:
    for _ in range(3):
        put_to_bed(bob, share, bobs)
    [to_alice], [to_bob] = mails_to(alice), mails_to(bob)
    assert to_alice.subject == "Waybill: alice#share waits for a credential of yours"
    assert f"/v0.10/endpoint/{gsi.pk}/activate" in to_alice.body
    assert "bob" in to_alice.body
    assert "bob#bobs" not in to_alice.body, "what else is in the task is not hers to know"
    assert "waits for somebody else" in to_bob.body
    assert "alice, the owner of this shared endpoint, must activate its host" in to_bob.body
    assert str(gsi.pk) not in to_bob.body


def test_all_that_she_shares_of_one_host_is_one_mail_with_what_is_her_own(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint, ep1: Endpoint
) -> None:
    other = make_share(gsi, "other", "/other/")
    share_with(other, bob)
    put_to_bed(alice, gsi, ep1)
    put_to_bed(bob, share, bobs)
    put_to_bed(bob, other, bobs)
    assert len(mails_to(alice)) == 1
    assert len(mails_to(bob)) == 1


@pytest.mark.django_db(transaction=True)
def test_her_activation_lets_the_tasks_of_others_go_on(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint
) -> None:
    task = put_to_bed(bob, share, bobs)
    give(bob, gsi)
    give(bob, share)
    assert status(task) == "INACTIVE", "his own is of no use"
    give(alice, gsi)
    assert status(task) == "ACTIVE"
    assert codes(task)[-1] == "UNPAUSED"
    first = Mail.objects.count()
    grant = take(Task.objects.get(pk=task.pk))
    slice_end.suspend(
        grant.task_id, grant.epoch, Fault(Kind.NO_CREDENTIALS, Side.SOURCE, advice="It has ended.", raw=""), None
    )
    assert Mail.objects.count() == first + 2, "the next time it is told again"


def test_one_that_was_of_no_use_is_not_tried_again(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint
) -> None:
    held = give(alice, gsi)
    task = put_to_bed(bob, share, bobs, had=held)
    assert renewal.resume_waiting() == 0
    give(alice, gsi)
    assert renewal.resume_waiting(bob.pk) == 0, "nothing waits for one of his"
    assert renewal.resume_waiting(alice.pk) == 1
    assert status(task) == "ACTIVE"


def test_a_mail_of_long_ago_stands_in_nobodys_way(bob: User, alice: User, share: Endpoint, bobs: Endpoint) -> None:
    moves.cancel(bob, put_to_bed(bob, share, bobs).pk)
    put_to_bed(bob, share, bobs)
    put_to_bed(bob, share, bobs)
    assert len(mails_to(alice)) == len(mails_to(bob)) == 2


def test_a_user_without_mails_of_tasks_keeps_none_from_the_owner_of_the_share(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint
) -> None:
    put_to_bed(bob, share, bobs, options={"notify_on_inactive": False})
    assert len(mails_to(alice)) == 1
    assert mails_to(bob) == []


def test_a_credential_that_will_not_last_is_reported_to_whom_it_belongs(
    alice: User, bob: User, share: Endpoint, bobs: Endpoint, gsi: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        forecasts, "during", lambda *_: Forecast(ForecastWork(1, 1), 7000.0, 7200.0, 9000.0, "a test", 0)
    )
    held = give(alice, gsi, seconds=60)
    task = unchecked(bob, share, bobs)
    grant = take(task)
    assert renewal.foresee(task.pk, grant.epoch, share, held)
    slice_end.release(task.pk, grant.epoch, later(3600))
    [mail] = mails_to(alice)
    assert mail.subject == "Waybill: alice#share will need a new credential of yours"
    assert f"/v0.10/endpoint/{gsi.pk}/activate" in mail.body
    assert mails_to(bob) == []
    event = Event.objects.get(task=task, code="CREDENTIAL_EXPIRES_SOON")
    assert "alice, the owner of this shared endpoint, must activate its host" in event.description
    assert "gsi" not in event.description + event.details
