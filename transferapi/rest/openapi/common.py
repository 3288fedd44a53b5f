"""The documents and fields that all resources share."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.errors import request_id, resource

from .document_types import Field, ResponseDocument
from .types import NUMBER, TEXT, about, list_of

#: The fields of every document that answers an action.
DONE = (
    Field[None]("code", TEXT, example="Updated"),
    Field[None]("message", TEXT, example="Updated endpoint successfully"),
    Field[None]("request_id", TEXT, example="aB3_dE6gH9"),
    Field[None]("resource", TEXT, example="/endpoint/8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01"),
)
#: The fields of a whole list, and of a page.
LENGTH = Field[None]("length", NUMBER, example=1)
LISTED = (LENGTH, Field[None]("limit", NUMBER, example=10), Field[None]("offset", NUMBER))

ERROR = ResponseDocument[None](
    "error",
    *DONE,
    Field(
        "required_scopes", about("with ConsentRequired: the scopes that a token needs", list_of(TEXT)), sometimes=True
    ),
    Field(
        "authorization_parameters",
        about(
            "with AuthorizationRequired: what to ask the authorization endpoint for",
            {"type": "object", "additionalProperties": True},
        ),
        sometimes=True,
    ),
    data_type=None,
    required="code message request_id resource",
    example={
        "code": "EndpointNotFound",
        "message": "No such endpoint 'go#nothing'",
        "resource": "/endpoint/go#nothing",
    },
)
RESULT = ResponseDocument[None]("result", *DONE, Field("id", about("of what was changed", TEXT), sometimes=True))


class ActionDocument(ResponseDocument[None]):
    """The document of an action, with more fields. resource: for the example."""

    def __init__(self, name: str, *fields: Field[None], code: str = "Created", message: str, resource: str) -> None:
        super().__init__(name, *DONE, *fields, example={"code": code, "message": message, "resource": resource})
        self._said = {"DATA_TYPE": name, "code": code, "message": message}

    def answer(self, request: Request, status: int = 201, **more: Any) -> Response:
        """The answer to a request that created something (201), or was accepted (202). more: the other fields."""
        about_request = {"request_id": request_id(request), "resource": resource(request)}
        return Response({**self._said, **more, **about_request}, status=status)
