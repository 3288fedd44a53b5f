"""Names with addresses of IPv4 and IPv6 of which only one answers."""

from __future__ import annotations

import asyncio
import socket

import pytest

from endpoints.gridftp.wire.answering import by_answer

IPV4, IPV6 = "127.0.0.1", "::1"


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(("answers", "other"), [(IPV4, IPV6), (IPV6, IPV4)])
@pytest.mark.parametrize("order", [1, -1])
async def test_the_address_that_answers_comes_first(answers: str, other: str, order: int) -> None:
    server = await asyncio.start_server(hang_up, answers, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await by_answer([answers, other][::order], port, delay=0.01) == [answers, other]


async def test_an_address_that_swallows_packets_delays_the_other_one_only_a_little() -> None:
    """A listener whose backlog is full drops the next connections, as many firewalls do."""
    with socket.create_server((IPV6, 0), family=socket.AF_INET6, backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket(socket.AF_INET6) for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex((IPV6, port))
        server = await asyncio.start_server(hang_up, IPV4, port)
        async with server:
            assert await by_answer([IPV6, IPV4], port, delay=0.01) == [IPV4, IPV6]
        for one in waiting:
            one.close()


async def test_where_none_answers_the_order_stays() -> None:
    with socket.create_server((IPV4, 0)) as closed:
        port = closed.getsockname()[1]
    assert await by_answer([IPV6, IPV4], port, delay=0.01) == [IPV6, IPV4]


async def test_a_name_of_one_family_is_not_asked_for() -> None:
    with socket.create_server((IPV4, 0)) as server:
        server.setblocking(False)
        assert await by_answer(["127.0.0.2", IPV4], server.getsockname()[1]) == ["127.0.0.2", IPV4]
        with pytest.raises(BlockingIOError):
            server.accept()
