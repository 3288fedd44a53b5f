"""A real browser, driven through WebDriver (W3C), with the standard library only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from deploy.stack.free_ports import free_port
from tests.waiting import eventually

DRIVER = "chromedriver"
#: The key of an element in the WebDriver protocol.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, TAB = "\ue007", "\ue004"
_OPTIONS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def installed() -> bool:
    return shutil.which(DRIVER) is not None


class Chromium:
    """One window. `with Chromium(folder) as browser: browser.open(address)`

    home: its home folder, with certificates of its own (`client_certificates`); None for that of the account.
    """

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self._folder = folder
        self._environ = dict(os.environ) if home is None else {**os.environ, "HOME": str(home)}
        self._port = free_port()
        self._session = ""

    def __enter__(self) -> Chromium:
        self._driver = subprocess.Popen(
            [DRIVER, f"--port={self._port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=self._environ,
        )
        try:
            eventually(self._is_ready)
            options = {"args": [*_OPTIONS, f"--user-data-dir={self._folder / 'profile'}"]}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{made['sessionId']}"
            self._hide_scrollbars()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._stop()

    def renew(self) -> None:
        """Become as it was at the start: one window, with nothing that pages have stored or tests have set."""
        window = self._call("POST", f"{self._session}/window/new", {"type": "tab"})["handle"]
        for handle in self.windows:
            if handle != window:
                self._call("POST", f"{self._session}/window", {"handle": handle})
                self._call("DELETE", f"{self._session}/window")
        self._call("POST", f"{self._session}/window", {"handle": window})
        self._devtools("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        self._devtools("Network.clearBrowserCookies", {})
        self._devtools("Network.clearBrowserCache", {})
        self._hide_scrollbars()
        self.complaints()

    def open(self, address: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": address})

    @property
    def windows(self) -> list[str]:
        return list(self._call("GET", f"{self._session}/window/handles"))

    @property
    def address(self) -> str:
        return str(self._call("GET", f"{self._session}/url"))

    def find(self, css: str) -> str:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": css})
        return f"{self._session}/element/{found[ELEMENT]}"

    def type(self, css: str, text: str) -> None:
        self._call("POST", f"{self.find(css)}/value", {"text": text})

    def click(self, css: str) -> None:
        self._call("POST", f"{self.find(css)}/click", {})

    def text(self, css: str = "body") -> str:
        return str(self._call("GET", f"{self.find(css)}/text"))

    def shows(self, words: str) -> bool:
        """Whether the page shows these words now; False while the next page is loading."""
        try:
            return words in str(self.run("return document.querySelector('main')?.innerText"))
        except AssertionError:
            return False

    def run(self, script: str) -> Any:
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def run_until_done(self, script: str) -> Any:
        """Run a script that calls its last argument with its result."""
        return self._call("POST", f"{self._session}/execute/async", {"script": script, "args": []})

    def press(self, keys: str) -> None:
        """Type keys, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.perform([{"type": "key", "id": "keys", "actions": actions}])

    def perform(self, sources: Sequence[dict[str, Any]]) -> None:
        """Let keys, pointers and wheels act, each with its list of actions (WebDriver, section 15)."""
        self._call("POST", f"{self._session}/actions", {"actions": list(sources)})

    def scripts(self, *, enabled: bool) -> None:
        """Whether pages that are opened from now on may run scripts."""
        self._devtools("Emulation.setScriptExecutionDisabled", {"value": not enabled})

    def network(self, *, offline: bool) -> None:
        """Cut the connection of the pages, or bring it back."""
        self._devtools("Network.enable", {})
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self._devtools("Network.emulateNetworkConditions", {"offline": offline, **speed})

    def resize(self, width: int) -> None:
        """Also below what a window has at least."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", screen)

    def prefer(self, scheme: str) -> None:
        """light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})

    def authenticator(self, *, verifies: bool = True) -> str:
        """Plug in a virtual authenticator (DevTools, domain WebAuthn) that keeps passkeys; returns its id.

        verifies: whether its user enters the PIN, or shows the finger, when asked.
        """
        self._devtools("WebAuthn.enable", {"enableUI": False})
        options = {
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
            "isUserVerified": verifies, "automaticPresenceSimulation": True,
        }  # fmt: skip
        return str(self._devtools("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"])

    def credentials(self, authenticator: str) -> list[dict[str, Any]]:
        """The passkeys in a virtual authenticator, with their private keys."""
        found = self._devtools("WebAuthn.getCredentials", {"authenticatorId": authenticator})
        return list(found["credentials"])

    def unplug(self, authenticator: str) -> None:
        self._devtools("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": authenticator})

    def picture(self) -> bytes:
        """The whole page as it looks now, as PNG."""
        found = self._devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        return b64decode(found["data"])

    def complaints(self) -> list[str]:
        """Return the console messages since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [str(entry["message"]) for entry in entries]

    def _hide_scrollbars(self) -> None:
        self._devtools("Emulation.setScrollbarsHidden", {"hidden": True})

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _is_ready(self) -> bool:
        try:
            return bool(self._call("GET", "/status")["ready"])
        except OSError:
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read(2000).decode(errors="replace")) from None

    def _stop(self) -> None:
        self._driver.terminate()
        self._driver.wait(20)
