"""One worker process: Celery's threads on one side, one event loop with all its sessions on the other.

A Celery thread takes the lease, hands the slice to the loop and waits. Sessions live on the loop, so that a task
finds those of the last one still warm, whichever thread it came by.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import threading
import uuid
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from endpoints import access, gate
from endpoints.access import Access
from endpoints.errors import NotPermittedError
from endpoints.gridftp.data_path import DataAddress
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.models import Endpoint
from endpoints.permissions import Verb
from identity import signing_in, vault
from identity.models import User
from identity.provider import tidy as provider_tidy
from transferapi.tasks import doorbell, leases, moves, pauses, postman, renewal, retention, webhooks, work
from transferapi.timers import running
from workers.engine.run import Outcome, run_slice
from workers.guard import Guard
from workers.pool import SessionPool
from workers.sessions import Place, Places, RealSessions
from workers.store import PostgresTaskStore, bounds, on_a_connection, task_spec
from workers.wallet import VaultWallet

log = logging.getLogger(__name__)

#: Seconds that a worker holds a task before others of the same user get their turn.
SLICE_SECONDS = 300.0
#: Tasks that one sweep, or the end of one slice, rings for.
SWEEP_LIMIT = 100
NOT_SHARED = (
    "The shared endpoint {} is not there any more for the owner of the task: "
    "its rules were withdrawn or have expired, or it was deleted."
)
#: Timers that are run in one round; the next one goes on.
TIMERS_LIMIT = 200
NOT_PERMITTED = "The owner of the task may not use one of its endpoints any more, or it was deleted."


class Runtime:
    """The event loop of this process and what lives on it."""

    def __init__(self) -> None:
        # The loop waits for sockets, not for the store's threads: with the default of 5 ms a lane runs dry each time
        # that a thread prepares a statement.
        sys.setswitchinterval(0.0005)
        # What is loaded by now stays: the collector need not walk through it for every few hundred files.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        self.loop = asyncio.new_event_loop()
        self.stop = asyncio.Event()
        self.pool = SessionPool()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_later(5.0, self._expire)
        self.loop.run_forever()

    def _expire(self) -> None:
        self.pool.expire()
        self.loop.call_later(5.0, self._expire)


#: Leases and turns are looked at on few threads, whose connections to the database stay warm. Not on the store's: who
#: waits for his turn's lock must not hold up a heartbeat.
_scheduling = ThreadPoolExecutor(2, thread_name_prefix="scheduling")

#: A mail server that hangs takes this thread, and no other.
_posting = ThreadPoolExecutor(1, thread_name_prefix="post")
_posted: Future[object] | None = None
#: Deletes rows by the thousand.
_tidying = ThreadPoolExecutor(1, thread_name_prefix="tidying")

_lock = threading.Lock()
_runtime: Runtime | None = None
_stopping = False


def current() -> Runtime:
    """The runtime of this process, made when first needed (never before a fork)."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
        return _runtime


def stop() -> None:
    """Make every slice of this process yield."""
    global _stopping
    _stopping = True
    if _runtime:
        _runtime.loop.call_soon_threadsafe(_runtime.stop.set)


def worker_name() -> str:
    """Who holds a lease, for people who look into the table; what fences writes is the epoch."""
    return f"{socket.gethostname()}:{os.getpid()}"


def run(task_id: str) -> None:
    """Take the lease of this task and work on it for a slice; then wake those that waited for the place."""
    if _stopping:
        return
    taken = _scheduling.submit(on_a_connection, lambda: take(uuid.UUID(task_id))).result()
    if taken is None:
        return
    grant, ends = taken
    runtime = current()
    slice_, wallet = prepare(grant, ends, runtime.pool, runtime.stop)
    future: Future[Outcome] = asyncio.run_coroutine_threadsafe(slice_, runtime.loop)
    outcome = future.result()
    runtime.loop.call_soon_threadsafe(wallet.clear)
    log.info("task %s: slice %d ended: %s", task_id, grant.epoch, outcome)
    if not _stopping:
        sweep()


def prepare(
    grant: leases.Grant, ends: Mapping[Side, Access], pool: SessionPool, stop: asyncio.Event
) -> tuple[Coroutine[Any, Any, Outcome], VaultWallet]:
    """The slice, to be run on the loop of the pool; and the wallet, to be cleared when it is over."""
    spec = task_spec(grant)
    wallet = VaultWallet(grant, ends, pool.forget)
    guards = {side: _guard(grant, side, end) for side, end in ends.items() if end.shared}
    sessions = RealSessions(
        spec,
        Places(
            {side: _places(end.host) for side, end in ends.items()},
            data_hosts={side: end.host.data_hosts for side, end in ends.items()},
        ),
        pool,
        door=wallet.door,
        resolve=_resolve,
        accept_address=_accepts,
        look_up=_look_up,
        guards=guards,
    )
    store = PostgresTaskStore(grant, [guard.refresh for guard in guards.values()])
    slice_ = run_slice(spec, store, sessions, wallet, Clock(), slice_seconds=SLICE_SECONDS, stop=stop, bounds=bounds())
    return slice_, wallet


def take(task_id: uuid.UUID) -> tuple[leases.Grant, dict[Side, Access]] | None:
    """The lease of a task and its endpoints; None when it is not its turn, or its owner may not use them any more."""
    grant = leases.acquire(task_id, worker_name())
    if not isinstance(grant, leases.Grant):
        log.debug("task %s is not taken: %s", task_id, grant)
        return None
    sides = (Side.SOURCE, Side.DESTINATION) if grant.destination else (Side.SOURCE,)
    found = _accesses(grant, sides)
    refused = next((side for side in sides if found[side] is None), None)
    if refused is not None:
        _refuse(grant, refused)
        return None
    return grant, {side: end for side, end in found.items() if end is not None}


def _refuse(grant: leases.Grant, side: Side) -> None:
    end = _end(grant, side)
    if end.root is None:
        work.fail(grant.task_id, grant.epoch, "PERMISSION_DENIED", NOT_PERMITTED)
    else:
        work.fail(grant.task_id, grant.epoch, "ACL_CHANGED", NOT_SHARED.format(end.name))


def sweep() -> None:
    """End what has passed its deadline unheld, pause what is to be paused; ring for every task that may run and that
    nobody holds."""

    def look() -> list[uuid.UUID]:
        moves.expire_overdue()
        pauses.settle()
        return leases.next_runnable(SWEEP_LIMIT)

    doorbell.ring(_scheduling.submit(on_a_connection, look).result())


def renew() -> None:
    """Let go on what has waited for a credential that is there now: what the signal of the vault has missed."""
    _scheduling.submit(on_a_connection, renewal.resume_waiting).result()


def run_timers() -> None:
    """Submit the transfers of timers that are due; several workers may do so at the same time."""
    _scheduling.submit(on_a_connection, lambda: running.run_due(TIMERS_LIMIT)).result()


def tidy() -> None:
    """Forget what has expired, and what is of long ago."""

    def forget() -> None:
        vault.expire()
        postman.forget_old()
        webhooks.forget_old()
        retention.forget_old()
        signing_in.forget_sessions()

    _scheduling.submit(on_a_connection, forget).result()


def give_back() -> None:
    """Delete what nobody can see of tasks that are done: for seconds, so that nobody else waits for this thread."""
    _tidying.submit(on_a_connection, retention.give_back).result()


def tidy_tokens() -> None:
    """Forget codes, tokens and clients of the OAuth2 server that are over: so many batches a round."""
    _scheduling.submit(on_a_connection, provider_tidy.run).result()


def post() -> None:
    """Send what is in the outbox, unless that is going on. Nobody waits for it."""
    global _posted
    with _lock:
        if _posted is None or _posted.done():
            _posted = _posting.submit(_post)


def _post() -> None:
    try:
        on_a_connection(postman.send_due)
    except Exception as error:
        log.warning("mails are sent later: %s", type(error).__name__)


def _end(grant: leases.Grant, side: Side) -> leases.End:
    end = grant.destination if side is Side.DESTINATION else grant.source
    assert end is not None
    return end


def _accesses(grant: leases.Grant, sides: Sequence[Side]) -> dict[Side, Access | None]:
    """How the owner of the task reaches its endpoints now; None where he may not use one (any more)."""
    user = User.objects.get(pk=grant.owner_id)
    rows = Endpoint.objects.select_related("owner", "host__owner").prefetch_related("servers", "host__servers")
    endpoints = rows.in_bulk([_end(grant, side).id for side in sides])
    return {side: _access(user, endpoints[_end(grant, side).id], _verb(grant, side)) for side in sides}


def _verb(grant: leases.Grant, side: Side) -> Verb:
    if side is Side.DESTINATION:
        return Verb.TRANSFER_TO
    return Verb.WRITE if grant.is_delete else Verb.TRANSFER_FROM


def _access(user: User, endpoint: Endpoint, verb: Verb) -> Access | None:
    try:
        return access.of(user, endpoint, verb)
    except NotPermittedError:
        return None


def _guard(grant: leases.Grant, side: Side, found: Access) -> Guard:
    """Of a shared endpoint: it looks at the rules again with each heartbeat."""
    return Guard(
        found,
        side,
        lambda: _accesses(grant, [side])[side],
        write=grant.is_delete or side is Side.DESTINATION,
        foreign=found.actor_id != grant.owner_id,
    )


def _places(endpoint: Endpoint) -> list[Place]:
    return [Place(server.hostname, server.port, server.subject) for server in endpoint.servers.all()]


def _resolve(host: str, port: int) -> list[str]:
    """The gate, with its refusal as a fault of the endpoint: a task waits for the operator or its deadline."""
    try:
        return gate.resolve_target(host, port, allow=settings.ALLOW_TARGETS)
    except gate.TargetRefusedError as error:
        raise FaultError(
            Fault(Kind.CONNECT_FAILED, scope=Scope.ENDPOINT, advice=error.reason, raw=str(error))
        ) from None


def _accepts(address: DataAddress) -> bool:
    try:
        gate.check_address(*address, settings.ALLOW_TARGETS)
    except gate.TargetRefusedError:
        return False
    return True


def _look_up(host: str) -> Collection[str]:
    """The addresses of a data host; none where the name has none."""
    try:
        return gate.addresses_of(host)
    except gate.TargetRefusedError:
        return ()


class Clock:
    """The engine's clock: this machine's."""

    def now(self) -> datetime:
        return timezone.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
