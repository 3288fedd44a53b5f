"""Public keys as users paste them: the forms that are accepted, and refusals that name what is wrong."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from identity import ssh_public_keys
from identity.ssh_public_keys import KeyInvalidError

ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def line(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key.public_key().public_bytes(*form).decode()


LINE = line(ED25519)


def keygen(folder: Path, *options: str) -> Path:
    """A key pair of the real ssh-keygen; returns the path of the public key."""
    path = folder / "key"
    command = ["ssh-keygen", "-q", "-N", "", "-C", "alice@laptop", "-f", str(path), *options]
    subprocess.run(command, check=True, capture_output=True)
    return path.with_suffix(".pub")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def refusal(text: str) -> str:
    with pytest.raises(KeyInvalidError) as caught:
        ssh_public_keys.parse(text)
    return caught.value.reason


@pytest.mark.parametrize(
    "options",
    [("-t", "ed25519"), ("-t", "ecdsa"), ("-t", "ecdsa", "-b", "384"), ("-t", "ecdsa", "-b", "521"), ("-t", "rsa")],
)
def test_keys_of_ssh_keygen_are_read_in_both_forms(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = keygen(tmp_path, *options)
    found = ssh_public_keys.parse(path.read_text())
    assert found.comment == "alice@laptop"
    assert output("ssh-keygen", "-l", "-f", str(path)).split()[1] == found.fingerprint
    again = ssh_public_keys.parse(output("ssh-keygen", "-e", "-m", "RFC4716", "-f", str(path)))
    assert (again.algorithm, again.blob) == (found.algorithm, found.blob)


def test_headers_of_rfc_4716_may_go_on_over_lines_and_name_the_comment() -> None:
    encoded = LINE.split()[1]
    text = "\r\n".join(
        (
            "---- BEGIN SSH2 PUBLIC KEY ----",
            "Subject: alice",
            'Comment: "the key of \\',
            'my laptop"',
            *(encoded[:40], encoded[40:]),
            "---- END SSH2 PUBLIC KEY ----",
        )
    )
    found = ssh_public_keys.parse(text)
    assert (found.comment, found.blob) == ("the key of my laptop", base64.b64decode(encoded))
    assert "END SSH2" in refusal(text.replace("---- END SSH2 PUBLIC KEY ----", ""))
    assert "the only one" in refusal(f"{text}\n{text}")


@pytest.mark.parametrize(
    ("options", "words"),
    [(("-t", "rsa", "-b", "1024"), "1024 bits"), (("-t", "rsa", "-b", "2047"), "2047 bits")],
)
def test_short_rsa_keys_are_refused_with_their_length(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    assert words in refusal(keygen(tmp_path, *options).read_text())


def test_a_private_key_is_refused_in_every_form_and_none_of_it_is_repeated(tmp_path: Path) -> None:
    path = keygen(tmp_path, "-t", "rsa")
    for text in (
        path.with_suffix("").read_text(),
        ED25519.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    ):
        reason = refusal(text)
        assert "private key" in reason
        assert text.splitlines()[1] not in reason


def test_a_certificate_is_refused(tmp_path: Path) -> None:
    path = keygen(tmp_path, "-t", "ed25519")
    subprocess.run(["ssh-keygen", "-q", "-s", path.with_suffix(""), "-I", "me", "-n", "alice", path], check=True)
    assert "certificate" in refusal((tmp_path / "key-cert.pub").read_text())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No key"),
        (" \n", "No key"),
        ("hello", "not a public key"),
        ("\0\x01\x02", "not a public key"),
        ("SHA256:RLy4JBv7jMK5qYhRKwHB3af0rpMKYwE2PBhALCBQ2G8", "fingerprint"),
        (f'command="ls",no-pty {LINE}', "before the key"),
        (f"@cert-authority *.example.org {LINE}", "before the key"),
        (f"example.org {LINE}", "before the key"),
        (f"{LINE}\n{LINE}", "one line"),
        (LINE[:-4], "damaged"),
        (LINE.replace("ssh-ed25519", "ssh-rsa"), "damaged"),
        (LINE.replace(" ", " !"), "damaged"),
        ("ssh-ed25519", "damaged"),
        ("ssh-ed25519 AAAA", "damaged"),
        ("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ", "damaged"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACBAA==", "DSA"),
        ("ssh-dss", "damaged"),
        ("sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIA==", "hardware"),
        ("1024 35 1234567890123 alice", "protocol 1"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "ssh-keygen -i"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "X.509"),
        ("x" * 1_000_000, "at most 8192"),
        ("ssh-ed25519 " + "A" * 1_000_000, "at most 8192"),
        ("é" * 5000, "at most 8192"),
        ("\ud800", "not a public key"),
    ],
)
def test_every_refusal_names_what_is_wrong(text: str, words: str) -> None:
    assert words in refusal(text)


def test_a_second_encoding_of_the_same_key_is_refused() -> None:
    """It would have another fingerprint, and a user could have one key twice, with two sets of restrictions."""
    algorithm, encoded = line(rsa.generate_private_key(65537, 2048)).split()
    blob = base64.b64decode(encoded)
    #: The exponent 65537 is the octets 01 00 01; here with a zero before them.
    longer = blob.replace(b"\0\0\0\x03\x01\0\x01", b"\0\0\0\x04\0\x01\0\x01", 1)
    assert longer != blob
    assert "damaged" in refusal(f"{algorithm} {base64.b64encode(longer).decode()}")
    assert "damaged" in refusal(f"{algorithm} {base64.b64encode(blob + b'x').decode()}")


def test_an_exponent_that_only_costs_time_is_refused() -> None:
    algorithm, encoded = line(rsa.generate_private_key(65537, 2048)).split()
    blob = base64.b64decode(encoded)
    longer = blob.replace(b"\0\0\0\x03\x01\0\x01", b"\0\0\0\x09" + b"\x01" * 9, 1)
    assert "exponent" in refusal(f"{algorithm} {base64.b64encode(longer).decode()}")


@given(st.text(max_size=200) | st.builds(lambda at, put: LINE[:at] + put + LINE[at:], st.integers(0, 80), st.text()))
def test_no_text_gives_another_error(text: str) -> None:
    try:
        found = ssh_public_keys.parse(text)
    except KeyInvalidError:
        return
    assert found.comment.isprintable()
    assert found.algorithm in ssh_public_keys.ALGORITHMS
