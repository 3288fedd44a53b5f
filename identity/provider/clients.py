"""Client applications of the OAuth2 server: authentication, and where their users may be redirected to."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import uuid
from collections.abc import Mapping
from urllib.parse import unquote_plus, urlsplit

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Value
from oauth2_provider.models import Application, redirect_to_uri_allowed

from identity.hidden import digest_of
from identity.models import ClientOptions

#: The page that shows a code for copying, for native applications without a server of their own.
CODE_PAGE = "/v2/web/auth-code"
#: Redirect URIs of native applications. Compared as text: no user name, query, fragment, or other way to write a host.
_LOOPBACK = re.compile(
    r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::([1-9][0-9]{0,4}))?(?:/[A-Za-z0-9._~/-]{0,256})?", re.ASCII
)
#: The same page at Globus. It sees the code of a program that was admitted to it, and not the verifier (RFC 7636).
GLOBUS_CODE_PAGE = "https://auth.globus.org/v2/web/auth-code"
#: Octets of a Basic header: longer ones are not valid.
MAX_CREDENTIALS = 1024


def find(client_id: str) -> Application | None:
    """None also when the application's owner is not active."""
    kept = Application.objects.select_related("user", "options")
    found: Application | None = kept.filter(client_id=one_form(client_id)).first()
    if found is None or (found.user is not None and not found.user.is_active):
        return None
    return found


def one_form(client_id: str) -> str:
    """An id of a client as it is stored; "", which is the id of none, for a text that is no UUID."""
    try:
        return str(uuid.UUID(client_id))
    except ValueError:
        return ""


def authenticate(client_id: str, secret: str) -> Application | None:
    """The confidential application that has this secret; None when there is none."""
    found = find(client_id)
    if found is None or not is_confidential(found):
        return None
    given = digest_of(secret)
    kept = found.secrets.values_list("digest", flat=True)
    return found if sum(hmac.compare_digest(given, bytes(one)) for one in kept) else None


def credentials(authorization: str, form: Mapping[str, str]) -> tuple[str, str] | None:
    """The client id and secret, from HTTP Basic or from the form (RFC 6749 section 2.3.1); None when none are given.

    A `client_id` alone names a client without a secret and does not authenticate.
    """
    scheme, _, coded = authorization.partition(" ")
    if scheme.lower() == "basic":
        return _basic(coded.strip())
    if "client_secret" in form:
        return form.get("client_id", ""), form["client_secret"]
    return None


def _basic(coded: str) -> tuple[str, str]:
    """An unreadable header gives empty credentials, which match no client."""
    try:
        text = base64.b64decode(coded[:MAX_CREDENTIALS], validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    client_id, _, secret = text.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)


def is_confidential(application: Application) -> bool:
    return bool(application.client_type == Application.CLIENT_CONFIDENTIAL)


def options(application: Application) -> ClientOptions:
    """The choices of the application; the defaults when it has made none."""
    try:
        found: ClientOptions = application.options
    except ClientOptions.DoesNotExist:
        return ClientOptions(application=application)
    return found


def facts(application: Application) -> dict[str, str]:
    """The facts of an application for the audit log."""
    return {"application": application.name, "client_id": application.client_id}


def rotates(application: Application) -> bool:
    """Whether each use replaces its refresh tokens, and a second use of an old one is an alarm."""
    return options(application).rotates_refresh_tokens


def is_registered_by_template(application: Application) -> bool:
    """Whether a program registered itself, before any user signed in with it: it has no owner."""
    return bool(application.registration_source == Application.RegistrationSource.DCR)


def may_act_alone(application: Application) -> bool:
    """Whether the secret alone gets it tokens; it then acts as the user who owns it."""
    granted = application.authorization_grant_type == Application.GRANT_CLIENT_CREDENTIALS
    return granted and is_confidential(application) and application.user_id is not None


def may_ask_users(application: Application) -> bool:
    """Whether it may send users to the consent page."""
    return bool(application.redirect_uris) or application.authorization_grant_type == (
        Application.GRANT_AUTHORIZATION_CODE
    )


def allows_redirect(application: Application, uri: str, here: str) -> bool:
    """Whether users may be redirected to this URI: exactly one of the registered ones (loopback ones with any port).

    Native applications, which are public or registered themselves, may also use any port and path of the loopback
    interface (RFC 8252 section 7.3), and our page that shows the code, at `here`, the address at which the user reached
    this service. Scheme, host and port of the page must be ours.
    """
    try:
        if redirect_to_uri_allowed(uri, application.redirect_uris.split()):
            return True
    except ValueError:
        # Not an address: an unclosed bracket, or an invalid port.
        return False
    if uri == GLOBUS_CODE_PAGE and options(application).globus_code_page:
        return not is_confidential(application)
    if not (is_registered_by_template(application) or not is_confidential(application)):
        return False
    return _is_on_loopback(uri) or is_code_page(uri, here)


def _is_on_loopback(uri: str) -> bool:
    found = _LOOPBACK.fullmatch(uri)
    return found is not None and int(found[1] or 80) <= 65535


def has_pages_at(origin: str) -> bool:
    """Whether an application whose users may return to this origin is registered. Its pages may then read our answers.

    Programs that registered themselves have no pages, and `allowed_origins` is empty.
    """
    # The expression of the index `application_origins`.
    words = Func(
        F("allowed_origins"), Value(" "), function="string_to_array", output_field=ArrayField(models.TextField())
    )
    owner_is_active = models.Q(user=None) | models.Q(user__is_active=True)
    found = Application.objects.alias(origins=words).filter(owner_is_active, origins__contains=[origin])
    return bool(found.exists())


def is_code_page(uri: str, here: str) -> bool:
    try:
        parts = urlsplit(uri)
        origins = {_origin(settings.PUBLIC_URL), _origin(here)}
        # The URI equals its rebuilt parts: it contains no query, user name or other part.
        return "@" not in uri and _origin(uri) in origins and uri == f"{parts.scheme}://{parts.netloc}{CODE_PAGE}"
    except ValueError:
        return False


def _origin(uri: str) -> tuple[str, str, int]:
    parts = urlsplit(uri)
    standard = {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, parts.hostname or "", parts.port or standard
