"""A browser as far as signing in needs one: pages, forms and cookies, over real HTTP."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPMessage
from http.cookiejar import CookieJar
from typing import IO

SECONDS = 30


@dataclass
class Form:
    """A form of a page: where it goes, what is in it, and its buttons by their words."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, tuple[str, str] | None] = field(default_factory=dict)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.inputs: dict[str, str] = {}
        self._button: dict[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(found.get("action", "")))
        elif tag == "input":
            self.inputs[found.get("id", "")] = found.get("value", "")
            if self.forms and "name" in found:
                self.forms[-1].fields[found["name"]] = found.get("value", "")
        elif tag == "button":
            self._button = found

    def handle_data(self, data: str) -> None:
        if self._button is not None and self.forms and data.strip():
            found, self._button = self._button, None
            self.forms[-1].buttons[data.strip()] = (found["name"], found["value"]) if "name" in found else None


class _OnThisMachine(urllib.request.HTTPRedirectHandler):
    """Follows redirects to addresses of this machine only: tests reach no other."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).hostname not in ("127.0.0.1", "localhost", "::1"):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Browser:
    """One person's: it keeps its cookies. `address`, `text` and `inputs` (by id) are of the page that it shows.

    A redirect to another machine is not followed: `address` is where it leads, and there is no text.
    """

    def __init__(self) -> None:
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self._opener = urllib.request.build_opener(cookies, _OnThisMachine)
        self.address = ""
        self.text = ""
        self.forms: list[Form] = []
        self.inputs: dict[str, str] = {}

    def open(self, address: str, data: dict[str, str] | None = None) -> None:
        """Raises urllib.error.HTTPError."""
        body = None if data is None else urllib.parse.urlencode(data).encode()
        request = urllib.request.Request(urllib.parse.urljoin(self.address, address), body)
        if data is not None:
            request.add_header("Origin", "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(self.address)))
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                self.address, self.text = answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                if "Location" not in error.headers:
                    raise
                self.address, self.text = error.headers["Location"], ""
        reader = _Reader()
        reader.feed(self.text)
        self.forms, self.inputs = reader.forms, reader.inputs

    def press(self, button: str, **filled: str) -> None:
        """Send the form that has this button, with what is filled in."""
        form = next(form for form in self.forms if button in form.buttons)
        name_and_value = form.buttons[button]
        pressed = dict([name_and_value]) if name_and_value else {}
        self.open(form.action or self.address, {**form.fields, **filled, **pressed})
