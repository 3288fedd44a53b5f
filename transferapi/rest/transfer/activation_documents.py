"""The documents of activation."""

from __future__ import annotations

from typing import Any

from django.views.decorators.debug import sensitive_variables

from endpoints.activation.forms import Form, Requirement
from endpoints.activation.services import ActivationResult
from endpoints.activation.status import ActivationStatus
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.hidden import Secret
from transferapi.rest.http.parsing import Document
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import DONE, LENGTH
from transferapi.rest.openapi.document_types import Field, ListDocument, RequestDocument, ResponseDocument

from .endpoint_documents import ACTIVATION

#: A private requirement never shows a value.
REQUIREMENT = ResponseDocument[Requirement](
    "activation_requirement",
    Field("type", t.one_of(*Form), lambda row: str(row.form), "myproxy"),
    Field("name", t.TEXT, example="username"),
    Field("ui_name", t.TEXT, example="User name"),
    Field("description", t.TEXT, example="Your name at the MyProxy server"),
    Field(
        "value",
        t.about("the value that the service knows; null where the field is private", t.MAYBE_TEXT),
        lambda row: None if row.private else row.value,
    ),
    Field("required", t.about("whether this field of the form must be filled in", t.FLAG), example=True),
    Field("private", t.about("whether clients must neither show nor store the value", t.FLAG)),
)
_STATUS = (
    Field[Any]("endpoint", t.TEXT, example="go#ep1"),
    *ACTIVATION.fields,
    Field[Any]("oauth_server", t.MAYBE_TEXT),
)
REQUIREMENTS = ListDocument(
    "activation_requirements",
    REQUIREMENT,
    *_STATUS,
    Field(
        "auto_activation_supported",
        t.about("a credential given elsewhere may serve here, or none is needed", t.FLAG),
        example=True,
    ),
    LENGTH,
)
RESULT = ListDocument(
    "activation_result",
    REQUIREMENT,
    *DONE,
    *_STATUS,
    Field("subject", t.about("subject of the credential", t.MAYBE_TEXT), example="/O=Grid/CN=alice"),
    LENGTH,
    example={
        "code": "Activated.MyProxyCredential",
        "message": "Endpoint activated successfully using a credential fetched from a MyProxy server.",
        "resource": "/endpoint/8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01/activate",
    },
)


@sensitive_variables()
def _secret(document: Document, name: str) -> Secret | None:
    """Any value may be one."""
    value = document.text_or_number(name)
    return None if value is None else Secret(value)


GIVEN_REQUIREMENT = RequestDocument(
    "activation_requirement",
    "type name",
    Field("type", t.about("the form; one of those that the endpoint offers", t.TEXT), example="myproxy"),
    Field("name", t.about("name of the field in this form", t.TEXT), example="username"),
    Field(
        "value",
        {"oneOf": [t.TEXT, t.NUMBER], "nullable": True, "description": "null or empty: not filled in"},
        read=_secret,
    ),
)
GIVEN_REQUIREMENTS = RequestDocument(
    "activation_requirements",
    "",
    Field("DATA", t.list_of(GIVEN_REQUIREMENT.schema, maxItems=100, nullable=True)),
    example={
        "DATA": [
            {"type": "myproxy", "name": "username", "value": "alice"},
            {"type": "myproxy", "name": "passphrase", "value": "..."},
            {"type": "myproxy", "name": "lifetime_in_hours", "value": "12"},
        ]
    },
)


def place(endpoint: Endpoint, status: ActivationStatus, rows: tuple[Requirement, ...]) -> dict[str, Any]:
    """The status of the activation, and the requirements."""
    return {
        "endpoint": canonical_name(endpoint),
        **ACTIVATION.values(status),
        "oauth_server": endpoint.oauth_server or None,
        "length": len(rows),
        "DATA": list(map(REQUIREMENT.document, rows)),
    }


def outcome(found: ActivationResult) -> dict[str, Any]:
    """The fields of an `activation_result` beside code and message."""
    # The credential of a shared endpoint is its owner's; others do not see its subject.
    known = found.activation_status.credential if found.endpoint.host_id is None else None
    more = place(found.endpoint, found.activation_status, found.rows)
    return more | {"DATA_TYPE": "activation_result", "subject": known.subject if known else None}
