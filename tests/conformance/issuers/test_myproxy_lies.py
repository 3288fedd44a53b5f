"""MyProxy servers that hang, lie or pretend: a typed error with a sentence each, in time, and no word of the secret."""

from __future__ import annotations

import base64
import ssl
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from deploy.endpoint.authority import CertificateFiles
from identity.gsi.errors import Flaw
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import INHERIT_ALL, LIMITED
from identity.issuers import myproxy
from tests import hostile_certificates as make
from tests.gridftp.authority import Authority
from tests.identity_providers.lying_myproxy import YES, Caller, LyingServer, server_context, sign

PASSPHRASE = "Tr0ub4dor & 3"
Behave = Callable[[Caller], object]


@pytest.fixture
def refused(authority: Authority) -> Callable[..., myproxy.MyProxyError]:
    """`refused(server)`: the error that logging on there ends with, after a look that it keeps the secret."""

    def logon(server: LyingServer, **more: Any) -> myproxy.MyProxyError:
        more = {"server_name": "localhost", "username": "alice", "timeout": 10.0, **more}
        more = {"trust": TrustFolder(authority.certificates), **more}
        with pytest.raises(myproxy.MyProxyError) as caught:
            myproxy.logon(
                ["127.0.0.1"],
                server.port,
                passphrase=PASSPHRASE,
                lifetime=timedelta(hours=1),
                **more,
            )
        keeps_the_secret(caught.value)
        return caught.value

    return logon


def keeps_the_secret(error: myproxy.MyProxyError) -> None:
    """Neither text, nor attributes, nor the local variables of any frame of ours, nor what it came from, hold it."""
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = [str(error), repr(error), error.message, repr(vars(error))]
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename != __file__:
            shown += map(repr, frame.f_locals.values())
    assert any("Secret(***)" in text for text in shown)
    for form in (
        PASSPHRASE,
        PASSPHRASE[::-1],
        PASSPHRASE.encode().hex(),
        base64.b64encode(PASSPHRASE.encode()).decode(),
    ):
        assert not any(form.casefold() in text.casefold() for text in shown)


def give(caller: Caller, authority: Authority, *, days: float = 1, end: bytes = YES) -> None:
    """Answer as an honest server does."""
    caller.send(b"\1" + sign(authority, caller.key(), days=days), end)


def test_an_honest_server_of_this_kind_gives_a_credential(
    lie: Callable[..., LyingServer], authority: Authority
) -> None:
    server = lie(partial(give, authority=authority))
    credential = myproxy.logon(
        ["127.0.0.2", "127.0.0.1"],
        server.port,
        server_name="localhost",
        username="alice",
        passphrase=PASSPHRASE,
        lifetime=timedelta(hours=2),
        trust=TrustFolder(authority.certificates),
    )
    assert credential.identity == authority.user_subject("alice")
    request = bytes(server.told[: server.told.index(b"\0")])
    assert request == (
        f"0VERSION=MYPROXYv2\nCOMMAND=0\nUSERNAME=alice\nPASSPHRASE={PASSPHRASE}\nLIFETIME=7200\n".encode()
    )


def hang_after(caller: Caller, *parts: bytes) -> None:
    caller.send(*parts)
    caller.hang()


def hang_after_request(caller: Caller, *parts: bytes) -> None:
    caller.request()
    hang_after(caller, *parts)


def hang_after_key(caller: Caller, *parts: bytes) -> None:
    caller.key()
    hang_after(caller, *parts)


def dribble(caller: Caller, octet: bytes = b"x") -> None:
    """Always something new, never an end."""
    caller.request()
    while not caller.over:
        caller.send(octet)
        time.sleep(0.02)


HANGS: dict[str, tuple[Behave, str]] = {
    "after the handshake": (hang_after, "answer the request"),
    "after the request": (hang_after_request, "answer the request"),
    "in its answer": (partial(hang_after_request, *()), "answer the request"),
    "after half of its answer": (lambda caller: hang_after_request(caller, YES[:12]), "answer the request"),
    "after its answer": (lambda caller: hang_after_request(caller, YES), "send the certificates"),
    "after the key": (hang_after_key, "send the certificates"),
    "in a certificate": (lambda caller: hang_after_key(caller, b"\1\x30\x82\x04"), "send the certificates"),
    "for ever, an octet at a time": (dribble, "answer the request"),
    "for ever, a zero at a time": (lambda caller: dribble(caller, b"\0"), "answer the request"),
}


@pytest.mark.parametrize("where", HANGS)
def test_a_server_that_hangs_is_given_up(lie: Callable[..., LyingServer], refused: Any, where: str) -> None:
    behave, step = HANGS[where]
    # The limit is that of the whole sign-in, in which a busy machine has to make a key.
    error = refused(lie(behave), timeout=3.0)
    assert isinstance(error, myproxy.MyProxyTimeoutError), error
    assert error.message == f"The MyProxy server did not {step} within 3 s; try again later."


def test_a_server_that_hangs_before_the_end_is_given_up(
    lie: Callable[..., LyingServer], refused: Any, authority: Authority
) -> None:
    def behave(caller: Caller) -> None:
        give(caller, authority, end=b"")
        caller.hang()

    error = refused(lie(behave), timeout=3.0)
    assert isinstance(error, myproxy.MyProxyTimeoutError)
    assert error.facts["step"] == "say that it is done"


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x03\x01\x00"])
def test_a_server_that_hangs_before_or_in_the_handshake_is_given_up(
    lie: Callable[..., LyingServer], refused: Any, sent: bytes
) -> None:
    error = refused(lie(lambda caller: hang_after(caller, sent), None), timeout=1.0)
    assert isinstance(error, myproxy.MyProxyTimeoutError)
    assert error.facts["step"] == "begin TLS"


@pytest.mark.parametrize(
    "record", [b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", b"\x15\x03\x03"], ids=["handshake", "alert"]
)
def test_a_server_that_sends_an_octet_of_its_handshake_now_and_then_is_given_up(
    lie: Callable[..., LyingServer], refused: Any, record: bytes
) -> None:
    def drip(caller: Caller) -> None:
        caller.send(record)
        while not caller.over:
            caller.send(b"\0")
            time.sleep(0.05)

    given_up = (myproxy.MyProxyTimeoutError.refusal, myproxy.PROTOCOL_BROKEN)
    assert refused(lie(drip, None), timeout=0.5).refusal in given_up


@pytest.mark.parametrize(
    "sent", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(1000), b"\xff" * 99]
)
def test_a_server_that_does_not_speak_tls_is_reported_as_such(
    lie: Callable[..., LyingServer], refused: Any, sent: bytes
) -> None:
    server = lie(lambda caller: hang_after(caller, sent), None)
    assert refused(server).refusal is myproxy.PROTOCOL_BROKEN


def test_a_server_with_an_old_tls_is_refused(
    lie: Callable[..., LyingServer],
    refused: Any,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
) -> None:
    context = server_context(host_of(authority))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert refused(lie(Caller.request, context)).refusal is myproxy.PROTOCOL_BROKEN


def after_request(*parts: bytes) -> Behave:
    def behave(caller: Caller) -> None:
        caller.request()
        caller.send(*parts)

    return behave


def after_key(*parts: bytes) -> Behave:
    def behave(caller: Caller) -> None:
        caller.key()
        caller.send(*parts)

    return behave


def without_end(caller: Caller, part: bytes) -> None:
    while not caller.over:
        caller.send(part)


def after_request_without_end(part: bytes) -> Behave:
    def behave(caller: Caller) -> None:
        caller.request()
        without_end(caller, part)

    return behave


def after_key_without_end(first: bytes, part: bytes) -> Behave:
    def behave(caller: Caller) -> None:
        caller.key()
        caller.send(first)
        without_end(caller, part)

    return behave


def changed(before: str, after: str) -> bytes:
    """A certificate with octets of it changed (hexadecimal), as the server sends it."""
    more = [(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)]
    data = make.person(None, more=more).certificate.public_bytes(Encoding.DER)
    assert data.count(bytes.fromhex(before)) == 1
    return b"\1" + data.replace(bytes.fromhex(before), bytes.fromhex(after)) + YES


LIES: dict[str, Behave] = {
    "hangs up at once": lambda caller: None,
    "hangs up after the request": after_request(),
    "hangs up in its answer": after_request(YES[:9]),
    "hangs up after the key": after_key(),
    "hangs up in a certificate": after_key(b"\1\x30\x82\x04\x00abc"),
    "garbage": after_request(b"\x80\x81\xff garbage \0"),
    "no version": after_request(b"RESPONSE=0\n\0"),
    "another version": after_request(b"VERSION=MYPROXYv3\nRESPONSE=0\n\0"),
    "no response": after_request(b"VERSION=MYPROXYv2\n\0"),
    "a response that is none": after_request(b"VERSION=MYPROXYv2\nRESPONSE=00\n\0"),
    "two versions": after_request(b"VERSION=MYPROXYv2\nVERSION=MYPROXYv1\nRESPONSE=0\n\0"),
    "an answer without end": after_request_without_end(b"VERSION=MYPROXYv2\n" * 1000),
    "zeros without end": after_request_without_end(bytes(65536)),
    "no certificates": after_key(b"\0" + YES),
    "255 certificates": after_key(b"\xff"),
    "fewer certificates than promised": after_key(b"\2\x30\x03abc"),
    "a certificate of 2 GiB": after_key_without_end(b"\1\x30\x84\x7f\xff\xff\xff", b"x" * 65536),
    "a certificate of 2^1000 octets": after_key_without_end(b"\1\x30\xfd", b"\xff" * 65536),
    "a certificate of no length": after_key(b"\1\x30\x80abc\0\0" + bytes(100)),
    "a number for a certificate": after_key(b"\1\x02\x01\x05" + YES),
    "an empty certificate": after_key(b"\1\x30\x00" + YES),
    "a certificate that is none": after_key(b"\1\x30\x04abcd" + YES),
    "an extension that comes twice": after_key(changed("0603551d25", "0603551d0f")),
    "a certificate of version 9": after_key(changed("a003020102", "a003020108")),
}


@pytest.mark.parametrize("what", LIES)
def test_a_server_that_lies_is_reported_as_such(lie: Callable[..., LyingServer], refused: Any, what: str) -> None:
    assert refused(lie(LIES[what])).refusal is myproxy.PROTOCOL_BROKEN


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        ("RESPONSE=1\nERROR=invalid password", myproxy.BAD_PASSPHRASE, "does not accept this passphrase"),
        (
            "RESPONSE=1\nERROR=unknown username: alice",
            myproxy.UNKNOWN_USER,
            'no credential for the user "alice"',
        ),
        ("RESPONSE=1\nERROR=the disk\nERROR=is full", myproxy.LogonRefusedError, 'It says: "the disk is full".'),
        ("RESPONSE=1", myproxy.LogonRefusedError, "The MyProxy server refused."),
        ("RESPONSE=1\nERROR=\x1b[2J\a\x85bad\u202e", myproxy.LogonRefusedError, 'It says: "[2J bad".'),
        ("RESPONSE=2\nAUTHORIZATION_DATA=x", myproxy.LogonRefusedError, "requires more than a passphrase"),
    ],
)
def test_a_refusal_is_reported_in_words_that_can_be_shown(
    lie: Callable[..., LyingServer], refused: Any, said: str, kind: object, reason: str
) -> None:
    for behave in (after_request, after_key):
        error = refused(lie(behave(f"VERSION=MYPROXYv2\n{said}\n\0".encode())))
        assert kind in (error.refusal, type(error))
        assert error.message.endswith(reason) or reason in error.message


def test_a_long_refusal_is_cut(lie: Callable[..., LyingServer], refused: Any) -> None:
    error = refused(lie(after_request(b"VERSION=MYPROXYv2\nRESPONSE=1\nERROR=" + b"long " * 1000 + b"\n\0")))
    assert len(error.message) < 300


ECHOES = {
    "plain": PASSPHRASE,
    "loud and torn": " / ".join(PASSPHRASE.upper().split()),
    "over two lines": PASSPHRASE.replace(" ", "\nERROR="),
    "backwards": PASSPHRASE[::-1],
    "hexadecimal": PASSPHRASE.encode().hex(),
    "base64": base64.b64encode(PASSPHRASE.encode()).decode(),
    "percent": "Tr0ub4dor%20%26%203",
}


@pytest.mark.parametrize("how", ECHOES)
def test_a_server_that_echoes_the_passphrase_is_not_quoted(
    lie: Callable[..., LyingServer], refused: Any, how: str
) -> None:
    text = f"VERSION=MYPROXYv2\nRESPONSE=1\nERROR=no: {ECHOES[how]} is not it\n\0"
    assert refused(lie(after_request(text.encode()))).message == "The MyProxy server refused."


def test_a_certificate_for_another_key_is_refused(
    lie: Callable[..., LyingServer], refused: Any, authority: Authority
) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    assert refused(lie(after_key(b"\1" + sign(authority, other), YES))).refusal is myproxy.FOREIGN_KEY


def test_a_certificate_that_is_no_good_is_refused(
    lie: Callable[..., LyingServer], refused: Any, authority: Authority, other_authority: Authority
) -> None:
    expired = refused(lie(partial(give, authority=authority, days=-1)))
    assert expired.refusal is myproxy.BAD_CREDENTIAL
    assert expired.facts["refused"].flaw is Flaw.EXPIRED
    foreign = refused(lie(partial(give, authority=other_authority)))
    assert foreign.refusal is myproxy.BAD_CREDENTIAL
    assert foreign.facts["refused"].flaw is Flaw.UNKNOWN_AUTHORITY


def give_proxy(caller: Caller, issuer: make.Holder) -> None:
    """Give a proxy of this credential, which is limited if the credential is."""
    asked = caller.key()
    policy = LIMITED if issuer.credential.is_limited else INHERIT_ALL
    times = {"begins": issuer.certificate.not_valid_before_utc, "ends": issuer.certificate.not_valid_after_utc}
    proxy = make.proxy(issuer, policy=policy, key=SimpleNamespace(public_key=lambda: asked), **times)  # type: ignore[arg-type]
    chain = [one.public_bytes(Encoding.DER) for one in proxy.chain]
    caller.send(bytes([len(chain)]), *chain, YES)


def test_a_credential_that_lets_nobody_in_is_refused(
    lie: Callable[..., LyingServer], refused: Any, tmp_path: Path
) -> None:
    """A file server keeps the limited proxy of one of its users there, to sign in as that user; or its own key."""
    now = datetime.now(UTC)
    times: dict[str, Any] = {"begins": now - timedelta(days=1), "ends": now + timedelta(days=1)}
    ca = make.authority(**times)
    host = make.host(ca, common_name="localhost", **times)
    files = CertificateFiles(tmp_path / "host.pem", tmp_path / "host.key")
    files.certificate.write_bytes(b"".join(map(make.certificate_pem, host.chain)))
    files.key.write_bytes(make.key_pem(host.key))
    limited = make.proxy(make.person(ca, **times), policy=LIMITED, **times)
    server_only = [(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)]
    service = make.person(ca, more=server_only, **times)
    for issuer, flaw in ((limited, Flaw.LIMITED_PROXY), (service, Flaw.NOT_AN_END_ENTITY)):
        server = lie(partial(give_proxy, issuer=issuer), server_context(files))
        error = refused(server, trust=TrustFolder(make.trust(tmp_path, ca)))
        assert error.refusal is myproxy.BAD_CREDENTIAL, error
        assert error.facts["refused"].flaw is flaw


def test_a_refusal_after_the_certificates_counts(
    lie: Callable[..., LyingServer], refused: Any, authority: Authority
) -> None:
    no = b"VERSION=MYPROXYv2\nRESPONSE=1\nERROR=sorry\n\0"
    assert isinstance(refused(lie(partial(give, authority=authority, end=no))), myproxy.LogonRefusedError)
    assert refused(lie(partial(give, authority=authority, end=b""))).refusal is myproxy.PROTOCOL_BROKEN


def test_a_persons_proxy_that_is_called_like_the_server_is_not_the_server(
    lie: Callable[..., LyingServer], refused: Any, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    times: dict[str, Any] = {"begins": now - timedelta(days=1), "ends": now + timedelta(days=1)}
    ca = make.authority(**times)
    proxy = make.proxy(make.person(ca, "CN=Mallory", **times), appended="CN=localhost", **times)
    for number, holder in enumerate((proxy, make.host(ca, common_name="localhost", **times))):
        files = tmp_path / f"{number}.pem", tmp_path / f"{number}.key"
        files[0].write_bytes(b"".join(map(make.certificate_pem, holder.chain)))
        files[1].write_bytes(make.key_pem(holder.key))
        server = lie(hang_after_request, server_context(CertificateFiles(*files)))
        error = refused(server, trust=TrustFolder(make.trust(tmp_path, ca)), timeout=2.0)
        assert error.refusal is (myproxy.MyProxyTimeoutError.refusal if number else myproxy.WRONG_SERVER), error
        assert (PASSPHRASE.encode() in server.told) == bool(number)


def test_a_server_that_is_not_the_one_we_mean_gets_no_secret(
    lie: Callable[..., LyingServer], refused: Any, authority: Authority, other_authority: Authority
) -> None:
    pretenders = {
        myproxy.WRONG_SERVER: [
            authority.issue_host(["evil.example.org"]),
            authority.issue_host(["localhost.evil.example.org"]),
        ],
        myproxy.UNTRUSTED_SERVER: [
            other_authority.issue_host(["localhost"]),
            CertificateFiles(authority.ca_certificate, authority.ca_key),
            authority.issue_user("alice"),
        ],
    }
    for kind, identities in pretenders.items():
        for identity in identities:
            server = lie(Caller.request, server_context(identity))
            error = refused(server)
            assert kind in (error.refusal, type(error)), (identity, error)
            assert "nothing was sent to it" in error.message
            server.close()
            assert bytes(server.told) == b""


def test_nobody_there_is_reported_as_such(refused: Any, lie: Callable[..., LyingServer]) -> None:
    server = lie(Caller.request)
    server.close()
    assert isinstance(refused(server), myproxy.MyProxyUnreachableError)


@pytest.mark.parametrize("username", ["", "a\nCOMMAND=3", "a\0", "a\r", "x" * 257, "a\udcff"])
def test_a_user_name_that_could_say_more_is_refused(
    lie: Callable[..., LyingServer], refused: Any, username: str
) -> None:
    server = lie(Caller.request)
    assert isinstance(refused(server, username=username), myproxy.MyProxyInputError)
    assert bytes(server.told) == b""


@pytest.mark.parametrize("passphrase", ["", "a\nUSERNAME=bob", "a\0b", "a\rb", "x" * 1025, "é" * 513, "a\udcff"])
def test_a_passphrase_that_could_say_more_is_refused(authority: Authority, passphrase: str) -> None:
    with pytest.raises(myproxy.MyProxyInputError, match="passphrase") as caught:
        myproxy.logon(
            ["192.0.2.1"],
            7512,
            server_name="localhost",
            username="alice",
            passphrase=passphrase,
            lifetime=timedelta(hours=1),
            trust=TrustFolder(authority.certificates),
        )
    assert len(passphrase) < 3 or passphrase not in str(caught.value)
