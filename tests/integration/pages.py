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

    def post(self, path: str, **fields: str) -> HttpResponseBase:
        """Send the form of the page that was seen last: with its CSRF token and nothing else of it."""
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.page)
        token = {"csrfmiddlewaretoken": found[1]} if found else {}
        return self._see(self.client.post(path, {**token, **fields}))

    def sign_in(self, user: User, password: str = PASSWORD, after: str = "") -> HttpResponseBase:
        self.get("/signin")
        return self.post("/signin", username=user.username, password=password, next=after)

    @property
    def text(self) -> str:
        """What can be read on the page."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.page)).split())

    def _see(self, answer: HttpResponseBase) -> HttpResponseBase:
        """What a redirect leaves on the screen is the page before."""
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
    assert "script-src" not in policy
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

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        assert tag not in ("script", "style", "iframe", "object"), tag
        assert not any(name == "style" or name.startswith("on") for name in names), names
        for name in ("href", "src", "action"):
            assert not (names.get(name) or "").lower().startswith(("javascript:", "data:"))
        if tag == "label":
            self.labelled.add(names.get("for") or "")
        if tag in ("input", "select") and names.get("type") != "hidden":
            assert names.get("id") in self.labelled, names
        if tag == "form" and names.get("method") != "post":
            raise AssertionError("every form of ours changes something")
