"""The memory of a worker that streams, in a process of its own.

    python -m tests.gridftp.streaming_memory PORT KEY_FILE FINGERPRINT FROM TO

Moves the small folder FROM/small first, so that everything is loaded, and then FROM/large with many streams at a time.
Prints the octets by which the peak of the memory is above what was used before.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import sys
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
django.setup()

from endpoints.ssh.connection import SshAccount  # noqa: E402
from endpoints.ssh.keys import parse_ssh_key  # noqa: E402
from endpoints.ssh.sftp.login import SftpLogin  # noqa: E402
from tests.gridftp.ends import End  # noqa: E402
from tests.gridftp.streamed_tasks import StreamedTask  # noqa: E402

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(field: str) -> int:
    """Octets: VmRSS now, VmHWM at the peak since the last reset (proc(5))."""
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


async def move(end: End, source: Path, there: Path) -> None:
    task = StreamedTask(end, end, [(f"{source}/", f"{there}/", True)], {"perf_cc": 6, "verify_checksum": True})
    await task.run()
    assert task.store.status == "SUCCEEDED", task.faults()


def main(port: str, key_file: str, fingerprint: str, source: str, there: str) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    end = End(int(port), SftpLogin(SshAccount(user, parse_ssh_key(Path(key_file).read_text()).pem, fingerprint)))
    asyncio.run(move(end, Path(source) / "small", Path(there) / "small"))
    before = memory("VmRSS")
    RESET.write_text("5")
    asyncio.run(move(end, Path(source) / "large", Path(there) / "large"))
    sys.stdout.write(f"{memory('VmHWM') - before}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
