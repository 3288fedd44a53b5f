"""Private ssh keys as users paste them: parse, check, decrypt once, and convert into one form."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import warnings
from dataclasses import dataclass, field
from enum import StrEnum

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.utils import CryptographyDeprecationWarning

from identity.gsi.private_keys import costs_too_much, open_key

_AcceptedKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

#: Characters of a key file; an RSA key of 8192 bits has 6,400.
MAX_TEXT = 32_768
MIN_RSA_BITS = 2048
#: Using a larger key takes seconds of CPU time.
MAX_RSA_BITS = 8192
#: Rounds of bcrypt (ssh-keygen -a, default 16 to 24) that are computed for a user's file.
MAX_BCRYPT_ROUNDS = 512
MAX_USER_NAME = 64
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")

#: Ends at the next five hyphens, so that matching takes linear time. Without a possessive quantifier: Python before
#: 3.11.5 matches one with a lookahead wrongly (python/cpython#100061).
_BODY = r"([^-]*(?:-(?!----)[^-]*)*)"
_OPENSSH = re.compile(rf"-----BEGIN OPENSSH PRIVATE KEY-----{_BODY}-----END OPENSSH PRIVATE KEY-----")
_PEM = re.compile(rf"-----BEGIN ((?:RSA |EC |DSA |ENCRYPTED )?PRIVATE KEY)-----{_BODY}-----END \1-----")
_CURVES = {"secp256r1": "nistp256", "secp384r1": "nistp384", "secp521r1": "nistp521"}


class KeyFlaw(StrEnum):
    """The problem in one word for programs, which is the last part of a code on the wire."""

    #: The text is no private key, or a damaged one.
    NOT_A_KEY = "NotAKey"
    #: The key is encrypted, and no passphrase was given.
    PASSPHRASE_NEEDED = "PassphraseNeeded"  # noqa: S105 - no secret
    WRONG_PASSPHRASE = "WrongPassphrase"  # noqa: S105
    #: DSA, hardware-backed and other keys.
    UNSUPPORTED_KEY = "UnsupportedKey"
    #: RSA below 2048 bits.
    WEAK_SSH_KEY = "WeakSshKey"
    #: The account name is not valid.
    SSH_USER_NAME = "SshUserName"


@dataclass(eq=False)
class SshPrivateKeyError(Exception):
    """The key cannot be used. `reason` is a sentence for the user, without any part of key or passphrase."""

    flaw: KeyFlaw
    reason: str


class SshUserNameError(SshPrivateKeyError):
    def __init__(self, reason: str) -> None:
        super().__init__(KeyFlaw.SSH_USER_NAME, reason)


@dataclass(frozen=True, slots=True)
class SshPrivateKey:
    """A usable private key.

    pem: unencrypted, in OpenSSH's form, whatever the input form: a secret.
    fingerprint: of the public key, as `ssh-keygen -lf` prints it. algorithm: its name in ssh ("ssh-ed25519").
    """

    pem: bytes = field(repr=False)
    fingerprint: str
    algorithm: str


def parse_ssh_key(text: str, passphrase: str | None = None) -> SshPrivateKey:
    """Parse a private key in OpenSSH's or a PEM form (PKCS #1, SEC 1, PKCS #8). Raises SshPrivateKeyError.

    The passphrase is not stored.
    """
    try:
        key = _checked(_load(_normalised(text), passphrase or None))
    except SshPrivateKeyError as error:
        # Raise it again without the frames that hold key and passphrase.
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    else:
        return _described(key)
    del text, passphrase
    raise failure


def _described(key: _AcceptedKey) -> SshPrivateKey:
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    algorithm, blob = line.split(b" ")[:2]
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return SshPrivateKey(pem, fingerprint_of(base64.b64decode(blob)), algorithm.decode())


def fingerprint_of(blob: bytes) -> str:
    """The fingerprint of a public key (RFC 4253, 6.6) as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def valid_fingerprint(text: str) -> bool:
    """Whether this is a fingerprint as `ssh-keygen -lf` prints it: "SHA256:" and 43 characters."""
    return _FINGERPRINT.fullmatch(text) is not None


def check_username(name: str) -> str:
    """An account name that ssh may send. Raises SshUserNameError."""
    if not name or len(name) > MAX_USER_NAME or not name.isprintable() or " " in name:
        raise SshUserNameError("An account name has 1 to 64 characters, and no blanks or control characters.")
    return name


def _normalised(text: str) -> str:
    """The key alone, with the line ends that parsers expect: pasted text has other ones, and surrounding blanks."""
    if len(text) > MAX_TEXT:
        raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This is far too long to be a private ssh key.")
    if "PuTTY-User-Key-File" in text:
        raise SshPrivateKeyError(
            KeyFlaw.UNSUPPORTED_KEY, "This is a PuTTY key; export it in OpenSSH's format (puttygen -O private-openssh)."
        )
    for form in (_OPENSSH, _PEM):
        if found := form.search(text):
            lines = (line.strip() for line in found[0].splitlines())
            return "\n".join(lines) + "\n"
    if "PUBLIC KEY" in text or text.lstrip().startswith(("ssh-", "ecdsa-")):
        raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This is a public key; the private one is needed.")
    raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This is not a private ssh key.")


def _load(text: str, passphrase: str | None) -> object:
    """The parsed key, of any kind."""
    secret = passphrase.encode() if passphrase else None
    data = text.encode("utf-8", "replace")
    openssh = _OPENSSH.match(text)
    encrypted = _openssh_is_encrypted(openssh[1]) if openssh else _pem_is_encrypted(text)
    if encrypted and secret is None:
        raise SshPrivateKeyError(KeyFlaw.PASSPHRASE_NEEDED, "This key is encrypted: its passphrase is needed, once.")
    load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    try:
        with warnings.catch_warnings():
            # It warns of DSA keys, which `_checked` refuses.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            return open_key(load, data, secret if encrypted else None)
    except UnsupportedAlgorithm:
        raise SshPrivateKeyError(
            KeyFlaw.UNSUPPORTED_KEY, "Keys of this kind are not supported; ed25519, ECDSA and RSA are."
        ) from None
    except (ValueError, TypeError):
        if encrypted:
            raise SshPrivateKeyError(
                KeyFlaw.WRONG_PASSPHRASE, "The passphrase does not open this key, or the key is damaged."
            ) from None
        raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This private key is damaged.") from None


def _openssh_is_encrypted(body: str) -> bool:
    """Whether the head of the file (OpenSSH's PROTOCOL.key) names a cipher."""
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
        if not data.startswith(b"openssh-key-v1\0"):
            raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This private key is damaged.")
        cipher, rest = _string(data[15:])
        derivation, rest = _string(rest)
        options, _ = _string(rest)
        if derivation == b"bcrypt":
            _, rounds = _string(options)
            if struct.unpack(">I", rounds[:4])[0] > MAX_BCRYPT_ROUNDS:
                raise SshPrivateKeyError(
                    KeyFlaw.UNSUPPORTED_KEY, "Opening this key takes too long; encrypt it with fewer rounds."
                )
    except (ValueError, struct.error):
        raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This private key is damaged.") from None
    return cipher != b"none"


def _string(data: bytes) -> tuple[bytes, bytes]:
    """A string with its length before it (RFC 4251, 5), and the rest. Raises struct.error."""
    (length,) = struct.unpack(">I", data[:4])
    if length > len(data) - 4:
        raise struct.error
    return data[4 : 4 + length], data[4 + length :]


def _pem_is_encrypted(text: str) -> bool:
    if "BEGIN ENCRYPTED PRIVATE KEY" not in text:
        return "Proc-Type: 4,ENCRYPTED" in text
    found = _PEM.match(text)
    assert found is not None
    try:
        if costs_too_much("".join(found[2].split()).encode()):
            raise SshPrivateKeyError(
                KeyFlaw.UNSUPPORTED_KEY, "Opening this key takes too long; encrypt it anew, as ssh-keygen -p does."
            )
    except ValueError:
        raise SshPrivateKeyError(KeyFlaw.NOT_A_KEY, "This private key is damaged.") from None
    return True


def _checked(key: object) -> _AcceptedKey:
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < MIN_RSA_BITS:
            raise SshPrivateKeyError(
                KeyFlaw.WEAK_SSH_KEY, f"RSA keys below {MIN_RSA_BITS} bits are too weak; this one has {key.key_size}."
            )
        if key.key_size > MAX_RSA_BITS:
            raise SshPrivateKeyError(KeyFlaw.UNSUPPORTED_KEY, f"RSA keys above {MAX_RSA_BITS} bits are not supported.")
        return key
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return key
    raise SshPrivateKeyError(
        KeyFlaw.UNSUPPORTED_KEY, "Keys of this kind are not supported; ed25519, ECDSA (NIST curves) and RSA are."
    )
