"""FTP over TLS (RFC 4217) with vsftpd and Pure-FTPd that demand it, and with servers and people on the way that lie."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from endpoints import operations, registry
from endpoints.activation import services
from endpoints.activation.forms import Form
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.ftp_tls.certificate import fingerprint
from endpoints.gridftp.ftp_tls.login import FtpTlsLogin, shown_key
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.streams.data_stream import DataStream
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.test_plain_ftp import VERIFIED, check, fill, paths
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, PASSWORD, USER, FtpServer
from tests.gridftp.streamed_tasks import StreamedTask

SERVERS = ("vsftpd", "pure-ftpd")
pytestmark = NEEDS_FTP_SERVERS


def certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, for this host name, and its key, in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    key, made = folder / f"{name}.key", folder / f"{name}.crt"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/O=FTPS/CN={name}",
    ]
    words += [
        "-addext",
        f"subjectAltName=DNS:{name},IP:127.0.0.1" if name == "localhost" else f"subjectAltName=DNS:{name}",
    ]
    subprocess.run([*words, "-keyout", key, "-out", made], check=True, capture_output=True, timeout=30)
    both = folder / f"{name}.pem"
    both.write_bytes(key.read_bytes() + made.read_bytes())
    both.chmod(0o600)
    return both


def key_of(pem: Path) -> str:
    text = pem.read_text()
    return fingerprint(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :]))


def hash_of(pem: Path) -> str:
    """The name of a file in a folder of authorities."""
    words = ["openssl", "x509", "-noout", "-hash", "-in", str(pem)]
    return str(subprocess.run(words, check=True, capture_output=True, text=True, timeout=10).stdout.strip())


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificate"), "localhost")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, pem: Path) -> Iterator[dict[str, FtpServer]]:
    """Servers that take no name, no password and no data connection without TLS."""
    folder = tmp_path_factory.mktemp("ftps")
    lines = [
        "ssl_enable=YES", "allow_anon_ssl=YES", "force_anon_data_ssl=YES", "force_anon_logins_ssl=YES",
        f"rsa_cert_file={pem}", f"rsa_private_key_file={pem}", "require_ssl_reuse=YES", "ssl_ciphers=HIGH",
    ]  # fmt: skip
    made = {
        "vsftpd": FtpServer("vsftpd", folder / "vsftpd", *lines),
        "pure-ftpd": FtpServer("pure-ftpd", folder / "pure-ftpd", "-Y", "3", "-2", str(pem)),
    }
    with made["vsftpd"], made["pure-ftpd"]:
        yield made


def login_of(server: FtpServer, pin: str) -> FtpTlsLogin:
    made = FtpTlsLogin("localhost", pin)
    return made if server.name == "vsftpd" else replace(made, username=USER, secret=PASSWORD.encode())


async def refusal(server: FtpServer, login: FtpTlsLogin) -> FaultError:
    with pytest.raises(FaultError) as caught:
        await GridFTPSession.open("127.0.0.1", server.port, login=login)
    return caught.value


@pytest.mark.parametrize("name", SERVERS)
async def test_a_tree_goes_through_tls_to_a_gridftp_server_and_back(servers, pem, tmp_path, name):
    server = servers[name]
    data, back = fill(server, "grid"), server.data / "back"
    secure = End(server.port, login_of(server, key_of(pem)), server.address)
    with GridFtpServer(tmp_path) as gridftp:
        end = End(gridftp.port)
        there = StreamedTask(secure, end, [(paths(server, data), "/grid/", True)], VERIFIED)
        await check(there, data, tmp_path / "grid")
        await check(StreamedTask(end, secure, [("/grid/", paths(server, back), True)], VERIFIED), data, back)


async def test_two_servers_with_tls_send_nothing_to_each_other_in_clear(servers, pem):
    one, other = servers["vsftpd"], servers["pure-ftpd"]
    data, there = fill(one, "pair"), other.data / "pair-arrived"
    source, destination = (End(server.port, login_of(server, key_of(pem)), server.address) for server in (one, other))
    options = {**VERIFIED, "encrypt_data": True}
    await check(
        StreamedTask(source, destination, [(paths(one, data), paths(other, there), True)], options), data, there
    )


@pytest.mark.parametrize("name", SERVERS)
async def test_without_tls_these_servers_let_nobody_in(servers, name):
    """The tests above would mean nothing otherwise."""
    with pytest.raises(FaultError):
        await GridFTPSession.open("127.0.0.1", servers[name].port, login=servers[name].login)


async def test_a_trusted_authority_and_the_right_name_need_no_pin(servers, pem, tmp_path):
    server = servers["pure-ftpd"]
    hashed = await asyncio.to_thread(hash_of, pem)
    shutil.copy(pem.with_suffix(".crt"), tmp_path / f"{hashed}.0")
    session = await GridFTPSession.open(
        "127.0.0.1", server.port, login=replace(login_of(server, ""), authorities=tmp_path)
    )
    session.abort()
    error = await refusal(server, replace(login_of(server, ""), authorities=tmp_path, host_name="other.example.org"))
    assert error.fault.kind is Kind.GSI_DN_MISMATCH
    error = await refusal(server, replace(login_of(server, ""), authorities=tmp_path / "none"))
    assert error.fault.kind is Kind.INVALID_SERVICE_CREDENTIAL
    ask = (server.port, "localhost")
    assert await shown_key("127.0.0.1", *ask, tmp_path, timeout=15) == ""
    assert await shown_key("127.0.0.1", *ask, tmp_path / "none", timeout=15) == key_of(pem)


async def test_another_key_is_refused_and_noted_before_any_name_is_sent(servers, pem):
    noted: list[str] = []
    error = await refusal(
        servers["vsftpd"], replace(login_of(servers["vsftpd"], "SHA256:" + "A" * 43), note_key=noted.append)
    )
    assert error.fault.kind is Kind.HOST_KEY_CHANGED
    assert noted == [key_of(pem)]


# ---- in the registry


@pytest.mark.django_db(transaction=True)
def test_registration_pins_the_key_or_trusts_the_authority(servers, pem, settings, tmp_path):
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    settings.CERTIFICATES = tmp_path
    settings.CLEAR_PASSWORDS = False
    alice = User.objects.create(username="alice")
    spec = ServerSpec("127.0.0.1", servers["vsftpd"].port, "ftpes")
    endpoint = registry.create(alice, {"name": "pinned"}, [spec])
    [row] = registry.servers(endpoint)
    assert (row.subject, row.host_key_confirmed) == (key_of(pem), False)
    fill(servers["vsftpd"], "listed")
    listed = str(servers["vsftpd"].data)
    assert "listed" in [entry.name for entry in operations.list_directory(alice, "pinned", listed).entries]
    assert services.offered(endpoint) == (Form.PASSWORD,), "no password is in clear"

    other = "SHA256:" + "A" * 43
    registry.update_server(alice, "pinned", row.pk, replace(spec, subject=other))
    with pytest.raises(FaultError) as caught:
        operations.list_directory(alice, "pinned", "/")
    assert caught.value.fault.kind is Kind.HOST_KEY_CHANGED
    assert registry.servers(endpoint)[0].shown_host_key == key_of(pem)

    shutil.copy(pem.with_suffix(".crt"), tmp_path / f"{hash_of(pem)}.0")
    [row] = registry.servers(registry.create(alice, {"name": "trusted"}, [spec]))
    assert (row.subject, row.host_key_confirmed) == ("", False)
    assert "listed" in [entry.name for entry in operations.list_directory(alice, "trusted", listed).entries]


# ---- servers that lie


async def _rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while data := await reader.read(4096):
        yield data


class Liar:
    """A server of FTP whose answers a test decides. heard: all that the client said in clear."""

    def __init__(self, answers: dict[bytes, bytes], pem: Path | None = None, data_pem: Path | None = None) -> None:
        self.answers, self.pem, self.data_pem = answers, pem, data_pem or pem
        self.heard: list[bytes] = []
        self.port = 0
        self._listening: list[asyncio.Server] = []

    def _context(self, pem: Path | None) -> ssl.SSLContext:
        assert pem
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        tls = False
        while line := await reader.readline():
            verb = line.split()[0]
            if not tls:
                self.heard.append(line)
            answer = self.answers.get(verb, b"200 ok\r\n")
            if verb == b"EPSV":
                data = await asyncio.start_server(self._data, "127.0.0.1", 0, ssl=self._context(self.data_pem))
                self._listening.append(data)
                answer = b"229 (|||%d|)\r\n" % data.sockets[0].getsockname()[1]
            writer.write(answer)
            if verb == b"AUTH" and self.pem:
                await writer.start_tls(self._context(self.pem))
                tls = True
            elif verb == b"AUTH":
                self.heard += [data async for data in _rest(reader)]

    async def _data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"stolen")
        writer.transport.abort()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Liar]:
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                for one in self._listening:
                    one.close()

    async def refuses(self, login: FtpTlsLogin) -> Kind:
        async with self.running():
            with pytest.raises(FaultError) as caught:
                await GridFTPSession.open("127.0.0.1", self.port, login=login, timeout=5)
        return caught.value.fault.kind


def alice(pem: Path) -> FtpTlsLogin:
    return FtpTlsLogin("localhost", key_of(pem), "alice", b"hidden-from-liars")


@pytest.mark.parametrize(
    "answer",
    [b"502 no TLS here\r\n", b"234 go\r\n230 you are in\r\n", b"234 go\r\n230 half", b"234 go\r\nno reply\r\n"],
)
async def test_a_downgrade_or_clear_text_before_tls_ends_it_without_a_name(pem, answer):
    liar = Liar({b"AUTH": answer})
    kind = await liar.refuses(alice(pem))
    assert kind in (Kind.INSECURE_SERVER, Kind.ENDPOINT_ERROR, Kind.TIMEOUT, Kind.CONNECTION_RESET)
    assert {line.split()[0] for line in liar.heard if line.isascii()} <= {b"AUTH"}
    assert not any(b"alice" in line or b"hidden" in line for line in liar.heard)


async def test_a_server_that_never_shakes_hands_has_its_time(pem):
    liar = Liar({b"AUTH": b"234 go\r\n"})
    assert await liar.refuses(alice(pem)) is Kind.TIMEOUT


async def test_a_server_that_refuses_protected_data_gets_no_name(pem):
    liar = Liar({b"AUTH": b"234 go\r\n", b"PROT": b"536 no\r\n", b"USER": b"530 caught\r\n"}, pem)
    assert await liar.refuses(alice(pem)) is Kind.INSECURE_SERVER


async def test_a_data_connection_with_another_certificate_is_refused(pem, tmp_path):
    features = b"211-x\r\n UTF8\r\n211 end\r\n"
    answers = {b"AUTH": b"234 go\r\n", b"USER": b"331 ?\r\n", b"PASS": b"230 in\r\n", b"FEAT": features,
               b"PWD": b'257 "/"\r\n', b"RETR": b"150 comes\r\n"}  # fmt: skip
    other = certificate(tmp_path, "localhost")
    async with Liar(answers, pem, other).running() as liar:
        session = await GridFTPSession.open("127.0.0.1", liar.port, login=FtpTlsLogin("localhost", key_of(pem)))
        with pytest.raises(FaultError, match="another certificate"):
            await (await DataStream.open(session, "RETR", "/file")).read()
        session.abort()


def test_the_fingerprint_is_what_openssl_prints(pem):
    command = f"openssl x509 -in {pem} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary"
    digest = subprocess.run(f"{command} | base64", shell=True, check=True, capture_output=True, text=True, timeout=10)
    assert key_of(pem) == "SHA256:" + digest.stdout.strip().rstrip("=")
