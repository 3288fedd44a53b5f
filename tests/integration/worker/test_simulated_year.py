"""A year of rows after the rounds of the workers: each table has a sweep, or a bound of another kind.

The rows have the times that they would have had: the rounds look at the database's clock, which no test can set.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from endpoints.models import Endpoint, RelayedOctets, RelayProcess, Server, UploadRecord
from identity.models import (
    AddressChange,
    AuditEvent,
    Credential,
    Invitation,
    PendingSecret,
    RecoveryLink,
    Registration,
    SignIn,
    SignInToken,
    SignUpRequest,
    User,
    UserSession,
)
from tests.integration.cast import make_endpoint, make_user, submit
from transferapi.tasks.models import (
    AdminCancel,
    Delivery,
    Event,
    File,
    Item,
    Lease,
    Mail,
    PathMemory,
    RemovedTask,
    Run,
    ServiceProcess,
    Task,
    Webhook,
    WorkerProcess,
)
from transferapi.tasks.states import Phase, Status
from transferapi.tasks.upkeep import service_processes, worker_processes
from workers.rounds import JOBS

pytestmark = pytest.mark.django_db

#: A task comes each EACH days.
DAYS, EACH = 365, 5
#: Rows that may be left of a year with one row a day: the days for which a table keeps its rows, and one.
LEFT: dict[type[Model], int] = {
    # Their end was on the day of the row.
    UserSession: 1, Grant: 1,
    # Until the refresh token of a program ends, half a year after its last use.
    AccessToken: 184, RefreshToken: 184, SignIn: 184, SignInToken: 184,
    Credential: 1, PendingSecret: 1, RecoveryLink: 1, SignUpRequest: 1, AddressChange: 2, Invitation: 31,
    Registration: 2, Mail: 91, Delivery: 31, AdminCancel: 31,
    Event: 31, File: 31, Item: 31,
    # Of the operator: TASK_DAYS.
    Task: 61, Lease: 61, RemovedTask: 61, Run: 61,
    # 30 days after the deletion of the endpoint, which was on the day of the row.
    Endpoint: 34, Server: 34, PathMemory: 34,
    RelayProcess: 2, RelayedOctets: 92, UploadRecord: 1, ServiceProcess: 9, WorkerProcess: 9,
    # Of the operator: AUDIT_DAYS.
    AuditEvent: 31,
}  # fmt: skip

_OF_A_USER = "a bounded number of each user"
_OF_AN_ENDPOINT = "a bounded number on each endpoint"
_OF_THE_OPERATOR = "what the operator has made or configured"
_FIXED = "a fixed number of rows"
_EMPTY = "this service writes no rows"
#: The bounds of the tables without a sweep.
BOUNDED = {
    "identity_user": "invitations, mails that are sent, and proven identities", "identity_apitoken": _OF_A_USER,
    "identity_linkedidentity": _OF_A_USER, "identity_activation": "one for each user and endpoint; deleted with it",
    "identity_certificatesubject": _OF_A_USER, "identity_sshpublickey": _OF_A_USER,
    "identity_onetimecodesecret": _OF_A_USER, "identity_recoverycode": _OF_A_USER, "identity_passkey": _OF_A_USER,
    "identity_recoveryrequest": "1000 wait for a worker", "identity_group": _OF_A_USER,
    "identity_membership": "a bounded number in each group", "identity_grouppreference": _OF_A_USER,
    "oauth2_provider_application": "registration.surplus, and a bounded number of each user",
    "identity_clientsecret": "a bounded number of each application", "identity_clientoptions": "one of an application",
    "identity_institution": _OF_THE_OPERATOR, "identity_scimclient": _OF_THE_OPERATOR,
    "identity_scimtoken": _OF_THE_OPERATOR, "identity_scimuser": "EVER times max_users of each directory",
    "endpoints_role": _OF_AN_ENDPOINT, "endpoints_accessrule": _OF_AN_ENDPOINT, "endpoints_bookmark": _OF_A_USER,
    "endpoints_pauserule": _OF_AN_ENDPOINT, "endpoints_agent": _OF_AN_ENDPOINT,
    "endpoints_agentauthority": _OF_THE_OPERATOR,
    "tasks_space": _OF_A_USER, "tasks_mailpreference": _OF_A_USER,
    "tasks_webhook": _OF_A_USER, "tasks_schemachange": _OF_THE_OPERATOR, "tasks_maintenance": _FIXED,
    "tasks_round": _FIXED, "tasks_tally": "words of the code",
    "timers_timer": _OF_A_USER, "tasks_endpointfailure": "one for each endpoint that fails",
    "oauth2_provider_idtoken": _EMPTY, "oauth2_provider_devicegrant": _EMPTY, "django_session": _EMPTY,
    "auth_permission": _FIXED, "auth_group": _EMPTY, "auth_group_permissions": _EMPTY, "django_content_type": _FIXED,
    "identity_user_groups": _EMPTY, "identity_user_user_permissions": _EMPTY,
}  # fmt: skip


def test_each_table_has_a_sweep_or_a_bound() -> None:
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    swept = {model._meta.db_table for model in LEFT}
    assert tables - swept - set(BOUNDED) == set(), "say what bounds this table"
    assert (swept | set(BOUNDED)) - tables == set()
    assert swept & set(BOUNDED) == set()


def test_no_sequence_of_32_bits_numbers_rows_that_come_and_go() -> None:
    """One that has reached 2,147,483,647 lets no more rows in."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.relname FROM pg_sequence q JOIN pg_depend d ON d.objid = q.seqrelid AND d.deptype IN ('a', 'i')"
            " JOIN pg_class t ON t.oid = d.refobjid WHERE q.seqtypid <> 'bigint'::regtype"
        )
        narrow = {name for (name,) in cursor.fetchall()}
    assert "auth_permission" in narrow, "of Django, with a fixed number of rows"
    assert {name for name in narrow if BOUNDED.get(name) not in (_FIXED, _EMPTY)} == set()


class Year:
    """Makes the rows of one day after the other."""

    def __init__(self, owner: User, source: Endpoint, destination: Endpoint) -> None:
        self.owner, self.source, self.destination = owner, source, destination
        self.client = Application.objects.create(
            user=owner, client_type="public", authorization_grant_type="authorization-code", redirect_uris="https://a/"
        )
        self.webhook = Webhook.objects.create(owner=owner, url="https://a/", key_id="k", sealed_secret=b"s")

    def add(self, day: int, at: datetime) -> None:
        for write in (self.sign_ins, self.of_accounts, self.notices, self.processes, self.endpoint):
            write(day, at)
        if day % EACH == 0:
            self.task(day, at)

    def sign_ins(self, day: int, at: datetime) -> None:
        user, client = self.owner, self.client
        UserSession.objects.create(session_key=f"s{day}", session_data="", user=user, expire_date=at, last_used_at=at)
        Grant.objects.create(user=user, code=f"c{day}", application=client, expires=at, redirect_uri="https://a/")
        sign_in = SignIn.objects.create(
            user=user, application=client, scope="s", code_digest=hashlib.sha256(b"%d" % day).digest(),
            authenticated_at=at,
        )  # fmt: skip
        token = AccessToken.objects.create(user=user, token=f"t{day}", application=client, expires=at, scope="s")
        SignInToken.objects.create(access_token=token, sign_in=sign_in)
        renewal = RefreshToken.objects.create(
            user=user, token=f"r{day}", application=client, access_token=token, token_family=sign_in.pk
        )
        SignIn.objects.filter(pk=sign_in.pk).update(created_at=at)
        RefreshToken.objects.filter(pk=renewal.pk).update(created=at, updated=at)
        program = Application.objects.create(
            client_type="public",
            authorization_grant_type="authorization-code",
            hash_client_secret=False,
            registration_source=Application.RegistrationSource.DCR,
        )
        Registration.objects.create(application=program, network="192.0.2.1", kind="k")
        Registration.objects.filter(application=program).update(created_at=at)
        Application.objects.filter(pk=program.pk).update(created=at, updated=at)

    def of_accounts(self, day: int, at: datetime) -> None:
        user, sealed = self.owner, {"key_id": "k", "sealed": b"s"}
        Credential.objects.create(
            user=user, bound_to=f"e{day}", kind="x509", subject="/CN=a", stored_at=at, expires_at=at, **sealed
        )
        PendingSecret.objects.create(user=user, purpose="p", bound_to=f"e{day}", made_at=at, expires_at=at, **sealed)
        RecoveryLink.objects.create(user=user, made_at=at, expires_at=at)
        AddressChange.objects.create(user=user, email="a@b", asked_at=at, expires_at=at)
        SignUpRequest.objects.create(email=f"a{day}@b", asked_at=at, expires_at=at)
        Invitation.objects.create(digest=hashlib.sha256(b"i%d" % day).digest(), made_at=at, expires_at=at)

    def task(self, day: int, at: datetime) -> None:
        task = submit(self.owner, self.source, self.destination)
        Task.objects.filter(pk=task.pk).update(
            phase=Phase.DONE, status=Status.SUCCEEDED, request_time=at, completion_time=at
        )
        Lease.objects.create(task=task)
        RemovedTask.objects.create(task=task, owner=self.owner)
        Run.objects.create(
            task=task, source=self.source, destination=self.destination, ended_at=at, seconds=1, files=1, bytes=1,
            concurrency=1, parallelism=1, pipelining=1,
        )  # fmt: skip
        item = Item.objects.get(task=task)
        File.objects.create(
            task=task, item=item, source_path="/a", key=uuid.uuid4().bytes, state=1, kind=0, settled_at=at
        )

    def endpoint(self, day: int, at: datetime) -> None:
        endpoint = Endpoint.objects.create(owner=self.owner, name=f"e{day}", deleted_at=at)
        Server.objects.create(endpoint=endpoint, scheme="ftp", hostname="a.example.org", port=21)
        PathMemory.objects.create(source=self.source, destination=endpoint, updated_at=at)

    def notices(self, day: int, at: datetime) -> None:
        Mail.objects.create(user=self.owner, key=f"m{day}", subject="s", body="b", created_at=at, next_try_at=None)
        Delivery.objects.create(webhook=self.webhook, body={}, made_at=at)
        AdminCancel.objects.create(user=self.owner, message="", task_ids=[], created_at=at)

    @staticmethod
    def audit(times: list[datetime]) -> None:
        """The database itself sets the time of a row, but for a replica."""
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            AuditEvent.objects.bulk_create(AuditEvent(what="signed_in", at=at) for at in times)
            cursor.execute("SET LOCAL session_replication_role = origin")

    def processes(self, day: int, at: datetime) -> None:
        RelayProcess.objects.create(address=f"r{day}", heartbeat_at=at)
        RelayedOctets.objects.create(endpoint=self.source, day=at.date(), octets=1)
        UploadRecord.objects.create(
            owner=self.owner, endpoint=self.source, folder=b"/", key=f"u{day}", total=1, due_at=at, is_complete=True
        )
        ServiceProcess.objects.create(name=f"p{day}", kind="web", version="1", started_at=at, seen_at=at)
        WorkerProcess.objects.create(name=f"w{day}", host="h", version="1", started_at=at, seen_at=at)


def test_a_year_of_rows_becomes_those_of_the_last_days(settings: Any, record_property: Callable[..., None]) -> None:
    settings.AUDIT_DAYS, settings.TASK_DAYS = 30, 60
    alice = make_user("alice")
    year = Year(alice, make_endpoint(alice, "ep1"), make_endpoint(alice, "ep2"))
    now = datetime.now(UTC)
    times = [now - timedelta(days=day, minutes=1) for day in range(DAYS)]
    year.audit(times)
    for day, at in enumerate(times):
        year.add(day, at)
    before = {model: model._default_manager.count() for model in LEFT}
    assert min(before.values()) >= DAYS // EACH
    for _ in range(5):
        for job in JOBS:
            if job.name.startswith("tidy") or job.name in ("give_back", "uploads"):
                for step in job.steps:
                    step()
        service_processes.report("now", "web", {})
        worker_processes.report("now", "h", {})
    after = {model: model._default_manager.count() for model in LEFT}
    for model, kept in after.items():
        record_property(model._meta.db_table, f"{before[model]} -> {kept}")
        print(f"{model._meta.db_table}: {before[model]} -> {kept}")
    assert {model.__name__: kept for model, kept in after.items() if kept > LEFT[model] * before[model] // DAYS} == {}
    assert Application.objects.count() <= 3, "programs that nobody used go with their registration"
