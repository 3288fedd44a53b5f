"""Demands of an endpoint on the sign-in of its users (step-up): its age, its domain, and a second factor.

`registry.require` asks here, once, for operations and submissions. Tasks that were accepted go on: they were asked for
by a person who met the demand then. Each run of a timer, which may be older than the demand, and outlive the identity
that met it, asks for what is known without the person: whether the user still has an identity of the domain, and a
second factor. A shared endpoint demands what its host demands, too. The fields of
the demand are checked here, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from identity import linked_identities as linked
from identity import one_time_codes, passkeys, sign_in_proof, user_names
from identity.error_categories import InvalidFieldError
from identity.models import User

from .errors import StepUpRequiredError
from .models import Endpoint
from .permissions import DATA, Permission


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
    found = sign_in_proof.present()
    domains, minutes = place.authentication_domains or [], place.authentication_timeout_mins
    if isinstance(found, sign_in_proof.Background):
        is_met = _could_meet(user, domains, second_factor=place.mfa_required)
    else:
        is_met = (
            found is not None
            and (not domains or _is_of(user, found, domains))
            and (not minutes or found.age() <= minutes * 60)
            and (not place.mfa_required or found.is_multi_factor)
        )
    if not is_met:
        raise StepUpRequiredError(endpoint, user, domains, minutes, second_factor=place.mfa_required)


def _could_meet(user: User, domains: Collection[str], *, second_factor: bool) -> bool:
    """Whether a sign-in of this user could meet the demand now, but for its age."""
    own = [user_names.identity_name(user)] if user_names.is_of_this_service(user) else []
    names = [*own, *(row.username for row in linked.of(user))] if domains else []
    has_domain = not domains or any(name.rpartition("@")[2].lower() in domains for name in names)
    return has_domain and (not second_factor or one_time_codes.enabled(user) or passkeys.usable(user))


def _is_of(user: User, found: sign_in_proof.SignInProof, domains: Collection[str]) -> bool:
    """Also whether the user still has the identity: a session or token may be older than its removal."""
    return found.domain in domains and linked.is_held(user, found.identity)


#: Minutes that may be demanded (a year), and domains.
MAX_MINUTES, MAX_DOMAINS = 366 * 24 * 60, 20
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")


def checked_minutes(field: str, value: object) -> int | None:
    """Raises InvalidFieldError."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_MINUTES:
        raise InvalidFieldError(field, f"Expected a number of minutes from 1 to {MAX_MINUTES}, or null.")
    return value


def checked_domains(field: str, value: object) -> list[str] | None:
    """In lower case, each once; null or empty: none. Raises InvalidFieldError."""
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) > MAX_DOMAINS:
        raise InvalidFieldError(field, f"Expected a list of at most {MAX_DOMAINS} domains, or null.")
    if not all(isinstance(name, str) and _DOMAIN.match(name.lower()) for name in value):
        raise InvalidFieldError(field, "Each of them is a domain such as example.org.")
    return list(dict.fromkeys(name.lower() for name in value))
