"""The pages of pysaml2's identity provider: a request of this service is answered when a person presses the button."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.identity_providers.lying_saml import encoded
from tests.identity_providers.pysaml2_idp import Pysaml2Idp

#: The person at the browser.
DAVE = {"eduPersonPrincipalName": "dave@example.edu", "displayName": "Dave Bowman", "mail": "dave@example.edu"}
_PAGE = """<!doctype html><meta charset=utf-8><title>University</title><main><h1>University</h1>
<form method="post" action="{place}"><input type="hidden" name="SAMLResponse" value="{answer}">
<input type="hidden" name="RelayState" value="{state}"><button id="go">Continue as Dave</button></form></main>"""


@contextmanager
def institution_site(folder: Path) -> Iterator[Pysaml2Idp]:
    """The provider, whose metadata name an address on 127.0.0.1. After `learn` it answers requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            body = b"" if "SAMLRequest" not in query else self._page(query).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _page(self, query: dict[str, str]) -> str:
            answer = encoded(idp.answer(query, DAVE, sign_assertion=True, sign_response=True))
            return _PAGE.format(
                place=escape(idp.place), answer=escape(answer), state=escape(query.get("RelayState", ""))
            )

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Not to the output of the tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        idp = Pysaml2Idp(folder, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield idp
        finally:
            server.shutdown()
            thread.join(60)
