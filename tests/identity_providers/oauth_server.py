"""The tests' OAuth server as a child process, and a user with a browser in front of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from tests.gridftp.authority import Authority
from transferapi.config import CHECKOUT

#: The identifier of a client that has a secret.
CONFIDENTIAL = "oa4mp:/client_id/waybill"
START_SECONDS = 60
BROWSER_SECONDS = 20


class OAuthSite:
    """An OAuth server on 127.0.0.1 that signs certificates as `authority`. clients: identifier -> secret, or ""."""

    def __init__(self, folder: Path, authority: Authority, *, redirect_uri: str, clients: Mapping[str, str]) -> None:
        self.folder = folder
        self.authority = authority
        self.redirect_uri = redirect_uri
        self.clients = dict(clients)
        self.username = "alice"
        self.password = secrets.token_urlsafe(16)
        self.port = 0
        self.log = folder / "oauth.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/oauth2"

    def start(self) -> None:
        self.port = free_port()
        host = self.authority.issue_host(["localhost", "127.0.0.1"], to=self.folder)
        for source, name in ((self.authority.ca_certificate, "ca.pem"), (self.authority.ca_key, "ca.key")):
            (self.folder / name).write_bytes(source.read_bytes())
        wanted = {
            "username": self.username,
            "password": self.password,
            "redirect_uri": self.redirect_uri,
            "clients": self.clients,
        }
        more = {"OAUTH_SITE_FOLDER": str(self.folder), "OAUTH_SITE_ISSUER": self.url, "OAUTH_SITE": json.dumps(wanted)}
        env = {**os.environ, **more}
        env.pop("DJANGO_SETTINGS_MODULE", None)
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "tests.identity_providers.oauth_site",
            str(self.port),
            host.certificate,
            host.key,
        ]
        self._process = spawn(command, log=self.log, env=env, cwd=CHECKOUT)
        wait_ready("oauth site", self._process, self._answers, timeout=START_SECONDS, log=self.log)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            Browser(self.authority).get(f"https://127.0.0.1:{self.port}/login")
            return True
        return False

    def stop(self) -> None:
        if self._process:
            stop(self._process)
            self._process = None

    def consent(self, url: str, *, allow: bool = True) -> str:
        """Log in and press the button, as a user does. Return the address of the last redirect."""
        browser = Browser(self.authority)
        page = browser.get(url)
        page = browser.post(page, {"username": self.username, "password": self.password})
        return browser.post(page, {"allow": "Authorize"} if allow else {}).url

    def __enter__(self) -> OAuthSite:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Page:
    """A page, or where a redirect leads that the browser did not follow (to Waybill, which does not run here)."""

    def __init__(self, url: str, text: str) -> None:
        self.url = url
        self.text = text

    def hidden_fields(self) -> dict[str, str]:
        """Names and values of <input type="hidden">."""
        found = {}
        for tag in re.findall(r"<input[^>]*>", self.text):
            attributes = {name: unescape(value) for name, value in re.findall(r'([a-z]+)="([^"]*)"', tag)}
            if attributes.get("type") == "hidden" and "name" in attributes:
                found[attributes["name"]] = attributes.get("value", "")
        return found


class Browser:
    """Keeps cookies, trusts the authority, follows redirects as far as they stay on https://."""

    def __init__(self, authority: Authority) -> None:
        context = ssl.create_default_context(cafile=str(authority.ca_certificate))
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        https = urllib.request.HTTPSHandler(context=context)
        nothing = urllib.request.ProxyHandler({})
        self._opener = urllib.request.build_opener(https, cookies, _NoRedirect(), nothing)

    def get(self, url: str) -> Page:
        return self._open(url, None, url)

    def post(self, page: Page, fields: Mapping[str, str]) -> Page:
        """Fill the page's form in and send it."""
        return self._open(page.url, urlencode({**page.hidden_fields(), **fields}).encode(), page.url)

    def _open(self, url: str, body: bytes | None, referer: str) -> Page:
        for _ in range(10):
            request = urllib.request.Request(url, body, {"Referer": referer})
            with self._opener.open(request, timeout=BROWSER_SECONDS) as response:
                location = response.headers.get("Location")
                if location is None:
                    return Page(url, response.read().decode())
            url, body = urljoin(url, location), None
            if not url.startswith("https://"):
                return Page(url, "")
        raise AssertionError("a loop of redirects")


class _NoRedirect(urllib.request.HTTPErrorProcessor):
    """Redirects are answers like others here; errors stay errors."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response if 300 <= response.status < 400 else super().http_response(request, response)

    https_response = http_response
