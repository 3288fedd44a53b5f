"""Credentials as people give them: PEM of all sorts, and names as the field writes them."""

from __future__ import annotations

import base64
import contextlib
import pickle
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from identity.gsi.distinguished_names import openssl_hash, slash_name
from identity.gsi.errors import CredentialError, Flaw
from identity.gsi.x509 import LIMITED, MAX_PEM, X509Credential, read_certificates
from tests import hostile_certificates as make
from tests.hostile_certificates import DAY, NOW, certificate_pem, key_pem

CA = make.authority()
ALICE = make.person(CA)
PROXY = make.proxy(make.proxy(ALICE), ends=NOW + DAY)


def refused(pem: bytes, flaw: Flaw, passphrase: bytes | None = None) -> str:
    with pytest.raises(CredentialError) as raised:
        X509Credential.parse(pem, passphrase)
    assert raised.value.flaw is flaw, raised.value.reason
    assert raised.value.reason.endswith(".")
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return raised.value.reason


def test_a_proxy_file_is_read_and_shows_whose_it_is() -> None:
    credential = X509Credential.parse(PROXY.pem)
    assert credential.certificate == PROXY.certificate
    assert credential.chain == PROXY.issuers
    assert credential.identity == "/O=Grid/OU=Test/CN=Alice"
    assert credential.subject == "/O=Grid/OU=Test/CN=Alice/CN=1234567/CN=1234567"
    assert credential.expires_at == NOW + DAY
    assert (credential.is_proxy, credential.is_limited, credential.can_delegate) == (True, False, True)
    assert len(credential.fingerprint) == 64


def test_a_certificate_with_its_key_is_a_credential_without_proxies() -> None:
    credential = X509Credential.parse(ALICE.pem)
    assert credential.identity == credential.subject == "/O=Grid/OU=Test/CN=Alice"
    assert not credential.is_proxy


def test_a_proxy_below_a_limited_one_is_limited() -> None:
    limited = make.proxy(make.proxy(ALICE, policy=LIMITED), policy=LIMITED)
    assert X509Credential.parse(limited.pem).is_limited


def test_what_is_written_is_read_again_in_the_order_of_proxy_files() -> None:
    credential = X509Credential.parse(PROXY.pem)
    pem = credential.to_pem()
    again = X509Credential.parse(pem)
    assert (again.certificate, again.chain) == (credential.certificate, credential.chain)
    assert key_pem(again.key) == key_pem(credential.key)
    labels = [line for line in pem.decode().splitlines() if line.startswith("-----BEGIN")]
    assert labels == ["-----BEGIN CERTIFICATE-----", "-----BEGIN RSA PRIVATE KEY-----"] + [labels[0]] * 3


def test_the_parts_may_lie_in_any_order() -> None:
    parts = [key_pem(PROXY.key), *map(certificate_pem, reversed(PROXY.chain))]
    assert X509Credential.parse(b"".join(parts)).chain == PROXY.issuers


def test_line_ends_of_windows_and_text_between_do_no_harm() -> None:
    text = b"Bag Attributes\n  friendlyName: alice -- 1\n" + PROXY.pem.replace(
        b"-----BEGIN", b"subject=/O=Grid\n\n-----BEGIN"
    )
    assert X509Credential.parse(text.replace(b"\n", b"\r\n")).subject == PROXY.credential.subject
    assert X509Credential.parse(b"\xef\xbb\xbf\n" + text + b"\n\n  ").subject == PROXY.credential.subject


def test_spaces_around_lines_do_no_harm() -> None:
    pasted = b"\n".join(b"   " + line + b" \t" for line in PROXY.pem.splitlines())
    assert X509Credential.parse(pasted).subject == PROXY.credential.subject


def test_the_same_certificate_twice_counts_once() -> None:
    assert X509Credential.parse(PROXY.pem + certificate_pem(PROXY.certificate)).chain == PROXY.issuers


def test_what_belongs_to_another_chain_is_left_out() -> None:
    other = make.person(make.authority("CN=Other CA"), "CN=Bob", key=make.rsa_key(8))
    assert X509Credential.parse(PROXY.pem + certificate_pem(other.certificate)).chain == PROXY.issuers


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_opens_with_its_passphrase_only(form: PrivateFormat) -> None:
    key = ALICE.key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"correct horse"))
    pem = certificate_pem(ALICE.certificate) + key
    assert X509Credential.parse(pem, b"correct horse").identity == "/O=Grid/OU=Test/CN=Alice"
    refused(pem, Flaw.PASSPHRASE)
    refused(pem, Flaw.PASSPHRASE, b"")
    assert "wrong horse" not in refused(pem, Flaw.PASSPHRASE, b"wrong horse")


def test_a_passphrase_that_is_not_needed_does_no_harm() -> None:
    assert X509Credential.parse(ALICE.pem, b"whatever").identity == "/O=Grid/OU=Test/CN=Alice"


def test_a_key_that_asks_for_endless_work_is_refused(tmp_path: Path) -> None:
    given = tmp_path / "key.pem"
    given.write_bytes(key_pem(ALICE.key))
    words = ["openssl", "pkcs8", "-topk8", "-in", str(given), "-passout", "pass:correct horse", "-outform", "DER"]
    usual = subprocess.run([*words, "-iter", "100000"], capture_output=True, check=True, timeout=60).stdout
    memory = subprocess.run([*words, "-scrypt"], capture_output=True, check=True, timeout=60).stdout
    rounds = bytes.fromhex("02030186a0")
    assert rounds in usual
    X509Credential.parse(certificate_pem(ALICE.certificate) + locked(usual), b"correct horse")
    for endless in (usual.replace(rounds, bytes.fromhex("02037fffff")), memory, b"\x30\x80" * 2000):
        refused(certificate_pem(ALICE.certificate) + locked(endless), Flaw.MALFORMED_CREDENTIAL, b"correct horse")


def locked(data: bytes) -> bytes:
    lines = base64.encodebytes(data)
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + lines + b"-----END ENCRYPTED PRIVATE KEY-----\n"


def test_a_key_that_does_not_fit_is_refused() -> None:
    refused(certificate_pem(ALICE.certificate) + key_pem(make.rsa_key(44)), Flaw.KEY_MISMATCH)
    refused(certificate_pem(ALICE.certificate) + key_pem(make.ec_key()), Flaw.KEY_MISMATCH)


def test_short_and_odd_keys_are_refused() -> None:
    small = make.person(CA, key=make.rsa_key(0, 1024))
    assert "1024 bits" in refused(small.pem, Flaw.WEAK_KEY)
    assert "secp192r1" in refused(make.person(CA, key=make.ec_key(0, ec.SECP192R1)).pem, Flaw.WEAK_KEY)
    edwards = ed25519.Ed25519PrivateKey.generate()
    pem = edwards.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    refused(certificate_pem(ALICE.certificate) + pem, Flaw.WEAK_KEY)


def test_keys_on_elliptic_curves_log_in_but_cannot_be_delegated() -> None:
    credential = X509Credential.parse(make.person(CA, key=make.ec_key()).pem)
    assert not credential.can_delegate
    assert X509Credential.parse(credential.to_pem()).fingerprint == credential.fingerprint


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"hello",
        certificate_pem(ALICE.certificate),
        key_pem(ALICE.key),
        ALICE.pem + key_pem(ALICE.key),
        ALICE.pem[:-30],
        ALICE.pem[:300],
        certificate_pem(ALICE.certificate)[:400] + ALICE.pem,
        ALICE.pem.replace(b"MI", b"!!"),
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + key_pem(ALICE.key),
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n" + key_pem(ALICE.key),
        certificate_pem(ALICE.certificate) + b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n",
        certificate_pem(ALICE.certificate) + b"-----BEGIN RSA PRIVATE KEY-----\n\xff\n-----END RSA PRIVATE KEY-----\n",
        key_pem(ALICE.key)
        + ALICE.key.public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        .replace(b"PUBLIC KEY", b"CERTIFICATE"),
    ],
    ids=range(14),
)
def test_what_is_no_credential_is_refused(pem: bytes) -> None:
    refused(pem, Flaw.MALFORMED_CREDENTIAL)


def test_too_much_is_refused() -> None:
    refused(ALICE.pem + b" " * MAX_PEM, Flaw.CREDENTIAL_TOO_BIG)
    block = b"-----BEGIN CERTIFICATE-----\n" + b"A" * 64 + b"\n" * 2 + b"QUJD\n" * 9000
    refused(block + b"-----END CERTIFICATE-----\n" + ALICE.pem, Flaw.CREDENTIAL_TOO_BIG)
    crowd = b"".join(certificate_pem(make.person(CA, f"CN={n}").certificate) for n in range(40))
    refused(ALICE.pem + crowd, Flaw.CREDENTIAL_TOO_BIG)


@pytest.mark.parametrize("piece", [b"-----BEGIN ", b"-", b"\r", b"-----BEGIN X-----\n-----END Y-----\n", b"A\n", b"\n"])
def test_long_texts_of_nothing_take_no_longer_than_they_are(piece: bytes) -> None:
    with pytest.raises(CredentialError):
        X509Credential.parse(piece * (MAX_PEM // len(piece)))


def test_legacy_proxies_are_refused() -> None:
    assert "RFC 3820" in refused(make.legacy_proxy(ALICE).pem, Flaw.LEGACY_CREDENTIAL)
    refused(make.legacy_proxy(ALICE, "CN=limited proxy").pem, Flaw.LEGACY_CREDENTIAL)


def test_somebody_whose_name_is_proxy_is_no_proxy() -> None:
    assert X509Credential.parse(make.person(CA, "CN=proxy").pem).identity == "/O=Grid/OU=Test/CN=proxy"


def test_a_proxy_without_the_certificate_of_its_person_is_refused() -> None:
    refused(certificate_pem(PROXY.certificate) + key_pem(PROXY.key), Flaw.INCOMPLETE_CHAIN)


def test_unreadable_proxy_information_is_refused() -> None:
    refused(make.proxy(ALICE, info=b"\x30\x03\x02\x01").pem, Flaw.MALFORMED_CREDENTIAL)


def test_nothing_shows_the_key() -> None:
    credential = PROXY.credential
    shown = repr(credential) + str(credential) + f"{credential}" + repr([credential]) + repr(vars(CredentialError("x")))
    assert "key" not in shown.lower()
    assert "/CN=Alice" in shown
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(credential)


def test_all_certificates_of_a_text_are_read_once_each() -> None:
    pem = b"".join(map(certificate_pem, (CA.certificate, ALICE.certificate, CA.certificate)))
    assert read_certificates(pem) == [CA.certificate, ALICE.certificate]


def test_what_openssl_adds_to_trusted_certificates_is_left_out(tmp_path: Path) -> None:
    given = tmp_path / "ca.pem"
    given.write_bytes(certificate_pem(CA.certificate))
    words = ["openssl", "x509", "-in", str(given), "-trustout", "-setalias", "ours"]
    trusted = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout
    assert b"TRUSTED" in trusted
    assert read_certificates(trusted) == [CA.certificate]


def read_or_refused(pem: bytes) -> None:
    """No other error than ours may come out."""
    with contextlib.suppress(CredentialError):
        X509Credential.parse(pem)


@given(st.binary(max_size=400))
def test_any_octets_are_a_credential_or_refused(octets: bytes) -> None:
    with pytest.raises(CredentialError):
        X509Credential.parse(octets)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(PROXY.pem) - 1), st.binary(max_size=3), st.integers(0, 5))
def test_a_damaged_credential_is_read_or_refused(at: int, put: bytes, drop: int) -> None:
    read_or_refused(PROXY.pem[:at] + put + PROXY.pem[at + drop :])


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 900), st.integers(0, 255))
def test_a_certificate_with_a_changed_octet_is_read_or_refused(at: int, octet: int) -> None:
    data = bytearray(PROXY.certificate.public_bytes(Encoding.DER))
    data[at % len(data)] = octet
    block = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(data) + b"\n-----END CERTIFICATE-----\n"
    read_or_refused(block + key_pem(PROXY.key) + b"".join(map(certificate_pem, PROXY.issuers)))


NAMES = [
    make.name("O=Grid", "OU=Test", "CN=Alice"),
    make.name("O=Grid", "CN=Zoë Müller"),
    make.name("O=Grid", "CN=名前"),
    make.name("O=Grid", "CN=host/dtn.example.org"),
    make.name("DC=org", "DC=example", "UID=alice", "emailAddress=alice@example.org"),
    make.name("O=Grid", "OU=a+CN=b", "CN=c"),
    make.name("C=DE", 'CN="quoted" \\ back = equals, comma; <x> #y'),
    x509.Name([x509.NameAttribute(x509.ObjectIdentifier("1.2.3.4.5"), "odd")]),
    x509.Name([]),
    make.name("O=  Two  Spaces ", "CN=\tTabs\t"),
    make.name("O=" + "long " * 12, *[f"OU=number {number}" for number in range(40)]),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_written_as_openssl_writes_them(name: x509.Name, tmp_path: Path) -> None:
    given = tmp_path / "certificate.pem"
    given.write_bytes(certificate_pem(make.person(CA, name).certificate))
    words = ["openssl", "x509", "-noout", "-subject", "-nameopt", "compat", "-in", str(given)]
    told = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout.decode()
    # OpenSSL before 3.0.9 or so did not escape; ours is the form that nobody can misread.
    wanted = slash_name(name)
    assert told.strip().removeprefix("subject=").strip() in (wanted, wanted.replace("\\/", "/").replace("\\+", "+"))


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_hashes_of_names_are_those_of_openssl(name: x509.Name, tmp_path: Path) -> None:
    given = tmp_path / "certificate.pem"
    given.write_bytes(certificate_pem(make.person(CA, name).certificate))
    words = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(given)]
    told = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout.decode()
    assert openssl_hash(name) == told.strip()


def test_a_credential_never_lives_longer_than_its_shortest_part() -> None:
    short = make.proxy(make.person(CA, ends=NOW + timedelta(hours=1)), ends=NOW + DAY)
    assert short.credential.expires_at == NOW + timedelta(hours=1)
