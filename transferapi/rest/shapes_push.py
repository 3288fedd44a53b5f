"""The shapes of the documents about webhooks and streams of events."""

from __future__ import annotations

from transferapi.tasks.states import Status
from transferapi.tasks.webhooks import MAX_URL

from .schema import (
    FLAG,
    MAYBE_FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    asked,
    each,
    list_of,
    one_of,
    page,
    told,
)

_URL = about("https://host/path; http:// for networks only that the operator has allowed", {"maxLength": MAX_URL})
_STATUSES: Schema = list_of(one_of(*Status.values), nullable=True, description="to be told of; absent: all of them")
_DONE = each("code message request_id resource", TEXT)

REQUESTS_PUSH: dict[str, Schema] = {
    "webhook": asked("webhook", "url", {"url": {**TEXT, **_URL}, "statuses": _STATUSES}),
    "webhook_change": asked(
        "webhook",
        "",
        {
            "url": {**MAYBE_TEXT, **_URL},
            "statuses": _STATUSES,
            "enabled": about("true: it is told again of what happens from now on", MAYBE_FLAG),
        },
    ),
}

ANSWERS_PUSH: dict[str, Schema] = {
    "webhook": told(
        "webhook",
        {
            "id": UUID,
            "url": TEXT,
            "statuses": list_of(one_of(*Status.values)),
            "enabled": FLAG,
            "created_at": TIME,
            **each("disabled_at failing_since", MAYBE_TIME),
            "last_error": about("what was wrong with the last try, while it fails", MAYBE_TEXT),
        },
    ),
    "webhook_list": page("webhook_list", "webhook", length=NUMBER),
    "webhook_create_result": told(
        "webhook_create_result",
        {**_DONE, "id": UUID, "secret": about("what it is told is signed with; shown this once", TEXT)},
    ),
    "webhook_test_result": told("webhook_test_result", {**_DONE, "delivery_id": UUID}),
    "webhook_delivery": told(
        "webhook_delivery",
        {
            "id": about("the Webhook-Id", UUID),
            "type": about("task.succeeded, failed, inactive, active, paused, unpaused; or webhook.test", TEXT),
            "task_id": MAYBE_UUID,
            "status": one_of("DELIVERED", "WAITING", "GIVEN_UP"),
            "made_at": TIME,
            "attempts": NUMBER,
            **each("next_try_at delivered_at", MAYBE_TIME),
            "last_status": about("of HTTP, that it answered to the last try", MAYBE_NUMBER),
            "last_error": MAYBE_TEXT,
        },
    ),
    "webhook_delivery_list": page(
        "webhook_delivery_list", "webhook_delivery", **each("length limit offset total", NUMBER)
    ),
}

EVENT_STREAM: Schema = {
    "type": "string",
    "description": "server-sent events: `task` with a task's document, and each event of a task under its code",
    "example": 'id: 17@752:752:\nevent: SUCCEEDED\ndata: {"DATA_TYPE":"event","code":"SUCCEEDED"}\n\n',
}
