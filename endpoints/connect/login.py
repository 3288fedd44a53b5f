"""Sessions on agents: their control connections come through the relay.

An agent is authenticated by its key when it connects, and nobody but this service reaches it, so it asks for no login.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, session_fault
from endpoints.gridftp.control import Lost
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.streams.tls_streams import PIECE, ClientDataConnection

from . import dial

#: The port in an address that means: the agent of the endpoint whose id is in place of the host.
AGENT_PORT = 0
#: The relay writes this to a control connection whose tunnel is lost. Within a reply on several lines it is no reply:
#: the connection is broken then, and the next one is refused because the agent is away.
LAST_WORDS = b"421 The computer of this endpoint is not connected any more.\r\n"


@dataclass(frozen=True)
class AgentLogin:
    """A `Login` (see `gridftp.login`) to the agent of an endpoint. `connect` ignores host and port.

    user_id: whose share of the relay the data take that pass this service; "": the endpoint has one of its own.
    """

    endpoint_id: str
    user_id: str = ""

    #: TLS protects the way to the relay, and the agent has proved its key.
    protected = True
    #: It connects to servers, and waits for nobody: `GridFTPSession.listens`.
    listens = False
    user = b"anonymous"
    password = b"waybill@"

    @property
    def key(self) -> str:
        return f"agent:{self.endpoint_id}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """Raises FaultError, of kind AGENT_AWAY where the agent is not connected."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(timeout):
                dialed = await dial.open_control(self.endpoint_id)
        except TimeoutError:
            raise FaultError(session_fault(Kind.TIMEOUT, f"no connection within {timeout:g} s")) from None
        trip = loop.time() - begun
        made = AgentConnection(dialed.address, trip)
        made.relayed_data = partial(AgentData, self.endpoint_id, self.user_id or self.endpoint_id)
        await made.use(dialed.sock)
        return made


class AgentData:
    """A data connection between this service and an agent (`RelayedData`): TLS protects it, as it does the tunnel."""

    def __init__(self, endpoint_id: str, user_id: str) -> None:
        self.token = dial.new_data_token([endpoint_id], user_id=user_id)

    async def open(self) -> ClientDataConnection:
        """`RelayedData.open`."""
        sock = await dial.join_data(self.token)
        try:
            return ClientDataConnection(*await asyncio.open_connection(sock=sock, limit=PIECE))
        except BaseException:
            sock.close()
            raise


class AgentConnection(ControlConnection):
    """A control connection through the relay.

    peer_host: the address of the agent's network; "" where it is not known.
    """

    def __init__(self, address: str, trip: float) -> None:
        super().__init__()
        self._address = address
        self._note_round_trip(trip)

    @property
    def peer_host(self) -> str:
        return self._address

    @property
    def server_address(self) -> None:
        """Its socket leads to the relay, which many agents share."""
        return None

    def _explained(self, event: Lost) -> Lost:
        """The loss of the tunnel, or of the relay: the agent is away, and will be back."""
        said = event.fault.raw.encode() == LAST_WORDS.rstrip()
        if said or event.fault.kind in (Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET):
            return event._replace(fault=make_fault(Kind.AGENT_AWAY, "the tunnel was lost"))
        return event
