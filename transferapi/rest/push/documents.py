"""The documents of webhooks and of the choice of mails, and the description of streams of events."""

from __future__ import annotations

from identity import languages as language_preferences
from identity.languages import LANGUAGES
from identity.models import User
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH, LISTED, ActionDocument
from transferapi.rest.openapi.document_types import Field, ListDocument, RequestDocument, ResponseDocument, optional
from transferapi.tasks.models import Delivery, Webhook
from transferapi.tasks.notify import mail_preferences
from transferapi.tasks.notify.webhooks import MAX_URL
from transferapi.tasks.states import Status

_ID = "5d1f2f7e-8c8b-4e0e-9c6a-0f5f3a1b7c11"
_DELIVERY_ID = "c0a4b7de-3f0b-4a54-8a53-9d5a0f1a2b33"

_URL = Field[Webhook](
    "url",
    {
        **t.about("https://host/path; http:// for networks only that the operator has allowed", t.TEXT),
        "maxLength": MAX_URL,
    },
    example="https://gateway.example.org/waybill",
)
_STATUSES = Field[Webhook](
    "statuses",
    t.about("states for which it is called; absent: all of them", t.list_of(t.one_of(*Status.values))),
    example=["SUCCEEDED", "FAILED"],
)
_ENABLED = Field[Webhook](
    "enabled",
    t.about("true: calls begin again with the next change", t.FLAG),
    lambda row: row.disabled_at is None,
    True,
)
#: Never with its secret.
WEBHOOK = ResponseDocument[Webhook](
    "webhook",
    Field("id", t.UUID, "pk", _ID),
    _URL,
    _STATUSES,
    _ENABLED,
    Field("created_at", t.TIME),
    Field("disabled_at", t.MAYBE_TIME, example=None),
    Field("failing_since", t.MAYBE_TIME, example=None),
    Field(
        "last_error",
        t.about("the error of the last call; null: none", t.MAYBE_TEXT),
        lambda row: row.last_error or None,
    ),
)
WEBHOOK_LIST = ListDocument("webhook_list", WEBHOOK, LENGTH)
WEBHOOK_REQUEST = RequestDocument(
    "webhook", "url", _URL, *optional(_STATUSES), example={"statuses": ["SUCCEEDED", "FAILED"]}
)
WEBHOOK_CHANGE = RequestDocument(
    "webhook_change", "", *optional(_URL, _STATUSES, _ENABLED), data_type="webhook", example={"enabled": True}
)
WEBHOOK_CREATED = ActionDocument(
    "webhook_create_result",
    Field("id", t.UUID, example=_ID),
    Field(
        "secret",
        t.about("the key of the signatures of its calls; shown this once", t.TEXT),
        example="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
    ),
    message="Webhook created successfully. Keep its secret: it is not shown again",
    resource="/webhook",
)
WEBHOOK_TEST = ActionDocument(
    "webhook_test_result",
    Field("delivery_id", t.UUID, example=_DELIVERY_ID),
    message="It is sent within seconds; see delivery_list for what came of it",
    resource=f"/webhook/{_ID}/test",
)


def _status(row: Delivery) -> str:
    """Whether the delivery was taken, waits for its next try, or was given up."""
    if row.delivered_at:
        return "DELIVERED"
    return "WAITING" if row.next_try_at else "GIVEN_UP"


DELIVERY = ResponseDocument[Delivery](
    "webhook_delivery",
    Field("id", t.about("the Webhook-Id", t.UUID), "pk", _DELIVERY_ID),
    Field(
        "type",
        t.about("task.succeeded, failed, inactive, active, paused, unpaused; or webhook.test", t.TEXT),
        lambda row: row.body["type"],
        "task.succeeded",
    ),
    Field("task_id", t.MAYBE_UUID, example="9f1f4e0a-54a3-4e6e-8d5c-3a3a6c0a8d0e"),
    Field("status", t.one_of("DELIVERED", "WAITING", "GIVEN_UP"), _status, "WAITING"),
    Field("made_at", t.TIME),
    Field("attempts", t.NUMBER, example=2),
    Field("next_try_at", t.MAYBE_TIME),
    Field("delivered_at", t.MAYBE_TIME, example=None),
    Field("last_status", t.about("HTTP status of the last call", t.MAYBE_NUMBER), example=503),
    Field("last_error", t.MAYBE_TEXT, lambda row: row.last_error or None, "It answered with status 503."),
)
DELIVERY_LIST = ListDocument("webhook_delivery_list", DELIVERY, *LISTED, Field("total", t.NUMBER, example=1))

_MAILS = Field[User]("enabled", t.about("false: no mail about tasks is sent", t.FLAG), mail_preferences.enabled, True)
_LANGUAGE = Field[User](
    "language", t.about("language of the mails", t.one_of(*LANGUAGES)), language_preferences.language_of, example="en"
)
MAIL_PREFERENCE = ResponseDocument[User]("mail_preference", _MAILS, _LANGUAGE)
MAIL_PREFERENCE_REQUEST = RequestDocument("mail_preference", "enabled", _MAILS, *optional(_LANGUAGE))

EVENT_STREAM: t.Schema = {
    "type": "string",
    "description": "server-sent events: `task` with a task's document, and each event of a task under its code",
    "example": 'id: 17@752:752:\nevent: SUCCEEDED\ndata: {"DATA_TYPE":"event","code":"SUCCEEDED"}\n\n',
}
