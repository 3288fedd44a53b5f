"""The components of the pages in a real browser: they fit into every width, also with the long words of German."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import translation

from tests.chromium import Chromium
from tests.journeys.test_browser import browser, check_page
from webui import assets, style

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(120)
#: Texts of buttons that are cut off, and fields that are too narrow to be typed into.
CUT = """return [...document.querySelectorAll("main button, main a.button, main input:not([type=hidden])")]
    .filter(one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().width < 24)
    .map(one => `${one.textContent || one.id} ${one.clientWidth}`)"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_components_fit_and_can_be_read_with_long_words(browser: Chromium, tmp_path: Path, language: str) -> None:
    """The page of components is made here, because services show it in a debug run only."""
    browser.open(_page(tmp_path, language).as_uri())
    check_page(browser)
    browser.resize(320)
    assert browser.run(CUT) == []
    assert browser.run("return document.querySelector('#long-3').clientWidth") > 200


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
