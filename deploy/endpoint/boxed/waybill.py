"""The requests of a box to the service, over REST v0.10: identity, registration, changes, removal."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deploy.endpoint.boxed.errors import BoxError

from .errors import WaybillError
from .settings import BoxSettings

SECONDS = 30
#: The most characters of a token, and octets of an answer; more is a mistake.
MAX_TOKEN, MAX_ANSWER = 4096, 1 << 20


def read_token(path: Path) -> str:
    """The token in a file of the administrator. Raises BoxError."""
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN + 1).decode("ascii").strip()
    except OSError as error:
        raise BoxError(f"--token-file: {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BoxError(f"--token-file: {path} does not hold a token") from None
    if not token or len(token) > MAX_TOKEN or any(not letter.isprintable() or letter == " " for letter in token):
        raise BoxError(f"--token-file: {path} does not hold a token: one line, as `waybill token NAME` prints it")
    return token


class Waybill:
    """The service at `url`, as the user of this token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._token = token

    def call(self, method: str, path: str, document: object = None) -> Any:
        """Raises WaybillError with the service's own message."""
        body = None if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        # Settings allow http and https only.
        request = urllib.request.Request(f"{self.url}/v0.10{path}", body, headers, method=method)  # noqa: S310
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS) as response:
                return json.loads(response.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            raise WaybillError(f"{self.url}: {_words(error)}", error.code) from None
        except (OSError, HTTPException) as error:
            raise WaybillError(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None
        except ValueError:
            raise WaybillError(f"{self.url} does not answer as Waybill does: is the address right?") from None

    def check(self) -> None:
        """Check that the service answers and accepts our token. Raises WaybillError."""
        self.call("GET", "/task_list?limit=1")

    def find(self, reference: str) -> dict[str, Any] | None:
        """Find the endpoint by id, or by the name of one of the user's own endpoints."""
        try:
            found: dict[str, Any] = self.call("GET", f"/endpoint/{quote(reference, safe='')}")
        except WaybillError as error:
            if error.status == 404:
                return None
            raise
        return found

    def register(self, settings: BoxSettings, before: BoxSettings | None) -> tuple[str, bool]:
        """Register the endpoint as it is; returns its id, and whether anything had to be changed.

        It is found by its id, or by its name where a setup was interrupted before it wrote the id.
        """
        if settings.endpoint_id and (found := self.find(settings.endpoint_id)):
            return settings.endpoint_id, self._update(found, settings, before or settings)
        if found := self.find(settings.name):
            if not _matching(found["DATA"], settings):
                raise WaybillError(
                    f"you have an endpoint {settings.name} with other servers already: choose another --name, "
                    "or delete that one",
                    409,
                )
            return str(found["id"]), self._update(found, settings, settings)
        return str(self.call("POST", "/endpoint", _document(settings) | {"DATA": [_server(settings)]})["id"]), True

    def _update(self, found: dict[str, Any], settings: BoxSettings, before: BoxSettings) -> bool:
        """Change the fields that a box sets. Names, texts and further servers stay as their owner made them."""
        reference = f"/endpoint/{found['id']}"
        ours: dict[str, object] = {"public": settings.public, "myproxy_server": settings.myproxy_server}
        if before.name != settings.name:
            ours["name"] = settings.name
        wanted = {name: value for name, value in ours.items() if found.get(name) != value}
        if wanted:
            self.call("PUT", reference, {"DATA_TYPE": "endpoint"} | wanted)
        if _matching(found["DATA"], settings):
            return bool(wanted)
        if moved := _matching(found["DATA"], before):
            self.call("PUT", f"{reference}/server/{moved['id']}", _server(settings))
        else:
            self.call("POST", f"{reference}/server", _server(settings))
        return True

    def own(self, settings: BoxSettings) -> str:
        """The id of an endpoint of this name with this server; "" when there is none."""
        found = self.find(settings.name)
        return str(found["id"]) if found and _matching(found["DATA"], settings) else ""

    def unregister(self, endpoint_id: str) -> bool:
        """Delete it; returns whether it was still there."""
        try:
            self.call("DELETE", f"/endpoint/{endpoint_id}")
        except WaybillError as error:
            if error.status == 404:
                return False
            raise
        return True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: the token goes to the given address, and nowhere else."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _document(settings: BoxSettings) -> dict[str, Any]:
    return {
        "DATA_TYPE": "endpoint",
        "name": settings.name,
        "display_name": settings.name,
        "public": settings.public,
        "myproxy_server": settings.myproxy_server,
    }


def _server(settings: BoxSettings) -> dict[str, Any]:
    return {"DATA_TYPE": "server", "hostname": settings.host, "port": settings.port, "scheme": "gsiftp"}


def _matching(servers: list[dict[str, Any]], settings: BoxSettings) -> dict[str, Any] | None:
    """The server that has the address of these settings."""
    wanted = _server(settings)
    return next((one for one in servers if all(one.get(name) == value for name, value in wanted.items())), None)


def _words(error: urllib.error.HTTPError) -> str:
    """The service's message, with advice."""
    try:
        message = str(json.loads(error.read(MAX_ANSWER))["message"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        message = "no Waybill answers here: is the address right?"
    advice = {401: " (is the token in --token-file right, and not expired?)"}
    return f"{message} [HTTP {error.code}]{advice.get(error.code, '')}"
