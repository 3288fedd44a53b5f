"""The search for secrets finds what there is: else all the tests that end with it would prove nothing."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from identity.models import Credential, User
from identity.vault.store import CredentialKind, endpoint_binding, store
from tests import secrets_search
from tests.secrets_search import search

PASSPHRASE = "Tr0ub4dor & 3 é/+?"
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
DER = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
BODY = base64.b64encode(DER).decode()

SPELLED = {
    "plain": PASSPHRASE,
    "in a sentence": f"PASSPHRASE={PASSPHRASE}\n",
    "backwards": PASSPHRASE[::-1],
    "hexadecimal": PASSPHRASE.encode().hex(),
    "hexadecimal in capitals": PASSPHRASE.encode().hex().upper(),
    "hexadecimal in groups": PASSPHRASE.encode().hex(" ", 4),
    "percent-encoded": quote(PASSPHRASE),
    "percent-encoded all": quote(PASSPHRASE, safe=""),
    "of a form": quote_plus(PASSPHRASE),
    "JSON": json.dumps({"passphrase": PASSPHRASE}),
    "Python": repr(PASSPHRASE.encode()),
    "base64": base64.b64encode(PASSPHRASE.encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(PASSPHRASE.encode()).decode(),
    "inside base64": base64.b64encode(f"USERNAME=al\nPASSPHRASE={PASSPHRASE}\nLIFETIME=1".encode()).decode(),
    "inside base64, one further": base64.b64encode(f"USERNAME=ali\nPASSPHRASE={PASSPHRASE}\nX".encode()).decode(),
    "inside base64, two further": base64.b64encode(f"USERNAME=alic\nPASSPHRASE={PASSPHRASE}\nX".encode()).decode(),
    "base64 in short lines": "\n".join(textwrap.wrap(base64.b64encode(PASSPHRASE.encode()).decode(), 5)),
}

PEMS = {
    "as it is": PEM.decode(),
    "with other line ends": PEM.decode().replace("\n", "\r\n"),
    "the body alone": BODY,
    "the body in other lines": "\n".join(textwrap.wrap(BODY, 20)),
    "indented": textwrap.indent(PEM.decode(), "    "),
    "in JSON": json.dumps({"key": PEM.decode()}),
    "as Python spells it": repr(PEM),
    "DER in hexadecimal": DER.hex(),
    "PEM in base64": base64.b64encode(PEM).decode(),
    "PEM in base64 in lines": base64.encodebytes(b"x" + PEM).decode(),
}


@pytest.mark.parametrize("how", SPELLED)
def test_a_passphrase_is_found_however_it_is_spelled(how: str) -> None:
    [first, *_] = search({"it": PASSPHRASE}, texts={"log": f"before {SPELLED[how]} after"})
    assert (first.secret, first.where) == ("it", "log")


@pytest.mark.parametrize("how", PEMS)
def test_a_private_key_is_found_however_it_is_spelled(how: str) -> None:
    assert search({"key": PEM}, texts={"log": PEMS[how]})
    assert search({"key": PEM}, texts={"log": DER})


def test_where_there_is_nothing_nothing_is_found() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    text = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert search({"key": PEM, "it": PASSPHRASE}, texts={"log": text, "other": "Tr0ub4dor & 4"}) == []


def test_a_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        search({"it": "abc"})


def test_files_are_found_below_folders_but_for_those_that_may_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets_search, "CHUNK", 64)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "hidden").write_bytes(b"\xff\x00" * 57 + PASSPHRASE.encode() + b"\n" * 500)
    (tmp_path / "key").write_text(PASSPHRASE)
    (tmp_path / "secret-key-of-alice").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    found = search({"it": PASSPHRASE, "name": "key-of-alice"}, folders=[tmp_path], exempt=[tmp_path / "key"])
    assert {one.where for one in found} == {str(deep / "hidden"), f"the name of {tmp_path / 'secret-key-of-alice'}"}


def test_every_column_of_every_table_is_searched(transactional_db: None, database_url: str, alice: User) -> None:
    held = store(
        alice, endpoint_binding(alice.pk), CredentialKind.X509, PASSPHRASE.encode(), subject="s", expires_at=None
    )
    assert search({"it": PASSPHRASE, "key": PEM}, database=database_url) == [], "the vault keeps it sealed"
    User.objects.filter(pk=alice.pk).update(last_name=f"({PASSPHRASE})")
    Credential.objects.filter(pk=held.id).update(sealed=b"\x00\x01" + DER + b"\xff")
    found = search({"it": PASSPHRASE, "key": PEM}, database=database_url)
    assert {(one.secret, one.where) for one in found} == {
        ("it", "identity_user.last_name"),
        ("key", "identity_credential.sealed"),
    }


@pytest.mark.own_interpreter
def test_command_lines_and_environments_of_processes_are_searched() -> None:
    words = [sys.executable, "-c", "input(1)", PASSPHRASE]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env={"X": "another secret"}) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # until it runs, the kernel shows nothing of it
        found = search({"it": PASSPHRASE, "other": "another secret"}, processes=[process.pid])
        process.communicate(b"\n", timeout=30)
    assert {(one.secret, one.where.split()[0]) for one in found} == {("it", "cmdline"), ("other", "environ")}
