"""Private keys of users, opened in limited time: a hostile key chooses the sizes of its numbers and its rounds.

OpenSSL proves that the factors of an RSA key are primes, of any size, and blocks all threads meanwhile: with a factor
of 40,000 bits, which fits into 8 KB, for half an hour. We only check that a key is consistent: logins with a key of
composite factors fail, which harms nobody else.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import rsa

from . import der

#: Maximum of rounds of PBKDF2 (RFC 8018): about a second. OpenSSL's default is 2048.
MAX_ROUNDS = 2_000_000
#: 1.3.6.1.4.1.11591.4.11 (RFC 7914): a key may choose how much memory it takes.
_SCRYPT = bytes.fromhex("2b06010401da47040b")


def open_key(load: Callable[..., object], data: bytes, passphrase: bytes | None) -> object:
    """Call `load`, a loader of `cryptography`. Raises ValueError, and the errors of `load`."""
    key = load(data, passphrase, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, rsa.RSAPrivateKey) and not _is_consistent(key.private_numbers()):
        raise ValueError("the numbers of the key are inconsistent")
    return key


def costs_too_much(body: bytes) -> bool:
    """Whether opening an encrypted key (PKCS #8 in base64) would take seconds. Raises ValueError where it is none."""
    waiting = [binascii.a2b_base64(body, strict_mode=True)]
    while waiting:
        for tag, content in der.elements(waiting.pop()):
            if tag & der.CONSTRUCTED:
                waiting.append(content)
            too_many = tag == der.INTEGER and int.from_bytes(content) > MAX_ROUNDS
            if too_many or (tag, content) == (der.OID, _SCRYPT):
                return True
    return False


def _is_consistent(key: rsa.RSAPrivateNumbers) -> bool:
    """The conditions of RFC 8017 section 3.2, without the proof of the primes."""
    p, q, d, e = key.p, key.q, key.d, key.public_numbers.e
    return (
        p * q == key.public_numbers.n
        and all(factor > 2 and factor % 2 and e * d % (factor - 1) == 1 for factor in (p, q))
        and (key.dmp1, key.dmq1) == (d % (p - 1), d % (q - 1))
        and key.iqmp * q % p == 1
    )
