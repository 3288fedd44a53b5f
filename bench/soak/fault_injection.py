"""Faults on control and data connections, at the servers, and inside the service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.transfers.shares import share
from deploy.stack.child import spawn, stop
from tests.faults.stations import KINDS, FtpStation, OwnStation, SftpStation, Station
from tests.gridftp.data_proxy import Cut, DataProxy
from tests.gridftp.ftp_servers import PASSWORD, USER
from tests.gridftp.proxy import Deed, MisbehavingProxy, Step
from tests.instance import Api

#: Chances, for each line of a dialogue, each connection, and each 64 KiB of data.
LINE, CONNECTION, PIECE = 0.006, 0.04, 0.003
#: Shares of the faults of a connection. Silence costs a stall limit each, so it has a budget of its own.
DEEDS = (Deed.RESET, Deed.CLOSE, Deed.HALF_LINE_THEN_CLOSE, Deed.REFUSE, Deed.PERMANENT_ERROR, Deed.DELAY, Deed.GARBAGE)
SILENT = 0.05
#: Faults that a proxy cannot inject into what is encrypted.
NEED_TEXT = (Deed.REFUSE, Deed.PERMANENT_ERROR)
#: Seconds, at most, for which a server or a worker stands still: four times as long as a lease.
STANDSTILL = 20.0
#: Ends of old data connections that are kept open for late comers.
DOORS = 100


class FaultChooser:
    """Chooses the faults at random, and counts them."""

    def __init__(self, dice: random.Random, silences: int) -> None:
        self.dice = dice
        self.counts: Counter[str] = Counter()
        self.calm = False
        self._silences = silences

    def strikes(self, chance: float) -> bool:
        return not self.calm and self.dice.random() < chance

    def deed(self, step: Step) -> Deed | None:
        if not self.strikes(LINE):
            return None
        deed = self.dice.choice(DEEDS)
        if self._silences and self.dice.random() < SILENT:
            self._silences -= 1
            deed = Deed.HANG
        # A server cannot do what its FEAT does not list: a refusal of that would be another server, not a fault.
        if not step.allows(deed) or (step.verb in ("FEAT", "CHUNK") and deed in NEED_TEXT):
            return None
        self.counts[f"control: {deed.name.lower().replace('_', ' ')}"] += 1
        return deed


class StormyData(DataProxy):
    """Each connection may be cut at any piece."""

    def __init__(self, fault_injection: FaultChooser) -> None:
        super().__init__()
        self._fault_injection = fault_injection

    async def door(self, host: str, port: int) -> int:
        while len(self._servers) >= DOORS:
            self._servers.pop(0).close()
        return await super().door(host, port)

    def piece_passed(self) -> None:
        if self._fault_injection.strikes(PIECE):
            cut = self._fault_injection.dice.choice((Cut.RESET, Cut.CLOSE))
            self._fault_injection.counts[f"data: {cut.name.lower()}"] += 1
            self.cut_all(cut)


class StormyProxy(MisbehavingProxy):
    """Misbehaves again and again, at random."""

    def __init__(self, target: Station, fault_injection: FaultChooser, data: DataProxy | None) -> None:
        super().__init__(target.port, data=data, opaque=target.opaque)
        self._fault_injection = fault_injection

    def deed_at(self, step: Step) -> Deed | None:
        if step.verb == "" and self._fault_injection.strikes(CONNECTION):
            self._fault_injection.counts["control: refused at once"] += 1
            return Deed.CLOSE
        return self._fault_injection.deed(step)


class Site:
    """An endpoint of one kind: a server behind its proxies, a share of one, or an agent.

    kind: one of `KINDS`, "share" or "agent". data: its data connections are led through a proxy that cuts them.
    """

    def __init__(self, name: str, kind: str, root: Path, fault_injection: FaultChooser, *, data: bool) -> None:
        self.name = name
        self.kind = kind
        self.folder = root / name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.station: Station = KINDS.get(kind, OwnStation)(self.folder)
        self.id = ""
        self._fault_injection = fault_injection
        self._data = StormyData(fault_injection) if data and not self.station.opaque else None
        self.proxy: StormyProxy

    async def open(self, api: Api) -> None:
        await self.station.start()
        self.proxy = StormyProxy(self.station, self._fault_injection, self._data)
        await self.proxy.__aenter__()
        self.id = await asyncio.to_thread(self._register, api)

    def _register(self, api: Api) -> str:
        name, port, station = f"soak-{self.name}", self.proxy.port, self.station
        if isinstance(station, SftpStation):
            endpoint = api.endpoint(name, port, scheme="sftp", subject=station.fingerprint)
            given = api.activate(endpoint, "ssh_key", username=station.username, private_key=station.private_key)
            assert given["code"].startswith("Activated."), given
            return endpoint
        endpoint = api.endpoint(name, port)
        if isinstance(station, FtpStation) and station.name != "vsftpd":
            given = api.activate(endpoint, "password", username=USER, password=PASSWORD)
            assert given["code"].startswith("Activated."), given
        return share(api, endpoint, Path("/")) if self.kind == "share" else endpoint

    async def close(self) -> None:
        await self.proxy.__aexit__()
        if self._data:
            await self._data.__aexit__()
        self.station.thaw()
        self.station.end()

    def path(self, path: Path) -> str:
        return os.fsdecode(self.station.path(path))

    async def harm(self) -> None:
        """Kill or stop a session of the server, or the whole server of ours; what must be started again is."""
        ports = [port for port in self.proxy.upstream_ports() if self.station.processes(port)]
        dice = self._fault_injection.dice
        if ports and not self._fault_injection.calm:
            if dice.random() < 0.3:
                self._fault_injection.counts[f"standstill: {self.kind} server"] += 1
                self.station.freeze(dice.choice(ports))
                await asyncio.sleep(STANDSTILL * dice.random())
                self.station.thaw()
            else:
                self._fault_injection.counts[f"kill: {self.kind} server"] += 1
                self.station.kill(dice.choice(ports))
                await asyncio.sleep(dice.random())
        await self.station.start()


class Computer(Site):
    """An agent, which is killed and started again, or stands still for a while."""

    async def open(self, api: Api) -> None:
        document = {"DATA_TYPE": "endpoint", "display_name": self.name, "name": self.name, "is_globus_connect": True}
        made = await asyncio.to_thread(api.call, "POST", "/endpoint", document)
        self.id = str(made["id"])
        self._words = [sys.executable, "-m", "endpoints.gridftp.agent", "--config", f"{self.folder}-settings"]
        setup = [*self._words, "--root", str(self.folder), "--setup", "-"]
        key = str(made["globus_connect_setup_key"]).encode()
        await asyncio.to_thread(subprocess.run, setup, input=key, check=True, capture_output=True, timeout=60)
        self._process = spawn([*self._words, "--run"], log=subprocess.DEVNULL)

    async def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        stop(self._process, signal.SIGKILL)

    async def harm(self) -> None:
        dice, counts = self._fault_injection.dice, self._fault_injection.counts
        if self._fault_injection.calm:
            return
        if dice.random() < 0.5:
            counts["standstill: agent"] += 1
            self._process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(STANDSTILL * dice.random())
            self._process.send_signal(signal.SIGCONT)
        else:
            counts["kill: agent"] += 1
            stop(self._process, signal.SIGKILL)
            await asyncio.sleep(dice.random())
            self._process = spawn([*self._words, "--run"], log=subprocess.DEVNULL)


def make_site(name: str, kind: str, root: Path, fault_injection: FaultChooser, *, data: bool) -> Site:
    return (Computer if kind == "agent" else Site)(name, kind, root, fault_injection, data=data)


async def storm(fault_injection: FaultChooser, api: Api, sites: list[Site], seconds_between: float) -> None:
    """Kill or stop servers, workers, Redis and the database, until canceled."""
    under_way: set[asyncio.Task[None]] = set()
    busy: set[str] = set()

    async def harm(site: Site) -> None:
        busy.add(site.name)
        try:
            await site.harm()
        finally:
            busy.discard(site.name)

    while True:
        await asyncio.sleep(seconds_between * 2 * fault_injection.dice.random())
        kinds, shares = ("server", "worker", "frozen worker", "redis", "postgres"), (12, 6, 2, 1, 1)
        what = fault_injection.dice.choices(kinds, shares)[0]
        site = fault_injection.dice.choice(sites)
        if fault_injection.calm:
            continue
        if what == "server":
            if site.name not in busy:
                under_way.add(task := asyncio.create_task(harm(site)))
                task.add_done_callback(under_way.discard)
        elif what == "frozen worker":
            under_way.add(task := asyncio.create_task(stop_worker(fault_injection, api)))
            task.add_done_callback(under_way.discard)
        else:
            with contextlib.suppress(OSError, ValueError, KeyError):  # the supervisor is writing the file anew
                kill_of_service(fault_injection, api, what)


def kill_of_service(fault_injection: FaultChooser, api: Api, what: str) -> None:
    pids = [pid for name, pid in api.connection["pids"].items() if name.startswith(what)]
    if not pids:
        return
    # The database gets an immediate shutdown and recovers as after a crash; all others are killed.
    os.kill(fault_injection.dice.choice(pids), signal.SIGQUIT if what == "postgres" else signal.SIGKILL)
    fault_injection.counts[f"kill: {what}"] += 1


async def stop_worker(fault_injection: FaultChooser, api: Api) -> None:
    """A worker process stands still, perhaps for longer than its lease lasts."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        pids = [pid for name, pid in api.connection["pids"].items() if name.startswith("worker")]
        if pids:
            pid = fault_injection.dice.choice(pids)
            os.kill(pid, signal.SIGSTOP)
            fault_injection.counts["standstill: worker"] += 1
            try:
                await asyncio.sleep(STANDSTILL * fault_injection.dice.random())
            finally:
                os.kill(pid, signal.SIGCONT)
