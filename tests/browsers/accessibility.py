"""axe-core in a real browser: the faults that it finds on a page, and targets that are too small to be hit."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.browsers.chromium import Chromium
from tests.real_clients import FOLDER

#: Of the package axe-core of npm, which `tests/clients/install.sh .clients` unpacks.
AXE = FOLDER / "axe" / "package" / "axe.min.js"

#: The rules of WCAG 2.2 that axe knows, at levels A and AA, and good practice; 2.5.8 is off in axe unless asked for.
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_RUN = """
const done = arguments[arguments.length - 1];
const rules = {"target-size": {enabled: true}}, preload = location.protocol !== "file:";
axe.run(document, {runOnly: {type: "tag", values: %s}, rules, preload, resultTypes: ["violations"]}).then(
    found => done(found.violations.map(one => [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])),
    error => done([["axe failed", [String(error)]]]));
"""
#: WCAG 2.2, 2.5.8: 24 by 24 pixels, or lower where nothing else is as near; links in sentences are exempt.
_SMALL = """
return [...document.querySelectorAll("button, select, input:not([type=hidden]), summary, .pages a, .chip[href]")]
    .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.closest(".unseen"))
    .map(one => [one.getBoundingClientRect(), one])
    .filter(([box]) => box.width > 1 && (box.width < 24 || box.height < 18))
    .filter(([, one]) => !["checkbox", "radio"].includes(one.type))
    .map(([box, one]) => `${one.outerHTML.slice(0, 120)} ${box.width}x${box.height}`);
"""


def faults(browser: Chromium) -> list[Any]:
    """The faults of the page that the browser shows now, as it shows it."""
    # The policy of the pages forbids scripts of others: the driver puts axe into the page itself.
    browser.run(_axe())
    found: list[Any] = browser.run_until_done(_RUN % list(_TAGS))
    return found + [["target too small", one] for one in browser.run(_SMALL)]


@cache
def _axe() -> str:
    return AXE.read_text()
