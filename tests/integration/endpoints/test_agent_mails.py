"""The owner of an endpoint gets one mail when two computers use the key of its agent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from endpoints.connect import setup_keys
from identity.clock import moment
from identity.models import User
from transferapi.tasks.models import Mail
from transferapi.tasks.notify.mails import agent as agent_mails

pytestmark = pytest.mark.django_db


def test_a_clone_that_tries_for_days_causes_one_mail_a_day(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    endpoint, _ = setup_keys.create_endpoint(alice, {"name": "laptop", "is_globus_connect": True})
    now = moment()
    for _ in range(3):
        agent_mails.clone_refused(endpoint.pk, "192.0.2.7", now)
    [mail] = Mail.objects.all()
    assert (mail.user_id, mail.subject) == (alice.pk, "Waybill: a second computer uses the key of alice#laptop")
    assert "The second one at 192.0.2.7 was refused" in mail.body
    assert f"/endpoints/{endpoint.pk}#agent" in mail.body
    agent_mails.clone_refused(endpoint.pk, "", now + timedelta(days=1))
    assert Mail.objects.count() == 2


def test_a_clone_at_a_user_without_an_address_causes_no_mail(alice: User) -> None:
    endpoint, _ = setup_keys.create_endpoint(alice, {"name": "laptop", "is_globus_connect": True})
    agent_mails.clone_refused(endpoint.pk, "\r\nBcc: everybody@example.org")
    assert not Mail.objects.exists()
