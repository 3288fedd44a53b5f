"""New credentials from filled forms: each form yields a credential that is checked, and bound to endpoint or server.

Passphrases and codes are used once. Raises ActivationError, TargetRefusedError of the gate, VaultError, MyProxyError
and OAuthError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from endpoints import concurrency_limits
from endpoints.addresses import gate
from endpoints.errors import DELEGATION_UNKNOWN, CredentialRefusedError, RequirementError, TooManyWaitingError
from endpoints.fields import host_and_port, joined
from endpoints.models import Endpoint
from endpoints.s3.signature import AccessKey
from endpoints.ssh import keys
from identity.error_categories import RefusedError
from identity.gsi import proxies
from identity.gsi.errors import CredentialError, PassphraseError, UntrustedError
from identity.gsi.x509 import X509Credential
from identity.hidden import Hidden
from identity.issuers import myproxy, oauth
from identity.issuers.oauth_clients import client_for
from identity.issuers.oauth_errors import OAuthError
from identity.models import User
from identity.vault import store as vault
from identity.vault.bindings import MYPROXY_PORT
from identity.vault.store import CredentialKind

from . import status as activation
from .forms import DEFAULT_LIFETIME, FilledForm, Form

log = logging.getLogger(__name__)

#: A credential valid for less could not be used: tasks stop using one twelve seconds before it expires.
SHORTEST = timedelta(seconds=30)
#: For a certificate that is not a proxy: the longest lifetime of short-lived credential services (IGTF SLCS profile,
#: 1 Ms). The service does not store a user's long-lived key.
LONGEST_CERTIFICATE = timedelta(seconds=1_000_000)
#: Time between the request of a delegation and its proxy.
DELEGATION_LIFETIME = timedelta(hours=1)
_DELEGATION, _AUTHORIZATION = "delegate_proxy", "oauth"


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A new credential, before it is stored."""

    bound_to: str
    kind: CredentialKind
    secret: bytes = field(repr=False)
    subject: str
    expires_at: datetime | None
    code: str


@sensitive_variables()
def from_form(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    """Obtain and check the credential of a filled form; the caller stores it. Raises the errors of this module."""
    return _READERS[filled.form](user, endpoint, filled, now)


# ---- the values that owner and service write into the forms


def owner_values(endpoint: Endpoint, form: Form) -> Mapping[str, str | None]:
    """The values that the endpoint's owner has set."""
    if form is Form.MYPROXY:
        return {"hostname": endpoint.myproxy_server or None, "server_dn": endpoint.myproxy_dn or None}
    return {}


def service_values(user: User, endpoint: Endpoint, form: Form) -> Mapping[str, str | None]:
    """The values that the service writes. Two forms begin a dialogue, whose secret the vault keeps."""
    if form is Form.DELEGATE_PROXY:
        return _delegation(user, endpoint)
    if form is Form.OAUTH:
        return _authorization(user, endpoint)
    return owner_values(endpoint, form)


# ---- delegation: the service creates the key


def _delegation(user: User, endpoint: Endpoint) -> Mapping[str, str | None]:
    """The public half of the pending key; a repeated request gets the same key."""
    bound_to = vault.endpoint_binding(endpoint.pk)
    found = vault.find_pending(user, _DELEGATION, bound_to)
    if found is not None and found.expires_at > datetime.now(UTC) + DELEGATION_LIFETIME / 2:
        return found.more
    key = proxies.new_key()
    written = {
        "public_key": key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii"),
        "certificate_request": proxies.make_request(key).public_bytes(Encoding.PEM).decode("ascii"),
    }
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    vault.keep_pending(user, _DELEGATION, bound_to, secret, lifetime=DELEGATION_LIFETIME, more=written)
    return written


@sensitive_variables()
def _by_delegation(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    bound_to = vault.endpoint_binding(endpoint.pk)
    waiting = vault.find_pending(user, _DELEGATION, bound_to, now=now)
    if waiting is None:
        raise RefusedError(
            DELEGATION_UNKNOWN,
            reason="No key waits for this proxy: ask for activation_requirements, and sign the public_key that they "
            "name.",
        )
    # An insufficient chain leaves the key pending for another attempt.
    credential = _parsed(Hidden(filled["proxy_chain"].encode() + b"\n" + waiting.secret))
    if not credential.is_proxy:
        raise CredentialRefusedError("NoProxy", "The first certificate of the chain is no proxy certificate.")
    new = _checked(endpoint, credential, bound_to, "Activated.ClientProxyCredential", now)
    if vault.take_pending(user, _DELEGATION, bound_to, now=now) is None:
        raise RefusedError(DELEGATION_UNKNOWN, reason="The key of this proxy was used already, at the same time.")
    return new


# ---- the other forms


@sensitive_variables()
def _by_proxy(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    credential = _parsed(Hidden(filled["proxy"].encode()))
    bound_to = vault.endpoint_binding(endpoint.pk)
    if not credential.is_proxy and credential.expires_at - now > LONGEST_CERTIFICATE:
        reason = "This is no proxy, but a key of long life: make a proxy with it (grid-proxy-init), and give that."
        raise CredentialRefusedError("NoProxy", reason)
    return _checked(endpoint, credential, bound_to, "Activated.ClientProxyCredential", now)


@sensitive_variables()
def _by_myproxy(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    lifetime = filled.lifetime() or DEFAULT_LIFETIME
    named = filled["hostname"] or endpoint.myproxy_server
    try:
        host, port = host_and_port(named, MYPROXY_PORT)
    except ValueError:
        raise RequirementError("myproxy.hostname", "This is not a host name, with or without :port.") from None
    shared = joined(host, port) == endpoint.myproxy_server
    subject = filled["server_dn"] or (endpoint.myproxy_dn if shared else "")
    with concurrency_limits.RequestSlot(user.pk, concurrency_limits.ACTIVATIONS):
        credential = myproxy.logon(
            _addresses(host, port), port, server_name=host, username=filled["username"],
            passphrase=filled["passphrase"], lifetime=lifetime, trust=activation.trust(), subject=subject,
            timeout=settings.MYPROXY_SECONDS,
        )  # fmt: skip
    bound_to = vault.myproxy_binding(host, port) if shared else vault.endpoint_binding(endpoint.pk)
    return _checked(endpoint, credential, bound_to, "Activated.MyProxyCredential", now, until=now + lifetime)


@sensitive_variables()
def _by_ssh_key(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    lifetime = filled.lifetime()
    try:
        username = keys.check_username(filled["username"])
        key = keys.parse_ssh_key(filled["private_key"], filled["passphrase"] or None)
    except keys.SshPrivateKeyError as error:
        raise CredentialRefusedError(error.flaw, error.reason) from None
    return NewCredential(
        vault.endpoint_binding(endpoint.pk), CredentialKind.SSH, activation.pack_ssh(username, key.pem),
        f"{username}, {key.algorithm} {key.fingerprint}", now + lifetime if lifetime else None,
        "Activated.SshKeyCredential",
    )  # fmt: skip


@sensitive_variables()
def _by_password(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    """Nothing can be checked without the server, which a task or a listing asks."""
    lifetime = filled.lifetime()
    try:
        username = keys.check_username(filled["username"])
    except keys.SshPrivateKeyError as error:
        raise CredentialRefusedError(error.flaw, error.reason) from None
    return NewCredential(
        vault.endpoint_binding(endpoint.pk), CredentialKind.PASSWORD,
        activation.pack_ssh(username, filled["password"].encode()), username,
        now + lifetime if lifetime else None, "Activated.PasswordCredential",
    )  # fmt: skip


@sensitive_variables()
def _by_access_key(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    """Nothing can be checked without the store, which a task or a listing asks."""
    lifetime = filled.lifetime()
    for name in ("access_key_id", "secret_access_key", "session_token"):
        if not (filled[name].isascii() and filled[name].isprintable()) or " " in filled[name]:
            raise RequirementError(f"{filled.form}.{name}", "Expected ASCII characters without blanks.")
    key = AccessKey(filled["access_key_id"], filled["secret_access_key"], filled["session_token"])
    return NewCredential(
        vault.endpoint_binding(endpoint.pk), CredentialKind.ACCESS_KEY, key.pack(), key.id,
        now + lifetime if lifetime else None, "Activated.AccessKeyCredential",
    )  # fmt: skip


# ---- OAuth: the user signs in at the endpoint's own server and returns with a code


def _authorization(user: User, endpoint: Endpoint) -> Mapping[str, str | None]:
    """Empty when the server cannot be reached: the other forms remain usable."""
    try:
        server = oauth.parse_server(endpoint.oauth_server)
        with concurrency_limits.RequestSlot(user.pk, concurrency_limits.ACTIVATIONS):
            begun = oauth.begin(
                server, _addresses(server.host, server.port), client_for(server),
                redirect_uri=f"{settings.PUBLIC_URL}/oauth/callback", trust=activation.trust(),
            )  # fmt: skip
    except (OAuthError, gate.TargetRefusedError, TooManyWaitingError) as error:
        log.info("The OAuth server %s of the endpoint %s: %s", endpoint.oauth_server, endpoint.pk, error.message)
        return {}
    bound_to = vault.oauth_binding(endpoint.oauth_server)
    vault.keep_pending(user, _AUTHORIZATION, bound_to, begun.secret, lifetime=begun.lifetime, token=begun.state)
    return {"authorization_url": begun.url, "state": begun.state}


@sensitive_variables()
def _by_oauth(user: User, endpoint: Endpoint, filled: FilledForm, now: datetime) -> NewCredential:
    lifetime = filled.lifetime() or DEFAULT_LIFETIME
    server, bound_to = oauth.parse_server(endpoint.oauth_server), vault.oauth_binding(endpoint.oauth_server)
    answer = oauth.read_answer(filled["code"])
    state = answer.state or filled["state"]
    if not state:
        raise RequirementError("oauth.state", "This is missing: give what came with the authorization_url.")
    with concurrency_limits.RequestSlot(user.pk, concurrency_limits.ACTIVATIONS):
        pending = vault.take_pending(user, _AUTHORIZATION, bound_to, token=state, now=now)
        if pending is None:
            raise RefusedError(
                DELEGATION_UNKNOWN,
                reason="This sign-in was not begun here, or is used up, or too old: ask for activation_requirements "
                "again.",
            )
        credential = oauth.finish(
            pending.secret, _addresses(server.host, server.port), client_for(server), code=answer.code, state=state,
            issuer=answer.issuer, place=answer.place, trust=activation.trust(), lifetime=lifetime, now=now,
        )  # fmt: skip
    return _checked(endpoint, credential, bound_to, "Activated.OAuthCredential", now, until=now + lifetime)


# ---- shared helpers


def _addresses(host: str, port: int) -> list[str]:
    return gate.resolve_target(host, port, allow=settings.ALLOW_TARGETS)


@sensitive_variables()
def _parsed(pem: Hidden) -> X509Credential:
    """Parse PEM. Old clients of the Transfer API join certificates without a line end between them."""
    try:
        return X509Credential.parse(pem.value.replace(b"----------BEGIN", b"-----\n-----BEGIN"))
    except PassphraseError as error:
        reason = "The private key is encrypted: make a proxy with it (grid-proxy-init), and give that."
        raise CredentialRefusedError(error.flaw, reason) from None
    except CredentialError as error:
        raise CredentialRefusedError(error.flaw, error.reason) from None


@sensitive_variables()
def _checked(
    endpoint: Endpoint,
    credential: X509Credential,
    bound_to: str,
    code: str,
    now: datetime,
    *,
    until: datetime | None = None,
) -> NewCredential:
    """Check whether servers could accept the credential. Raises CredentialRefusedError.

    until: the end of the lifetime that the user asked an issuer for; one that gives more does not keep us from
    forgetting the credential then.
    """
    try:
        activation.trust().admit(credential, now=now)
    except UntrustedError as error:
        raise CredentialRefusedError(error.flaw, error.reason) from None
    if credential.expires_at - now < SHORTEST:
        seconds = int(SHORTEST.total_seconds())
        raise CredentialRefusedError("TooShort", f"It is valid for less than {seconds} seconds from now.")
    servers = endpoint.servers.all()
    named = [one.hostname for one in servers if activation.may_delegate_to(one.hostname, one.subject)]
    if named and not isinstance(credential.key, RSAPrivateKey):
        reason = f"The server {named[0]} takes a proxy of it, and can do that with RSA keys only."
        raise CredentialRefusedError("NoRsaKey", reason)
    return NewCredential(
        bound_to, CredentialKind.X509, credential.to_pem(), credential.identity,
        min(credential.expires_at, until or credential.expires_at), code,
    )  # fmt: skip


_READERS: Mapping[Form, Callable[[User, Endpoint, FilledForm, datetime], NewCredential]] = {
    Form.MYPROXY: _by_myproxy,
    Form.OAUTH: _by_oauth,
    Form.DELEGATE_PROXY: _by_delegation,
    Form.PROXY: _by_proxy,
    Form.SSH_KEY: _by_ssh_key,
    Form.PASSWORD: _by_password,
    Form.ACCESS_KEY: _by_access_key,
}
