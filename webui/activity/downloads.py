"""The errors of a task as CSV and as JSON, written while they are read: a task may have a million of them."""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Iterator
from typing import Any

from django.http import Http404, StreamingHttpResponse
from django.http.request import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from identity.gsi.printable import inert
from transferapi.tasks.errors import TaskNotFoundError
from transferapi.tasks.history import causes
from transferapi.tasks.history.causes import Outcome
from transferapi.tasks.models import File
from webui.page import signed_in_stream, user_of

from . import advice

FORMS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
FIELDS = ("outcome", "code", "cause", "source_path", "destination_path", "size", "attempts", "time", "details")
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class _Line:
    """The target of `csv`, which returns the line."""

    def write(self, text: str) -> str:
        return text


@signed_in_stream
@require_safe
def errors(request: HttpRequest, task_id: uuid.UUID, form: str) -> HttpResponseBase:
    try:
        rows = causes.files(user_of(request), task_id)
    except TaskNotFoundError:
        raise Http404 from None
    answer = StreamingHttpResponse(_csv(rows) if form == "csv" else _json(rows), content_type=FORMS[form])
    answer["Content-Disposition"] = f'attachment; filename="errors-{task_id}.{form}"'
    return answer


def _row(outcome: Outcome, file: File) -> dict[str, Any]:
    code = file.error_code or ""
    values = (
        outcome.value, code, advice.title_of(code), file.source_path, file.destination_path, file.size, file.attempts,
        file.error_time.isoformat() if file.error_time else None, file.error_details,
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def _csv(rows: Iterator[tuple[Outcome, File]]) -> Iterator[bytes]:
    writer = csv.writer(_Line())
    yield writer.writerow(FIELDS).encode()
    for outcome, file in rows:
        yield writer.writerow(map(_cell, _row(outcome, file).values())).encode("utf-8", "backslashreplace")


def _cell(value: object) -> object:
    """For a spreadsheet, and for a terminal."""
    if not isinstance(value, str):
        return value
    return inert(f"'{value}" if value.startswith(_FORMULA) else value, keep="\n")


def _json(rows: Iterator[tuple[Outcome, File]]) -> Iterator[bytes]:
    before = "[\n"
    for outcome, file in rows:
        yield f"{before}{json.dumps(_row(outcome, file))}".encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"
