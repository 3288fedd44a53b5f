"""Names the fields of a submission that this service does not know. They are ignored, as in the Transfer API."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from transferapi.rest.http.parsing import Document
from transferapi.tasks import options

from . import documents

#: Names in a warning, and characters of each.
MOST, LENGTH = 5, 64

_TRANSFER = frozenset({"DATA_TYPE", *options.TRANSFER, *(one.name for one in documents.TRANSFER.fields)})
_DELETE = frozenset({"DATA_TYPE", *options.DELETE, *(one.name for one in documents.DELETE.fields)})
_TRANSFER_ITEM = frozenset({"DATA_TYPE", *(one.name for one in documents.TRANSFER_ITEM.fields)})
_DELETE_ITEM = frozenset({"DATA_TYPE", *(one.name for one in documents.DELETE_ITEM.fields)})


def of_transfer(document: Document) -> str | None:
    """A sentence for the user; None: all fields are known."""
    return _sentence(document, _TRANSFER, _TRANSFER_ITEM)


def of_delete(document: Document) -> str | None:
    """The same of a delete."""
    return _sentence(document, _DELETE, _DELETE_ITEM)


def _sentence(document: Document, known: frozenset[str], of_items: frozenset[str]) -> str | None:
    fields, items = _unknown([document.fields], known), document.fields.get("DATA")
    in_items = _unknown(items if isinstance(items, list) else [], of_items)
    words = [_described(name, "", known, of_items) for name in fields]
    words += [_described(name, "DATA: ", of_items, known) for name in in_items]
    if not words:
        return None
    more = f", and {len(words) - MOST} more" if len(words) > MOST else ""
    return f"Unknown fields were ignored: {', '.join(words[:MOST])}{more}."


def _unknown(elements: Iterable[object], known: frozenset[str]) -> list[str]:
    """The names of the unknown fields of these objects, in their order, each once."""
    found: dict[str, None] = {}
    for one in elements:
        if isinstance(one, Mapping) and not one.keys() <= known:
            found |= dict.fromkeys(name for name in one if name not in known)
    return list(found)


def _described(name: str, place: str, known: frozenset[str], elsewhere: frozenset[str]) -> str:
    """The name, with the field that was probably meant. elsewhere: fields of the items, or of the document."""
    shown = f"{place}{name[:LENGTH]!r}"
    if name in elsewhere:
        return f"{shown} ({'a field of the whole task' if place else 'a field of each item in DATA'})"
    near = difflib.get_close_matches(name[:LENGTH].lower(), sorted(known), 1)
    return f"{shown} (did you mean {near[0]}?)" if near else shown
