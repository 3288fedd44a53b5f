"""Names of every octet, over every pair of protocols: each arrives under the same octets, or it is reported.

A name with a control character is in no command of FTP; SFTP has no such limit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from tests.engine_fakes.rows import State
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.streamed_tasks import StreamedTask
from tests.gridftp.toolkit import ToolkitServer, hand_over

pytestmark = [NEEDS_FTP_SERVERS, NEEDS_SSHD]

OCTETS = [octet for octet in range(1, 256) if octet != ord("/")]
CONTROLS = {*range(1, 32), 127}
PLACES = ("own", "toolkit", "sftp", "vsftpd", "proftpd", "pure-ftpd")
_numbers = count()


@dataclass(frozen=True)
class Place:
    """A server, a folder that it serves, and how clients name paths in it."""

    end: End
    folder: Path
    path: Callable[[Path], str]
    give: Callable[[], None]

    def new(self) -> Path:
        return self.folder / f"n{next(_numbers)}"


def name(octet: int) -> bytes:
    return b"n" + bytes([octet]) + b"x"


def content(octet: int) -> bytes:
    return f"the file of octet {octet}".encode()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    folder = tmp_path_factory.mktemp("places")
    for one in ("own", "toolkit", "sftp"):
        (folder / one).mkdir()
    key = key_pair(folder)

    def give_to_toolkit() -> None:
        hand_over(folder / "toolkit", stop_at=Path(tempfile.gettempdir()))

    with ExitStack() as stack:
        own = stack.enter_context(GridFtpServer(folder / "own"))
        toolkit = stack.enter_context(ToolkitServer(folder / "toolkit"))
        sshd = stack.enter_context(SshServer(folder, sftp_only=True))
        sshd.authorize(key)
        account = SshAccount(sshd.username, parse_ssh_key(key.read_text()).pem, sshd.fingerprint())
        made = {
            "own": Place(End(own.port), folder / "own", lambda path: f"/{path.name}", lambda: None),
            "toolkit": Place(End(toolkit.port), folder / "toolkit", str, give_to_toolkit),
            "sftp": Place(End(sshd.port, SftpLogin(account)), folder / "sftp", str, lambda: None),
        }
        for one in ("vsftpd", "proftpd", "pure-ftpd"):
            server = stack.enter_context(FtpServer(one, folder / one))
            made[one] = Place(server.end, server.data, server.path, server.give)
        for place in made.values():
            place.give()
        yield made


def fill(place: Place, octets: Sequence[int]) -> Path:
    """A folder with a file for each octet."""
    folder = place.new()
    folder.mkdir()
    for octet in octets:
        (folder / os.fsdecode(name(octet))).write_bytes(content(octet))
    place.give()
    return folder


def arrived(folder: Path) -> dict[bytes, bytes]:
    return {os.fsencode(path.name): path.read_bytes() for path in folder.iterdir()}


def reported(task: StreamedTask) -> str:
    """All that the task has reported: the paths of rows that did not arrive, and the texts of its faults."""
    rows = [row.file.source_path for row in task.store.rows.values() if row.state in (State.FAILED, State.SKIPPED)]
    rows += [source for _, source in task.store.missed]
    return "\n".join([*rows, *(str(event.details) for event in task.store.events if event.is_error)])


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("destination", PLACES)
@pytest.mark.parametrize("source", PLACES)
async def test_each_name_arrives_or_is_reported(
    places: dict[str, Place], source: str, destination: str, skip: bool
) -> None:
    if skip and destination not in ("own", "sftp"):
        pytest.skip("the same for all destinations")
    one, other = places[source], places[destination]
    data, there = fill(one, OCTETS), other.new()
    # Pure-FTPd lists no name with a control character.
    shown = [octet for octet in OCTETS if not (source == "pure-ftpd" and octet in CONTROLS)]
    task = StreamedTask(
        one.end, other.end, [(one.path(data) + "/", other.path(there) + "/", True)], {"skip_source_errors": skip}
    )
    await task.run()

    found = arrived(there)
    assert {octet for octet in shown if found.get(name(octet), content(octet)) != content(octet)} == set()
    assert set(found) <= {name(octet) for octet in OCTETS}, "nothing has another name"
    missing = [octet for octet in shown if name(octet) not in found]
    said = reported(task)
    for octet in missing:
        assert os.fsdecode(name(octet)) in said, octet
    assert (task.store.status == "SUCCEEDED") is (not missing or skip)
    assert set(task.faults()) <= {"INVALID_PATH_NAME"}
    high = set(range(128, 256)) if "toolkit" in (source, destination) else set()
    controls = set() if source == destination == "sftp" else CONTROLS
    prohibited = {ord("\\")} if "pure-ftpd" in (source, destination) else set()
    assert set(missing) == (controls | prohibited | high) & set(shown)


async def test_a_folder_with_such_a_name_is_reported_with_all_that_is_in_it(places: dict[str, Place]) -> None:
    one, other = places["own"], places["sftp"]
    data, there = one.new(), other.new()
    (data / "tab\there" / "deep").mkdir(parents=True)
    (data / "tab\there" / "deep" / "file").write_text("lost?")
    (data / "fine").write_text("fine")
    task = StreamedTask(one.end, other.end, [(one.path(data) + "/", str(there) + "/", True)])
    await task.run()
    assert task.store.status == "FAILED"
    assert set(task.faults()) == {"INVALID_PATH_NAME"}
    assert "tab" in reported(task)
    assert (there / "fine").read_text() == "fine"
