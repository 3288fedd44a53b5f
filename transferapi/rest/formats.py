"""JSON and XML, in and out, on the same routes: what Accept, Content-Type and `?format=` choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from . import documents, xml_documents
from .errors import ApiError
from .parsing import MAX_VALUES, body
from .requests import REQUESTS


class LeanJSONRenderer(BaseRenderer):
    """JSON by the standard library, in ASCII."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else documents.dumps(data)

    def parts(self, data: Any) -> Iterator[bytes]:
        """A long document, some rows at a time."""
        return documents.parts(data)


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
    """The same under its older name."""

    media_type = "text/xml"


class XMLParser(BaseParser):
    """XML by the schema of the document that the route takes, bounded as JSON is."""

    media_type = "application/xml"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        data = body(stream, parser_context)
        if data.count(b"<") + data.count(b"=") > MAX_VALUES:
            raise ApiError(413, "ClientError.RequestTooLarge", f"A document has at most {MAX_VALUES} values")
        method = getattr(parser_context["view"], parser_context["request"].method.lower(), None)
        schema = REQUESTS.get(getattr(method, "document", None) or "", {})
        try:
            return xml_documents.loads(data, schema)
        except xml_documents.XMLError as error:
            raise ParseError(f"XML parse error: {error}") from None


class TextXMLParser(XMLParser):
    """The same under its older name."""

    media_type = "text/xml"


class Negotiation(DefaultContentNegotiation):
    """What accepts pages is a browser: it names XML besides, which it shows bare, and is better off with JSON."""

    def get_accept_list(self, request: Request) -> list[str]:
        accepted: list[str] = super().get_accept_list(request)
        if not any(one.startswith("text/html") for one in accepted):
            return accepted
        return [one for one in accepted if not one.startswith(("application/xml", "text/xml"))]


RENDERERS = (LeanJSONRenderer, XMLRenderer, TextXMLRenderer)
