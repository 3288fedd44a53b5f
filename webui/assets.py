"""Files that pages load, and icons. The names of the files hold a digest of the content: browsers keep them for ever.

The files of `assets/css/` are joined in the order of their names into one stylesheet. A module of `assets/js/` imports
others by their plain names; the served text has the names with the digest in their place. The icons are own drawings on
a grid of 24, as lines of the colour of the text around them.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

FOLDER = Path(__file__).parent / "assets"
STYLE = "waybill.css"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"
#: A drawing may hold styles. Opened as a page it must do nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: `from "./name.js"`, `import "./name.js"` and `import("./name.js")`.
_IMPORT = re.compile(r"""((?:from|import)\s*\(?\s*["'])\./([a-z0-9-]+\.js)(["'])""")


@dataclass(frozen=True, slots=True)
class Asset:
    """compressed: by gzip. The files are public and are the same for everybody, so that their size says nothing."""

    served_as: str
    content: bytes
    compressed: bytes
    content_type: str


@cache
def all_assets() -> dict[str, Asset]:
    """The files by name; read once."""
    found = {path.name: _named(path.name, path.read_bytes()) for path in sorted(FOLDER.glob("*.svg"))}
    style = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("css/*.css")))
    return {**found, STYLE: _named(STYLE, style), **{path.name: _module(path.name) for path in FOLDER.glob("js/*.js")}}


def address(name: str) -> str:
    return f"/static/webui/{all_assets()[name].served_as}"


@cache
def _module(name: str) -> Asset:
    """A module whose imports have the served names. Modules do not import each other in a circle."""
    text = (FOLDER / "js" / name).read_text()
    return _named(name, _IMPORT.sub(lambda at: f"{at[1]}./{_module(at[2]).served_as}{at[3]}", text).encode())


def _named(name: str, content: bytes) -> Asset:
    stem, suffix = name.rsplit(".", 1)
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Asset(f"{stem}.{digest}.{suffix}", content, gzip.compress(content, mtime=0), _TYPES[f".{suffix}"])


@cache
def _by_served_name() -> dict[str, Asset]:
    return {asset.served_as: asset for asset in all_assets().values()}


@require_safe
def serve(request: HttpRequest, name: str) -> HttpResponse:
    """A file by its name with the digest. A name of another version is 404; no page links to it."""
    asset = _by_served_name().get(name)
    if asset is None:
        raise Http404
    is_compressed = _takes_gzip(request.headers.get("Accept-Encoding", ""))
    answer = HttpResponse(asset.compressed if is_compressed else asset.content, content_type=asset.content_type)
    if is_compressed:
        answer["Content-Encoding"] = "gzip"
    answer["Vary"] = "Accept-Encoding"
    answer["Cache-Control"] = _FOR_EVER
    answer["Content-Security-Policy"] = _POLICY
    return answer


def _takes_gzip(header: str) -> bool:
    """Whether this Accept-Encoding names gzip, with a weight above 0 (RFC 9110, section 12.5.3)."""
    for part in header.split(","):
        coding, _, weight = part.lower().replace(" ", "").partition(";q=")
        if coding == "gzip":
            return not re.fullmatch(r"0(\.0*)?", weight)
    return False


@cache
def drawings() -> dict[str, str]:
    """Name -> the drawing, as SVG elements."""
    return dict(re.findall(r'<g id="([a-z-]+)">(.*)</g>', (FOLDER / "icons.svg").read_text()))


@cache
def svg(name: str, size: int = 20, label: str = "") -> SafeString:
    """An icon; label: its meaning, where no text beside it says it. An unknown name raises KeyError."""
    drawing = mark_safe(drawings()[name])  # noqa: S308 - a file of ours
    hidden = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="icon" width="{0}" height="{0}" viewBox="0 0 24 24" focusable="false" {1}>{2}</svg>',
        size,
        hidden,
        drawing,
    )
