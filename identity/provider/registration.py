"""Programs that register themselves before any user signs in: the `globus` command does so at its first login.

Registration is open to everybody, so it is limited: by the registrations with which nobody has signed in, of one
network and one kind of program, and of all. One with which somebody signs in no longer counts, so that a laboratory
behind one address is not kept out. Beyond the limit a registration takes the place of the oldest unused one.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from oauth2_provider.models import Application, Grant

from identity.hidden import Secret
from identity.models import Registration, SignIn
from identity.networks import network_of

from . import applications
from .errors import ClientInvalidError, TooManyRegistrationsError

#: The template id of the `globus` command; no other template is known.
TEMPLATES = {"95fdeba8-fac2-42bd-a357-e068d82ff78e": ("http://localhost", "http://127.0.0.1", "http://[::1]")}
#: Registered clients of one network and template with which no user has signed in; such clients in all. They are
#: deleted after UNUSED_LIFETIME.
MOST_UNUSED_OF_NETWORK = 300
MOST_UNUSED = 10_000
UNUSED_LIFETIME = timedelta(days=1)
#: A registration keeps its place for so long: time to sign in at the browser, and to allow the access.
UNDISTURBED = timedelta(minutes=10)
#: A client without tokens is deleted when no user has signed in with it for so long, or if there are more than so many.
IDLE_LIFETIME = timedelta(days=180)
MOST_IDLE = 10_000
#: The longest wait for other registrations, in milliseconds; one takes about 20 where there are MOST_UNUSED.
LOCK_MILLISECONDS = 2000
#: The number of a PostgreSQL advisory lock: registrations are counted one after the other.
_LOCK = 0x5742_0002


def register(template: str, name: str, address: str) -> tuple[Application, Secret]:
    """Create a confidential client for one installation of a known program; returns it with its secret.

    address: the source address of the request. Raises ClientInvalidError, TooManyRegistrationsError;
    OperationalError after LOCK_MILLISECONDS.
    """
    if template not in TEMPLATES:
        raise ClientInvalidError("template_id", "no such template")
    name = applications.line("name", name, applications.MAX_NAME)
    network = network_of(address)
    with transaction.atomic():
        with connection.cursor() as cursor:
            # A flood from many networks must not hold the threads of the web server: the rest of it gets an error.
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MILLISECONDS}ms"])
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        _make_room(unused().filter(registration__network=network, registration__kind=template), MOST_UNUSED_OF_NETWORK)
        _make_room(unused(), MOST_UNUSED)
        application = applications.new(
            name=name,
            client_type=Application.CLIENT_CONFIDENTIAL,
            authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
            registration_source=Application.RegistrationSource.DCR,
            redirect_uris=" ".join(TEMPLATES[template]),
        )
        Registration.objects.create(application=application, network=network, kind=template)
        return application, applications.new_secret(application, "template")[1]


def _make_room(unused: QuerySet[Application], most: int) -> None:
    """Delete the oldest of these registrations where there are as many as allowed. Raises TooManyRegistrationsError."""
    if unused.count() < most:
        return
    oldest = unused.order_by("created", "pk").first()
    if oldest is None:
        return
    wait = (oldest.created + UNDISTURBED - datetime.now(UTC)).total_seconds()
    if wait > 0:
        raise TooManyRegistrationsError(math.ceil(wait))
    oldest.delete()


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


def surplus() -> QuerySet[Application]:
    """The oldest clients without tokens beyond MOST_IDLE: a user who registers and signs in for ever fills no table."""
    idle = _registered().filter(updated__gte=F("created") + timedelta(seconds=1)).order_by("-updated", "-pk")
    beyond = list(idle.values_list("pk", flat=True)[MOST_IDLE : 2 * MOST_IDLE])
    found: QuerySet[Application] = Application.objects.filter(pk__in=beyond)
    return found


def counted(now: datetime | None = None) -> QuerySet[Registration]:
    """Records of networks that count no more."""
    return Registration.objects.filter(created_at__lt=(now or datetime.now(UTC)) - UNUSED_LIFETIME)
