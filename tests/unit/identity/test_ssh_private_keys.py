"""Private ssh keys: formats that are accepted, and refusals that disclose nothing of the key."""

from __future__ import annotations

import base64
import contextlib
import struct
import traceback
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from endpoints.ssh.keys import (
    KeyFlaw,
    SshPrivateKeyError,
    SshUserNameError,
    check_username,
    parse_ssh_key,
)
from tests.gridftp.sshd import fingerprint

PASSPHRASE = "correct horse battery"
Format = serialization.PrivateFormat
KEYS: dict[str, Any] = {
    "ssh-ed25519": ed25519.Ed25519PrivateKey.generate(),
    "ecdsa-sha2-nistp256": ec.generate_private_key(ec.SECP256R1()),
    "ecdsa-sha2-nistp384": ec.generate_private_key(ec.SECP384R1()),
    "ecdsa-sha2-nistp521": ec.generate_private_key(ec.SECP521R1()),
    "ssh-rsa": rsa.generate_private_key(65537, 2048),
}


def text_of(key: Any, form: serialization.PrivateFormat = Format.OpenSSH, passphrase: str = "") -> str:
    sealing = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    text: str = key.private_bytes(serialization.Encoding.PEM, form, sealing).decode()
    return text


def refused(text: str, flaw: KeyFlaw, passphrase: str | None = None) -> str:
    with pytest.raises(SshPrivateKeyError, check=lambda error: error.flaw is flaw) as caught:
        parse_ssh_key(text, passphrase)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb) if frame.f_code.co_filename != __file__]
    shown = repr([frame.f_locals for frame in frames]) + "".join(traceback.format_exception(caught.value))
    for secret in (passphrase, *text.splitlines()[1:-1]):
        assert not secret or len(secret) < 20 or secret not in shown
    return caught.value.reason


@pytest.mark.parametrize(
    ("algorithm", "form"),
    [
        (algorithm, form)
        for algorithm in KEYS
        for form in (Format.OpenSSH, Format.PKCS8, Format.TraditionalOpenSSL)
        if (algorithm, form) != ("ssh-ed25519", Format.TraditionalOpenSSL)  # there is no such form
    ],
)
def test_every_usual_form_becomes_one(algorithm, form, tmp_path: Path):
    key = parse_ssh_key(text_of(KEYS[algorithm], form))
    assert key.algorithm == algorithm
    assert key.pem.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    again = parse_ssh_key(key.pem.decode(), "a passphrase that is not needed")
    assert (again.fingerprint, again.algorithm) == (key.fingerprint, algorithm)
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_bytes(key.pem)
    assert fingerprint(path) == key.fingerprint
    assert key.pem.decode() not in repr(key)


@pytest.mark.parametrize("form", [Format.OpenSSH, Format.PKCS8, Format.TraditionalOpenSSL])
def test_an_encrypted_key_needs_its_passphrase_and_leaves_it_behind(form):
    text = text_of(KEYS["ssh-rsa"], form, PASSPHRASE)
    assert parse_ssh_key(text, PASSPHRASE).fingerprint == parse_ssh_key(text_of(KEYS["ssh-rsa"])).fingerprint
    refused(text, KeyFlaw.PASSPHRASE_NEEDED)
    refused(text, KeyFlaw.PASSPHRASE_NEEDED, "")
    refused(text, KeyFlaw.WRONG_PASSPHRASE, "wrong horse battery staple")


@pytest.mark.parametrize(
    "change",
    [lambda t: t.replace("\n", "\r\n"), lambda t: f"\n  {t}\n\n", lambda t: t.replace("\n", "  \n"), str.strip],
)
def test_pasted_text_may_be_untidy(change):
    assert parse_ssh_key(change(text_of(KEYS["ssh-ed25519"]))).algorithm == "ssh-ed25519"


def test_weak_and_unknown_keys_are_refused():
    assert "1024" in refused(text_of(rsa.generate_private_key(65537, 1024)), KeyFlaw.WEAK_SSH_KEY)
    for key, form in (
        (dsa.generate_private_key(1024), Format.PKCS8),
        (ed448.Ed448PrivateKey.generate(), Format.PKCS8),
        (ec.generate_private_key(ec.SECP256K1()), Format.PKCS8),
    ):
        refused(text_of(key, form), KeyFlaw.UNSUPPORTED_KEY)


def test_what_is_no_private_key_is_distinguished():
    public = KEYS["ssh-ed25519"].public_key()
    line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    assert "public" in refused(line, KeyFlaw.NOT_A_KEY)
    assert "puttygen" in refused("PuTTY-User-Key-File-3: ssh-ed25519\n", KeyFlaw.UNSUPPORTED_KEY)
    refused("", KeyFlaw.NOT_A_KEY)
    refused("x" * 100_000, KeyFlaw.NOT_A_KEY)
    refused("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", KeyFlaw.NOT_A_KEY)
    for body in ("", "AAAA", "!!!!", base64.b64encode(b"openssh-key-v1\0").decode()):
        refused(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----", KeyFlaw.NOT_A_KEY)
        refused(f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----", KeyFlaw.NOT_A_KEY)


def test_a_key_that_asks_for_minutes_of_our_time_is_refused_at_once():
    def string(data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + data

    options = string(b"salt" * 4) + struct.pack(">I", 2**31)
    head = b"openssh-key-v1\0" + string(b"aes256-ctr") + string(b"bcrypt") + string(options)
    body = base64.b64encode(head).decode()
    costly = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----"
    assert "too long" in refused(costly, KeyFlaw.UNSUPPORTED_KEY, PASSPHRASE)

    der = bytes.fromhex("06092a864886f70d01050c") + b"\x30\x10\x04\x08" + b"saltsalt" + b"\x02\x04\x7f\xff\xff\xff"
    body = base64.b64encode(der).decode()
    costly = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}\n-----END ENCRYPTED PRIVATE KEY-----"
    assert "too long" in refused(costly, KeyFlaw.UNSUPPORTED_KEY, PASSPHRASE)


_GOOD = text_of(KEYS["ssh-ed25519"])


@given(st.integers(0, len(_GOOD) - 1), st.characters())
def test_a_changed_key_is_read_or_refused_and_nothing_else(place, letter):
    with contextlib.suppress(SshPrivateKeyError):
        parse_ssh_key(_GOOD[:place] + letter + _GOOD[place + 1 :], PASSPHRASE)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 65, "a\0", "\x1b[1m"])
def test_an_account_name_that_is_none_is_refused(name):
    with pytest.raises(SshUserNameError):
        check_username(name)


def test_account_names_of_all_usual_sorts_are_taken():
    for name in ("alice", "svc-1", "a.b_c", "DOMAIN\\alice", "alice@example.org"):
        assert check_username(name) == name
