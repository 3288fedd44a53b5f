"""An existing file on a server of ours keeps its mode, whatever protocol its new content comes from.

The reasons: docs/decisions/settlement.md.
"""

from __future__ import annotations

import stat

import pytest

from tests.conformance.tasks.test_names_of_all_octets import Place, places  # noqa: F401 (a fixture)
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.streamed_tasks import StreamedTask

pytestmark = [NEEDS_FTP_SERVERS, NEEDS_SSHD]


@pytest.mark.parametrize("source", ["own", "toolkit", "sftp", "vsftpd", "proftpd", "pure-ftpd"])
async def test_a_file_that_is_replaced_keeps_its_mode(places: dict[str, Place], source: str) -> None:  # noqa: F811
    one, other = places[source], places["own"]
    data, there = one.new(), other.new()
    data.mkdir()
    there.mkdir()
    (data / "f").write_bytes(b"new" * 1000)
    one.give()
    (there / "f").write_bytes(b"old")
    (there / "f").chmod(0o640)
    before = (there / "f").stat().st_ino
    task = StreamedTask(one.end, other.end, [(f"{one.path(data)}/f", f"{other.path(there)}/f", False)])
    await task.run()
    found = (there / "f").stat()
    assert (there / "f").read_bytes() == b"new" * 1000
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert found.st_ino != before, "the name was always that of a whole file"
