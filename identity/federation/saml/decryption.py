"""Decrypts assertions (XML Encryption 1.1): RSA-OAEP for the key, AES-GCM for the content.

AES-CBC has no check of its own, so it is accepted only inside an answer whose signature was checked before: otherwise
an attacker could learn the content by changing it, and watching which errors come (Jager and Somorovsky, 2011).
"""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from lxml import etree

from identity.federation.errors import ProofRefusedError

from .documents import DS, text_of

_XENC, _XENC11 = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
_GCM = {f"{_XENC11}aes128-gcm": 16, f"{_XENC11}aes192-gcm": 24, f"{_XENC11}aes256-gcm": 32}
_CBC = {f"{_XENC}aes128-cbc": 16, f"{_XENC}aes192-cbc": 24, f"{_XENC}aes256-cbc": 32}
_HASHES: dict[str | None, hashes.HashAlgorithm] = {
    None: hashes.SHA1(),  # noqa: S303  # the default of the standard; OAEP does not depend on collisions
    "http://www.w3.org/2000/09/xmldsig#sha1": hashes.SHA1(),  # noqa: S303
    f"{_XENC}sha256": hashes.SHA256(),
}
_MASKS: dict[str | None, hashes.HashAlgorithm] = {
    None: hashes.SHA1(),  # noqa: S303
    f"{_XENC11}mgf1sha1": hashes.SHA1(),  # noqa: S303
    f"{_XENC11}mgf1sha256": hashes.SHA256(),
}


def decrypt(encrypted: etree._Element, key: RSAPrivateKey, *, authenticated: bool) -> bytes:
    """The content of an EncryptedAssertion. key: of this service. authenticated: a signature around it was checked.

    Raises ProofRefusedError, which is the same for every cause.
    """
    try:
        return _content(encrypted, key, authenticated)
    except (ValueError, KeyError, InvalidTag, binascii.Error, AttributeError):
        raise ProofRefusedError("The answer of the institution cannot be decrypted.") from None


def _content(encrypted: etree._Element, private_key: RSAPrivateKey, authenticated: bool) -> bytes:
    data = encrypted.find(f"{{{_XENC}}}EncryptedData")
    wrapped = next(iter(encrypted.iter(f"{{{_XENC}}}EncryptedKey")), None)
    if data is None or wrapped is None:
        raise ValueError("incomplete")
    algorithm = data.find(f"{{{_XENC}}}EncryptionMethod").get("Algorithm")
    key = _session_key(wrapped, private_key)
    octets = base64.b64decode(text_of(data.find(f"{{{_XENC}}}CipherData/{{{_XENC}}}CipherValue")))
    if algorithm in _GCM and len(key) == _GCM[algorithm]:
        return AESGCM(key).decrypt(octets[:12], octets[12:], None)
    if authenticated and algorithm in _CBC and len(key) == _CBC[algorithm]:
        plain = Cipher(algorithms.AES(key), modes.CBC(octets[:16])).decryptor()
        padded = plain.update(octets[16:]) + plain.finalize()
        return padded[: -padded[-1]]
    raise ValueError("not accepted")


def _session_key(wrapped: etree._Element, private_key: RSAPrivateKey) -> bytes:
    method = wrapped.find(f"{{{_XENC}}}EncryptionMethod")
    if method is None or method.get("Algorithm") not in (f"{_XENC}rsa-oaep-mgf1p", f"{_XENC11}rsa-oaep"):
        raise ValueError("not accepted")
    digest, mask = method.find(f"{DS}DigestMethod"), method.find(f"{{{_XENC11}}}MGF")
    padding = OAEP(
        MGF1(_MASKS[mask.get("Algorithm") if mask is not None else None]),
        _HASHES[digest.get("Algorithm") if digest is not None else None],
        None,
    )
    octets = base64.b64decode(text_of(wrapped.find(f"{{{_XENC}}}CipherData/{{{_XENC}}}CipherValue")))
    return private_key.decrypt(octets, padding)
