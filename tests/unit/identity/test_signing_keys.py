"""The file of the keys that sign identity tokens, their rotation, and the command that does it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.stack.home import new_rsa_key, write_private
from identity.provider import signing_key_file
from identity.provider.signing_key_file import SigningKey
from identity.vault.watched_file import WatchedFile
from transferapi.config import CHECKOUT

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DELAY, LIFETIME = timedelta(hours=2), timedelta(hours=48)


@pytest.fixture(scope="module")
def pems() -> list[str]:
    return [new_rsa_key().strip() for _ in range(3)]


def test_a_plain_pem_file_is_a_file_of_one_key(pems: list[str]) -> None:
    assert signing_key_file.parse(pems[0] + "\n") == (SigningKey(pems[0]),)


def test_what_is_written_is_read(pems: list[str]) -> None:
    keys = (SigningKey(pems[0]), SigningKey(pems[1], NOW), SigningKey(pems[2], NOW + DELAY))
    assert signing_key_file.parse(signing_key_file.text_of(keys)) == keys
    reversed_text = "".join(signing_key_file.text_of([key]) for key in reversed(keys))
    assert signing_key_file.parse(reversed_text) == keys, "the times give the order"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pem: "",
        lambda pem: "x",
        lambda pem: pem[:-20],
        lambda pem: pem.replace("PRIVATE", "PUBLIC"),
        lambda pem: pem.replace(pem[100:140], "A" * 40),
        lambda pem: f"Signs-From: tomorrow\n{pem}",
        lambda pem: "x" * (signing_key_file.MAX_OCTETS + 1) + pem,
        lambda pem: "\n".join([pem] * (signing_key_file.MAX_KEYS + 1)),
    ],
)
def test_a_spoiled_file_is_refused_without_showing_a_key(pems: list[str], spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(ValueError) as caught:
        signing_key_file.parse(spoil(pems[0]))
    assert pems[0][100:140] not in str(caught.value)


def test_a_new_key_is_published_before_it_signs_and_the_old_one_until_its_tokens_are_over(pems: list[str]) -> None:
    old, new = pems[:2]
    keys = signing_key_file.rotated([SigningKey(old)], new, NOW, DELAY, LIFETIME)

    def seen(after: timedelta) -> tuple[str, list[str]]:
        shown = signing_key_file.published(keys, NOW + after, LIFETIME)
        assert shown[0] is signing_key_file.signer(keys, NOW + after), "some clients look at the first only"
        return signing_key_file.signer(keys, NOW + after).pem, [key.pem for key in shown]

    second = timedelta(seconds=1)
    assert seen(timedelta()) == (old, [old, new])
    assert seen(DELAY - second) == (old, [old, new])
    assert seen(DELAY) == (new, [new, old])
    assert seen(DELAY + LIFETIME - second) == (new, [new, old]), "a token of the last second of the old key is valid"
    assert seen(DELAY + LIFETIME) == (new, [new])


def test_a_rotation_leaves_out_what_is_withdrawn_and_waits_for_the_last(pems: list[str]) -> None:
    keys = signing_key_file.rotated([SigningKey(pems[0])], pems[1], NOW, DELAY, LIFETIME)
    with pytest.raises(ValueError, match="waits already"):
        signing_key_file.rotated(keys, pems[2], NOW + timedelta(hours=1), DELAY, LIFETIME)
    third = signing_key_file.rotated(keys, pems[2], NOW + DELAY + LIFETIME, DELAY, LIFETIME)
    assert [key.pem for key in third] == pems[1:]
    full = [SigningKey(pems[0], NOW - timedelta(minutes=minute)) for minute in range(signing_key_file.MAX_KEYS, 0, -1)]
    with pytest.raises(ValueError, match="wait until the oldest"):
        signing_key_file.rotated(full, pems[1], NOW, DELAY, LIFETIME)


def test_a_process_sees_a_new_file_and_keeps_the_keys_of_a_spoiled_one(pems: list[str], tmp_path: Path) -> None:
    path = tmp_path / "keys"
    start = (SigningKey(pems[0]),)
    write_private(path, pems[0])
    watched = WatchedFile("keys", signing_key_file.parse)
    assert watched.read(path, start) == start
    write_private(path, signing_key_file.text_of([*start, SigningKey(pems[1], NOW)]))
    assert len(watched.read(path, start)) == 2
    write_private(path, "spoiled")
    assert len(watched.read(path, start)) == 2
    path.unlink()
    assert len(watched.read(path, start)) == 2


def waybill(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    return subprocess.run(
        [sys.executable, "-m", "deploy.cli", "oidc", *words],
        capture_output=True, text=True, timeout=60, cwd=CHECKOUT, env={**clean, **environ}, check=False,
    )  # fmt: skip


def test_the_command_rotates_the_file_and_keeps_it_private(pems: list[str], tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_private(path, pems[0])
    environ = {"WAYBILL_HOME": str(tmp_path / "home"), "WAYBILL_OIDC_KEY_FILE": str(path)}
    done = waybill("rotate", **environ)
    assert done.returncode == 0, done.stderr
    old, new = signing_key_file.parse(path.read_text())
    assert (old.pem, stat.S_IMODE(path.stat().st_mode)) == (pems[0], 0o600)
    assert timedelta(hours=1, minutes=58) < new.begin - datetime.now(UTC) <= DELAY
    assert [line.split("  ")[2].split(" ")[0] for line in done.stdout.splitlines()] == ["signs,", "signs"]
    assert "PRIVATE" not in done.stdout
    assert waybill("status", **environ).stdout == done.stdout
    again = waybill("rotate", **environ)
    assert (again.returncode, "waits already" in again.stderr) == (1, True)
    leaked = waybill("rotate", "--leaked", **environ)
    assert leaked.returncode == 0, leaked.stderr
    [only] = signing_key_file.parse(path.read_text())
    assert only.pem not in (old.pem, new.pem)
    assert only.begin <= datetime.now(UTC)
    assert list(tmp_path.glob(".keys*")) == []


def test_a_key_that_is_in_no_file_is_not_rotated(pems: list[str], tmp_path: Path) -> None:
    done = waybill("rotate", WAYBILL_HOME=str(tmp_path / "home"), WAYBILL_OIDC_KEY=pems[0])
    assert (done.returncode, done.stdout) == (1, "")
    assert "WAYBILL_OIDC_KEY_FILE" in done.stderr
