"""A page with every component of the pages, in a debug run only: what is built twice is missing here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from . import assets
from .page import show
from .states import SHOWN

#: Names that endpoints may have, and that must not change the page.
NAMES = (
    "plain name.txt",
    "<img src=x onerror=alert(1)>",
    "photo\u202egnp.exe",
    "line\nend\ttab",
    "caf\udce9",
)


@require_safe
def style(request: HttpRequest) -> HttpResponse:
    context = {
        "title": "Components",
        "icons": sorted(assets.drawings()),
        "states": SHOWN.values(),
        "names": NAMES,
        "now": timezone.now(),
        "sizes": (0, 1023, 1536, 5 * 2**30),
        "spans": (0.4, 59, 3661, 200_000),
    }
    return show(request, "style.html", context)
