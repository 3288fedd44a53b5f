"""JSON and XML, in and out, on the same routes, chosen by Accept, Content-Type and `?format=`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from endpoints.error_meanings import RequestTooLarge

from . import json_documents, xml_documents
from .parsing import MAX_VALUES, body


class LeanJSONRenderer(BaseRenderer):
    """Renders JSON by the standard library, in ASCII."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else json_documents.dumps(data)

    def parts(self, data: Any) -> Iterator[bytes]:
        """A long document, some rows at a time."""
        return json_documents.parts(data)


class XMLRenderer(BaseRenderer):
    media_type = "application/xml"
    format = "xml"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        status = (renderer_context or {})["response"].status_code
        return b"" if data is None else xml_documents.dumps(data, "error" if status >= 400 else "document")

    def parts(self, data: Any) -> Iterator[bytes]:
        return xml_documents.parts(data)


class TextXMLRenderer(XMLRenderer):
    """The same format under its older name."""

    media_type = "text/xml"


class XMLParser(BaseParser):
    """Parses XML by the schema that `description.operation` sets on the method, with the same bounds as JSON."""

    media_type = "application/xml"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        data = body(stream, parser_context)
        if data.count(b"<") + data.count(b"=") > MAX_VALUES:
            raise RequestTooLarge(f"A document has at most {MAX_VALUES} values")
        method = getattr(parser_context["view"], parser_context["request"].method.lower(), None)
        try:
            return xml_documents.loads(data, getattr(method, "body_schema", {}))
        except xml_documents.XMLError as error:
            raise ParseError(f"XML parse error: {error}") from None


class TextXMLParser(XMLParser):
    """The same format under its older name."""

    media_type = "text/xml"


class Negotiation(DefaultContentNegotiation):
    """A client that accepts HTML is a browser. It accepts XML too, but shows it without style: it gets JSON."""

    def get_accept_list(self, request: Request) -> list[str]:
        accepted: list[str] = super().get_accept_list(request)
        if not any(one.startswith("text/html") for one in accepted):
            return accepted
        return [one for one in accepted if not one.startswith(("application/xml", "text/xml"))]


class FirstRenderer(DefaultContentNegotiation):
    """Takes the first renderer, whatever the client accepts: the view answers in one form only, or its errors do."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], str(renderers[0].media_type)


RENDERERS = (LeanJSONRenderer, XMLRenderer, TextXMLRenderer)
