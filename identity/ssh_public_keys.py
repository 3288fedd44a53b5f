"""Read ssh public keys as users paste them (the line of OpenSSH, or the form of RFC 4716), and their restrictions.

Accepted: ed25519, ecdsa on the curves nistp256, nistp384 and nistp521, and rsa of 2048 to 16384 bits. Keys of hardware
tokens (sk-...) are refused: the ssh server cannot verify their signatures.

The restrictions of a key are the commands that its sessions may run, and the endpoints that exist for them.

Errors are those of `identity.ssh_keys`, too. No sentence holds the text that was given.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from identity.gsi.printable import translatable as _

from .error_categories import (
    Category,
    GivenReasonError,
    InvalidFieldError,
    NotFoundError,
    Refusal,
)


class KeyInvalidError(GivenReasonError):
    """`reason` is a sentence that names what is wrong with the text, and what to give instead."""

    category = Category.INVALID
    template = "public_key: {self.reason}"


class KeyFieldInvalidError(InvalidFieldError):
    pass


KEY_EXISTS = Refusal(Category.EXISTS, "You have the key {fingerprint} already")
TOO_MANY_KEYS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} ssh keys")


class KeyNotFoundError(NotFoundError):
    kind = "ssh key"


#: Octets of a pasted text. The line of an rsa key of 16384 bits has 2,800.
MAX_OCTETS = 8192
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 16384
#: OpenSSL verifies with exponents of at most 64 bits, and ssh-keygen uses 65537. A longer one only costs time.
MAX_RSA_EXPONENT = 1 << 32
ALGORITHMS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_KNOWN = "Give an ed25519, ecdsa or rsa key"
_NOT_A_KEY = (
    "This is not a public key. Give the one line of a file such as ~/.ssh/id_ed25519.pub, which begins with "
    "ssh-ed25519, ecdsa-sha2-nistp256 or ssh-rsa."
)
_DAMAGED = _("The key is damaged or incomplete: copy the whole line of the .pub file.")
_PRIVATE = (
    "This is a private key. It was not stored, but it left your computer: make a new pair of keys (ssh-keygen -t "
    "ed25519), and give the file that ends in .pub."
)
_BEGIN_4716, _END_4716 = "---- BEGIN SSH2 PUBLIC KEY ----", "---- END SSH2 PUBLIC KEY ----"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that can sign in. blob: its octets on the wire (RFC 4253, 6.6). comment: a printable line."""

    algorithm: str
    blob: bytes
    comment: str

    @property
    def fingerprint(self) -> str:
        """The fingerprint, as `ssh-keygen -l` shows it."""
        return fingerprint(self.blob)


def fingerprint(blob: bytes) -> str:
    """`SHA256:` and the digest in base64 without padding."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def parse(text: str) -> PublicKey:
    """The key in this text. Raises KeyInvalidError."""
    if len(text) > MAX_OCTETS or len(text.encode("utf-8", "replace")) > MAX_OCTETS:
        raise KeyInvalidError(f"A public key has at most {MAX_OCTETS} octets. Give one .pub file.")
    text = text.removeprefix("\ufeff").strip()
    _refuse_other_files(text)
    if text.startswith(_BEGIN_4716):
        algorithm, encoded, comment = _rfc4716(text)
    else:
        algorithm, encoded, comment = _line(text)
    blob = _decoded(encoded)
    named = _algorithm_in(blob)
    if algorithm and named != algorithm:
        _refuse_algorithm(algorithm)
        raise KeyInvalidError(_DAMAGED)
    _refuse_algorithm(named)
    _check(named, blob)
    return PublicKey(named, blob, comment if comment.isprintable() else "")


def _refuse_other_files(text: str) -> None:
    """Refuse private keys, and public keys of other programs. Raises KeyInvalidError."""
    if not text:
        raise KeyInvalidError(_("No key was given. Give the one line of a file such as ~/.ssh/id_ed25519.pub."))
    if "PRIVATE KEY" in text or text.startswith("PuTTY-User-Key-File"):
        raise KeyInvalidError(_PRIVATE)
    if "-----BEGIN CERTIFICATE" in text:
        raise KeyInvalidError("This is an X.509 certificate, not an ssh key. Give the .pub file of your ssh key.")
    if "-----BEGIN" in text:
        raise KeyInvalidError("This is a PEM file. Convert it: ssh-keygen -i -m PKCS8 -f FILE prints the OpenSSH form.")
    if text.startswith(("SHA256:", "MD5:")):
        raise KeyInvalidError("This is the fingerprint of a key. Give the key itself: the line of the .pub file.")


def _line(text: str) -> tuple[str, str, str]:
    """Algorithm, base64 and comment of the line of OpenSSH. Raises KeyInvalidError."""
    if len(text.splitlines()) > 1:
        raise KeyInvalidError("This is more than one line. Add one key at a time, each as one line.")
    words = text.split(None, 2)
    if not _is_algorithm(words[0]):
        raise KeyInvalidError(_misplaced(text.split()))
    if len(words) == 1:
        raise KeyInvalidError(_DAMAGED)
    return words[0], words[1], words[2] if len(words) > 2 else ""


def _is_algorithm(word: str) -> bool:
    return word.startswith(("ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-")) and word.isascii()


def _misplaced(words: list[str]) -> str:
    """The reason for a line that does not begin with an algorithm."""
    if any(_is_algorithm(word) for word in words[1:]):
        return (
            "There is text before the key, as in authorized_keys or known_hosts. Options of that file do not apply "
            "here: give the line from ssh-... or ecdsa-... on, and restrictions in their own fields."
        )
    if len(words) > 2 and all(word.isdigit() for word in words[:3]):
        return f"This is a key of the ssh protocol 1, which no current program uses. {_KNOWN}."
    return _NOT_A_KEY


def _rfc4716(text: str) -> tuple[str, str, str]:
    """ "" for the algorithm, which only the octets name, base64 and comment (RFC 4716, 3). Raises KeyInvalidError."""
    lines = [line.rstrip() for line in text.splitlines()]
    if len(lines) < 3 or lines[-1] != _END_4716 or _BEGIN_4716 in lines[1:]:
        raise KeyInvalidError(f"The key has to end with the line {_END_4716}, and to be the only one.")
    body, comment, at = lines[1:-1], "", 0
    while at < len(body) and ":" in body[at]:
        header = body[at]
        while header.endswith("\\") and at + 1 < len(body):
            at += 1
            header = header[:-1] + body[at]
        tag, _, value = header.partition(":")
        if tag.lower() == "comment":
            comment = value.strip().strip('"')
        at += 1
    return "", "".join(body[at:]), comment


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise KeyInvalidError(_DAMAGED) from None


def _algorithm_in(blob: bytes) -> str:
    """The name at the beginning of the octets. Raises KeyInvalidError."""
    length = struct.unpack(">I", blob[:4])[0] if len(blob) >= 4 else 0
    name = blob[4 : 4 + length]
    if not 1 <= length <= 64 or len(name) < length or not name.isascii():
        raise KeyInvalidError(_DAMAGED)
    return name.decode()


def _refuse_algorithm(name: str) -> None:
    """Raises KeyInvalidError."""
    if name in ALGORITHMS:
        return
    if "-cert-" in name:
        raise KeyInvalidError("This is an ssh certificate. Give the public key itself, the .pub file without -cert.")
    if name.startswith("sk-"):
        raise KeyInvalidError(
            f"Keys of hardware tokens (sk-...) cannot sign in here, because the server cannot verify them. {_KNOWN}."
        )
    if name == "ssh-dss":
        raise KeyInvalidError(f"DSA keys are too weak to sign in. {_KNOWN}.")
    raise KeyInvalidError(f"Keys of this algorithm cannot sign in. {_KNOWN}.")


def _check(algorithm: str, blob: bytes) -> None:
    """Check the numbers, and that the octets are the only encoding of them. Raises KeyInvalidError.

    A second encoding would have another fingerprint, and no client would send it.
    """
    line = algorithm.encode() + b" " + base64.b64encode(blob)
    try:
        key = load_ssh_public_key(line)
        only = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyInvalidError(_DAMAGED) from None
    if only != line:
        raise KeyInvalidError(_DAMAGED)
    if isinstance(key, rsa.RSAPublicKey):
        _check_rsa(key)


def _check_rsa(key: rsa.RSAPublicKey) -> None:
    if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        raise KeyInvalidError(
            f"This rsa key has {key.key_size} bits. Give one of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, or better an "
            "ed25519 key (ssh-keygen -t ed25519)."
        )
    if key.public_numbers().e >= MAX_RSA_EXPONENT:
        raise KeyInvalidError("The exponent of this rsa key is too large. Make a key with ssh-keygen.")


#: The most commands and endpoints of one key.
MAX_COMMANDS, MAX_ENDPOINTS = 64, 100
_COMMAND = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class KeyRestrictions:
    """The limits of a session that signed in by this key. None: no limit.

    commands: names of commands of the shell. endpoints: enforced by `endpoints.permissions.restricted_to`.
    """

    commands: frozenset[str] | None = None
    endpoints: frozenset[UUID] | None = None

    @property
    def sorted_commands(self) -> list[str]:
        """The commands for people; empty without a limit."""
        return sorted(self.commands or ())


UNRESTRICTED = KeyRestrictions()


def checked(commands: Collection[str] | None, endpoints: Collection[str | UUID] | None) -> KeyRestrictions:
    """Restrictions from names and UUIDs as a user wrote them. Raises KeyFieldInvalidError."""
    return KeyRestrictions(_commands(commands), _endpoints(endpoints))


def _commands(given: Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    _check_number("commands", given, MAX_COMMANDS)
    if not all(_COMMAND.fullmatch(name) for name in given):
        raise KeyFieldInvalidError("commands", "A command is a name such as ls or endpoint-list.")
    return frozenset(given)


def _endpoints(given: Collection[str | UUID] | None) -> frozenset[UUID] | None:
    if given is None:
        return None
    _check_number("endpoints", given, MAX_ENDPOINTS)
    try:
        return frozenset(UUID(str(one)) for one in given)
    except ValueError:
        raise KeyFieldInvalidError("endpoints", "An endpoint is given by its UUID.") from None


def _check_number(field: str, given: Collection[object], most: int) -> None:
    if not 1 <= len(given) <= most:
        reason = f"Give 1 to {most} of them, or leave the field out for a key without this restriction."
        raise KeyFieldInvalidError(field, reason)
