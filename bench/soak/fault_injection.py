"""Faults on control and data connections, at the servers, and inside the service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from pathlib import Path

from bench.instance import Api
from tests.faults.stations import OwnStation, Station, ToolkitStation
from tests.gridftp.data_proxy import Cut, DataProxy
from tests.gridftp.proxy import Deed, MisbehavingProxy, Step

#: Chances, for each line of a dialogue, each connection, and each 64 KiB of data.
LINE, CONNECTION, PIECE = 0.006, 0.04, 0.003
#: Shares of the faults of a connection. Silence costs a stall limit each, so it has a budget of its own.
DEEDS = (Deed.RESET, Deed.CLOSE, Deed.HALF_LINE_THEN_CLOSE, Deed.REFUSE, Deed.PERMANENT_ERROR, Deed.DELAY, Deed.GARBAGE)
SILENT = 0.05
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
        if not step.allows(deed) or (step.verb == "FEAT" and deed in (Deed.REFUSE, Deed.PERMANENT_ERROR)):
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

    def __init__(self, target_port: int, fault_injection: FaultChooser, data: DataProxy | None) -> None:
        super().__init__(target_port, data=data)
        self._fault_injection = fault_injection

    def deed_at(self, step: Step) -> Deed | None:
        if step.verb == "" and self._fault_injection.strikes(CONNECTION):
            self._fault_injection.counts["control: refused at once"] += 1
            return Deed.CLOSE
        return self._fault_injection.deed(step)


class Site:
    """A server of one kind behind its proxies, and the endpoint that it is."""

    def __init__(self, name: str, kind: str, root: Path, fault_injection: FaultChooser, *, data: bool) -> None:
        self.name = name
        self.kind = kind
        self.folder = root / name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.station: Station = (ToolkitStation if kind == "toolkit" else OwnStation)(self.folder)
        self.id = ""
        self._fault_injection = fault_injection
        self._data = StormyData(fault_injection) if data else None
        self.proxy: StormyProxy

    async def open(self, api: Api) -> None:
        await self.station.start()
        self.proxy = StormyProxy(self.station.port, self._fault_injection, self._data)
        await self.proxy.__aenter__()
        self.id = await asyncio.to_thread(api.endpoint, f"soak-{self.name}", self.proxy.port)

    async def close(self) -> None:
        await self.proxy.__aexit__()
        if self._data:
            await self._data.__aexit__()
        self.station.end()

    def path(self, path: Path) -> str:
        return os.fsdecode(self.station.path(path))

    async def kill_something(self) -> None:
        """A session of the toolkit's, or the whole server of ours; what must be started again is."""
        ports = [port for port in self.proxy.upstream_ports() if self.station.processes(port)]
        if ports and not self._fault_injection.calm:
            self.station.kill(self._fault_injection.dice.choice(ports))
            self._fault_injection.counts[f"kill: {self.kind} server"] += 1
            await asyncio.sleep(self._fault_injection.dice.random())
        await self.station.start()


async def storm(fault_injection: FaultChooser, api: Api, sites: list[Site], seconds_between: float) -> None:
    """Kill servers, workers, Redis and the database, one after another, until canceled."""
    while True:
        await asyncio.sleep(seconds_between * 2 * fault_injection.dice.random())
        what = fault_injection.dice.choices(("server", "worker", "redis", "postgres"), (12, 6, 1, 1))[0]
        if what == "server":
            await fault_injection.dice.choice(sites).kill_something()
        elif not fault_injection.calm:
            with contextlib.suppress(OSError, ValueError, KeyError):  # the supervisor is writing the file anew
                kill_of_service(fault_injection, api, what)


def kill_of_service(fault_injection: FaultChooser, api: Api, what: str) -> None:
    pids = [pid for name, pid in api.connection["pids"].items() if name.startswith(what)]
    if not pids:
        return
    # The database gets an immediate shutdown and recovers as after a crash; all others are killed.
    os.kill(fault_injection.dice.choice(pids), signal.SIGQUIT if what == "postgres" else signal.SIGKILL)
    fault_injection.counts[f"kill: {what}"] += 1
