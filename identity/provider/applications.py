"""Applications of a user: create, change, delete; their secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from oauth2_provider.models import Application

from identity import audit
from identity.database_rows import row_by_id
from identity.hidden import Secret, digest_of
from identity.models import ClientOptions, ClientSecret, User
from identity.networks import is_loopback
from identity.signals import account_changed

from . import clients, token_values
from .errors import ClientInvalidError, ClientNotFoundError, TooManyClientsError

MAX_APPLICATIONS = 100
MAX_SECRETS = 10
MAX_NAME = 255
MAX_SECRET_NAME = 128
MAX_REDIRECT_URIS = 20
MAX_URI = 1024
ID_TOKEN_ALGORITHMS = ("RS256", "RS512")


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """The fields of an application that its owner sets."""

    name: str
    #: A public client: it has no secret because it could not keep one (installed programs, scripts in pages).
    public: bool = False
    #: Addresses to which users return after consent; none: the application asks no users.
    redirect_uris: Sequence[str] = ()
    #: Whether each use replaces a refresh token, and a second use of an old one ends the sign-in (RFC 9700, 4.14.2).
    rotate_refresh_tokens: bool = False
    #: By which identity tokens are signed; empty: by what is known of the program.
    id_token_algorithm: str = ""


def of_user(user: User) -> list[Application]:
    """The user's own applications, the oldest first."""
    return list(Application.objects.select_related("options").filter(user=user).order_by("created", "pk"))


@transaction.atomic
def admit(client_id: str, name: str, redirect_uris: Sequence[str] = (), *, globus_page: bool = True) -> Application:
    """Admit a program that has this id compiled in, as an operator does: a public application without an owner.

    globus_page: its users may also come back to the page of Globus that shows a code. Raises ClientInvalidError.
    """
    known = clients.one_form(client_id)
    if not known:
        raise ClientInvalidError("id", "a UUID")
    if Application.objects.filter(client_id=known).exists():
        raise ClientInvalidError("id", "there is an application with this id already")
    spec = ApplicationSpec(name, public=True, redirect_uris=redirect_uris)
    application = new(client_id=known, **_fields(spec))
    ClientOptions.objects.create(application=application, globus_code_page=globus_page)
    audit.record(
        audit.What.CLIENT_ADMITTED, None, {**clients.facts(application), "redirect_uris": application.redirect_uris}
    )
    return application


@transaction.atomic
def remove(client_id: str) -> None:
    """Remove a program that the operator admitted, with its tokens. Raises ClientNotFoundError."""
    admitted = Application.objects.filter(client_id=clients.one_form(client_id), user=None)
    found = admitted.exclude(registration_source=Application.RegistrationSource.DCR).first()
    if found is None:
        raise ClientNotFoundError
    audit.record(audit.What.CLIENT_REMOVED, None, clients.facts(found))
    found.delete()


def find(user: User, client_id: str) -> Application:
    """One of the user's own applications. Raises ClientNotFoundError."""
    own = Application.objects.select_related("options").filter(user=user)
    found = own.filter(client_id=clients.one_form(client_id)).first()
    if found is None:
        raise ClientNotFoundError
    return found


@transaction.atomic
def make(user: User, spec: ApplicationSpec) -> tuple[Application, Secret | None]:
    """Create an application, with a secret unless it is public. The secret cannot be read again later.

    Raises ClientInvalidError, TooManyClientsError.
    """
    # Serialise: otherwise two concurrent requests could both pass the limit.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if Application.objects.filter(user=user).count() >= MAX_APPLICATIONS:
        raise TooManyClientsError(f"A user has at most {MAX_APPLICATIONS} applications")
    application = new(user=user, **_fields(spec))
    _keep_options(application, spec)
    secret = None if spec.public else _new_secret(application, "first")[1]
    _changed(application, "application_made")
    return application, secret


def new(**fields: Any) -> Application:
    """Save a row. Its own secret column stays empty: secrets have a table of their own."""
    application = Application(client_secret="", hash_client_secret=False, **fields)
    application.save()
    return application


def _fields(spec: ApplicationSpec) -> dict[str, Any]:
    name = line("name", spec.name, MAX_NAME)
    if len(spec.redirect_uris) > MAX_REDIRECT_URIS:
        raise ClientInvalidError("redirect_uris", f"at most {MAX_REDIRECT_URIS}")
    kind = Application.GRANT_AUTHORIZATION_CODE if spec.public else Application.GRANT_CLIENT_CREDENTIALS
    uris = [_redirect_uri(uri) for uri in spec.redirect_uris]
    return {
        "name": name,
        "client_type": Application.CLIENT_PUBLIC if spec.public else Application.CLIENT_CONFIDENTIAL,
        "authorization_grant_type": kind,
        "redirect_uris": " ".join(uris),
        "allowed_origins": " ".join(sorted({origin_of(uri) for uri in uris})),
    }


def line(field: str, text: str, most: int) -> str:
    """Raises ClientInvalidError."""
    text = text.strip()
    if not 0 < len(text) <= most or not text.isprintable():
        raise ClientInvalidError(field, f"one line of 1 to {most} characters")
    return text


def _redirect_uri(uri: str) -> str:
    """https, or http to the loopback interface (RFC 8252 section 7.3); no fragment (RFC 6749 section 3.1.2).

    Raises ClientInvalidError.
    """
    flaw = _flaw_of_uri(uri)
    if flaw:
        raise ClientInvalidError("redirect_uris", flaw)
    return uri


def _flaw_of_uri(uri: str) -> str | None:
    if not _is_one_ascii_word(uri):
        return f"an address of at most {MAX_URI} printable ASCII characters"
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return "not an address"
    if "#" in uri or "@" in parts.netloc or "*" in parts.netloc or "\\" in uri:
        return "without fragment, user name, star or backslash"
    if not parts.hostname:
        return "a whole address, with a host"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname)):
        return None
    return "https, or http on the loopback interface (127.0.0.1, [::1], localhost)"


def _is_one_ascii_word(uri: str) -> bool:
    return 0 < len(uri) <= MAX_URI and uri.isascii() and uri.isprintable() and " " not in uri


def origin_of(uri: str) -> str:
    """The origin of an http or https address, as browsers write it (RFC 6454 section 6.2): https://host[:port]."""
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _keep_options(application: Application, spec: ApplicationSpec) -> None:
    if spec.id_token_algorithm not in ("", *ID_TOKEN_ALGORITHMS):
        raise ClientInvalidError("id_token_signed_response_alg", " or ".join(ID_TOKEN_ALGORITHMS))
    row = clients.options(application)
    row.rotates_refresh_tokens = spec.rotate_refresh_tokens
    row.id_token_algorithm = spec.id_token_algorithm
    row.save()


@transaction.atomic
def change(application: Application, spec: ApplicationSpec) -> Application:
    """Change name, redirect URIs and options; a client stays public or confidential. Raises ClientInvalidError."""
    fields = _fields(spec)
    if fields["client_type"] != application.client_type:
        raise ClientInvalidError("public_client", "this does not change: make another application")
    for field, value in fields.items():
        setattr(application, field, value)
    application.save()
    _keep_options(application, spec)
    _changed(application, "application_changed")
    return application


@transaction.atomic
def delete(application: Application) -> None:
    """Delete an application with its tokens."""
    _changed(application, "application_removed")
    application.delete()


def _changed(application: Application, what: str) -> None:
    """Inform the owner, as whom an application acts by its secret. A program that registered itself has no owner."""
    if application.user is not None:
        account_changed.send(Application, user=application.user, what=what, name=application.name)


def secrets_of(application: Application) -> list[ClientSecret]:
    return list(ClientSecret.objects.filter(application=application).order_by("created_at", "pk"))


@transaction.atomic
def new_secret(application: Application, name: str) -> tuple[ClientSecret, Secret]:
    """Create another secret, which cannot be read again later. Raises ClientInvalidError, TooManyClientsError."""
    if application.client_type != Application.CLIENT_CONFIDENTIAL:
        raise ClientInvalidError("client", "a public application has no secret")
    name = line("name", name, MAX_SECRET_NAME)
    Application.objects.select_for_update(no_key=True).get(pk=application.pk)
    if ClientSecret.objects.filter(application=application).count() >= MAX_SECRETS:
        raise TooManyClientsError(f"An application has at most {MAX_SECRETS} secrets")
    made = _new_secret(application, name)
    _changed(application, "secret_added")
    return made


def _new_secret(application: Application, name: str) -> tuple[ClientSecret, Secret]:
    secret = token_values.client_secret()
    row = ClientSecret.objects.create(application=application, name=name, digest=digest_of(secret))
    return row, Secret(secret)


@transaction.atomic
def delete_secret(application: Application, secret_id: str) -> ClientSecret:
    """Raises ClientNotFoundError."""
    found = row_by_id(ClientSecret.objects.filter(application=application), secret_id, ClientNotFoundError())
    ClientSecret.objects.filter(pk=found.pk).delete()
    _changed(application, "secret_removed")
    return found
