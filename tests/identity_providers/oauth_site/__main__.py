"""`python -m tests.identity_providers.oauth_site PORT CERTIFICATE KEY`; the rest is in OAUTH_SITE... variables."""

from __future__ import annotations

import json
import os
import ssl
import sys
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.identity_providers.oauth_site.settings"


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "HTTPS": "on", "wsgi.url_scheme": "https"}


def populate(wanted: dict[str, Any]) -> None:
    """One user, and one application for each client."""
    from django.contrib.auth import get_user_model
    from oauth2_provider.models import get_application_model

    user = get_user_model().objects.create_user(wanted["username"], password=wanted["password"])
    for identifier, secret in wanted["clients"].items():
        get_application_model().objects.create(
            name=identifier,
            client_id=identifier,
            client_secret=secret,
            client_type="confidential" if secret else "public",
            authorization_grant_type="authorization-code",
            redirect_uris=wanted["redirect_uri"],
            user=user,
        )


def main(port: str, certificate: str, key: str) -> None:
    application = get_wsgi_application()
    django.setup()
    call_command("migrate", verbosity=0)
    populate(json.loads(os.environ["OAUTH_SITE"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with make_server("127.0.0.1", int(port), application, Server, Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
