"""All documents of the API by their names, as the resources declare them."""

from __future__ import annotations

from typing import Any, Protocol

from transferapi.rest import admin_documents as admin
from transferapi.rest import connect_documents as connect
from transferapi.rest import group_documents as groups
from transferapi.rest import timer_documents as timers
from transferapi.rest.auth import account_documents
from transferapi.rest.auth import documents as auth
from transferapi.rest.push import documents as push
from transferapi.rest.transfer import activation_documents as activation
from transferapi.rest.transfer import bookmark_documents as bookmarks
from transferapi.rest.transfer import endpoint_documents as endpoints
from transferapi.rest.transfer import manager_documents as managers
from transferapi.rest.transfer import operation_documents as operations
from transferapi.rest.transfer import sharing_documents as sharing
from transferapi.rest.transfer import submission_documents as submission
from transferapi.rest.transfer import task_documents as tasks

from . import common
from .common import ActionDocument
from .document_types import ListDocument, OtherRequest, OtherResponse, RequestDocument, ResponseDocument
from .types import Schema

_MODULES = (
    common, endpoints, activation, operations, submission, tasks, sharing, bookmarks, managers,
    account_documents, admin, auth, groups, push, timers, connect,
)  # fmt: skip


class Declared(Protocol):
    name: str

    @property
    def schema(self) -> Schema: ...
    @property
    def example(self) -> Any: ...


def _declared(*kinds: type) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for module in _MODULES:
        for name, one in vars(module).items():
            is_document = type(one) in kinds and one.name and not name.startswith("_")
            if is_document and found.setdefault(one.name, one) is not one:
                raise ValueError(f"{module.__name__}.{name}: another document has the name {one.name}")
    return found


_RESPONSES = _declared(ResponseDocument, ActionDocument, ListDocument, OtherResponse)
_REQUESTS = _declared(RequestDocument, OtherRequest)
#: The schemas of documents, and one complete example of each, by name.
RESPONSES = {name: one.schema for name, one in _RESPONSES.items()}
RESPONSE_EXAMPLES = {name: one.example for name, one in _RESPONSES.items()}
REQUESTS = {name: one.schema for name, one in _REQUESTS.items()}
REQUEST_EXAMPLES = {name: one.example for name, one in _REQUESTS.items()}
