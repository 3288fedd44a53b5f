"""Towards a server this service opens `FencedSocket`s, and no other kind of socket."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from docs.draw.imports import modules

#: The other ends: our server and the agent run on the machines of users.
_OF_SERVERS = ("endpoints.gridftp.server", "endpoints.gridftp.agent")
_CLIENTS = {
    name: path
    for name, path in modules().items()
    if name.startswith(("endpoints.", "workers.")) and not name.startswith((*_OF_SERVERS, "endpoints.gridftp.wire"))
}
#: The calls that open a connection; with `sock` it uses one that is open.
_OPENERS = frozenset({"open_connection", "create_connection", "open_unix_connection", "create_unix_connection"})
#: Channels inside a connection of ssh.
_WITHIN_SSH = frozenset({"self._ssh", "tunnel"})


def sockets_of_its_own(text: str) -> Iterator[str]:
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        if not isinstance(call.func, ast.Attribute):
            continue
        owner, given = ast.unparse(call.func.value), {word.arg for word in call.keywords}
        opens = call.func.attr in _OPENERS and owner not in _WITHIN_SSH and "sock" not in given
        opens_ssh = (owner, call.func.attr) == ("asyncssh", "connect") and not given & {"sock", "tunnel"}
        makes = (owner, call.func.attr) == ("socket", "socket") and "fileno" not in given
        if opens or opens_ssh or makes:
            yield f"line {call.lineno}: {ast.unparse(call.func)}"


def test_no_module_opens_a_socket_past_the_fence() -> None:
    assert _CLIENTS
    found = {name: list(sockets_of_its_own(path.read_text())) for name, path in _CLIENTS.items()}
    opened = {name: sockets for name, sockets in found.items() if sockets}
    assert opened == {}, "use endpoints.gridftp.wire.fenced_socket"


def test_each_way_to_open_a_socket_is_found() -> None:
    text = """
async def sample(loop, sock, factory):
    await asyncio.open_connection("host", 1)
    await loop.create_connection(factory, "host", 1)
    await self._loop.create_connection(factory, sock=sock)
    await asyncssh.connect("host", 1)
    await asyncssh.connect("host", 1, sock=sock)
    await self._ssh.open_connection("host", 1)
    socket.create_connection(("host", 1))
    socket.socket()
    socket.socket(fileno=1)
"""
    found = sorted(int(one.split()[1].rstrip(":")) for one in sockets_of_its_own(text))
    assert found == [3, 4, 6, 9, 10]
