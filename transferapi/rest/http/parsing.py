"""JSON request bodies: documents are read by field and type, with errors that name the field.

Unknown fields are ignored and explicit nulls count as absent, as in the Transfer API: its clients of
fifteen years send many others.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, NoReturn, overload
from urllib.parse import parse_qsl

from django.conf import settings
from django.http import QueryDict
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from endpoints.concurrency_limits import BODIES, RequestSlot
from endpoints.error_meanings import RequestTooLarge
from identity.models import User

from . import long_bodies
from .errors import BadRequest

#: Octets in the body of a request, but for lists of items (`settings.LIMITS.submission`).
MAX_BODY = 1 << 20
#: Octets of a body that any client may send without a place among those that are read at a time (`receiving`).
SHORT_BODY = 64 << 10
#: Values in a document, counted by what stands before or between them: each takes up to 250 octets.
MAX_VALUES = 100_000


def announced(parser_context: Any, most: int | None = None) -> int:
    """Octets of the body, as far as its view takes them (`View.max_body`). Raises RequestTooLarge before reading."""
    context = parser_context or {}
    limit = most if most is not None else int(getattr(context.get("view"), "max_body", MAX_BODY))
    length = int(context["request"].META.get("CONTENT_LENGTH") or "0")
    if length > limit:
        raise too_long(limit)
    return length


def too_long(limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"A request has at most {limit} octets here")


def longest_body(view: Any) -> int:
    """Octets of the longest body that any parser of a view takes."""
    takes_items = any(issubclass(one, ItemsParser) for one in view.parser_classes)
    return max(int(view.max_body), settings.LIMITS.submission if takes_items else 0)


def body(stream: IO[bytes], parser_context: Any) -> bytes:
    """All of a body. Raises ApiError, as `announced` and `LargeBodies.wait_for_turn`."""
    length = announced(parser_context)
    with receiving(getattr((parser_context or {}).get("view"), "user", None), length):
        data = stream.read(length)
    wait_for_turn(parser_context, length)
    return data


@contextmanager
def receiving(user: object, length: int) -> Iterator[None]:
    """Around the reading of a body: a slow client holds a thread, so one user may send a few longer ones at a time.

    Raises TooManyWaitingError at once where there are too many.
    """
    if length > SHORT_BODY and isinstance(user, User):
        with RequestSlot(user.pk, BODIES):
            yield
    else:
        yield


def wait_for_turn(parser_context: Any, length: int) -> None:
    """Views that are not `LargeBodies` take small bodies and do not wait."""
    if wait := getattr((parser_context or {}).get("view"), "wait_for_turn", None):
        wait(length)


class StrictJSONParser(BaseParser):
    """JSON by the standard library, bounded in size and depth; NaN and Infinity are refused."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        data = body(stream, parser_context)
        # "[[],[],..." needs thirty times its length in memory.
        if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise RequestTooLarge(f"A document has at most {MAX_VALUES} values")
        try:
            return json.loads(data, parse_constant=long_bodies.refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"JSON parse error: {_short(error)}") from None


def _short(error: Exception) -> str:
    return "the document is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


class ItemsParser(BaseParser):
    """JSON with a long list of items: see `long_bodies`."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        length = announced(parser_context, settings.LIMITS.submission)
        with receiving(parser_context["view"].user, length):
            spooled = long_bodies.spooled(stream, length)
        with spooled as file:
            wait_for_turn(parser_context, length)
            return long_bodies.read(file)


class Document:
    """A JSON object, read field by field. `where` stands before field names in errors ("DATA[3].").

    data_types: what its DATA_TYPE may say, when it has one.
    """

    def __init__(self, value: object, *data_types: str, where: str = "") -> None:
        # A submission has many thousands: the first test is the fast one.
        if type(value) is not dict and not isinstance(value, Mapping):
            name = where.rstrip(".") or "the document"
            raise BadRequest(f"{name}: expected a JSON object")
        self._fields = value
        self._where = where
        if self.text("DATA_TYPE") not in (None, *data_types):
            self._wrong("DATA_TYPE", " or ".join(data_types))

    @property
    def fields(self) -> Mapping[str, object]:
        """All of them, as they came."""
        return self._fields

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    @property
    def where(self) -> str:
        return self._where

    def text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            self._wrong(name, "a string")
        return value

    def required_text(self, name: str) -> str:
        text = self.text(name)
        if text is None:
            self.refuse_missing(name)
        return text

    def refuse_missing(self, name: str) -> NoReturn:
        """Raises BadRequest."""
        raise BadRequest(f"{self._where}{name}: is missing")

    def flag(self, name: str) -> bool | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, bool):
            self._wrong(name, "true or false")
        return value

    def number(self, name: str) -> int | None:
        value = self._fields.get(name)
        if isinstance(value, bool) or (value is not None and not isinstance(value, int)):
            self._wrong(name, "a whole number")
        return value

    def text_or_number(self, name: str) -> str | None:
        """A string, or a whole number as one. The value is not shown in errors: it may be a secret."""
        value = self._fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
            return str(value)
        return self.text(name)

    def identifier(self, name: str) -> uuid.UUID:
        try:
            return uuid.UUID(self.required_text(name))
        except ValueError:
            self._wrong(name, "a UUID")

    def moment(self, name: str) -> datetime | None:
        """A time in any of the forms that clients send; without a zone it is UTC."""
        text = self.text(name)
        moment = None if text is None else parse_moment(text)
        if text is not None and moment is None:
            self._wrong(name, "a time such as 2030-01-31 or 2030-01-31T23:59:59+00:00")
        return moment

    def texts(self, name: str, most: int = 1000) -> list[str] | None:
        """A list of strings."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > most or not all(isinstance(word, str) for word in value):
            self._wrong(name, f"a list of at most {most} strings")
        return value

    def documents(self, name: str, *data_types: str) -> Iterator[Document]:
        """A list of objects; absent means empty."""
        value = self._fields.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            self._wrong(name, "a list")
        for index, element in enumerate(value):
            yield Document(element, *data_types, where=f"{self._where}{name}[{index}].")

    def _wrong(self, name: str, words: str) -> NoReturn:
        raise BadRequest(f"{self._where}{name}: expected {words}")


def part(document: Document, name: str, *data_types: str) -> Document:
    """An object in an object."""
    if not document.has(name):
        document.refuse_missing(name)
    return Document(document.fields[name], *data_types, where=f"{document.where}{name}.")


def parse_moment(text: str) -> datetime | None:
    """ISO 8601, or with a blank for the T, or a date alone; UTC when no zone is said. None if it is no time."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_id(text: str, refusal: Exception) -> uuid.UUID:
    """The id in a path or a query. Raises `refusal` for text that is no UUID: often that of an unknown id."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise refusal from None


@overload
def query_number(query: QueryDict, name: str, default: int, *, most: int, least: int = 0) -> int: ...
@overload
def query_number(query: QueryDict, name: str, default: None, *, most: int, least: int = 0) -> int | None: ...
def query_number(query: QueryDict, name: str, default: int | None, *, most: int, least: int = 0) -> int | None:
    """A whole number of the query; below `least` it is `least`, and above `most` it is `most`."""
    text = query.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BadRequest(f"{name}: expected a whole number from {least} to {most}")
    return max(least, min(int(text), most))


def query_limit(query: QueryDict, default: int, most: int) -> int:
    """How many rows of a list the client asks for: at least one, or a page could not say where the next one begins."""
    return query_number(query, "limit", default, most=most, least=1)


def query_page(query: QueryDict, default: int, most: int, furthest: int) -> tuple[int, int]:
    """The limit and the offset that the client asks for."""
    return query_limit(query, default, most), query_number(query, "offset", 0, most=furthest)


def query_paths(request: Request, name: str) -> list[str]:
    """The values of a parameter that holds names of files: octets that are no UTF-8 become lone surrogates."""
    pairs = parse_qsl(request.META.get("QUERY_STRING", ""), encoding="latin-1")
    return [value.encode("latin-1").decode("utf-8", "surrogateescape") for key, value in pairs if key == name]
