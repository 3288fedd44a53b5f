"""The documents of a user's API tokens and certificate subjects, which are extensions of ours."""

from __future__ import annotations

from .schema import (
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    asked,
    each,
    page,
    told,
)

_LABEL = about("one line of at most 128 characters", TEXT)
_SUBJECT = about('as the grid writes it: "/O=Grid/OU=Site/CN=Name"', TEXT)

ANSWERS_ACCOUNT: dict[str, Schema] = {
    "api_token": told(
        "api_token",
        {"id": UUID, "label": _LABEL, "created_time": TIME, "last_used_time": MAYBE_TIME, "expire_time": MAYBE_TIME},
    ),
    "api_token_list": page("api_token_list", "api_token", length=NUMBER),
    "api_token_create_result": told(
        "api_token_create_result",
        {
            **each("code message request_id resource", TEXT),
            "id": UUID,
            "token": about("shown this once", TEXT),
            "expire_time": MAYBE_TIME,
        },
    ),
    "certificate_subject": told(
        "certificate_subject", {"id": UUID, "subject": _SUBJECT, "label": _LABEL, "created_time": TIME}
    ),
    "certificate_subject_list": page("certificate_subject_list", "certificate_subject", length=NUMBER),
}
REQUESTS_ACCOUNT: dict[str, Schema] = {
    "api_token": asked(
        "api_token",
        "",
        {
            "label": {**_LABEL, "nullable": True},
            "expires_in": about("seconds; absent: until it is revoked", MAYBE_NUMBER),
        },
    ),
    "certificate_subject": asked(
        "certificate_subject",
        "",
        {
            "subject": about("absent: that of the certificate which this connection shows", MAYBE_TEXT),
            "label": {**_LABEL, "nullable": True},
        },
    ),
}
