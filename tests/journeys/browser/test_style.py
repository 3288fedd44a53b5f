"""The components of the pages in a real browser: they fit into every width, also with the long words of German."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import translation

from tests.browsers.chromium import TAB, Chromium
from tests.journeys.browser.test_pages import browser, check_page
from webui import assets, style

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(120)
#: Texts of buttons that are cut off, and fields that are too narrow to be typed into.
CUT = """return [...document.querySelectorAll("main button, main a.button, main input:not([type=hidden])")]
    .filter(one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().width < 24)
    .map(one => `${one.textContent || one.id} ${one.clientWidth}`)"""

#: The element with the focus, and whether one of nine points of it is on top.
FOCUSED = """
const one = document.activeElement, box = one.getBoundingClientRect();
const shown = [0.1, 0.5, 0.9].some(x => [0.1, 0.5, 0.9].some(y => {
    const top = document.elementFromPoint(box.left + x * box.width, box.top + y * box.height);
    return top && (one.contains(top) || top.contains(one));
}));
return [one.tagName === "BODY" ? "BODY" : one.outerHTML.slice(0, 120), shown];
"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_components_fit_and_can_be_read_with_long_words(browser: Chromium, tmp_path: Path, language: str) -> None:
    """The page of components is made here, because services show it in a debug run only."""
    browser.open(_page(tmp_path, language).as_uri())
    check_page(browser)
    browser.resize(320)
    assert browser.run(CUT) == []
    assert browser.run("return document.querySelector('#long-3').clientWidth") > 200


def test_the_part_with_the_focus_is_never_hidden(browser: Chromium, tmp_path: Path) -> None:
    """WCAG 2.2, 2.4.11: by keyboard through all components, forwards, in a low and narrow window."""
    browser.resize(320)
    browser.open(_page(tmp_path, "de").as_uri())
    seen = set()
    for _ in range(60):
        browser.press(TAB)
        name, shown = browser.run(FOCUSED)
        if name == "BODY":
            break
        assert shown, name
        seen.add(name)
    assert len(seen) > 15


def _page(folder: Path, language: str) -> Path:
    request = RequestFactory().get("/style")
    request.user = AnonymousUser()
    with translation.override(language):
        text = style.style(request).content.decode()
    (folder / "waybill.css").write_bytes(assets.all_assets()["waybill.css"].content)
    text = text.replace(assets.address("waybill.css"), "waybill.css")
    # A browser loads no modules from files; pictures have addresses of the service.
    text = re.sub(r"<script type=\"module\".*?</script>|<img[^>]*>|<link rel=\"icon\"[^>]*>", "", text)
    page = folder / "style.html"
    page.write_text(text)
    return page
