"""Brings the database of a home up to date: tables, the sample endpoints, a user, a token and a client.

    python -m deploy.stack.prepare HOME ep1=PORT ep2=PORT ssh=PORT

A second run changes only what is missing or has moved. Writes HOME/prepared.json, HOME/token and HOME/client.json.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

from .fingerprint import migrations_fingerprint
from .home import RELAY, SSH, Home, write_private

OWNER = "go"
USER = "demo"
#: The name of its token, key and application.
LABEL = "make up"


def main(argv: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    django.setup()
    from django.core.management import call_command

    from transferapi.schema_version import check_or_exit

    home = Home(Path(argv[0]))
    ports = {name: int(port) for name, _, port in (word.partition("=") for word in argv[1:])}
    call_command("migrate", interactive=False, verbosity=1)
    check_or_exit()
    print(f"The sample endpoints of {OWNER}, and the ways to sign in of {USER}", flush=True)
    ids = {f"{OWNER}#{name}": _endpoint(name, port) for name, port in ports.items() if name not in (SSH, RELAY)}
    _token(home)
    _client(home)
    _password(home)
    _ssh_key(home)
    home.write_json(
        home.prepared,
        {"fingerprint": migrations_fingerprint(), "username": USER, "endpoints": ids, "ports": ports},
    )


def _endpoint(name: str, port: int) -> str:
    """Create the endpoint, or change the port of the existing one; returns its id."""
    from endpoints import registry
    from endpoints.models import Endpoint
    from identity.models import User

    owner, _ = User.objects.get_or_create(username=OWNER)
    spec = registry.ServerSpec("127.0.0.1", port, "ftp")
    found = Endpoint.objects.filter(owner=owner, name=name, deleted_at__isnull=True).first()
    if found is None:
        fields = {"name": name, "display_name": f"Waybill sample endpoint {name}", "public": True}
        fields["allow_guest_collections"] = True
        return str(registry.create(owner, fields, [spec]).id)
    if [server.port for server in registry.servers(found)] != [port]:
        found.servers.all().delete()
        registry.add_server(owner, str(found.id), spec)
    return str(found.id)


def _token(home: Home) -> None:
    """Keep a token that is still valid, or create one; it replaces those whose file was lost."""
    from identity import tokens
    from identity.models import User

    user, _ = User.objects.get_or_create(username=USER)
    token = home.read_token()
    if token is None or tokens.authenticate(token) != user:
        for lost in tokens.of(user):
            if lost.label == LABEL:
                tokens.revoke_own(user, lost.pk)
        write_private(home.token, tokens.issue(user, LABEL) + "\n")


def _password(home: Home) -> None:
    """Create a password where there is none; one that the user has changed since stays."""
    from identity import password_sign_in
    from identity.models import User

    user = User.objects.get(username=USER)
    if home.read_password() is None or not user.has_usable_password():
        password = password_sign_in.random_password()
        password_sign_in.set_password(user, password)
        write_private(home.password, password.value + "\n")


def _ssh_key(home: Home) -> None:
    """Keep the key of the ssh shell if the user still has it, or create one."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    from identity import ssh_keys, ssh_public_keys
    from identity.models import User
    from transferapi.shell.server.host_key import new_private_key

    private = home.ssh_key.read_bytes() if home.ssh_key.exists() else new_private_key()
    key = load_ssh_private_key(private, None).public_key()
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    if ssh_keys.find(USER, ssh_public_keys.parse(line).blob) is None:
        ssh_keys.add(User.objects.get(username=USER), line, LABEL)
    write_private(home.ssh_key, private.decode())


def _client(home: Home) -> None:
    """Keep the user's application if its secret is still valid, or create one."""
    from identity.models import User
    from identity.provider import applications, clients

    user = User.objects.get(username=USER)
    kept = home.read_json(home.client)
    found = clients.authenticate(str(kept.get("id", "")), str(kept.get("secret", "")))
    if found is None or found.user != user:
        application, secret = applications.make(user, applications.ApplicationSpec(LABEL))
        assert secret is not None
        home.write_json(home.client, {"id": application.client_id, "secret": secret.value})


if __name__ == "__main__":
    main(sys.argv[1:])
