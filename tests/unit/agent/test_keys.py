"""The keys of agents, checked against OpenSSL (by `cryptography`) and the examples of RFC 6979."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_private_key

from endpoints.gridftp.agent import p256
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey, KeyFileError

#: RFC 6979, A.2.5.
RFC_KEY = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
RFC_POINT = (
    0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6,
    0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299,
)


def openssl_key(scalar: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(scalar, ec.SECP256R1())


def test_a_public_key_is_that_of_the_standard() -> None:
    assert p256.public_point(RFC_KEY) == RFC_POINT


@pytest.mark.parametrize("scalar", [1, 2, 3, 4, 2**255, p256.N // 2, p256.N - 2, p256.N - 1])
def test_public_keys_at_the_edges_are_those_of_openssl(scalar: int) -> None:
    numbers = openssl_key(scalar).public_key().public_numbers()
    assert p256.public_point(scalar) == (numbers.x, numbers.y)


@pytest.mark.parametrize(
    ("message", "r", "s"),
    [
        (
            b"sample",
            0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
            0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
        ),
        (
            b"test",
            0xF1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367,
            0x019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083,
        ),
    ],
)
def test_signatures_are_those_of_the_standard(message: bytes, r: int, s: int) -> None:
    assert p256.sign(RFC_KEY, message) == (r, s)


def test_openssl_accepts_what_a_new_key_signs() -> None:
    for number in range(20):
        key, message = AgentKey.new(), bytes([number]) * number
        public = load_der_public_key(key.public_der())
        assert isinstance(public, ec.EllipticCurvePublicKey)
        public.verify(key.sign(message), message, ec.ECDSA(SHA256()))


def test_two_signatures_of_one_text_differ() -> None:
    key = AgentKey.new()
    assert key.sign(b"once") != key.sign(b"once")


def test_openssl_reads_the_key_file_and_we_read_it_again() -> None:
    key = AgentKey.new()
    read = load_pem_private_key(key.pem().encode(), None)
    assert isinstance(read, ec.EllipticCurvePrivateKey)
    assert read.private_numbers().private_value == key.scalar
    assert AgentKey.from_pem(key.pem()) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        AgentKey(5).pem().replace("PRIVATE", "PUBLIC"),
        AgentKey(0).pem(),
        AgentKey(p256.N).pem(),
        AgentKey(5).pem().replace("MEEC", "MEEE"),
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(KeyFileError):
        AgentKey.from_pem(text)


def test_openssl_reads_and_checks_the_certificate_request() -> None:
    key = AgentKey.new()
    for name in ("agent", "x" * 64):
        request = x509.load_pem_x509_csr(key.request(name).encode())
        assert request.is_signature_valid
        assert request.subject == x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        assert request.public_key() == load_der_public_key(key.public_der())


def test_no_text_form_shows_the_key() -> None:
    key = AgentKey(123456789)
    assert "123456789" not in f"{key!r} {key} {AgentIdentity(key, '')!r}"


def test_the_keys_need_the_standard_library_only() -> None:
    script = "import sys, endpoints.gridftp.agent.keys; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
