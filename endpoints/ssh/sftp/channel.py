"""Channels of an ssh connection with the SFTP subsystem, which report the arrival of octets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncssh
from asyncssh.sftp import start_sftp_client
from asyncssh.stream import SSHClientStreamSession

#: Octets of one packet of ssh, as OpenSSH sends them.
PACKET = 32768


class _ChannelStream(SSHClientStreamSession[bytes]):
    """A channel that reports the arrival of each packet."""

    def __init__(self, moved: Callable[[], None]) -> None:
        super().__init__()
        self._moved = moved

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._moved()
        super().data_received(data, datatype)


async def open_channel(
    connection: asyncssh.SSHClientConnection, moved: Callable[[], None], window: int
) -> tuple[asyncssh.SSHWriter[bytes], asyncssh.SFTPClient]:
    """Open a channel, and speak SFTP version 3 on it. window: octets that the server may send before we take them.

    moved: called for each packet that arrives. Raises the errors of asyncssh.
    """
    channel, session = await connection.create_session(
        lambda: _ChannelStream(moved), subsystem="sftp", encoding=None, window=window, max_pktsize=PACKET
    )
    assert isinstance(session, _ChannelStream)
    writer, reader = asyncssh.SSHWriter(session, channel), asyncssh.SSHReader(session, channel)
    loop = asyncio.get_running_loop()
    return writer, await start_sftp_client(connection, loop, "replace", reader, writer, None, "strict", 3)
