"""Where the two ends of a data channel meet: each shows the same token, and the first that comes waits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from endpoints.connect.relay_messages import SERVER, SERVICE, DataToken, MessageError, parse_token
from endpoints.gridftp.agent.tunnel.multiplexer import ChannelHandler, Ended, TunnelChannel
from transferapi.tasks.upkeep import tallies

from .bounds import RelayBounds
from .splice import MeteredBridge, SpliceEnd, TrafficMeter, splice
from .user_budget import UserBudget

#: Seconds after which the budget of a user without channels is forgotten: longer than any debt of it.
_FORGET_SECONDS = 60.0


class OfferRefusedError(Exception):
    """code: of `Ended`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@dataclass(eq=False)
class Offer:
    """One end of a data channel, of this party. channel: None for a socket, which is joined by `joined`."""

    token: DataToken
    party: str
    channel: TunnelChannel | None
    #: Called with the bridge that the socket must be given to.
    joined: Callable[[MeteredBridge], None] = lambda bridge: None
    refused: Callable[[str, str], None] = lambda code, reason: None
    since: float = field(default_factory=time.monotonic)


class _Waiting(ChannelHandler):
    """A channel that waits: its agent may end it."""

    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone

    def reset(self, code: str, reason: str) -> None:
        self._gone()


class Rendezvous:
    """The offers that wait, and the pairs that were made, of one relay process. Lives on one event loop."""

    def __init__(self, bounds: RelayBounds) -> None:
        self._bounds = bounds
        self._waiting: defaultdict[bytes, deque[Offer]] = defaultdict(deque)
        self._count = 0
        self._pairs: dict[SpliceEnd | MeteredBridge, TrafficMeter] = {}
        #: The pairs of each token for which a port is open (`entrances`).
        self._entrances: dict[bytes, set[SpliceEnd | MeteredBridge]] = {}
        self._budgets: dict[str, UserBudget] = {}
        #: Octets that were passed on, by endpoint, since `take_counts`.
        self._passed: Counter[str] = Counter()
        self._octets = 0
        self._loop = asyncio.get_running_loop()

    def read(self, text: str, party: str) -> DataToken:
        """The token, if this party may use it now. Raises OfferRefusedError."""
        try:
            token = parse_token(text)
        except MessageError:
            raise OfferRefusedError(Ended.FORBIDDEN, "not a token of this service") from None
        if party not in token.parties:
            raise OfferRefusedError(Ended.FORBIDDEN, "the token is for others")
        if time.time() > token.expires:
            raise OfferRefusedError(Ended.EXPIRED, "the token has expired")
        if SERVER in token.parties and token.id not in self._entrances:
            raise OfferRefusedError(Ended.CLOSED, "the port for the server is closed")
        return token

    def open_entrance(self, token: DataToken) -> None:
        """From now on the token joins its agent with a server."""
        self._entrances[token.id] = set()

    def close_entrance(self, token: DataToken) -> None:
        """End all that the token has joined, and refuse what waits."""
        for offer in list(self._waiting.get(token.id, ())):
            self.withdraw(offer)
            self._refuse(offer, Ended.CLOSED, "the port for the server is closed")
        for end in self._entrances.pop(token.id, ()):
            end.end(Ended.CLOSED, "the port for the server is closed")

    def offer(self, offer: Offer) -> None:
        """Join the offer with one that waits, or let it wait. Raises OfferRefusedError."""
        waiting = self._waiting[offer.token.id]
        partner = next((one for one in waiting if one.party != offer.party), None)
        if partner is None:
            self._wait(offer, waiting)
            return
        self.withdraw(partner)
        try:
            self._join(offer, partner)
        except OfferRefusedError as error:
            self._refuse(partner, error.code, error.reason)
            raise

    def withdraw(self, offer: Offer) -> None:
        """The offer waits no more."""
        waiting = self._waiting.get(offer.token.id)
        if waiting is not None and offer in waiting:
            waiting.remove(offer)
            self._count -= 1
            if not waiting:
                del self._waiting[offer.token.id]

    def tick(self) -> None:
        """End offers that have waited for too long, and pairs without an octet; called at intervals."""
        late = time.monotonic() - self._bounds.partner_seconds
        for offer in [one for waiting in self._waiting.values() for one in waiting if one.since < late]:
            self.withdraw(offer)
            self._refuse(offer, Ended.EXPIRED, "the other end has not come")
        idle = self._loop.time() - self._bounds.idle_seconds
        for end in [end for end, meter in self._pairs.items() if meter.last_at < idle]:
            end.end(Ended.IDLE, "no octet for a long time")
        now = time.monotonic()
        self._budgets = {
            user: one for user, one in self._budgets.items() if one.channels or one.used_at > now - _FORGET_SECONDS
        }

    def take_counts(self) -> dict[str, int]:
        """The octets that were passed on since the last call, by endpoint."""
        found, self._passed = dict(self._passed), Counter()
        return found

    def take_octets(self) -> int:
        """All octets that were passed on since the last call."""
        taken, self._octets = self._octets, 0
        return taken

    @property
    def pairs(self) -> int:
        return len(self._pairs)

    @property
    def waiting(self) -> int:
        return self._count

    # ---- inside

    def _wait(self, offer: Offer, waiting: deque[Offer]) -> None:
        bounds = self._bounds
        if len(waiting) >= bounds.waiting_of_token or self._count >= bounds.waiting:
            if not waiting:
                del self._waiting[offer.token.id]
            raise OfferRefusedError(Ended.BUSY, "too many channels wait for their other ends")
        waiting.append(offer)
        self._count += 1
        if offer.channel is not None:
            offer.channel.handler = _Waiting(lambda: self.withdraw(offer))

    def _refuse(self, offer: Offer, code: str, reason: str) -> None:
        tallies.add("relay_refused", code)
        if offer.channel is not None:
            offer.channel.refuse(code, reason)
        offer.refused(code, reason)

    def _join(self, one: Offer, two: Offer) -> None:
        """Raises OfferRefusedError at a limit, or where no end is an agent's channel."""
        if len(self._pairs) >= self._bounds.channels:
            raise OfferRefusedError(Ended.BUSY, "the relay passes on as many channels as it may")
        budget = self._budget(one.token.user)
        if not budget.enter():
            raise OfferRefusedError(Ended.BUSY, "this user has as many relayed channels as allowed")
        pair: list[SpliceEnd | MeteredBridge] = []

        def count(octets: int) -> None:
            self._octets += octets
            self._passed.update({party: octets for party in one.token.parties if party not in (SERVICE, SERVER)})

        def ended() -> None:
            for end in pair:
                self._pairs.pop(end, None)
                if SERVER in one.token.parties and one.token.id in self._entrances:
                    self._entrances[one.token.id].discard(end)

        meter = TrafficMeter(budget, count, ended)
        pair.append(self._made(one, two, meter))
        self._pairs[pair[0]] = meter
        tallies.add("relay_connections")
        if SERVER in one.token.parties:
            self._entrances[one.token.id].add(pair[0])

    def _made(self, one: Offer, two: Offer, meter: TrafficMeter) -> SpliceEnd | MeteredBridge:
        if one.channel is not None and two.channel is not None:
            return splice(one.channel, two.channel, meter)
        tunnel, plain = (one, two) if one.channel is not None else (two, one)
        if tunnel.channel is None:
            meter.end()
            raise OfferRefusedError(Ended.AWAY, "the agent has gone to another relay")
        bridge = MeteredBridge(tunnel.channel, meter)
        tunnel.channel.accept(0)
        plain.joined(bridge)
        bridge.give_credit(bridge.window)
        return bridge

    def _budget(self, user: str) -> UserBudget:
        if user not in self._budgets:
            self._budgets[user] = UserBudget(self._bounds.rate, self._bounds.channels_of_user, time.monotonic)
        return self._budgets[user]
