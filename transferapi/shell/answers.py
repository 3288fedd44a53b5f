"""The output of a command that changes something: nothing or a line, or with `-O json` the document of REST."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from .context import Context
from .options import Arguments


def answer(
    context: Context, arguments: Arguments, data_type: str, code: str, message: str, text: str = "", **more: Any
) -> None:
    """text: what the text form prints; more: further fields of the document."""
    if arguments["form"] == "json":
        document = {"DATA_TYPE": data_type, "code": code, "message": message, **more}
        show(context, {**document, "request_id": secrets.token_urlsafe(7)})
    elif text:
        context.out(text)


def show(context: Context, document: Mapping[str, Any] | list[Any]) -> None:
    """Write a document as JSON."""
    context.out(json.dumps(document, indent=2, default=str) + "\n")
