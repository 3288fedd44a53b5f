"""GSI with servers that lie: each lie has its own fault, and nothing goes out in clear text."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.third_party.data_security import agree, secure
from tests.gridftp.acceptor import WELCOME, Acceptor, Conversation, Script
from tests.gridftp.authority import Authority
from tests.gridftp.grid import login_of, open_session

BOTH = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


class Liars:
    """Meets acceptors that play a script, as alice."""

    def __init__(self, host: CertificateFiles, alice: CertificateFiles, authority: Authority) -> None:
        self.host = host
        self.alice = alice
        self.authority = authority

    async def meet(
        self,
        script: Script,
        *,
        delegate: bool = False,
        timeout: float = 10.0,
        least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> Fault:
        login = login_of(self.alice, self.authority, delegate=delegate)
        async with Acceptor(script, self.host, least=least, most=most) as acceptor:
            with pytest.raises(FaultError) as caught:
                await open_session(acceptor.port, login, timeout=timeout)
        assert b"USER" not in acceptor.heard
        assert b"globus-mapping" not in acceptor.heard
        fault = caught.value.fault
        assert fault.advice, fault
        assert "BEGIN" not in str(fault), fault
        return fault


@pytest.fixture
def liars(
    authority: Authority, host_of: Callable[[Authority], CertificateFiles], identity_of: Callable[..., CertificateFiles]
) -> Liars:
    return Liars(host_of(authority), identity_of("alice"), authority)


async def honest(c: Conversation) -> None:
    await c.accept()
    await c.serve()


@BOTH
async def test_an_honest_acceptor_is_believed(liars: Liars, version: ssl.TLSVersion) -> None:
    async with Acceptor(honest, liars.host, least=version, most=version) as acceptor:
        session = await open_session(acceptor.port, login_of(liars.alice, liars.authority))
        assert session.connection.channel.protected
        session.connection.abort()
    assert all(line.startswith((b"AUTH ", b"ADAT ", b"ENC ")) for line in acceptor.heard.splitlines())


# ---- downgrades


@pytest.mark.parametrize("answer", [b"500 unknown", b"502 no", b"504 no GSSAPI", b"534 no", b"234 TLS", b"230 come in"])
async def test_a_server_without_gsi_is_never_logged_in_to_in_clear(liars: Liars, answer: bytes) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.say(answer)

    fault = await liars.meet(script)

    assert (fault.kind, fault.scope) == (Kind.INSECURE_SERVER, FaultScope.ENDPOINT)
    assert "clear text" in fault.advice


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
async def test_old_tls_is_refused(liars: Liars, version: ssl.TLSVersion) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()

    fault = await liars.meet(script, least=version, most=version)

    assert fault.kind in (Kind.INSECURE_SERVER, Kind.CONNECTION_BROKEN)


async def test_success_without_a_handshake_is_refused(liars: Liars) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.say(b"334 go on", WELCOME)
        await c.say(b"331 and now?", b"230 come in", b"211 no", b'257 "/"', b"200 fine", b"200 fine", b"200 fine")

    assert (await liars.meet(script)).kind is Kind.INSECURE_SERVER


async def test_success_before_the_last_token_is_refused(liars: Liars) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.say(b"334 go on")
        await c.say_token(await c.first_token())
        await c.hear_token()
        await c.say(WELCOME)

    assert (await liars.meet(script)).kind is Kind.INSECURE_SERVER


# ---- tokens


@pytest.mark.parametrize(
    "answer",
    [
        b"335 ADAT=",
        b"335 ADAT=!!!!",
        b"335 ADAT=QUJD=Zz",
        b"335 no token",
        b"335 ADAT=" + base64.b64encode(os.urandom(300)),
        b"335 ADAT=" + base64.b64encode(b"\x16\x03\x03\x00"),
        b"335 ADAT=" + base64.b64encode(b"\x15\x03\x03\x00\x02\x02\x28"),
        b"335-ADAT=QUJD\r\n335 ADAT=QUJD",
        b"200 fine",
        b"632 QUJD",
    ],
    ids=["empty", "no base64", "base64 too long", "none", "noise", "a part", "an alert", "two lines", "200", "632"],
)
async def test_a_token_that_is_none_ends_the_dialog(liars: Liars, answer: bytes) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.say(b"334 go on", answer)

    assert (await liars.meet(script)).kind is Kind.INSECURE_SERVER


async def test_an_oversized_token_is_not_read_to_its_end(liars: Liars) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.say(b"334 go on")
        c.writer.write(b"335 ADAT=")
        while True:
            c.writer.write(b"QUJD" * 10_000)
            await c.writer.drain()

    assert (await liars.meet(script)).kind is Kind.ENDPOINT_ERROR


@BOTH
async def test_tokens_without_end_are_refused(liars: Liars, version: ssl.TLSVersion) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()
        while True:
            await c.hear_token()
            await c.say_token(c.seal(b"\0"))

    assert (await liars.meet(script, least=version, most=version)).kind is Kind.INSECURE_SERVER


async def test_words_where_the_sync_octet_belongs_are_refused(liars: Liars) -> None:
    async def script(c: Conversation) -> None:
        c.sync = b"230 come in\r\n"
        await c.greet()
        await c.shake_hands()

    assert (await liars.meet(script, least=ssl.TLSVersion.TLSv1_3)).kind is Kind.INSECURE_SERVER


# ---- delegation


def request_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "NULL SUBJECT NAME ENTRY")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.DER)


def forged(request: bytes) -> bytes:
    return request[:-1] + bytes([request[-1] ^ 1])


@BOTH
async def test_a_delegation_that_was_not_agreed_is_refused(liars: Liars, version: ssl.TLSVersion) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()
        assert await c.hear_flag() == b"0"
        await c.say_token(c.seal(request_of(rsa.generate_private_key(65537, 2048))))

    fault = await liars.meet(script, least=version, most=version)

    assert fault.kind is Kind.INSECURE_SERVER
    assert "delegation" in fault.raw


@pytest.mark.parametrize("what", ["noise", "weak", "elliptic", "forged", "huge", "empty"])
async def test_only_a_sound_signing_request_gets_a_proxy(liars: Liars, what: str) -> None:
    strong = rsa.generate_private_key(65537, 2048)
    request = {
        "noise": lambda: os.urandom(700),
        "weak": lambda: request_of(rsa.generate_private_key(65537, 1024)),
        "elliptic": lambda: request_of(ec.generate_private_key(ec.SECP256R1())),
        "forged": lambda: forged(request_of(strong)),
        "huge": lambda: b"\x30" * 30_000,
        "empty": lambda: b"\0",
    }[what]()

    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()
        assert await c.hear_flag() == b"D"
        await c.say_token(c.seal(request))
        await c.hear_token()

    fault = await liars.meet(script, delegate=True)

    assert fault.kind is Kind.INSECURE_SERVER
    assert "signing request" in fault.raw


async def test_what_is_delegated_is_a_limited_proxy_of_the_requested_key(liars: Liars) -> None:
    key = rsa.generate_private_key(65537, 2048)
    given: list[x509.Certificate] = []

    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()
        assert await c.hear_flag() == b"D"
        await c.say_token(c.seal(request_of(key)))
        given.append(x509.load_der_x509_certificate(c.open(await c.hear_token())))
        await c.say(WELCOME)
        await c.serve()

    async with Acceptor(script, liars.host) as acceptor:
        session = await open_session(acceptor.port, login_of(liars.alice, liars.authority, delegate=True))
        session.connection.abort()
    (proxy,) = given
    alice = x509.load_pem_x509_certificate(liars.alice.certificate.read_bytes())
    proxy.verify_directly_issued_by(alice)
    assert proxy.public_key() == key.public_key()
    info = proxy.extensions.get_extension_for_oid(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.14"))
    assert info.critical
    assert bytes.fromhex("060b2b060104019b5001010109") in info.value.public_bytes()
    assert proxy.not_valid_after_utc <= datetime.now(UTC) + timedelta(hours=12)


# ---- after the handshake


@pytest.mark.parametrize(
    "words",
    [
        b'331 Password required\r\n230 logged in\r\n211 no\r\n257 "/"\r\n200 fine\r\n200 fine\r\n200 fine\r\n',
        b"421 good bye\r\n",
        b"632 \r\n632 !\r\n",
        b"632 " + base64.b64encode(b"331 Password required\r\n") + b"\r\n",
        b"632 " + base64.b64encode(b"\x17\x03\x03\x00\x20" + bytes(32)) + b"\r\n",
        b"632" + b"A" * 200_000,
        b"\r\n",
    ],
    ids=[
        "clear replies",
        "clear 421",
        "no base64",
        "clear in base64",
        "a forged record",
        "a line without end",
        "blank",
    ],
)
async def test_only_protected_replies_are_believed(liars: Liars, words: bytes) -> None:
    async def script(c: Conversation) -> None:
        await c.accept()
        await c.hear()
        c.writer.write(words)

    assert (await liars.meet(script)).kind is Kind.INSECURE_SERVER


@pytest.mark.parametrize("code", [b"631 ", b"633 ", b"230 "])
async def test_replies_without_integrity_or_secrecy_are_refused(liars: Liars, code: bytes) -> None:
    async def script(c: Conversation) -> None:
        await c.accept()
        await c.hear_command()
        await c.say(c.protected(b"331 fine", code))

    assert (await liars.meet(script)).kind is Kind.INSECURE_SERVER


async def test_a_reply_that_was_changed_or_comes_twice_is_refused(liars: Liars) -> None:
    async def changed(c: Conversation) -> None:
        await c.accept()
        await c.hear_command()
        record = bytearray(c.seal(b"331 fine\r\n"))
        record[-1] ^= 1
        await c.say(b"632 " + base64.b64encode(record))

    async def replayed(c: Conversation) -> None:
        await c.accept()
        await c.hear_command()
        line = c.protected(b"331 fine")
        await c.say(line, line)

    assert (await liars.meet(changed)).kind is Kind.INSECURE_SERVER
    assert (await liars.meet(replayed)).kind is Kind.INSECURE_SERVER


@pytest.mark.parametrize("injected", [b"230 come in\r\n", b"230 half a li", b"230-many lines\r\n"])
async def test_clear_text_behind_the_last_reply_is_not_taken_for_the_servers_word(
    liars: Liars, injected: bytes
) -> None:
    async def script(c: Conversation) -> None:
        await c.greet()
        await c.shake_hands()
        await c.hear_flag()
        c.writer.write(WELCOME + b"\r\n" + injected)
        await c.serve()

    assert (await liars.meet(script)).kind in (Kind.INSECURE_SERVER, Kind.ENDPOINT_ERROR)


async def test_a_channel_that_ends_within_tls_is_broken(liars: Liars) -> None:
    async def script(c: Conversation) -> None:
        await c.accept()
        await c.hear_command()
        await c.say(b"632 " + base64.b64encode(c.last_record()))

    assert (await liars.meet(script)).kind is Kind.CONNECTION_BROKEN


# ---- servers that quote the secret that they received


def _wrapped(text: bytes, width: int) -> list[bytes]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def _refusal(*lines: bytes) -> list[bytes]:
    return [*(b"500-" + line for line in lines), b"500 End."]


QUOTATIONS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": lambda line: [b"500 '" + line + b"': command not understood."],
    "in capitals": lambda line: [b"500 " + line.upper() + b" is not known."],
    "wrapped": lambda line: _refusal(b"Not understood:", *_wrapped(line, 40)),
    "decoded": lambda line: _refusal(*base64.b64decode(line[7:]).splitlines()),
    "a piece of it": lambda line: [b"501 near ..." + line[900:930] + b"... a character is wrong"],
    "as no reply": lambda line: [line],
}


@pytest.mark.parametrize("quotation", QUOTATIONS)
async def test_a_server_that_quotes_the_key_of_the_data_channels_is_not_quoted(liars: Liars, quotation: str) -> None:
    told: list[bytes] = []

    async def script(c: Conversation) -> None:
        await c.accept()
        while line := await c.hear_command():
            replies = {b"FEAT": [b"211-Features:", b" DCSC P,D", b" DCAU", b"211 End"], b"PASS": [b"230 Come in."]}
            if line.startswith(b"DCSC P"):
                told.append(line)
                replies[b"DCSC"] = QUOTATIONS[quotation](line)
            said = replies.get(line.partition(b" ")[0], [b"200 fine"])
            await c.say(*(c.protected(one) for one in said))

    async with Acceptor(script, liars.host) as acceptor:
        login = login_of(liars.alice, liars.authority)
        ends = await open_session(acceptor.port, login), await open_session(acceptor.port, login)
        with pytest.raises(FaultError) as caught:
            await secure(ends[0], ends[1], agree(ends[0], ends[1], encrypt=True))
        for session in ends:
            session.connection.abort()

    shown = [
        str(caught.value),
        caught.value.fault.advice,
        *(fault.raw for one in ends for fault in one.refused.values()),
    ]
    assert told
    # Text that is no reply is never shown.
    assert quotation == "as no reply" or any("is not shown" in text for text in shown)
    secret = told[0][7:] + base64.b64decode(told[0][7:])
    for text in shown:
        assert not any(text[at : at + 12].encode() in secret for at in range(len(text) - 11)), text
        assert "b'" not in text


# ---- silence, and the end, at each step


async def _nothing(c: Conversation) -> None:
    pass


async def _no_answer_to_auth(c: Conversation) -> None:
    await c.greet()


async def _no_token(c: Conversation) -> None:
    await c.greet()
    await c.say(b"334 go on")


async def _no_last_token(c: Conversation) -> None:
    await c.greet()
    await c.shake_hands()


async def _no_welcome(c: Conversation) -> None:
    await c.greet()
    await c.shake_hands()
    await c.hear_flag()


async def _no_answer_to_user(c: Conversation) -> None:
    await c.accept()


STEPS = [_nothing, _no_answer_to_auth, _no_token, _no_last_token, _no_welcome, _no_answer_to_user]


@pytest.mark.parametrize("script", STEPS)
async def test_a_server_that_falls_silent_is_left_after_a_while(liars: Liars, script: Script) -> None:
    assert (await liars.meet(script, timeout=0.4)).kind is Kind.TIMEOUT


@pytest.mark.parametrize("script", STEPS)
async def test_a_server_that_hangs_up_is_a_broken_connection(liars: Liars, script: Script) -> None:
    async def then_hang_up(c: Conversation) -> None:
        await script(c)
        await asyncio.sleep(0.01)
        raise ConnectionResetError

    assert (await liars.meet(then_hang_up)).kind in (Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET)
