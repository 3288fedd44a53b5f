"""The icons of the pages: own drawings on a grid of 24, as lines of the colour of the text around them."""

from __future__ import annotations

import re
from functools import cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from .assets import FOLDER


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
