"""Demands of an endpoint on the sign-in of whoever reads or writes there: its age, its domain, and a second factor.

`registry.require` asks here, once, for operations and submissions. Tasks and timers that were accepted go on: they were
asked for by a person who met the demand then. A shared endpoint demands what its host demands, too.
"""

from __future__ import annotations

from collections.abc import Collection

from endpoints.errors import StepUpRequiredError
from endpoints.models import Endpoint
from endpoints.permissions import DATA, Permission
from identity.linked import services as linked
from identity.models import User
from identity.sessions import proof


def check(user: User, verb: Permission, endpoint: Endpoint) -> None:
    """Raises StepUpRequiredError."""
    if verb not in DATA:
        return
    for place in (endpoint, endpoint.host):
        if place is None:
            continue
        if place.authentication_timeout_mins or place.authentication_domains or place.mfa_required:
            _check(user, place, endpoint)


def _check(user: User, place: Endpoint, endpoint: Endpoint) -> None:
    found = proof.present()
    if isinstance(found, proof.Background):
        return
    domains, minutes = place.authentication_domains or [], place.authentication_timeout_mins
    if (
        found is None
        or (domains and not _is_of(user, found, domains))
        or (minutes and found.age() > minutes * 60)
        or (place.mfa_required and not found.is_multi_factor)
    ):
        raise StepUpRequiredError(endpoint, user, domains, minutes, second_factor=place.mfa_required)


def _is_of(user: User, found: proof.SignInProof, domains: Collection[str]) -> bool:
    """Also whether the user still has the identity: a session or token may be older than its removal."""
    return found.domain in domains and linked.is_held(user, found.identity)
