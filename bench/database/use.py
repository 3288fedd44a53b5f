"""The deeds of people, programs and strangers on a day of the simulated year, by the product's own functions and pages.

Load it after Django is set up.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import random
import secrets
import uuid
from datetime import timedelta

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.test import Client
from oauth2_provider.models import Application

from endpoints import registry
from endpoints.connect import presence, setup, setup_keys
from endpoints.connect.presence import Arrival
from endpoints.connect.setup import AgentVersion
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.files import upload_records
from endpoints.gridftp.agent.keys import AgentKey
from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from endpoints.sharing import shares
from identity import sessions, tokens
from identity.clock import moment
from identity.error_categories import CategorizedError
from identity.federation import pending
from identity.hidden import Secret
from identity.models import SignIn, User
from identity.provider import issue, registration, scopes
from transferapi.rest.http import rate_limit
from transferapi.tasks import doorbell, endpoint_failures, removal, submission
from transferapi.tasks.models import Item, Task
from transferapi.tasks.notify import webhooks
from transferapi.tasks.records import FaultedFile, FoundFile, SettledFile, Settlement, SliceMeasurement
from transferapi.tasks.submission import TransferItem, TransferRequest
from transferapi.tasks.upkeep import service_processes, tallies, worker_processes
from transferapi.tasks.worker import leases, measurements, scan_results, settling, slice_end
from transferapi.tasks.worker.leases import Grant
from transferapi.timers import services as timers
from transferapi.timers.schedule import Schedule

PASSWORD = "correct horse battery"
TEMPLATE = next(iter(registration.TEMPLATES))
#: Files of a large task, and of one batch.
LARGE, BATCH = 100_000, 1000
#: A fault that each fifth task has with one of its files.
DENIED = Fault(Kind.PERMISSION_DENIED, Side.SOURCE, advice="", raw="550 no")


class Use:
    """users: people, of whom each has two endpoints and a timer for each hour."""

    def __init__(self, users: int, seed: int = 20261129) -> None:
        self._random = random.Random(seed)
        self.users = [self._person(number) for number in range(users)]
        self.ends = {user.pk: [self._endpoint(user, name) for name in ("lab", "archive")] for user in self.users}
        for user in self.users:
            start = moment() + timedelta(minutes=5)
            timers.create(user, name="hourly", plan=Schedule(start, 3600), request=self._request(user))
        self._agent = setup_keys.create_endpoint(self.users[0], {"name": "laptop", "is_globus_connect": True})[0]
        self._api = [tokens.issue(user) for user in self.users]

    def act(self, day: int) -> None:
        """Do the deeds of a day, from 0."""
        for deed in (self._work, self._sign_ins, self._strangers, self._programs):
            deed()
        for daily in (
            self._registrations,
            self._endpoints,
            self._agents,
            self._uploads,
            self._processes,
            self._webhooks,
        ):
            daily(day)

    # ---- tasks

    def _person(self, number: int) -> User:
        return User.objects.create(
            username=f"user{number}", email=f"user{number}@example.org", password=make_password(PASSWORD)
        )

    @staticmethod
    def _endpoint(user: User, name: str) -> Endpoint:
        return registry.create(user, {"name": name}, [ServerSpec("127.0.0.1", 9, "ftp")])

    def _request(self, user: User, items: int = 1) -> TransferRequest:
        source, destination = self.ends[user.pk]
        paths = [TransferItem(f"/data/{n}/", f"/archive/{n}/", recursive=True) for n in range(items)]
        return TransferRequest(uuid.uuid4(), str(source.pk), str(destination.pk), paths)

    def _work(self) -> None:
        """One new task, and a slice of a worker for each task that waits, of a user or of a timer."""
        user = self._random.choice(self.users)
        task, _ = submission.submit_transfer(user, self._request(user))
        doorbell.ring([task.pk])
        for waiting in Task.objects.filter(phase="queued").order_by("next_run_at")[:20]:
            self.run_task(waiting, self._random.randrange(1, 20))

    def large_task(self) -> None:
        """A task of LARGE files."""
        user = self.users[0]
        self.run_task(submission.submit_transfer(user, self._request(user))[0], LARGE)

    def run_task(self, task: Task, files: int) -> None:
        """Write what a worker writes in the slice that does the whole task."""
        grant = leases.acquire(task.pk, "bench:1")
        if not isinstance(grant, Grant):
            return
        item = Item.objects.filter(task=task.pk).values_list("pk", flat=True)[0]
        fails = self._random.random() < 0.2
        for start in range(0, files, BATCH):
            names = [f"run{start // 10_000:03}/file{n:08}.dat" for n in range(start, min(start + BATCH, files))]
            found = [FoundFile(f"/data/{name}", f"/archive/{name}", 1000, None) for name in names]
            rows = scan_results.add_found(task.pk, grant.epoch, item, found)
            bad = rows[:1] if fails else []
            settled = [SettledFile(row, 1000) for row in rows if row not in bad]
            faulted = [FaultedFile(row, DENIED, None) for row in bad]
            settling.write(task.pk, grant.epoch, Settlement(settled=settled, faulted=faulted))
            leases.heartbeat(task.pk, grant.epoch)
        scan_results.item_scanned(task.pk, grant.epoch, item, 1, 0)
        now = moment()
        if fails:
            with transaction.atomic():
                endpoint_failures.failed(task, DENIED, now)
        else:
            with transaction.atomic():
                endpoint_failures.answered(task, [Side.SOURCE, Side.DESTINATION], now)
        slice_end.finish(task.pk, grant.epoch)
        run = SliceMeasurement(10.0, files, files * 1000, int(fails), 0.01, 2, 2, 20, True)
        measurements.learn(task.pk, {"version": 1, "rates": [1.0] * 20}, run)
        tallies.add("files", "ftp", "ftp", by=files)
        tallies.flush()
        if self._random.random() < 0.1:
            removal.remove(task.owner, task.pk)

    # ---- people and strangers, by the pages and the API

    def _sign_ins(self) -> None:
        user = self._random.choice(self.users)
        browser = Client(REMOTE_ADDR="192.0.2.1")
        browser.get("/signin")
        browser.post("/signin", {"username": user.username, "password": PASSWORD})
        browser.get("/account")
        if self._random.random() < 0.5:
            browser.post("/signout")
        number = self._random.randrange(len(self.users))
        api = Client(REMOTE_ADDR="192.0.2.2", HTTP_AUTHORIZATION=f"Bearer {self._api[number]}")
        api.get("/v0.10/task_list")
        rate_limit.take(self.users[number].pk, "192.0.2.2")

    def _address(self) -> str:
        return ".".join(str(self._random.randrange(1, 223)) for _ in range(4))

    def _strangers(self) -> None:
        """Each has an address of its own, and names that nobody has had before."""
        for _ in range(2):
            stranger, word = Client(REMOTE_ADDR=self._address()), secrets.token_hex(8)
            stranger.post("/signin", {"username": word, "password": word})
            stranger.post("/signin/passkey/options")
            stranger.generic(word.upper(), f"/v0.10/{word}?{word}={word}", HTTP_USER_AGENT=word, HTTP_X_REQUEST_ID=word)
            stranger.post("/recover", {"name": f"{word}@example.net"})
            stranger.post("/signup", {"email": f"{word}@example.net"})
            stranger.get("/v2/oauth2/authorize", {"client_id": word, "state": word})
            rate_limit.take(None, self._address())
            session = sessions.SessionStore()
            pending.keep(session, word, {"nonce": word, "next": "/"})
            session.save()
            with contextlib.suppress(CategorizedError):
                pending.take(session, word)

    def _programs(self) -> None:
        """A program that a user consents to, and whose tokens it renews each time."""
        user = self._random.choice(self.users)
        program = Application.objects.filter(user=None).order_by("-pk").first()
        if program is None:
            return
        known = SignIn.objects.filter(user=user, application=program).first()
        sign_in = known or SignIn.objects.create(
            user=user, application=program, scope=scopes.DEFAULT, authenticated_at=moment(),
            code_digest=hashlib.sha256(secrets.token_bytes(16)).digest(),
        )  # fmt: skip
        issue.access(program, user, [scopes.DEFAULT], sign_in=sign_in.pk, refresh=True)

    # ---- by day

    def _registrations(self, day: int) -> None:
        registration.register(TEMPLATE, f"program of day {day}", self._address())

    def _endpoints(self, day: int) -> None:
        """An endpoint and a share of it, used once, and deleted; and three that nobody has used."""
        user = self.users[day % len(self.users)]
        host = registry.create(user, {"name": f"day{day}", "public": True}, [ServerSpec("127.0.0.1", 9, "ftp")])
        share = shares.create(user, str(host.pk), "/a/", {})
        ends = self.ends[user.pk]
        self.ends[user.pk] = [share, ends[1]]
        with contextlib.suppress(CategorizedError):
            self.run_task(submission.submit_transfer(user, self._request(user))[0], 5)
        self.ends[user.pk] = ends
        registry.delete(user, str(host.pk))
        for number in range(3):
            other = registry.create(user, {"name": f"n{day}-{number}"}, [ServerSpec("127.0.0.1", 9, "ftp")])
            registry.delete(user, str(other.pk))

    def _agents(self, day: int) -> None:
        """The agent is set up anew and signs in; every tenth day it is revoked. A relay is lost each week."""
        owner, pair = self.users[0], AgentKey.new()
        if day % 10 == 0:
            setup.revoke(owner, str(self._agent.pk))
        key = setup_keys.new_key(owner, str(self._agent.pk))
        setup.set_up(_secret_of(key), pair.request("agent"), AgentVersion("1.0", "Linux"))
        relay = f"10.0.0.1:{1000 + day // 7}"
        presence.begin(relay)
        held = presence.accept(self._agent.pk, relay, Arrival("1.0", "Linux", paused=False))
        presence.meter({self._agent.pk: 10**6})
        if held is not None:
            presence.leave(held.endpoint_id, held.epoch)

    def _uploads(self, day: int) -> None:
        user = self.users[0]
        key = upload_records.digest(str(day))
        upload_records.begin(user, self.ends[user.pk][0], "/", key, 1000, in_parts=True)

    def _processes(self, day: int) -> None:
        """Each day all processes have new names, as in Kubernetes."""
        for kind in ("web", "worker", "shell", "relay", "events"):
            service_processes.report(f"{kind}-{day}:1", kind, {"memory": 1})
        worker_processes.report(f"worker-{day}:1", f"worker-{day}")

    def _webhooks(self, day: int) -> None:
        """A webhook whose receiver never answers: it is disabled after days, and its owner makes another one."""
        user = self.users[0]
        known = webhooks.listing(user)
        if day % 15 == 0:
            for row in known:
                webhooks.delete(user, str(row.pk))
            webhooks.create(user, "https://127.0.0.1:9/")


def _secret_of(key: IssuedSetupKey) -> Secret:
    """The secret inside a setup key, as an agent sends it."""
    text = key.text.value.partition(".")[2]
    return Secret(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["s"])
