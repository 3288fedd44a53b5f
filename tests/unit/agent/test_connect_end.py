"""The way of an agent to its service where nobody waits for it any more: no connection stays."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest

from endpoints.gridftp.agent.tunnel.agent_end import DataTunnelEnd, TunnelEndedError, connect_end
from endpoints.gridftp.agent.tunnel.service import ServiceAddress

SERVICE = ServiceAddress("https://waybill.example.org")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A proxy of the environment, which accepts nothing by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        yield listening


def connecting(service: ServiceAddress) -> asyncio.Task[DataTunnelEnd]:
    return asyncio.create_task(connect_end(service, lambda: DataTunnelEnd(service, "key")))


async def test_a_connection_that_is_there_after_the_agent_has_given_up_is_closed(proxy: socket.socket) -> None:
    task = connecting(SERVICE)
    peer, _ = await asyncio.to_thread(proxy.accept)
    with peer:
        peer.settimeout(60)
        assert (await asyncio.to_thread(peer.recv, 1000)).startswith(b"CONNECT waybill.example.org:443")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        peer.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        assert await asyncio.to_thread(peer.recv, 1) == b"", "closed, and no handshake of TLS begun"
    gc.collect()


@pytest.mark.parametrize("turns", range(8))
async def test_whatever_it_does_when_it_is_cancelled_nothing_stays_open(turns: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        task = connecting(ServiceAddress(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        peer, _ = await asyncio.to_thread(listening.accept)
        with peer:
            peer.settimeout(60)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result().abort("the test has seen enough")
            while await asyncio.to_thread(peer.recv, 1000):
                pass
    gc.collect()


async def test_a_service_whose_authorities_cannot_be_read_leaves_no_connection(proxy: socket.socket) -> None:
    task = connecting(ServiceAddress(SERVICE.url, authorities="/nonexistent.pem"))
    peer, _ = await asyncio.to_thread(proxy.accept)
    with peer:
        peer.settimeout(60)
        peer.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        with pytest.raises(TunnelEndedError):
            await task
    gc.collect()
