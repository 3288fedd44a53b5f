"""Canaille, an OpenID provider that others wrote: it runs in an environment of its own, on 127.0.0.1 without TLS.

`tests/clients/install.sh .clients` installs it; tests that use it carry `@pytest.mark.real_clients`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from tests.identity_providers.lying_openid import rsa_key
from tests.real_clients import FOLDER, environment

PYTHON = FOLDER / "canaille" / "bin" / "python"
CLIENT, SECRET = "waybill", "the-secret-of-this-client"
PASSWORD = "a good password of theirs"

#: Runs in Canaille's environment. Its only argument is a document of what it shall know.
_PROGRAM = """
import json, sys
from pathlib import Path
from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from werkzeug.serving import make_server

given = json.loads(sys.argv[1])
app = create_app(
    config={
        "SECRET_KEY": given["secret_key"],
        "SERVER_NAME": f"127.0.0.1:{given['port']}",
        "PREFERRED_URL_SCHEME": "http",
        "CANAILLE": {"DATABASE": "memory"},
        "CANAILLE_OIDC": {"ACTIVE_JWKS": given["keys"], "REQUIRE_NONCE": True},
    },
)
with app.app_context():
    for name in given["people"]:
        person = models.User(
            user_name=name, password=given["password"], emails=[f"{name}@lab.example.org"], given_name=name.title(),
            family_name="Liddell", formatted_name=f"{name.title()} Liddell",
        )
        Backend.instance.save(person)
    client = models.Client(
        client_id=given["client"], client_secret=given["secret"], client_name="Waybill",
        redirect_uris=[given["callback"]], grant_types=["authorization_code"], response_types=["code"],
        token_endpoint_auth_method="client_secret_basic", scope=["openid", "profile", "email"],
    )
    Backend.instance.save(client)
    # As its page for new clients does it: the audience of the identity tokens.
    client.audience = [client]
    Backend.instance.save(client)
server = make_server("127.0.0.1", given["port"], app, threaded=True)
Path(given["ready"]).touch()
server.serve_forever()
"""


def installed() -> bool:
    return PYTHON.exists()


class OpenIdProvider:
    """It has an account for each of `people`, all with PASSWORD. callback: the redirect address of this service.

    folder: for its log. The names that it gives are those of the accounts.
    """

    def __init__(self, folder: Path, callback: str, people: tuple[str, ...]) -> None:
        self._folder, self._callback, self._people = folder, callback, people
        self._port = free_port()
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def line(self) -> str:
        """The line of WAYBILL_PROVIDERS."""
        return f"{self.issuer} {CLIENT} {SECRET} name=lab domain=lab.example.org label=The Lab"

    def __enter__(self) -> OpenIdProvider:
        self._starts += 1
        ready = self._folder / f"ready-{self._starts}"
        given = {
            "secret_key": "k" * 40,
            "port": self._port,
            "keys": [json.loads(rsa_key(f"key-{self._starts}").export(private_key=True))],
            "people": self._people,
            "password": PASSWORD,
            "client": CLIENT,
            "secret": SECRET,
            "callback": self._callback,
            "ready": str(ready),
        }
        words = [str(PYTHON), "-W", "ignore", "-c", _PROGRAM, json.dumps(given)]
        log = self._folder / "canaille.log"
        self._process = spawn(words, log=log, env=environment(self.issuer, self._folder), cwd=self._folder)
        wait_ready("Canaille", self._process, ready.exists, timeout=90)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

    def restart(self) -> None:
        """Start again with another key; the sessions of browsers end, and the people and their names stay."""
        self.__exit__(None, None, None)
        self.__enter__()
