"""Proxy certificates (RFC 3820), signed for a server (delegation) or for ourselves."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from identity.gsi.errors import CredentialError, Flaw

from .x509 import PROXY_CERT_INFO, X509Credential, check_key, extension, proxy_info

#: The start of a proxy's validity lies so far in the past, as with the toolkit, because clocks differ.
CLOCK_SKEW = timedelta(minutes=5)
#: The subject of a request, which nobody reads; the toolkit sends the same.
_NOBODY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "NULL SUBJECT NAME ENTRY")])
#: proxyCertInfo without a path length, RFC 3820 section 3.8.
_PROXY_CERT_INFO = {
    False: bytes.fromhex("300c300a06082b06010505071501"),
    True: bytes.fromhex("300f300d060b2b060104019b5001010109"),
}


def new_key() -> rsa.RSAPrivateKey:
    """RSA of 2048 bits, which every GSI server accepts. Takes 0.1 s of processor time: not for an event loop."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def make_request(key: rsa.RSAPrivateKey) -> x509.CertificateSigningRequest:
    """The signing request (PKCS #10) for a proxy of this key; the signer chooses the subject."""
    return x509.CertificateSigningRequestBuilder().subject_name(_NOBODY).sign(key, hashes.SHA256())


def sign_proxy(
    issuer: X509Credential,
    public_key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    *,
    lifetime: timedelta,
    limited: bool = False,
    now: datetime,
) -> x509.Certificate:
    """A proxy of `issuer` for this key; it never outlives its issuer. Raises CredentialError, CredentialError.

    A proxy of a limited proxy is limited too (the toolkit refuses anything else).
    """
    check_key(public_key)
    ends = min(now + lifetime, issuer.expires_at)
    if ends <= now:
        raise CredentialError("The credential has expired: no proxy can be made from it.", Flaw.PROXY_NOT_POSSIBLE)
    _check_path(issuer)
    serial = secrets.randbits(62) + 1
    name = x509.NameAttribute(NameOID.COMMON_NAME, str(serial))
    subject = issuer.certificate.subject
    limited = limited or issuer.is_limited
    policy = x509.UnrecognizedExtension(PROXY_CERT_INFO, _PROXY_CERT_INFO[limited])
    builder = (
        x509.CertificateBuilder()
        .issuer_name(subject)
        .subject_name(x509.Name([*subject.rdns, x509.RelativeDistinguishedName([name])]))
        .serial_number(serial)
        .public_key(public_key)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(_key_usage(issuer.certificate), critical=True)
        .add_extension(policy, critical=True)
    )
    return builder.sign(issuer.key, hashes.SHA256())


def make_proxy(issuer: X509Credential, *, lifetime: timedelta, limited: bool = False, now: datetime) -> X509Credential:
    """A proxy of `issuer` with a new key. Raises CredentialError."""
    key = new_key()
    proxy = sign_proxy(issuer, key.public_key(), lifetime=lifetime, limited=limited, now=now)
    return X509Credential(proxy, key, (issuer.certificate, *issuer.chain))


def _check_path(issuer: X509Credential) -> None:
    for above, certificate in enumerate((issuer.certificate, *issuer.chain)):
        info = proxy_info(certificate)
        if info is not None and info.path_length is not None and info.path_length <= above:
            raise CredentialError("The proxy allows no further proxies to be made from it.", Flaw.PROXY_NOT_POSSIBLE)


def _key_usage(issuer: x509.Certificate) -> x509.KeyUsage:
    """The issuer's key usage without signing certificates and nonRepudiation (RFC 3820 section 3.6)."""
    usage = extension(issuer, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise CredentialError(
            "The certificate may not be used for signatures: no proxy can be made from it.", Flaw.PROXY_NOT_POSSIBLE
        )
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=usage is None or usage.key_encipherment,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
