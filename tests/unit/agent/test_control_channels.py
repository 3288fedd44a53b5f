"""Control channels that the relay opens in the tunnel of an agent."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any, NoReturn

import pytest

from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.tunnel import frames
from endpoints.gridftp.agent.tunnel.agent_end import AgentEnd, AgentFacts, TunnelState
from endpoints.gridftp.agent.tunnel.frames import FrameType
from endpoints.gridftp.agent.tunnel.multiplexer import Ended
from endpoints.gridftp.agent.tunnel.service import ServiceAddress


async def test_an_agent_without_a_free_descriptor_refuses_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(*_: Any) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    served: list[socket.socket] = []
    identity = AgentIdentity(AgentKey.new(), "")
    end = AgentEnd(ServiceAddress("https://w.example.org"), identity, AgentFacts(), TunnelState(), served.append)
    sent: list[bytes] = []
    end.channels.write = sent.append
    monkeypatch.setattr(socket, "socketpair", no_descriptor)
    end.channels.receive(frames.document(FrameType.OPEN, 2, {"kind": "control"}))
    for _ in range(5):
        await asyncio.sleep(0)
    assert [frames.decode(frame).type for frame in sent] == [FrameType.REFUSE]
    assert frames.parse_document(frames.decode(sent[0]).payload)["code"] == Ended.FAILED
    assert not served
    assert not end.channels.channels
