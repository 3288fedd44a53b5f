"""The limits of a relay process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RelayBounds:
    """Numbers are for one process; seconds where nothing else is said.

    rate: octets a second that are passed on for one user, 0: no limit. channels_of_user: pairs of channels.
    """

    rate: int = 20_000_000
    channels_of_user: int = 64
    #: Pairs of joined channels of all users, and channels that wait for their other end.
    channels: int = 512
    waiting: int = 1024
    #: Ports at which servers deliver data for the agents of one user, connections of one port, and strangers that one
    #: port turns away in a second.
    entrances_of_user: int = 64
    connections_of_entrance: int = 4
    strangers_of_entrance: int = 20
    #: Of one token, on each side.
    waiting_of_token: int = 64
    #: For the head of a connection and the sign-in together.
    sign_in_seconds: float = 10.0
    #: Connections that have not sent a complete head.
    without_head: int = 512
    #: Connections that have not signed in: in all, and from one network.
    strangers: int = 512
    strangers_of_network: int = 64
    #: Tunnels of agents.
    tunnels: int = 5000
    #: Tunnels of agents for data besides those: of one agent, and of all.
    data_tunnels_of_agent: int = 8
    data_tunnels: int = 512
    #: Control channels of one agent.
    controls_of_agent: int = 96
    #: How long a data channel waits for its other end, and may be without an octet.
    partner_seconds: float = 30.0
    idle_seconds: float = 900.0
    #: Messages a second that a tunnel may send besides one for each 256 octets.
    messages: int = 2000
    #: How long an older tunnel has to answer when another one signs in with the same key.
    proof_of_life_seconds: float = 2.0
