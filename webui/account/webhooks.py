"""The section "Webhooks": the addresses that get messages about the user's tasks, and the result of the latest."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from identity.models import User
from transferapi.tasks.models import Delivery, Webhook
from transferapi.tasks.notify import webhooks
from transferapi.tasks.states import Status

from .confirmations import Shown, asking

SECTION = "webhooks"
#: The states of tasks, with the words of the pages.
STATUSES: dict[str, str | Promise] = {
    Status.SUCCEEDED.value: gettext_lazy("Done"),
    Status.FAILED.value: gettext_lazy("Failed"),
    Status.INACTIVE.value: gettext_lazy("Needs you"),
    Status.ACTIVE.value: gettext_lazy("Active"),
}


@dataclass(frozen=True, slots=True)
class ShownWebhook:
    """latest: the newest delivery, if any. statuses: words; empty: all."""

    row: Webhook
    statuses: list[str]
    latest: Delivery | None


def context(user: User) -> dict[str, Any]:
    rows = [_shown(user, row) for row in webhooks.listing(user)]
    return {"webhooks": rows, "webhook_statuses": STATUSES, "webhooks_most": webhooks.MAX_WEBHOOKS}


def _shown(user: User, row: Webhook) -> ShownWebhook:
    page = webhooks.deliveries(user, str(row.pk), limit=1)
    words = [] if len(row.statuses) == len(Status.values) else [str(STATUSES[one]) for one in row.statuses]
    return ShownWebhook(row, words, next(iter(page.rows), None))


def add(request: HttpRequest, user: User) -> Shown:
    _row, secret = webhooks.create(user, request.POST.get("url", "").strip(), request.POST.getlist("statuses") or None)
    text = _("Give this secret to the program that gets the messages: it checks their signature with it.")
    return Shown(_("The webhook is added"), text, [(_("Secret"), secret.value)])


def test(request: HttpRequest, user: User, webhook: uuid.UUID) -> str:
    webhooks.send_test(user, str(webhook))
    return _("A test message is sent within seconds. Load the page again to see what came of it.")


def enable(request: HttpRequest, user: User, webhook: uuid.UUID) -> str:
    webhooks.update(user, str(webhook), enabled=True)
    return _("The webhook is enabled again.")


@asking("webhook")
def remove(request: HttpRequest, user: User, webhook: uuid.UUID) -> str:
    webhooks.delete(user, str(webhook))
    return _("The webhook is removed.")
