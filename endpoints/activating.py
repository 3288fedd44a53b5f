"""Give a credential for an endpoint, and take it back: what REST, the shell and the pages call.

Each form (see `forms.py`) ends in a credential that is checked, sealed in the vault and bound: to the endpoint, or to
the server that gave it. Passphrases and codes are used once. Raises the registry's errors, ActivationError,
TargetRefusedError of the gate, VaultError, MyProxyError and OAuthError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings
from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from identity import myproxy, oauth, vault
from identity.bindings import MYPROXY_PORT
from identity.hidden import Hidden
from identity.models import User
from identity.oauth_clients import client_for
from identity.oauth_errors import OAuthError
from identity.vault import Kind

from . import activation, forms, gate, patience, registry, sshkeys
from .activation import Need, Standing
from .errors import CredentialRefusedError, DelegationUnknownError, RequirementError, TooManyWaitingError, flaw_of
from .fields import host_and_port, joined
from .forms import DEFAULT_LIFETIME, Filled, Form, Given, Requirement
from .gridftp import proxies
from .gridftp.trust import UntrustedError
from .gridftp.x509 import Credential, CredentialError, PassphraseError
from .models import Endpoint
from .permissions import Verb

log = logging.getLogger(__name__)

#: What is valid for less ends before a task could use it: it lets go of one twelve seconds before the end.
SHORTEST = timedelta(seconds=30)
#: Of a certificate that is no proxy: the longest that short-lived credential services give (IGTF SLCS profile, 1 Ms).
#: A user's own long-lived key is not for us to keep.
LONGEST_CERTIFICATE = timedelta(seconds=1_000_000)
#: How long a delegation may take from its request to the proxy.
DELEGATION_LIFETIME = timedelta(hours=1)
_DELEGATION, _AUTHORIZATION = "delegate_proxy", "oauth"

_OFFERED = {
    Need.NONE: (),
    Need.SSH: (Form.SSH_KEY,),
    Need.X509: (Form.MYPROXY, Form.DELEGATE_PROXY, Form.PROXY),
}


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a user is asked for at an endpoint, and how he stands there."""

    endpoint: Endpoint
    standing: Standing
    rows: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """code: as the Transfer API calls it. rows: what would have been needed, where it did not work out."""

    endpoint: Endpoint
    code: str
    message: str
    standing: Standing
    rows: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class _New:
    """A credential on its way into the vault."""

    bound_to: str
    kind: Kind
    secret: bytes = field(repr=False)
    subject: str
    expires_at: datetime | None
    code: str


def offered(endpoint: Endpoint) -> tuple[Form, ...]:
    """The forms that an endpoint takes, the best first."""
    found = _OFFERED[activation.need(endpoint)]
    return (Form.OAUTH, *found) if endpoint.oauth_server and Form.PROXY in found else found


def shares(endpoint: Endpoint) -> bool:
    """Whether a credential that was given elsewhere may serve here too, or none is needed."""
    return activation.need(endpoint) is Need.NONE or len(activation.bindings(endpoint)) > 1


def requirements(user: User, ref: str, now: datetime | None = None) -> Requirements:
    """Begins a delegation where the endpoint takes one: its key is made here and waits in the vault."""
    endpoint = registry.resolve(user, ref, Verb.VIEW)
    if endpoint.host_id is not None:
        return Requirements(endpoint, _of_owner(user, endpoint, now), ())
    registry.require(user, Verb.ACTIVATE, endpoint)
    standing = activation.standing(user.pk, endpoint, now)
    written = {form: _written(user, endpoint, form) for form in offered(endpoint)}
    return Requirements(endpoint, standing, _rows(written))


def autoactivate(user: User, ref: str, if_expires_in: int | None = None, now: datetime | None = None) -> Outcome:
    """Use what is in the vault. if_expires_in: seconds for which it has to be valid at least."""
    now = now or datetime.now(UTC)
    endpoint = registry.resolve(user, ref, Verb.VIEW)
    if endpoint.host_id is not None:
        return _activated_by_owner(endpoint, _of_owner(user, endpoint, now))
    registry.require(user, Verb.ACTIVATE, endpoint)
    standing = activation.standing(user.pk, endpoint, now)
    if standing.need is Need.NONE:
        return Outcome(endpoint, "AlreadyActivated", "This endpoint needs no activation", standing)
    until = None if if_expires_in is None else now + timedelta(seconds=if_expires_in)
    if not _lasts(standing, until) and _shared_instead(user, endpoint, until or now):
        standing = activation.standing(user.pk, endpoint, now)
    if standing.held is None or not _lasts(standing, until):
        return _failed(endpoint, standing, now)
    place = vault.endpoint_binding(endpoint.pk)
    if not vault.activated(standing.held, place) or standing.held.bound_to == place:
        return Outcome(endpoint, "AlreadyActivated", "The endpoint is activated already", standing)
    message = "The endpoint was activated with a credential that you have from its server"
    return Outcome(endpoint, "AutoActivated.CachedCredential", message, standing)


def _of_owner(user: User, share: Endpoint, now: datetime | None) -> Standing:
    """A shared endpoint is activated by its owner, at its host."""
    return activation.standings_seen(user.pk, [share], now)[share.pk]


def _activated_by_owner(share: Endpoint, standing: Standing) -> Outcome:
    """Programs ask it of every endpoint before they use it."""
    if standing.active:
        message = "A shared endpoint needs no activation: its owner's credential serves"
        return Outcome(share, "AlreadyActivated", message, standing)
    message = "Its owner has to activate the endpoint that this one is shared from"
    return Outcome(share, "AutoActivationFailed", message, standing)


def _lasts(standing: Standing, until: datetime | None) -> bool:
    """Whether one is active, and for longer than that."""
    return standing.active and (until is None or standing.expires_at is None or standing.expires_at > until)


def _shared_instead(user: User, endpoint: Endpoint, until: datetime) -> bool:
    """Where one that the endpoint shares lives longer: let it take the place of the endpoint's own."""
    own, *shared = activation.bindings(endpoint)
    return bool(shared and vault.find_all(user.pk, shared, until) and vault.forget(user, own))


def _failed(endpoint: Endpoint, standing: Standing, now: datetime) -> Outcome:
    """Tells what would be needed, without beginning anything."""
    message = "You have no credential for this endpoint; it has to be activated"
    if standing.active:
        left = standing.seconds_left(now)
        message = f"Your credential for this endpoint is valid for {left} s only; activate the endpoint anew"
    named = {form: _named(endpoint, form) for form in offered(endpoint)}
    return Outcome(endpoint, "AutoActivationFailed", message, standing, _rows(named))


@sensitive_variables()
def activate(user: User, ref: str, given: Iterable[Given], now: datetime | None = None) -> Outcome:
    """Take the credential of the one form that is filled in; with none, as `autoactivate`."""
    endpoint = registry.resolve(user, ref, Verb.ACTIVATE)
    filled = forms.read(given, offered(endpoint))
    if filled is None:
        if activation.need(endpoint) is Need.NONE:
            return autoactivate(user, ref, None, now)
        raise RequirementError("DATA", f"Fill in one of the forms: {', '.join(offered(endpoint))}.")
    new = _TAKERS[filled.form](user, endpoint, filled, now or datetime.now(UTC))
    _store(user, endpoint, new, now)
    message = f"The endpoint was activated; you are {new.subject}"
    return Outcome(endpoint, new.code, message, activation.standing(user.pk, endpoint, now))


def deactivate(user: User, ref: str) -> Outcome:
    """Forget what this user has for the endpoint, for all other endpoints too that it served."""
    endpoint = registry.resolve(user, ref, Verb.ACTIVATE)
    with transaction.atomic():
        gone = [vault.forget(user, bound_to) for bound_to in activation.bindings(endpoint)]
    message = "The endpoint was deactivated" if any(gone) else "The endpoint was not activated"
    return Outcome(endpoint, "Deactivated", message, activation.standing(user.pk, endpoint))


@sensitive_variables()
def _store(user: User, endpoint: Endpoint, new: _New, now: datetime | None) -> None:
    """The last activation counts: one from a server takes the place of what was given for this endpoint alone."""
    own = vault.endpoint_binding(endpoint.pk)
    with transaction.atomic():
        # To get it may have taken long: what is bound to a place that is gone would stay for ever.
        registry.still(user, endpoint, Verb.ACTIVATE)
        if new.bound_to != own:
            vault.forget(user, own)
        held = vault.store(
            user, new.bound_to, new.kind, new.secret, subject=new.subject, expires_at=new.expires_at, now=now
        )  # fmt: skip
        vault.activated(held, own)


# ---- the rows


def _rows(written: Mapping[Form, Mapping[str, str | None]]) -> tuple[Requirement, ...]:
    return tuple(row for form in written for row in forms.rows(form, written[form]))


def _named(endpoint: Endpoint, form: Form) -> Mapping[str, str | None]:
    """What the endpoint's owner filled in."""
    if form is Form.MYPROXY:
        return {"hostname": endpoint.myproxy_server or None, "server_dn": endpoint.myproxy_dn or None}
    return {}


def _written(user: User, endpoint: Endpoint, form: Form) -> Mapping[str, str | None]:
    """What the service fills in: for two forms it begins a dialogue, whose half it keeps."""
    if form is Form.DELEGATE_PROXY:
        return _delegation(user, endpoint)
    if form is Form.OAUTH:
        return _authorization(user, endpoint)
    return _named(endpoint, form)


# ---- delegation: the key is born here


def _delegation(user: User, endpoint: Endpoint) -> Mapping[str, str | None]:
    """The public half of the key that waits for a proxy; who asks twice gets the same one."""
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
def _by_delegation(user: User, endpoint: Endpoint, filled: Filled, now: datetime) -> _New:
    bound_to = vault.endpoint_binding(endpoint.pk)
    waiting = vault.find_pending(user, _DELEGATION, bound_to, now=now)
    if waiting is None:
        raise DelegationUnknownError(
            "No key waits for this proxy: ask for activation_requirements, and sign the public_key that they name."
        )
    # A chain that is not good enough leaves the key waiting for a better one.
    credential = _parsed(Hidden(filled["proxy_chain"].encode() + b"\n" + waiting.secret))
    if not credential.is_proxy:
        raise CredentialRefusedError("NoProxy", "The first certificate of the chain is no proxy certificate.")
    new = _checked(endpoint, credential, bound_to, "Activated.ClientProxyCredential", now)
    if vault.take_pending(user, _DELEGATION, bound_to, now=now) is None:
        raise DelegationUnknownError("The key of this proxy was used already, at the same time.")
    return new


# ---- the other forms


@sensitive_variables()
def _by_proxy(user: User, endpoint: Endpoint, filled: Filled, now: datetime) -> _New:
    credential = _parsed(Hidden(filled["proxy"].encode()))
    bound_to = vault.endpoint_binding(endpoint.pk)
    if not credential.is_proxy and credential.expires_at - now > LONGEST_CERTIFICATE:
        reason = "This is no proxy, but a key of long life: make a proxy with it (grid-proxy-init), and give that."
        raise CredentialRefusedError("NoProxy", reason)
    return _checked(endpoint, credential, bound_to, "Activated.ClientProxyCredential", now)


@sensitive_variables()
def _by_myproxy(user: User, endpoint: Endpoint, filled: Filled, now: datetime) -> _New:
    lifetime = filled.lifetime() or DEFAULT_LIFETIME
    named = filled["hostname"] or endpoint.myproxy_server
    try:
        host, port = host_and_port(named, MYPROXY_PORT)
    except ValueError:
        raise RequirementError("myproxy.hostname", "This is not a host name, with or without :port.") from None
    shared = joined(host, port) == endpoint.myproxy_server
    subject = filled["server_dn"] or (endpoint.myproxy_dn if shared else "")
    with patience.waiting(user.pk, patience.ACTIVATIONS):
        credential = myproxy.logon(
            _addresses(host, port), port, server_name=host, username=filled["username"],
            passphrase=filled["passphrase"], lifetime=lifetime, trust=activation.trust(), subject=subject,
            timeout=settings.MYPROXY_SECONDS,
        )  # fmt: skip
    bound_to = vault.myproxy_binding(host, port) if shared else vault.endpoint_binding(endpoint.pk)
    return _checked(endpoint, credential, bound_to, "Activated.MyProxyCredential", now)


@sensitive_variables()
def _by_ssh_key(user: User, endpoint: Endpoint, filled: Filled, now: datetime) -> _New:
    lifetime = filled.lifetime()
    try:
        username = sshkeys.check_username(filled["username"])
        key = sshkeys.parse_ssh_key(filled["private_key"], filled["passphrase"] or None)
    except sshkeys.SshKeyError as error:
        raise CredentialRefusedError(flaw_of(error), error.reason) from None
    return _New(
        vault.endpoint_binding(endpoint.pk), Kind.SSH, activation.pack_ssh(username, key.pem),
        f"{username}, {key.algorithm} {key.fingerprint}", now + lifetime if lifetime else None,
        "Activated.SshKeyCredential",
    )  # fmt: skip


# ---- OAuth: the user signs in at the endpoint's own server, and brings back a code


def _authorization(user: User, endpoint: Endpoint) -> Mapping[str, str | None]:
    """Nothing where the server cannot be reached: the other forms still can be used."""
    try:
        server = oauth.parse_server(endpoint.oauth_server)
        with patience.waiting(user.pk, patience.ACTIVATIONS):
            begun = oauth.begin(
                server, _addresses(server.host, server.port), client_for(server),
                redirect_uri=f"{settings.PUBLIC_URL}/oauth/callback", trust=activation.trust(),
            )  # fmt: skip
    except (OAuthError, gate.TargetRefusedError, TooManyWaitingError) as error:
        log.info("The OAuth server %s of the endpoint %s: %s", endpoint.oauth_server, endpoint.pk, error.reason)
        return {}
    bound_to = vault.oauth_binding(endpoint.oauth_server)
    vault.keep_pending(user, _AUTHORIZATION, bound_to, begun.secret, lifetime=begun.lifetime, token=begun.state)
    return {"authorization_url": begun.url, "state": begun.state}


@sensitive_variables()
def _by_oauth(user: User, endpoint: Endpoint, filled: Filled, now: datetime) -> _New:
    lifetime = filled.lifetime() or DEFAULT_LIFETIME
    server, bound_to = oauth.parse_server(endpoint.oauth_server), vault.oauth_binding(endpoint.oauth_server)
    answer = oauth.read_answer(filled["code"])
    state = answer.state or filled["state"]
    if not state:
        raise RequirementError("oauth.state", "This is missing: give what came with the authorization_url.")
    with patience.waiting(user.pk, patience.ACTIVATIONS):
        pending = vault.take_pending(user, _AUTHORIZATION, bound_to, token=state, now=now)
        if pending is None:
            raise DelegationUnknownError(
                "This sign-in was not begun here, or is used up, or too old: ask for activation_requirements again."
            )
        credential = oauth.finish(
            pending.secret, _addresses(server.host, server.port), client_for(server), code=answer.code, state=state,
            issuer=answer.issuer, place=answer.place, trust=activation.trust(), lifetime=lifetime, now=now,
        )  # fmt: skip
    return _checked(endpoint, credential, bound_to, "Activated.OAuthCredential", now)


# ---- what they have in common


def _addresses(host: str, port: int) -> list[str]:
    return gate.resolve_target(host, port, allow=settings.ALLOW_TARGETS)


@sensitive_variables()
def _parsed(pem: Hidden) -> Credential:
    """Old clients of the Transfer API join certificates without a line end between them."""
    try:
        return Credential.parse(pem.value.replace(b"----------BEGIN", b"-----\n-----BEGIN"))
    except PassphraseError as error:
        reason = "The private key is encrypted: make a proxy with it (grid-proxy-init), and give that."
        raise CredentialRefusedError(flaw_of(error), reason) from None
    except CredentialError as error:
        raise CredentialRefusedError(flaw_of(error), error.reason) from None


@sensitive_variables()
def _checked(endpoint: Endpoint, credential: Credential, bound_to: str, code: str, now: datetime) -> _New:
    """Whether a server could take it, as far as can be told from here. -> CredentialRefusedError"""
    try:
        activation.trust().admit(credential, now=now)
    except UntrustedError as error:
        raise CredentialRefusedError(flaw_of(error), error.reason) from None
    if credential.expires_at - now < SHORTEST:
        seconds = int(SHORTEST.total_seconds())
        raise CredentialRefusedError("TooShort", f"It is valid for less than {seconds} seconds from now.")
    servers = endpoint.servers.all()
    named = [one.hostname for one in servers if activation.may_delegate_to(one.hostname, one.subject)]
    if named and not isinstance(credential.key, RSAPrivateKey):
        reason = f"The server {named[0]} takes a proxy of it, and can do that with RSA keys only."
        raise CredentialRefusedError("NoRsaKey", reason)
    return _New(bound_to, Kind.X509, credential.to_pem(), credential.identity, credential.expires_at, code)


_TAKERS: Mapping[Form, Callable[[User, Endpoint, Filled, datetime], _New]] = {
    Form.MYPROXY: _by_myproxy,
    Form.OAUTH: _by_oauth,
    Form.DELEGATE_PROXY: _by_delegation,
    Form.PROXY: _by_proxy,
    Form.SSH_KEY: _by_ssh_key,
}
