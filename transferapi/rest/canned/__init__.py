"""Canned documents: one complete example of each document that goes out (ANSWERS) or comes in (REQUESTS).

They are the JSON files in this folder, one a family: `{"answers": {NAME: document}, "requests": {NAME: document}}`.
Names are those of the schemas (`shapes.ANSWERS`, `requests.REQUESTS`). The OpenAPI description, the tests and the docs
show these documents and no others. `{"$ref": NAME}` in a file stands for another document of the same kind.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

Document = Any


def _read(kind: str) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda one: one.name):
        if file.name.endswith(".json"):
            for name, document in json.loads(file.read_text()).get(kind, {}).items():
                if name in found:
                    raise ValueError(f"{file.name}: {kind} have another {name}")
                found[name] = document
    return {name: _whole(document, found) for name, document in found.items()}


def _whole(document: Document, among: dict[str, Document]) -> Document:
    if isinstance(document, list):
        return [_whole(one, among) for one in document]
    if not isinstance(document, dict):
        return document
    if "$ref" in document:
        return _whole(among[document["$ref"]], among)
    return {name: _whole(value, among) for name, value in document.items()}


ANSWERS = _read("answers")
REQUESTS = _read("requests")
