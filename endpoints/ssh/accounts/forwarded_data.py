"""A data connection of a GridFTP server, in a channel of the ssh connection (RFC 4254 section 7.2, direct-tcpip)."""

from __future__ import annotations

import asyncssh

from endpoints.gridftp.streams.tls_streams import PIECE, ClientDataConnection

#: Octets of a file that may be on their way to us in one channel of ssh: 60 ms at 1 Gbit/s, twice.
WINDOW = 16 * 1024 * 1024


class ForwardedData(ClientDataConnection):
    """A data connection in a channel of ssh."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
        self._ssh_reader, self._ssh_writer = reader, writer

    async def read(self) -> bytes:
        try:
            data = await self._ssh_reader.read(PIECE)
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from None
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        try:
            self._ssh_writer.write(data)
            self.sent += len(data)
            await self._ssh_writer.drain()
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from None

    async def end(self) -> None:
        self._ssh_writer.write_eof()

    def _buffered(self) -> int:
        return int(self._ssh_writer.channel.get_write_buffer_size())

    def abort(self) -> None:
        self._ssh_writer.channel.abort()
