"""The pages as a browser sees them: cookies are kept, forms are sent with their CSRF token."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from django.http import HttpResponseBase
from django.test import Client

from identity.models import User

PASSWORD = "correct horse battery"


class Browser:
    """A client that holds a page to what pages have to have."""

    def __init__(self, **environ: Any) -> None:
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False, **environ)
        self.page = ""

    def get(self, path: str) -> HttpResponseBase:
        return self._see(self.client.get(path))

    def post(self, path: str, /, **fields: str) -> HttpResponseBase:
        """Send the form of the page that was seen last: with its CSRF token and nothing else of it."""
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.page)
        token = {"csrfmiddlewaretoken": found[1]} if found else {}
        return self._see(self.client.post(path, {**token, **fields}))

    def sign_in(self, user: User, password: str = PASSWORD, after: str = "") -> HttpResponseBase:
        self.get("/signin")
        return self.post("/signin", username=user.username, password=password, next=after)

    @property
    def text(self) -> str:
        """The visible text of the page."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.page)).split())

    def _see(self, answer: HttpResponseBase) -> HttpResponseBase:
        """Show and check the page of an answer; after a redirect, the page before stays visible."""
        content = getattr(answer, "content", b"").decode()
        if content and answer.headers["Content-Type"].startswith("text/html"):
            self.page = content
            _check_headers(answer)
            _Checker().feed(content)
        return answer


def _check_headers(answer: HttpResponseBase) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] in ("same-origin", "no-referrer")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


class _Checker(HTMLParser):
    """Nothing inline, and every field of a form has its label."""

    def __init__(self) -> None:
        super().__init__()
        self.labelled: set[str] = set()
        self.in_label = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        assert tag not in ("style", "iframe", "object"), tag
        if tag == "script" and names.get("type") != "application/json":
            assert (names.get("type"), (names.get("src") or "")[:14]) == ("module", "/static/webui/"), names
        assert not any(name == "style" or name.startswith("on") for name in names), names
        for name in ("href", "src", "action"):
            assert not (names.get(name) or "").lower().startswith(("javascript:", "data:"))
        if tag == "label":
            self.labelled.add(names.get("for") or "")
            self.in_label = True
        if tag in ("input", "select") and names.get("type") != "hidden":
            assert self.in_label or names.get("id") in self.labelled or names.get("aria-label"), names
        if tag == "form":
            assert names.get("method") == "post" or names.get("role") == "search", (
                "a form changes something or searches"
            )

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self.in_label = False
