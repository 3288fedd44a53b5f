"""Programs that register themselves before any user signs in: the `globus` command does so at its first login.

Registration is open to everybody, so it is limited: per address and hour, and in the number of unused clients.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import redis
from django.core.cache import cache
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from oauth2_provider.models import Application, Grant

from identity.hidden import Secret
from identity.models import SignIn
from identity.networks import network_of

from . import applications
from .errors import ClientInvalidError, TooManyRegistrationsError

log = logging.getLogger(__name__)

#: The template id of the `globus` command; no other template is known.
TEMPLATES = {"95fdeba8-fac2-42bd-a357-e068d82ff78e": ("http://localhost", "http://127.0.0.1", "http://[::1]")}
#: Registrations from one address in an hour.
MOST_AN_HOUR = 20
HOUR = 3600
#: Registered clients with which no user has signed in; they are deleted after UNUSED_LIFETIME.
MOST_UNUSED = 10_000
UNUSED_LIFETIME = timedelta(days=1)
#: A client without tokens is deleted when no user has signed in with it for so long.
IDLE_LIFETIME = timedelta(days=180)


def register(template: str, name: str, address: str) -> tuple[Application, Secret]:
    """Create a confidential client for one installation of a known program; returns it with its secret.

    address: the source address of the request. Raises ClientInvalidError, TooManyRegistrationsError.
    """
    if template not in TEMPLATES:
        raise ClientInvalidError("template_id", "no such template")
    _count(address)
    with transaction.atomic():
        application = applications.new(
            name=applications.line("name", name, applications.MAX_NAME),
            client_type=Application.CLIENT_CONFIDENTIAL,
            authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
            registration_source=Application.RegistrationSource.DCR,
            redirect_uris=" ".join(TEMPLATES[template]),
        )
        return application, applications.new_secret(application, "template")[1]


def _count(address: str) -> None:
    """Raises TooManyRegistrationsError."""
    if unused().count() >= MOST_UNUSED:
        raise TooManyRegistrationsError(HOUR)
    key = f"waybill:registrations:{network_of(address)}"
    try:
        cache.add(key, 0, HOUR)
        count = cache.incr(key)
    except (redis.RedisError, ValueError) as error:
        # The limit on unused clients still holds.
        log.warning("registrations are not counted: %s", type(error).__name__)
        return
    if count > MOST_AN_HOUR:
        raise TooManyRegistrationsError(HOUR)


def _registered() -> QuerySet[Application]:
    """Registered clients without a consent and without a code that could still become one."""
    signed_in = SignIn.objects.filter(application=OuterRef("pk"))
    found: QuerySet[Application] = Application.objects.filter(
        ~Exists(signed_in),
        ~Exists(Grant.objects.filter(application=OuterRef("pk"))),
        registration_source=Application.RegistrationSource.DCR,
    )
    return found


def unused() -> QuerySet[Application]:
    """Registered clients that nobody has used: every sign-in sets `updated`."""
    return _registered().filter(updated__lt=F("created") + timedelta(seconds=1))


def forgotten(now: datetime | None = None) -> QuerySet[Application]:
    """Registered clients that may be deleted."""
    now = now or datetime.now(UTC)
    idle = _registered().filter(updated__lt=now - IDLE_LIFETIME)
    return unused().filter(created__lt=now - UNUSED_LIFETIME) | idle
