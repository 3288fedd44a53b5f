"""Data connections of our server with TLS: who may be at the other end, and what happens to anybody else."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from endpoints.gridftp.agent.tunnel.service import CLOCK_SLACK
from endpoints.gridftp.server import GridFtpServer, ServerLimits
from endpoints.gridftp.server.data.pending_connections import PendingConnections
from endpoints.gridftp.streams.protection import context_of
from endpoints.gridftp.third_party.dcsc_keys import KEY_SECONDS, DcscKey, make_throw_away
from identity.gsi.proxies import new_key
from tests.gridftp.ftp_dialogue import Dialogue, ThirdParty, connect, listen

LARGE = 3 * 2**20 + 12345
SIZES = (0, 1, 1024, 70_000, LARGE, 3)


@pytest.fixture(scope="module")
def keys() -> list[DcscKey]:
    """Two throw-away keys, with the same name."""
    return [make_throw_away(new_key(), name="lane", now=datetime.now(UTC), made_at=0) for _ in range(2)]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


@pytest.fixture
def handshake_seconds() -> int:
    return 1


@pytest.fixture
def pair(
    serve: Callable[..., GridFtpServer], folder: Path, other: Path, handshake_seconds: int
) -> Iterator[list[Dialogue]]:
    limits = ServerLimits(connect_seconds=5, stall_seconds=5, handshake_seconds=handshake_seconds)
    sessions = [Dialogue(serve(place, limits=limits).port) for place in (folder, other)]
    for session in sessions:
        session.demand("TYPE I")
    yield sessions
    for session in sessions:
        session.close()


def secure(session: Dialogue, key: DcscKey, prot: str = "P", dcau: str = "A") -> None:
    session.demand(b"DCSC " + key.argument, f"DCAU {dcau}", "PBSZ 1048576", f"PROT {prot}")


def fill(folder: Path) -> list[bytes]:
    contents = [os.urandom(size) for size in SIZES]
    for number, content in enumerate(contents):
        (folder / str(number)).write_bytes(content)
    return contents


@pytest.mark.parametrize("prot", ["C", "P"])
@pytest.mark.parametrize("streams", [1, 4])
def test_files_go_in_blocks_over_protected_connections(pair, folder, other, keys, prot, streams):
    contents = fill(folder)
    for session in pair:
        secure(session, keys[0], prot)
    lane = ThirdParty(pair[0], pair[1], streams)
    names = [(f"/{number}", f"/{number}") for number in range(len(contents))]
    for _ in range(2):
        outcomes = lane.move(names)
        assert {(sent.code, received.code) for sent, received in outcomes} == {(226, 226)}
        assert [received.ranges.total for _, received in outcomes] == list(SIZES)
        lane.connect()
    assert [(other / str(number)).read_bytes() for number in range(len(contents))] == contents


@pytest.mark.parametrize("wrong_by", [-CLOCK_SLACK - KEY_SECONDS, CLOCK_SLACK + KEY_SECONDS])
def test_clocks_that_agents_may_have_do_not_end_protected_transfers(pair, folder, other, wrong_by):
    """Ours is the wrong clock here: by it the key was made days ago, or in the future."""
    contents = fill(folder)
    by_the_service = datetime.now(UTC) + timedelta(seconds=wrong_by)
    key = make_throw_away(new_key(), name="lane", now=by_the_service, made_at=0)
    for session in pair:
        secure(session, key)
    [(sent, received)] = ThirdParty(pair[0], pair[1]).move([("/4", "/4")])
    assert (sent.code, received.code) == (226, 226)
    assert (other / "4").read_bytes() == contents[4]


@pytest.mark.parametrize("prot", ["C", "P"])
@pytest.mark.parametrize("passive", [0, 1])
def test_files_go_as_streams_over_protected_connections(pair, folder, other, keys, prot, passive):
    contents = fill(folder)
    for session in pair:
        secure(session, keys[0], prot)
    for number, content in enumerate(contents):
        pair[1 - passive].port(pair[passive].passive())
        pair[0].send(f"RETR /{number}")
        pair[1].send(f"STOR /{number}")
        assert [session.outcome().code for session in pair] == [226, 226]
        assert (other / str(number)).read_bytes() == content


def test_listings_are_protected_too(pair, folder, keys):
    (folder / "f").write_bytes(b"x")
    secure(pair[0], keys[0])
    address = pair[0].passive()
    pair[0].send("NLST /")
    with context_of(keys[0]).wrap_socket(connect(address)) as tls:
        assert tls.recv(100) == b"f\r\n"
        assert tls.recv(100) == b""
    assert pair[0].outcome().code == 226


def test_the_other_side_must_have_exactly_the_agreed_certificate(pair, folder, other, keys, monkeypatch):
    """Another key with the same name is a stranger, on both ends, and no octet of the file goes anywhere."""
    monkeypatch.setattr(PendingConnections, "PEER_TIMEOUT", 0.1)
    fill(folder)
    for session, key in zip(pair, keys, strict=True):
        secure(session, key)
    lane = ThirdParty(pair[0], pair[1])
    [(sent, received)] = lane.move([("/4", "/4")])
    assert (sent.code, received.code) == (425, 425)
    assert (other / "4").read_bytes() == b""


@pytest.mark.parametrize("subject", ["/CN=lane", "/CN=another"])
def test_a_wanted_subject_must_be_the_one_of_the_other_side(pair, folder, keys, monkeypatch, subject):
    monkeypatch.setattr(PendingConnections, "PEER_TIMEOUT", 0.1)
    fill(folder)
    for session in pair:
        secure(session, keys[0], dcau=f"S {subject}")
    [(sent, received)] = ThirdParty(pair[0], pair[1]).move([("/1", "/1")])
    assert (sent.code == received.code == 226) == (subject == "/CN=lane")


def test_a_server_that_does_not_authenticate_is_no_peer_of_one_that_does(pair, folder, keys):
    fill(folder)
    secure(pair[1], keys[0])
    [(_, received)] = ThirdParty(pair[0], pair[1]).move([("/4", "/4")])
    assert received.code == 425
    assert "[SSL" in received.text or "closed" in received.text or "agreed" in received.text


# Where the strangers fill the queue of the listening socket, the system lets the peer in a second later.
@pytest.mark.parametrize("handshake_seconds", [4])
@pytest.mark.parametrize("attack", [b"", b"\x16\x03\x01", b"GET / HTTP/1.0\r\n\r\n", os.urandom(3000)])
def test_strangers_on_the_data_port_do_not_end_a_transfer(pair, folder, other, keys, attack):
    """Half-open handshakes and garbage: each is dropped, and the agreed peer's file arrives."""
    contents = fill(folder)
    for session in pair:
        secure(session, keys[0])
        session.demand("MODE E")
    address = pair[1].passive()
    pair[0].port(address)
    pair[1].send("STOR /4")
    strangers = [connect(address) for _ in range(70)]
    for stranger in strangers:
        stranger.send(attack)
    pair[0].send("RETR /4")
    assert [session.outcome().code for session in pair] == [226, 226]
    assert (other / "4").read_bytes() == contents[4]
    for stranger in strangers:
        stranger.close()


def test_a_handshake_that_stands_still_ends(pair, folder, keys, monkeypatch):
    usual = PendingConnections.PEER_TIMEOUT
    monkeypatch.setattr(PendingConnections, "PEER_TIMEOUT", 0.1)
    secure(pair[0], keys[0])
    with connect(pair[0].passive()) as silent:
        began = time.monotonic()
        assert pair[0].ask("STOR /x").code == 425
        assert time.monotonic() - began < usual
        assert silent.recv(10) == b""
    with listen() as listener:
        pair[0].port(listener.getsockname())
        assert pair[0].ask("STOR /x").code == 425


def test_plain_octets_after_the_handshake_end_the_transfer(pair, folder, keys):
    secure(pair[0], keys[0])
    address = pair[0].passive()
    pair[0].send("STOR /x")
    tls = context_of(keys[0]).wrap_socket(connect(address))
    tls.send(b"protected")
    with socket.socket(fileno=tls.detach()) as plain:
        plain.send(b"and not protected" * 10)
        outcome = pair[0].outcome()
    assert outcome.code == 426, outcome.text
    assert (folder / "x").read_bytes() in (b"", b"protected")


@pytest.mark.parametrize("octet", [b"D", b"1", b"00", b"\0"])
def test_an_octet_that_is_not_of_gsi_ends_the_connection(pair, keys, monkeypatch, octet):
    monkeypatch.setattr(PendingConnections, "PEER_TIMEOUT", 0.1)
    secure(pair[0], keys[0], "C")
    address = pair[0].passive()
    pair[0].send("STOR /x")
    with context_of(keys[0]).wrap_socket(connect(address)) as tls:
        tls.send(octet)
        assert pair[0].outcome().code == 425


def test_a_peer_without_a_certificate_is_refused(pair, keys, monkeypatch):
    monkeypatch.setattr(PendingConnections, "PEER_TIMEOUT", 0.1)
    secure(pair[0], keys[0])
    address = pair[0].passive()
    pair[0].send("STOR /x")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(connect(address)) as tls:
        with contextlib.suppress(OSError):
            tls.send(b"hello")
        assert pair[0].outcome().code == 425


def test_encryption_without_authentication_moves_nothing(pair, folder):
    fill(folder)
    pair[0].demand("PROT P")
    pair[0].passive()
    assert pair[0].ask("RETR /1").code == 425
    pair[0].demand("PROT C", "DCAU A")
    pair[0].passive()
    assert pair[0].ask("RETR /1").code == 425


def test_kept_connections_are_not_used_with_other_protection(pair, folder, keys):
    """A client that asks for encryption between two files must not get the old connections in clear."""
    fill(folder)
    lane = ThirdParty(pair[0], pair[1])
    assert lane.move([("/1", "/1")])[0][0].code == 226
    for session in pair:
        secure(session, keys[0])
    assert pair[0].ask("RETR /1").code == 425
    lane.connect()
    assert [outcome.code for outcome in lane.move([("/1", "/1")])[0]] == [226, 226]


def _blob(octets: bytes) -> bytes:
    return base64.b64encode(octets)


@pytest.mark.parametrize(
    "argument",
    [
        *(b"", b"P", b"X y", b"D x", b"P !!!", b"P " + _blob(b"no PEM"), b"P " + _blob(os.urandom(5000))),
        b"P " + _blob(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * 2),
        b"P " + _blob(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"),
        b"P " + _blob(b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"),
    ],
)
def test_garbage_is_no_credential(pair, argument):
    outcome = pair[0].ask(b"DCSC " + argument)
    assert outcome.code in (500, 501)
    pair[0].demand("DCSC D", "NOOP")


def test_a_key_of_another_certificate_is_no_credential(pair, keys):
    pems = [base64.b64decode(key.argument[2:]) for key in keys]
    begin = b"-----BEGIN RSA PRIVATE KEY-----"
    mixed = pems[0][: pems[0].index(begin)] + pems[1][pems[1].index(begin) :]
    outcome = pair[0].ask(b"DCSC P " + _blob(mixed))
    assert outcome.code == 500
    assert not any(word.decode() in outcome.text for word in mixed.split() if len(word) > 20)


@pytest.mark.parametrize("command", ["DCAU", "DCAU X", "DCAU S", "DCAU A x", "PROT S", "PROT E", "PROT", "PBSZ x"])
def test_protection_that_does_not_exist_is_refused(pair, command):
    assert pair[0].ask(command).code in (501, 504, 536)
