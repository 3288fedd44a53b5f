"""Activation services: give and delete credentials for endpoints, for REST, shell and pages.

`new_credentials.py` obtains the credential of a filled form (see `forms.py`); it is stored here, encrypted in the
vault. Raises the registry's errors, ActivationError, TargetRefusedError of the gate, VaultError, MyProxyError and
OAuthError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from endpoints import protocols, registry
from endpoints.errors import RequirementError
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from identity.models import User
from identity.vault import store as vault
from identity.vault.store import CredentialInfo

from . import forms, new_credentials
from . import status as activation
from .forms import Form, GivenField, Requirement
from .new_credentials import NewCredential
from .status import ActivationStatus, Need

_OFFERED = {
    Need.NONE: (),
    Need.PASSWORD: (Form.PASSWORD,),
    Need.ACCESS_KEY: (Form.ACCESS_KEY,),
    Need.SSH: (Form.SSH_KEY,),
    Need.X509: (Form.MYPROXY, Form.DELEGATE_PROXY, Form.PROXY),
}


@dataclass(frozen=True, slots=True)
class Requirements:
    """The forms of an endpoint for a user, and the user's activation status."""

    endpoint: Endpoint
    activation_status: ActivationStatus
    rows: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class ActivationResult:
    """code: as in the Transfer API. rows: when activation failed, the forms that could be filled in."""

    endpoint: Endpoint
    code: str
    message: str
    activation_status: ActivationStatus
    rows: tuple[Requirement, ...] = ()


def offered(endpoint: Endpoint) -> tuple[Form, ...]:
    """The forms that an endpoint accepts, the preferred first."""
    found = _OFFERED[activation.need(endpoint)]
    protocol = protocols.of_endpoint(endpoint)
    if protocol is not None and protocol.clear_password and not settings.CLEAR_PASSWORDS:
        return ()
    return (Form.OAUTH, *found) if endpoint.oauth_server and Form.PROXY in found else found


def shares(endpoint: Endpoint) -> bool:
    """Whether a credential given for another endpoint may be valid here too, or none is needed."""
    return not activation.need(endpoint).required or len(activation.bindings(endpoint)) > 1


def requirements(user: User, ref: str, now: datetime | None = None) -> Requirements:
    """The forms for this user. Begins a delegation where the endpoint accepts one: creates its key in the vault."""
    endpoint = registry.resolve(user, ref, Permission.VIEW)
    if endpoint.host_id is not None:
        return Requirements(endpoint, _of_owner(user, endpoint, now), ())
    registry.require(user, Permission.ACTIVATE, endpoint)
    activation_status = activation.activation_status(user.pk, endpoint, now)
    written = {form: new_credentials.service_values(user, endpoint, form) for form in offered(endpoint)}
    return Requirements(endpoint, activation_status, _rows(written))


def autoactivate(
    user: User, ref: str, if_expires_in: int | None = None, now: datetime | None = None
) -> ActivationResult:
    """Activate with a credential of the vault. if_expires_in: the minimum of its remaining lifetime in seconds."""
    now = now or datetime.now(UTC)
    endpoint = registry.resolve(user, ref, Permission.VIEW)
    if endpoint.host_id is not None:
        return _activated_by_owner(endpoint, _of_owner(user, endpoint, now))
    registry.require(user, Permission.ACTIVATE, endpoint)
    activation_status = activation.activation_status(user.pk, endpoint, now)
    if not activation_status.need.required and activation_status.credential is None:
        return ActivationResult(endpoint, "AlreadyActivated", "This endpoint needs no activation", activation_status)
    until = None if if_expires_in is None else now + timedelta(seconds=if_expires_in)
    if not _lasts(activation_status, until) and _shared_instead(user, endpoint, until or now):
        activation_status = activation.activation_status(user.pk, endpoint, now)
    if activation_status.credential is None or not _lasts(activation_status, until):
        return _failed(endpoint, activation_status, now)
    if not _is_first_use(endpoint, activation_status.credential):
        return ActivationResult(endpoint, "AlreadyActivated", "The endpoint is activated already", activation_status)
    message = "The endpoint was activated with a credential that you have from its server"
    return ActivationResult(endpoint, "AutoActivated.CachedCredential", message, activation_status)


def _is_first_use(endpoint: Endpoint, credential: CredentialInfo) -> bool:
    """Record the activation. Whether this credential, of the endpoint's server, activates the endpoint only now."""
    place = vault.endpoint_binding(endpoint.pk)
    return vault.record_activation(credential, place) and credential.bound_to != place


def _of_owner(user: User, share: Endpoint, now: datetime | None) -> ActivationStatus:
    """A shared endpoint is activated by its owner, at its host."""
    return activation.activation_statuses_seen(user.pk, [share], now)[share.pk]


def _activated_by_owner(share: Endpoint, activation_status: ActivationStatus) -> ActivationResult:
    """Clients ask for autoactivation of every endpoint before they use it."""
    if activation_status.active:
        message = "A shared endpoint needs no activation: its owner's credential serves"
        return ActivationResult(share, "AlreadyActivated", message, activation_status)
    message = "Its owner has to activate the endpoint that this one is shared from"
    return ActivationResult(share, "AutoActivationFailed", message, activation_status)


def _lasts(activation_status: ActivationStatus, until: datetime | None) -> bool:
    """Whether a credential is active, and valid after `until`."""
    return activation_status.active and (
        until is None or activation_status.expires_at is None or activation_status.expires_at > until
    )


def _shared_instead(user: User, endpoint: Endpoint, until: datetime) -> bool:
    """Prefer a credential of the endpoint's server that is valid longer: delete the endpoint's own."""
    own, *shared = activation.bindings(endpoint)
    return bool(shared and vault.find_all(user.pk, shared, until) and vault.forget(user, own))


def _failed(endpoint: Endpoint, activation_status: ActivationStatus, now: datetime) -> ActivationResult:
    """Report the forms that could be filled in, without beginning a delegation or a sign-in."""
    message = "You have no credential for this endpoint; it has to be activated"
    if activation_status.active:
        left = activation_status.seconds_left(now)
        message = f"Your credential for this endpoint is valid for {left} s only; activate the endpoint again"
    named = {form: new_credentials.owner_values(endpoint, form) for form in offered(endpoint)}
    return ActivationResult(endpoint, "AutoActivationFailed", message, activation_status, _rows(named))


@sensitive_variables()
def activate(user: User, ref: str, given: Iterable[GivenField], now: datetime | None = None) -> ActivationResult:
    """Take the credential of the one form that is filled in; without one, as `autoactivate`."""
    endpoint = registry.resolve(user, ref, Permission.ACTIVATE)
    filled = forms.read(given, offered(endpoint))
    if filled is None:
        if not activation.need(endpoint).required:
            return autoactivate(user, ref, None, now)
        raise RequirementError("DATA", f"Fill in one of the forms: {', '.join(offered(endpoint))}.")
    new = new_credentials.from_form(user, endpoint, filled, now or datetime.now(UTC))
    _store(user, endpoint, new, now)
    message = f"The endpoint was activated; you are {new.subject}"
    return ActivationResult(endpoint, new.code, message, activation.activation_status(user.pk, endpoint, now))


def deactivate(user: User, ref: str) -> ActivationResult:
    """Delete the user's credentials for the endpoint, also for other endpoints that used them."""
    endpoint = registry.resolve(user, ref, Permission.ACTIVATE)
    with transaction.atomic():
        gone = [vault.forget(user, bound_to) for bound_to in activation.bindings(endpoint)]
        vault.forget_activation(user.pk, vault.endpoint_binding(endpoint.pk))
    message = "The endpoint was deactivated" if any(gone) else "The endpoint was not activated"
    return ActivationResult(endpoint, "Deactivated", message, activation.activation_status(user.pk, endpoint))


@sensitive_variables()
def _store(user: User, endpoint: Endpoint, new: NewCredential, now: datetime | None) -> None:
    """The last activation is used: a credential of a server replaces one that was given for this endpoint only."""
    own = vault.endpoint_binding(endpoint.pk)
    with transaction.atomic():
        # Obtaining it may have taken long: a credential bound to a deleted endpoint would never be deleted.
        registry.lock_existing(user, endpoint, Permission.ACTIVATE)
        if new.bound_to != own:
            vault.forget(user, own)
        held = vault.store(
            user, new.bound_to, new.kind, new.secret, subject=new.subject, expires_at=new.expires_at, now=now
        )  # fmt: skip
        vault.record_activation(held, own)


# ---- the rows


def _rows(written: Mapping[Form, Mapping[str, str | None]]) -> tuple[Requirement, ...]:
    return tuple(row for form in written for row in forms.rows(form, written[form]))
