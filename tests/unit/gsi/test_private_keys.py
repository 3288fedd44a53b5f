"""Private keys whose author wants our time: refused, or opened, before any of it is spent."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from endpoints.ssh.keys import SshPrivateKeyError, parse_ssh_key
from identity.gsi import der
from identity.gsi.errors import CredentialError
from identity.gsi.private_keys import MAX_ROUNDS, costs_too_much, open_key
from identity.gsi.x509 import X509Credential
from tests import hostile_certificates as make
from tests.hostile_certificates import certificate_pem

PBKDF2, PKCS12 = bytes.fromhex("2a864886f70d01050c"), bytes.fromhex("2a864886f70d010c0103")
SALTS = (b"salt" * 2, b"salt" * 50)


def pem(numbers: Sequence[int]) -> str:
    """RSAPrivateKey of RFC 8017, A.1.2."""
    body = b"".join(der.element(der.INTEGER, one.to_bytes(one.bit_length() // 8 + 1)) for one in (0, *numbers))
    text = base64.encodebytes(der.element(der.SEQUENCE, body)).decode()
    return f"-----BEGIN RSA PRIVATE KEY-----\n{text}-----END RSA PRIVATE KEY-----\n"


def numbers(p: int, q: int, e: int = 65537) -> list[int]:
    d = pow(e, -1, (p - 1) * (q - 1))
    return [p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p)]


def as_credential(text: str) -> None:
    holder = make.authority()
    X509Credential.parse(certificate_pem(holder.certificate) + text.encode())


READERS: list[Callable[[str], object]] = [as_credential, parse_ssh_key]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "given",
    [
        # To prove that a number of 44,497 bits is a prime takes half an hour, in which no other thread runs.
        pytest.param([secrets.randbits(2048) | 1, 65537, 3, 2**44497 - 1, 2**1279 - 1, 3, 3, 3], id="one huge factor"),
        pytest.param(numbers(2**4423 - 1, 2**4253 - 1), id="both factors large"),
    ],
)
def test_primes_without_end_are_not_proved_to_be_primes(read: Callable[[str], object], given: list[int]) -> None:
    with pytest.raises((CredentialError, SshPrivateKeyError)):
        read(pem(given))


@pytest.mark.parametrize("place", range(8))
def test_a_key_whose_numbers_do_not_belong_together_is_none(place: int) -> None:
    given = numbers(2**2203 - 1, 2**1279 - 1)
    assert isinstance(open_key(load_pem_private_key, pem(given).encode(), None), rsa.RSAPrivateKey)
    given[place] += 2
    with pytest.raises(ValueError, match="key"):
        open_key(load_pem_private_key, pem(given).encode(), None)


@pytest.mark.parametrize("salt", SALTS, ids=["short salt", "long salt"])
@pytest.mark.parametrize("how", [PBKDF2, PKCS12], ids=["PBES2", "PKCS 12"])
def test_rounds_without_end_are_seen_in_whatever_form(how: bytes, salt: bytes) -> None:
    def body(rounds: int) -> bytes:
        integer = der.element(der.INTEGER, rounds.to_bytes(5))
        given = der.element(der.SEQUENCE, der.element(der.OCTET_STRING, salt) + integer)
        algorithm = der.element(der.SEQUENCE, der.element(der.OID, how) + given)
        return base64.b64encode(der.element(der.SEQUENCE, algorithm + der.element(der.OCTET_STRING, b"key")))

    assert not costs_too_much(body(MAX_ROUNDS))
    assert costs_too_much(body(2**31))
    text = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body(2**31).decode()}\n-----END ENCRYPTED PRIVATE KEY-----\n"
    with pytest.raises(SshPrivateKeyError, match="too long"):
        parse_ssh_key(text, "a passphrase")
    with pytest.raises(CredentialError):
        X509Credential.parse(certificate_pem(make.authority().certificate) + text.encode(), b"a passphrase")
