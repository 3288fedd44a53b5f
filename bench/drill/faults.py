"""The faults, each with its bars: issue by issue what must hold when a part of the service is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.drill.host import Host
from bench.drill.load import insist, submission, submit, wait_done
from bench.drill.looks import (
    backup_and_restore,
    certificate_renewed,
    major_version,
    no_secrets,
    own_addresses,
    vault_key_replaced,
)
from bench.drill.measure import Sampler, submission_ids
from tests.instance import Api

#: A manager of standbys (Patroni and others) needs about so long until it promotes one.
PROMOTED_AFTER = 5.0
HOUR = 3600
#: The file of the tasks that are submitted one by one.
ONE_FILE = "/tree/1/00001"
#: The long file of the first endpoint, and how many tasks copy it at the same time.
LONG_FILE, LONG_TASKS = "/long", 4
#: Processors of a GridFTP server while it has them.
SLOW = 0.25
#: Fewer than a user may have that are not done (`transferapi.tasks.submission`).
TASKS_OF_A_USER = 90


@dataclass(frozen=True)
class Scale:
    """files, megabytes: of the transferred tree. rate: of GETs, and of POSTs, a second. away: seconds for which servers
    are stopped or hang. tasks: that wait at once. gigabytes: of a long file."""

    files: int = 2000
    megabytes: int = 64
    rate: float = 10.0
    away: float = 30.0
    tasks: int = 1000
    gigabytes: int = 2


@dataclass
class Batch:
    """Tasks of one file each. source: the path of the file; folder: where its copies go, with a number as name.

    ends: their endpoints; None: those of the host.
    """

    source: str
    folder: str
    ends: tuple[str, str] | None = None
    #: With the API as their owner uses it.
    tasks: dict[str, Api] = field(default_factory=dict)

    def submit(self, host: Host, count: int, users: Sequence[Api]) -> None:
        """Each user submits as many as the others."""
        label = self.folder.strip("/")
        for number, id_ in enumerate(submission_ids(count)):
            document = submission(host, id_, self.source, f"{self.folder}/{number:05d}", label, self.ends)
            api = users[number % len(users)]
            self.tasks[submit(api, document)] = api


@dataclass
class Scene:
    """The run of a fault. lost: the leases of killed workers, and when they were killed."""

    host: Host
    sampler: Sampler
    label: str
    scale: Scale
    begun: float = 0.0
    lost: dict[str, tuple[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: Tasks that the fault itself has submitted.
    batches: list[Batch] = field(default_factory=list)

    def note_leases(self, worker: str | None = None) -> None:
        """Of this worker; None: of all."""
        held = self.sampler.holders()
        self.lost = {task: holder for task, holder in held.items() if worker in (None, holder[0])}
        self.sampler.watched = frozenset(self.lost)
        self.begun = time.monotonic()

    def stop_holder(self, *, lasting: bool = True, least: int = 1) -> str:
        """SIGSTOP to a worker, so that none of its leases can end before the fault, and note them. Raises TimeoutError.

        A takeover counts from right before the signal. lasting: see `holder`. least: of the leases that it must have.
        """
        until = time.monotonic() + 60
        while time.monotonic() < until:
            name = self.holder(lasting=lasting)
            begun = self.host.signal_worker(name, signal.SIGSTOP)
            self.sampler.wait_for_another()
            self.note_leases(name)
            self.begun = begun
            if len(self.lost) >= least:
                return name
            self.host.signal_worker(name, signal.SIGCONT)
        raise TimeoutError(f"no worker that was stopped had {least} tasks, for 60 s")

    def holder(self, *, lasting: bool = True) -> str:
        """The worker with most leases. lasting: of those that are a second old, for shorter ones end before a kill."""
        until = time.monotonic() + 30
        while not (held := self.sampler.lasting() if lasting else self.sampler.holders()):
            if time.monotonic() > until:
                raise TimeoutError("no worker holds a task, after 30 s")
            time.sleep(0.05)
        workers = [worker for worker, _ in held.values()]
        return max(set(workers), key=workers.count)


def nothing(scene: Scene) -> None:
    time.sleep(5.0)


@dataclass(frozen=True)
class Fault:
    """words: with the fields of the scale in braces.
    stall, away, takeover: bars in seconds; None if there is none. needs: what not every host can."""

    name: str
    words: str
    act: Callable[[Scene], None] = nothing
    stall: float | None = None
    away: float | None = 2.0
    takeover: float | None = None
    needs: str | None = None
    #: No request may fail.
    all_served: bool = False
    #: The fault itself takes the API away for a time, in which all requests fail; so it is where `away` is None.
    api_goes: bool = False
    #: In place of `act`, without transfers: returns what was found, in words. Raises AssertionError where it is wrong.
    look: Callable[[Host], str] | None = None
    prepare: Callable[[Host], None] | None = None
    finish: Callable[[Host], None] | None = None


def worker(scene: Scene) -> None:
    scene.host.kill_worker(scene.stop_holder())


def workers(scene: Scene) -> None:
    scene.note_leases()
    scene.host.kill("worker")


def one_web(scene: Scene) -> None:
    scene.host.kill_one_web()


def webs(scene: Scene) -> None:
    scene.host.kill("web")


def two_of_everything(scene: Scene) -> None:
    scene.note_leases()
    scene.host.kill("worker", "web", "redis", "postgres")


def restarted(role: str) -> Callable[[Scene], None]:
    return lambda scene: scene.host.restart(role)


def stopped(role: str) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        scene.host.stop(role)
        try:
            time.sleep(scene.scale.away)
        finally:
            scene.host.start(role)

    return act


def paused(role: str) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        scene.host.pause(role)
        try:
            time.sleep(scene.scale.away)
        finally:
            scene.host.resume(role)

    return act


def full_disk(scene: Scene) -> None:
    scene.host.fill_disk()
    try:
        time.sleep(scene.scale.away)
    finally:
        scene.host.free_disk()


def network(scene: Scene) -> None:
    name = scene.stop_holder()
    scene.host.cut_network(name)
    scene.host.signal_worker(name, signal.SIGCONT)
    try:
        time.sleep(scene.scale.away)
    finally:
        scene.host.mend_network()


def failover(scene: Scene) -> None:
    """On a busy machine the commands of the engine take their time, for which the service has to wait."""
    begun = time.monotonic()
    scene.host.failover(PROMOTED_AFTER)
    scene.notes.append(f"promoted {time.monotonic() - begun:.1f} s after the command to kill it")


def clock(scene: Scene) -> None:
    scene.host.set_clock(-HOUR)
    try:
        time.sleep(scene.scale.away)
    finally:
        scene.host.set_clock(0)


def many_tasks(scene: Scene) -> None:
    """All are paused by a rule while they are submitted; then they go on at once, and a worker is killed.

    They have endpoints of their own at the same servers: the rule does not pause the tasks of the load.
    """
    api, (first, second) = scene.host.api, scene.host.endpoints
    ends = _endpoint_beside(scene, first), _endpoint_beside(scene, second)
    rule = {"DATA_TYPE": "pause_rule", "endpoint_id": ends[0], "identity_id": None, "message": "drill"}
    rule_id = insist(lambda: str(api.call("POST", "/endpoint_manager/pause_rule", rule)["id"]))
    batch = Batch(ONE_FILE, f"/{scene.label}-many", ends)
    scene.batches.append(batch)
    batch.submit(scene.host, scene.scale.tasks, scene.host.users(-(-scene.scale.tasks // TASKS_OF_A_USER)))
    begun = time.monotonic()
    insist(lambda: api.call("DELETE", f"/endpoint_manager/pause_rule/{rule_id}"))
    # Each has one file, and so a short lease.
    scene.host.kill_worker(scene.stop_holder(lasting=False, least=2))
    scene.notes.append(f"{len(scene.lost)} of them lost their worker")
    for task, owner in batch.tasks.items():
        wait_done(owner, task)
    scene.notes.append(f"all done in {time.monotonic() - begun:.0f} s")


def _endpoint_beside(scene: Scene, endpoint: str) -> str:
    """Another endpoint with the same server; its id."""
    api = scene.host.api
    server = api.call("GET", f"/endpoint/{endpoint}/server_list")["DATA"][0]
    return api.endpoint(f"many-{endpoint[:8]}", server["port"], server["hostname"])


def begin_scale(host: Host) -> None:
    host.limit_servers(SLOW)


def end_scale(host: Host) -> None:
    # Docker takes 0 for no change.
    host.limit_servers(os.cpu_count() or 1)
    host.scale_workers(3)


def scaled_down(scene: Scene) -> None:
    """Long files, so that the workers that are stopped have slices that others must continue."""
    path = scene.host.folders[0] / LONG_FILE.strip("/")
    with path.open("wb") as file:
        file.truncate(scene.scale.gigabytes * 1_000_000_000)
    path.chmod(0o644)
    batch = Batch(LONG_FILE, f"/{scene.label}-long")
    scene.batches.append(batch)
    # A user has three slots, which the tasks of the load use, too.
    batch.submit(scene.host, LONG_TASKS, scene.host.users(LONG_TASKS))
    until = time.monotonic() + 60
    # One worker stays, so one of two is stopped.
    while len({worker for task, (worker, _) in scene.sampler.holders().items() if task in batch.tasks}) < 2:
        if time.monotonic() > until:
            raise TimeoutError("no two workers hold tasks of long files after 60 s")
        time.sleep(0.05)
    scene.note_leases()
    scene.host.scale_workers(1)
    left = scene.host.workers()
    lost = {task: one for task, one in scene.lost.items() if task in batch.tasks}
    scene.lost = {task: one for task, one in lost.items() if one[0].partition(":")[0] not in left}
    scene.notes.append(f"{len(scene.lost)} slices of {scene.scale.gigabytes} GB moved")


def upgraded(scene: Scene) -> None:
    scene.host.upgrade()
    scene.notes.append(scene.host.older())


def replaced(scene: Scene) -> None:
    scene.host.replace()


FAULTS = (
    Fault("upgrade", "upgrade from an older commit", upgraded, needs="upgrade", all_served=True),
    Fault("secrets", "secrets in the image, its history, containers and logs", look=no_secrets, needs="image"),
    Fault("backup", "backup, restore, release, by docs/operate/compose.md", look=backup_and_restore, needs="page"),
    Fault("vault-key", "the key of the vault, by docs/operate/compose.md", look=vault_key_replaced, needs="page"),
    Fault("certificate", "a certificate renewed by docs/operate/compose.md", look=certificate_renewed, needs="tls"),
    Fault("addresses", "clients of other hosts, by IPv4 and IPv6", look=own_addresses, needs="tls"),
    Fault("none", "no fault, for comparison", nothing),
    Fault("worker", "the worker that holds a task: -9", worker, takeover=6.0),
    Fault("workers", "all workers, with the periodic jobs: -9", workers, takeover=10.0),
    Fault(
        "replaced", "all containers of the service replaced, one version", replaced, needs="two webs", all_served=True
    ),
    Fault("web", "one of the two web servers: -9", one_web, needs="two webs"),
    Fault("webs", "all web servers: -9", webs, api_goes=True),
    Fault("postgres-restarted", "PostgreSQL restarted", restarted("postgres"), away=None),
    Fault("postgres-stopped", "PostgreSQL stopped for {scale.away:g} s", stopped("postgres"), away=None, needs="stop"),
    Fault("postgres-paused", "PostgreSQL hangs for {scale.away:g} s", paused("postgres"), away=None),
    Fault("redis-restarted", "Redis restarted", restarted("redis")),
    Fault("redis-stopped", "Redis stopped for {scale.away:g} s", stopped("redis"), needs="stop"),
    Fault("redis-paused", "Redis hangs for {scale.away:g} s", paused("redis")),
    Fault("redis-emptied", "Redis emptied", lambda scene: scene.host.empty_redis()),
    Fault("all", "all workers, web, Redis and PostgreSQL at once: -9", two_of_everything, away=None),
    Fault(
        "network", "one worker and the database cut off for {scale.away:g} s", network, takeover=6.0, needs="network"
    ),
    Fault("disk", "disk of the database full for {scale.away:g} s", full_disk, away=None, needs="disk"),
    Fault(
        "scale",
        "workers scaled down to one",
        scaled_down,
        takeover=5.0,
        needs="scale",
        prepare=begin_scale,
        finish=end_scale,
    ),
    Fault("many", "{scale.tasks} tasks active, and a worker: -9", many_tasks, takeover=6.0, needs="users"),
    Fault(
        "clock",
        "all clocks an hour back, and after {scale.away:g} s forward",
        clock,
        needs="clock",
        prepare=lambda host: host.begin_clock(),
        finish=lambda host: host.end_clock(),
    ),
    Fault(
        "failover",
        "PostgreSQL lost, a standby promoted",
        failover,
        stall=15.0,
        away=15.0,
        api_goes=True,
        needs="failover",
        prepare=lambda host: host.begin_standby(),
    ),
    # The last one: the database is in another volume then.
    Fault("major", "PostgreSQL 17 to 18 by docs/operate/compose.md", look=major_version, needs="page"),
)
