"""The files that pages load. A name holds a digest of the content, so that browsers may keep a file for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

FOLDER = Path(__file__).parent / "assets"
_TYPES = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"
#: A drawing may hold styles; opened by itself it must not do more.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Asset:
    served_as: str
    content: bytes
    content_type: str


@cache
def all_assets() -> dict[str, Asset]:
    """By file name; read once."""
    found = {}
    for path in FOLDER.iterdir():
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        found[path.name] = Asset(f"{path.stem}.{digest}{path.suffix}", content, _TYPES[path.suffix])
    return found


def address(name: str) -> str:
    return f"/static/webui/{all_assets()[name].served_as}"


@require_safe
def serve(request: HttpRequest, name: str) -> HttpResponse:
    """A file by its name with the digest; names of other versions are 404, and are asked for by no page."""
    for asset in all_assets().values():
        if asset.served_as == name:
            answer = HttpResponse(asset.content, content_type=asset.content_type)
            answer["Cache-Control"] = _FOR_EVER
            answer["Content-Security-Policy"] = _POLICY
            return answer
    raise Http404
