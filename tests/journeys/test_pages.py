"""The examples of the pages for beginners run on a running instance, in the order of the page."""

from __future__ import annotations

import re
import shlex
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import real_clients
from tests.conformance.gridftp.test_ftp_tls import certificate
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.sshd import SshServer
from tests.instance import Api
from tests.memory import folder_in_memory
from tests.servers.shell_server import HOST

from .pages import Example, Reader, examples

pytestmark = pytest.mark.real_clients
#: The beginnings of examples that are no commands: requests, answers and documents.
NOT_COMMANDS = ("PUT /v0.10/", "Error (list)")


@pytest.fixture
def home() -> Iterator[Path]:
    with folder_in_memory("waybill-pages-", 0o711) as folder:
        yield folder


@pytest.fixture
def reader(service: Api, home: Path) -> Iterator[Reader]:
    """In a folder with `.waybill`, after `make up`; with a curl that reports answers of 4xx and 5xx as failures."""
    (home / ".waybill").mkdir()
    (home / ".waybill" / "connection.json").symlink_to(service.home / "connection.json")
    (home / "bin").mkdir()
    for name, command in {
        "curl": f'exec {shutil.which("curl")} --fail-with-body "$@"',
        "globus": f'exec {real_clients.GLOBUS} "$@"',
        "waybill-shell": f'exec {shlex.join(_ssh(service, home))} "$@"',
    }.items():
        (home / "bin" / name).write_text(f"#!/bin/sh\n{command}\n")
        (home / "bin" / name).chmod(0o755)
    found = Reader(home, {"http://127.0.0.1:8000": service.url}, {"WAYBILL_PORT": service.url.rpartition(":")[2]})
    yield found
    found.close()


def _ssh(service: Api, home: Path) -> list[str]:
    access = service.connection["ssh"]
    (home / "known_hosts").write_text(f"[{access['host']}]:{access['port']} {access['host_key']}\n")
    options = ("-o", f"UserKnownHostsFile={home / 'known_hosts'}", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR")
    words = ("ssh", "-F", "none", "-p", str(access["port"]), "-i", access["identity_file"], *options)
    return [*words, f"{access['user']}@{access['host']}"]


def _run(reader: Reader, page: str, *, but: tuple[str, ...] = ()) -> int:
    """Run all examples of a page but those of these sections; how many there are."""
    found = [one for one in examples(page) if one.section not in but and one.language in ("sh", "python")]
    commands = [one for one in found if not one.text.startswith(NOT_COMMANDS)]
    for one in commands:
        in_shell = one.text.startswith("endpoint-")
        reader.run(Example(one.section, one.language, f"waybill-shell {one.text}") if in_shell else one)
    return len(commands)


def _rest(reader: Reader) -> None:
    """Run the examples that other pages take from the page about REST."""
    for one in examples("rest-api.md"):
        if one.section == "The rules in one minute":
            reader.run(one)


def test_first_steps(reader: Reader, service: Api) -> None:
    start, *rest = examples("first-steps.md")
    assert start.text.startswith("make up "), "the instance of this test was started by it"
    outputs = [reader.run(one) for one in rest]
    assert '"code":"Accepted"' in outputs[0].replace(" ", "")
    [task] = re.findall(r"Task ID: (\S+)", outputs[-1])
    assert service.wait(task)["status"] == "SUCCEEDED"


def test_connect(reader: Reader, service: Api, home: Path) -> None:
    for name in ("Documents", "measurements"):
        (home / name).mkdir()
    with urllib.request.urlopen(f"{service.url}/connect/waybill-connect.pyz", timeout=30) as answer:
        (home / "waybill-connect.pyz").write_bytes(answer.read())
    reader.words["ssh -p 2222 you@waybill.example.org"] = "waybill-shell"
    sign_in = "\n".join(one.text for one in examples("first-steps.md") if one.section in ("curl", "The globus command"))
    lines = [line for line in sign_in.splitlines() if line.startswith(("URL=", "for NAME", "made()", "export GLOBUS"))]
    reader.run(Example("", "sh", "\n".join(lines)))
    make, start, *rest = [one for one in examples("connect.md") if one.language == "sh"]
    key = re.findall(r"^wb1\.\S+", reader.run(make), re.MULTILINE)[-1]
    reader.words["wb1...."] = key
    output = reader.run(start)
    assert "It serves, and nothing else:" in output
    for one in rest:
        reader.run(one)
    assert not (home / ".config" / "waybill-connect" / "key.pem").exists()


@NEEDS_SSHD
@NEEDS_FTP_SERVERS
def test_sftp_and_ftp(reader: Reader, home: Path) -> None:
    folder = home / "sshd"
    folder.mkdir(mode=0o711)
    pem = certificate(home, "localhost")
    shutil.copy(home / "localhost.crt", home / "cert.pem")
    with (
        SshServer(folder, sftp_only=True) as ssh,
        FtpServer("pure-ftpd", home / "ftp", "-Y", "3", "-2", str(pem)) as ftp,
    ):
        reader.words |= {
            "sftp://files.example.org": f"sftp://{HOST}:{ssh.port}",
            "ftpes://files.example.org": f"ftpes://{HOST}:{ftp.port}",
        }
        _rest(reader)
        assert _run(reader, "sftp-ftp.md") == 4


@NEEDS_SSHD
def test_ssh_endpoints(reader: Reader, home: Path) -> None:
    folder = home / "sshd"
    folder.mkdir(mode=0o711)
    with SshServer(folder) as ssh:
        reader.words |= {"ssh://login.example.org": f"ssh://{HOST}:{ssh.port}", "SHA256:...": ssh.fingerprint()}
        _rest(reader)
        assert _run(reader, "ssh-endpoints.md") == 3


def test_rest_api(reader: Reader, service: Api, home: Path) -> None:
    """Its section about activation has a test with the servers that it needs (tests/conformance/rest)."""
    client = service.connection["client"]
    reader.words |= {"$CLIENT_ID": client["id"], "$CLIENT_SECRET": client["secret"]}
    (home / "results.csv").write_text("1,2\n")
    assert _run(reader, "rest-api.md", but=("Activation",)) == 18
    assert (home / "file1.txt").exists()
