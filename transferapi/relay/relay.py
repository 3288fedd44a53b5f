"""One relay process: the tunnels that it holds, who may have one, and what happens when they come and go."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from django.db import Error as DatabaseError

from endpoints.connect import dial, presence, relay_address
from endpoints.gridftp.agent.tunnel.bridge import DATA_WINDOW, Bridge, attach
from endpoints.gridftp.agent.tunnel.connection import DEAD_SECONDS, PING_SECONDS
from endpoints.gridftp.agent.tunnel.multiplexer import Ended, TunnelChannel
from endpoints.gridftp.agent.tunnel.sign_in import Refused
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.server.strangers import Strangers
from transferapi.outages.log_filter import is_told
from transferapi.tasks.notify.mails import agent as agent_mails
from transferapi.tasks.upkeep import tallies
from transferapi.tasks.worker import agent_waits

from .agent_tunnel import AgentTunnel, RelayEnd
from .bounds import RelayBounds
from .database import Database
from .entrances import Entrances
from .rendezvous import Offer, OfferRefusedError, Rendezvous
from .sign_in import AgentProof, SignInRefusedError, check

log = logging.getLogger(__name__)

#: Seconds after which an agent may come back where this relay cannot decide now.
RETRY_SECONDS = 5.0
#: Seconds for the other relay process that holds an agent's older tunnel.
_OTHER_SECONDS = 5.0
#: Seconds between two writings of what was passed on.
_METER_SECONDS = 5.0


class Relay:
    """address: by which web servers, workers and other relay processes reach this one. data_ports: for servers."""

    def __init__(
        self,
        address: relay_address.RelayAddress,
        bounds: RelayBounds,
        data_ports: relay_address.DataPorts | None = None,
    ) -> None:
        self.address, self.bounds = address, bounds
        #: Connections that have not signed in, and those that have not sent a complete head.
        self.strangers: Strangers[RelayEnd] = Strangers(bounds.strangers, bounds.strangers_of_network)
        self.without_head: Strangers[asyncio.Transport] = Strangers(bounds.without_head)
        self.database = Database()
        self.rendezvous = Rendezvous(bounds)
        self.entrances = Entrances(data_ports, bounds, self.rendezvous)
        #: The tunnels of agents that have signed in, by endpoint.
        self.tunnels: dict[str, AgentTunnel] = {}
        #: The same by the digests of their keys for tunnels for data.
        self._by_data_key: dict[bytes, AgentTunnel] = {}
        self._signing_in: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._beaten_at = self._loop.time()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside everything else; an error is logged and ends nothing."""
        task = self._loop.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- for the tunnels

    def arrived(self, tunnel: AgentTunnel, proof: Mapping[str, Any]) -> None:
        """An agent has sent its proof."""
        self.spawn(self._sign_in(tunnel, proof))

    def agent_of(self, key: str) -> AgentTunnel:
        """The tunnel of the agent that may open one more tunnel for data with this key. Raises SignInRefusedError."""
        # By a digest: the time of a comparison of the keys would depend on how many characters are right.
        tunnel = self._by_data_key.get(hashlib.sha256(key.encode()).digest())
        if tunnel is None or tunnel.why_lost:
            raise SignInRefusedError(Refused.UNKNOWN, "This relay does not hold the tunnel of this agent.")
        most = self.bounds.data_tunnels_of_agent
        all_of_them = sum(len(one.data_tunnels) for one in self._by_data_key.values())
        if len(tunnel.data_tunnels) >= most or all_of_them >= self.bounds.data_tunnels:
            raise SignInRefusedError(Refused.BUSY, "There are as many tunnels for data as there may be.")
        return tunnel

    def offered(self, tunnel: AgentTunnel, channel: TunnelChannel, token: str) -> None:
        """An agent that has signed in wants a data channel."""
        try:
            read = self.rendezvous.read(token, tunnel.endpoint_id)
            if read.parties[0] in self.tunnels:
                self.rendezvous.offer(Offer(read, tunnel.endpoint_id, channel))
                return
        except OfferRefusedError as error:
            tallies.add("relay_refused", error.code)
            channel.refuse(error.code, error.reason)
            return
        self.spawn(self._offer_elsewhere(channel, read.parties[0], token, tunnel.endpoint_id))

    def paused(self, tunnel: AgentTunnel, paused: bool) -> None:
        held = tunnel.held

        def write() -> None:
            presence.pause(held.endpoint_id, held.epoch, paused)
            if not paused:
                agent_waits.wake(held.endpoint_id)

        self.spawn(self.database.call(write))

    def gone(self, tunnel: AgentTunnel) -> None:
        self._by_data_key.pop(_digest(tunnel), None)
        if self.tunnels.get(tunnel.endpoint_id) is tunnel:
            del self.tunnels[tunnel.endpoint_id]
            log.info("relay: the agent of %s is away: %s", tunnel.endpoint_id, tunnel.why_lost)
            held = tunnel.held
            self.spawn(self.database.call(lambda: presence.leave(held.endpoint_id, held.epoch)))

    # ---- sign-in

    async def _sign_in(self, tunnel: AgentTunnel, content: Mapping[str, Any]) -> None:
        try:
            proof = AgentProof.parse(content)
            endpoint_id = await self.database.call(lambda: None if tunnel.why_lost else check(proof, tunnel.nonce))
            if endpoint_id is None:
                return  # it has gone while it waited for its turn
            lock = self._signing_in.setdefault(str(endpoint_id), asyncio.Lock())
            async with lock:
                await self._admit(tunnel, endpoint_id, proof)
            if not lock.locked():
                self._signing_in.pop(str(endpoint_id), None)
        except SignInRefusedError as error:
            tallies.add("agent_sign_ins", error.code)
            retry = dial.CONNECT_SECONDS if error.code == Refused.BUSY else None
            tunnel.refuse(error.code, error.reason, retry)
        except DatabaseError as error:
            if not is_told(error):
                log.warning("relay: nobody can sign in: %s", type(error).__name__)
            tunnel.refuse(Refused.BUSY, "The service cannot decide now.", RETRY_SECONDS)

    async def _admit(self, tunnel: AgentTunnel, endpoint_id: uuid.UUID, proof: AgentProof) -> None:
        """Take the tunnel of an agent that has proven itself. Raises SignInRefusedError, DatabaseError."""
        name = str(endpoint_id)
        if len(self.tunnels) >= self.bounds.tunnels:
            raise SignInRefusedError(Refused.BUSY, "This relay has as many agents as it may.")
        if not await self._give_way(name, proof.instance, proof.epoch):
            log.warning("relay: a second computer at %s has the key of the agent of %s", tunnel.address, name)
            await self.database.call(lambda: agent_mails.clone_refused(endpoint_id, tunnel.address))
            raise SignInRefusedError(Refused.CLONED, "Another computer is connected with the key of this agent.")
        held = await self.database.call(lambda: presence.accept(endpoint_id, str(self.address), proof.arrival))
        if held is None:
            raise SignInRefusedError(Refused.REVOKED, "The owner of the endpoint has revoked this agent.")
        if tunnel.why_lost:
            await self.database.call(lambda: presence.leave(endpoint_id, held.epoch))
            return
        tunnel.is_paused = proof.arrival.paused
        self.tunnels[name] = tunnel
        self._by_data_key[_digest(tunnel)] = tunnel
        tunnel.welcome(held)
        tallies.add("agent_sign_ins", "accepted")
        log.info("relay: the agent of %s is connected from %s", name, tunnel.address)
        self.spawn(self._wake([name]))

    async def _give_way(self, name: str, instance: str, epoch: int) -> bool:
        """Whether no older tunnel of this endpoint is alive any more; the same program replaces its own at once."""
        if name in self.tunnels:
            return await self.replace(name, instance, epoch)
        other = await self.holder_of(name)
        if other is None:
            return True
        content = {"do": "replace", "endpoint": name, "instance": instance, "epoch": epoch}
        try:
            sock, answer = await dial.ask_at(other, content, _OTHER_SECONDS)
        except FaultError:
            return True  # that relay process does not answer, and so its tunnels are lost
        sock.close()
        return answer.get("gone") is True

    async def replace(self, name: str, instance: str, epoch: int) -> bool:
        """End the tunnel of this endpoint if it is dead, or if it belongs to the same program. False if it is alive."""
        old = self.tunnels.get(name)
        if old is None:
            return True
        if not (old.instance == instance and old.held.epoch == epoch):
            asked_at = old.now()
            old.ping()
            await asyncio.sleep(self.bounds.proof_of_life_seconds)
            if old.heard_at >= asked_at and not old.why_lost:
                return False
        if self.tunnels.get(name) is old:
            del self.tunnels[name]
        old.abort("another connection of the same agent")
        return True

    async def _wake(self, names: list[str]) -> None:
        """Let the tasks go on that wait for these agents."""
        for name in names:
            await self.database.call(partial(agent_waits.wake, uuid.UUID(name)))

    # ---- data channels to another relay process

    async def _offer_elsewhere(self, channel: TunnelChannel, first: str, token: str, party: str) -> None:
        """The other agent is connected to another relay process: the ends meet there."""
        try:
            await self._join_at(channel, await self.holder_of(first), token, party)
        except (FaultError, OSError, DatabaseError) as error:
            channel.refuse(Ended.AWAY, str(error))

    async def holder_of(self, name: str) -> relay_address.RelayAddress | None:
        """The other relay process that holds the tunnel of this endpoint. Raises DatabaseError."""
        found = await self.database.call(lambda: presence.holder(uuid.UUID(name)))
        return None if found in (None, str(self.address)) else relay_address.parse(str(found))

    async def _join_at(
        self, channel: TunnelChannel, other: relay_address.RelayAddress | None, token: str, party: str
    ) -> None:
        if other is None:
            channel.refuse(Ended.AWAY, "the other agent is not connected")
            return
        content = {"do": "data", "token": token, "party": party}
        sock, answer = await dial.ask_at(other, content, self.bounds.partner_seconds + 5)
        if not answer.get("ok"):
            sock.close()
            channel.refuse(str(answer.get("error", Ended.FAILED)), str(answer.get("reason", "")))
            return
        channel.accept(0)
        await attach(Bridge(channel, DATA_WINDOW), sock)
        channel.grant(DATA_WINDOW)

    # ---- upkeep

    def gauges(self) -> dict[str, int]:
        """Numbers of the moment, for metrics; any thread may ask."""
        return {"relay_tunnels": len(self.tunnels), "relay_pairs": self.rendezvous.pairs}

    async def keep_presence(self) -> None:
        """Beat, end tunnels of revoked agents, and write down what was passed on, until canceled."""
        metered_at = self._loop.time()
        while True:
            await asyncio.sleep(presence.BEAT_SECONDS if self.tunnels else presence.IDLE_BEAT_SECONDS)
            with contextlib.suppress(DatabaseError):
                await self._beat()
                if self._loop.time() > metered_at + _METER_SECONDS:
                    metered_at = self._loop.time()
                    await self._write_meter()

    async def _beat(self) -> None:
        held = dict(self.tunnels)
        begun = self._loop.time()
        kept = await self.database.call(lambda: presence.beat(str(self.address), holds=bool(held)))
        # From the begin of one call to the end of the next: the database may have written at either.
        was_late = self._loop.time() > self._beaten_at + presence.LEASE.total_seconds()
        self._beaten_at = begun
        for name, tunnel in held.items():
            if tunnel.held not in kept and self.tunnels.get(name) is tunnel:
                tunnel.refuse(Refused.REVOKED, "The owner of the endpoint has revoked this agent.")
        if was_late:
            # The agents did not count as connected meanwhile, so tasks may have begun to wait for them.
            self.spawn(self._wake(list(self.tunnels)))

    async def _write_meter(self) -> None:
        tallies.add("relay_bytes", by=self.rendezvous.take_octets())
        counts = {uuid.UUID(name): octets for name, octets in self.rendezvous.take_counts().items()}
        await self.database.call(lambda: presence.meter(counts))

    async def keep_pinging(self) -> None:
        """Ping each tunnel in its turn, and end those that are silent, until canceled."""
        parts, turn = 3, 0
        while True:
            await asyncio.sleep(PING_SECONDS / parts)
            turn += 1
            for number, tunnel in enumerate(list(self.tunnels.values())):
                if tunnel.silent_seconds() > DEAD_SECONDS:
                    tunnel.abort("no answer")
                elif number % parts == turn % parts:
                    tunnel.ping()
                    _ping_further(tunnel)
            self.rendezvous.tick()
            self.entrances.tick()

    async def stop(self) -> None:
        """Say goodbye to all agents, and give their presence back."""
        self.entrances.close_all()
        for tunnel in list(self.tunnels.values()):
            tunnel.say_goodbye("the relay restarts", 0.5)
        with contextlib.suppress(DatabaseError):
            await self._write_meter()
            await self.database.call(lambda: presence.end(str(self.address)))
        await self.database.stop()


def _digest(tunnel: AgentTunnel) -> bytes:
    return hashlib.sha256(tunnel.data_key.encode()).digest()


def _ping_further(tunnel: AgentTunnel) -> None:
    """Ping the tunnels for data of this agent, and end those that are silent."""
    for further in list(tunnel.data_tunnels):
        if further.silent_seconds() > DEAD_SECONDS:
            further.abort("no answer")
        else:
            further.ping()


async def _logged(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception as error:
        # The text of the error may hold a part of what an agent has sent.
        if not is_told(error):
            log.warning("relay: a piece of work failed: %s", type(error).__name__)
