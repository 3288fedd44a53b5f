"""Control connections that die in the middle of each file, as firewalls have it: each try gains what has come."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.ends import End
from tests.gridftp.small_ftp import FtpSession, SmallFtp
from tests.gridftp.streamed_tasks import StreamedTask

#: Much less than what is never trusted of a file without an answer (16 MiB).
PIECE = 1_000_000
CONTENT = os.urandom(4 * PIECE + 1)
#: Seconds in which the other end has taken what was sent.
A_MOMENT = 0.3


class Dying(SmallFtp):
    """Ends the control connection when a file has moved by PIECE."""

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        if verb in ("RETR", "STOR"):
            self.mover = session
        return None

    def _die(self) -> None:
        time.sleep(A_MOMENT)
        self.mover.control.shutdown(socket.SHUT_RDWR)
        time.sleep(A_MOMENT)
        raise ConnectionResetError

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        content = path.read_bytes()[offset:]
        connection.sendall(content[:PIECE])
        if len(content) > PIECE:
            self._die()

    def receiving(self, connection: socket.socket, path: Path, offset: int) -> None:
        taken = 0
        with path.open("r+b" if offset else "wb", buffering=0) as file:
            file.seek(offset)
            while data := connection.recv(65536):
                file.write(data)
                taken += len(data)
                if taken > PIECE:
                    self._die()


def offsets(server: SmallFtp) -> list[int]:
    return [int(argument) for verb, argument in server.log if verb == "REST"]


async def test_a_source_whose_control_connection_dies_is_read_on_where_it_was(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "file").write_bytes(CONTENT)
    with Dying(here) as source, GridFtpServer(there) as ours:
        task = StreamedTask(End(source.port), End(ours.port), [("/file", "/copy", False)])
        await task.run()
        assert task.store.status == "SUCCEEDED", task.faults()
        # The first one finds out whether the server begins where REST says.
        assert offsets(source) == [len(CONTENT) - 1, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]
    assert (there / "copy").read_bytes() == CONTENT


async def test_a_destination_whose_control_connection_dies_is_asked_what_it_has(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "file").write_bytes(CONTENT)
    with GridFtpServer(here) as ours, Dying(there) as destination:
        task = StreamedTask(End(ours.port), End(destination.port), [("/file", "/copy", False)])
        await task.run()
        assert task.store.status == "SUCCEEDED", task.faults()
        found = offsets(destination)
        assert len(found) >= 3
        assert found == sorted(set(found)), "each try goes on behind the one before"
    assert (there / "copy").read_bytes() == CONTENT
