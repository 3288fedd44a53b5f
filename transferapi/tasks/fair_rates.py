"""The fair shares of transfers that run at the same time: max-min fairness (Bertsekas and Gallager, "Data Networks",
1992, section 6.5.2), weighted by priority, under the limits of tasks and endpoints. Pure.

All rates rise together, each in proportion to its weight, until a limit is reached; the transfers below it keep what
they have, and the others go on. Nobody could have more without taking it from one who has less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

#: Weights. A transfer in the background has this little of a limit that it shares with normal ones.
NORMAL, BACKGROUND = 10.0, 1.0
#: Octets a second at most of a transfer in the background, while a normal one runs at one of its endpoints: its
#: connections stay open, and it ends some day.
FLOOR = 256 * 1024
#: Octets a second that each transfer has at least, also where many share a low limit: with less, a file would not get
#: over the end of a slice, of which the first `slots.HEAD` octets are not trusted.
LEAST = 32_000

#: Values of `FairRate.by`: its own option, a limit of its source or of its destination, or the priority of others.
TASK, SOURCE, DESTINATION, PRIORITY = "task", "source", "destination", "priority"


class Flow(NamedTuple):
    """A transfer that runs now. source, destination: the ids of the endpoints with the servers.

    names: the ids of all its endpoints: also of the shared ones, of which the others are the hosts. limit: its own.
    """

    id: str
    source: str
    destination: str
    names: Collection[str] = ()
    limit: int | None = None
    background: bool = False


class Limit(NamedTuple):
    """A limit in force of all transfers of an endpoint together, or of those with one peer."""

    endpoint: str
    rate: int
    peer: str | None = None


class FairRate(NamedTuple):
    """octets a second that a transfer may move now, and what limits it to that."""

    octets: float
    by: str


class _Bound(NamedTuple):
    rate: float
    flows: frozenset[str]
    #: By flow, what limits it.
    by: Mapping[str, str]


def fair_rates(flows: Collection[Flow], limits: Iterable[Limit]) -> dict[str, FairRate]:
    """The rates of those flows that anything limits, by their ids."""
    weights = {flow.id: BACKGROUND if flow.background else NORMAL for flow in flows}
    bounds = [bound for bound in (*_own(flows), *_of_endpoints(flows, limits)) if bound.flows]
    found: dict[str, FairRate] = {}
    while bounds:
        # The share of each unit of weight at which the first limit is reached.
        share, bound = min(((_share(one, weights, found), one) for one in bounds), key=lambda pair: pair[0])
        for id_ in bound.flows - found.keys():
            found[id_] = FairRate(max(LEAST, share * weights[id_]), bound.by[id_])
        bounds = [one for one in bounds if one.flows - found.keys()]
    return found


def _share(bound: _Bound, weights: Mapping[str, float], found: Mapping[str, FairRate]) -> float:
    left = bound.rate - sum(found[id_].octets for id_ in bound.flows if id_ in found)
    return max(0.0, left) / sum(weights[id_] for id_ in bound.flows if id_ not in found)


def _own(flows: Collection[Flow]) -> Iterable[_Bound]:
    """The bounds of single flows."""
    busy = {end for flow in flows if not flow.background for end in (flow.source, flow.destination)}
    for flow in flows:
        if flow.limit is not None:
            yield _Bound(flow.limit, frozenset({flow.id}), {flow.id: TASK})
        if flow.background and not busy.isdisjoint((flow.source, flow.destination)):
            yield _Bound(FLOOR, frozenset({flow.id}), {flow.id: PRIORITY})


def _of_endpoints(flows: Collection[Flow], limits: Iterable[Limit]) -> Iterable[_Bound]:
    for limit in limits:
        by = {flow.id: side for flow in flows if (side := _side(flow, limit))}
        yield _Bound(limit.rate, frozenset(by), by)


def _side(flow: Flow, limit: Limit) -> str:
    """The side of the flow that the limit is of; "" if it does not concern the flow."""
    if limit.endpoint not in (flow.source, flow.destination):
        return ""
    if limit.peer is not None and limit.peer not in (flow.source, flow.destination, *flow.names):
        return ""
    return SOURCE if limit.endpoint == flow.source else DESTINATION
