"""Programs that register themselves before anybody has signed in: the `globus` command does so at its first login.

Anybody may ask for it, so it is bounded: so many an hour for an address, so many that nobody has signed in with.
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

#: What the `globus` command calls itself; no other template is known.
TEMPLATES = {"95fdeba8-fac2-42bd-a357-e068d82ff78e": ("http://localhost", "http://127.0.0.1", "http://[::1]")}
#: Of one address, in an hour.
MOST_AN_HOUR = 20
HOUR = 3600
#: That nobody has signed in with; they go after a day.
MOST_UNUSED = 10_000
UNUSED_LIFETIME = timedelta(days=1)
#: Nobody has signed in with it for so long, and it holds no token.
IDLE_LIFETIME = timedelta(days=180)


def register(template: str, name: str, address: str) -> tuple[Application, Secret]:
    """A confidential client for one installation of a known program, and its secret.

    address: where the request comes from. Raises ClientInvalidError, TooManyRegistrationsError.
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
        # The other bound holds.
        log.warning("registrations are not counted: %s", type(error).__name__)
        return
    if count > MOST_AN_HOUR:
        raise TooManyRegistrationsError(HOUR)


def _registered() -> QuerySet[Application]:
    """Those without a sign-in or a code that could still become one."""
    signed_in = SignIn.objects.filter(application=OuterRef("pk"))
    found: QuerySet[Application] = Application.objects.filter(
        ~Exists(signed_in),
        ~Exists(Grant.objects.filter(application=OuterRef("pk"))),
        registration_source=Application.RegistrationSource.DCR,
    )
    return found


def unused() -> QuerySet[Application]:
    """Not a moment longer than it took to make them: every sign-in sets `updated`."""
    return _registered().filter(updated__lt=F("created") + timedelta(seconds=1))


def forgotten(now: datetime | None = None) -> QuerySet[Application]:
    """Those that may go."""
    now = now or datetime.now(UTC)
    idle = _registered().filter(updated__lt=now - IDLE_LIFETIME)
    return unused().filter(created__lt=now - UNUSED_LIFETIME) | idle
