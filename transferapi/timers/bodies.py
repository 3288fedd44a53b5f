"""The transfer document of a timer: checked, with its endpoints by their ids.

A name may belong to another endpoint when the timer runs; an id cannot.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from transferapi.tasks import options
from transferapi.tasks.submission import TransferItem, TransferRequest

_ITEM_FIELDS = ("source_path", "destination_path", "recursive", "external_checksum", "checksum_algorithm")


def kept(request: TransferRequest, source_id: uuid.UUID, destination_id: uuid.UUID) -> str:
    """The stored form of an accepted request."""
    given = {name: request.options.get(name) for name in options.TRANSFER}
    document = {
        "DATA_TYPE": "transfer",
        "source_endpoint": str(source_id),
        "destination_endpoint": str(destination_id),
        "label": request.label,
        **{name: value for name, value in given.items() if value is not None},
        "DATA": [_item_document(item) for item in request.items],
    }
    return json.dumps(document)


def request_of(body: str, submission_id: uuid.UUID) -> TransferRequest:
    """The request of one run, with the label of the transfer."""
    document: Mapping[str, Any] = json.loads(body)
    return TransferRequest(
        submission_id=submission_id,
        source_endpoint=document["source_endpoint"],
        destination_endpoint=document["destination_endpoint"],
        items=[_item(one) for one in document["DATA"]],
        label=document["label"],
        options=options.given(options.TRANSFER, document),
    )


def _item_document(item: TransferItem) -> dict[str, Any]:
    given = {name: getattr(item, name) for name in _ITEM_FIELDS}
    kind = "transfer_symlink_item" if item.symlink else "transfer_item"
    return {"DATA_TYPE": kind, **{name: value for name, value in given.items() if value is not None}}


def _item(document: Mapping[str, Any]) -> TransferItem:
    given = {name: document.get(name) for name in _ITEM_FIELDS}
    return TransferItem(**given, symlink=document["DATA_TYPE"] == "transfer_symlink_item")  # type: ignore[arg-type]
