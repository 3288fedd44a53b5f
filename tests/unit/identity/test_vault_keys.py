"""Keys of the vault: which are taken, what they seal, and what opens nothing."""

from __future__ import annotations

import base64
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.hidden import Hidden
from identity.vault import sealing
from identity.vault.errors import VAULT_SEAL_BROKEN, VaultError, VaultKeyMissingError, VaultKeyNotConfiguredError
from identity.vault.keys import MAX_KEYS, new_key, parse_keys
from tests.refusals import raises_refusal
from transferapi.config import ConfigError, load

BROKEN = (VAULT_SEAL_BROKEN, VaultKeyMissingError.refusal)

KEYS = parse_keys("\n".join(new_key() for _ in range(3)))
AT = b"alice's row"


def test_a_new_key_is_one_that_the_configuration_takes() -> None:
    one, other = new_key(), new_key()
    assert one != other
    [key] = parse_keys(one)
    assert len(key.octets) == 32
    assert key.name == parse_keys(one)[0].name
    assert one not in repr(key) + str(key) + f"{(key,)}"


def test_keys_are_read_from_lines_commas_and_what_openssl_prints() -> None:
    first, second, third = new_key(), new_key(), secrets.token_hex(32)
    expected = [parse_keys(text)[0] for text in (first, second, third)]
    assert list(parse_keys(f"{first},{second}, {third}")) == expected
    assert list(parse_keys(f"# since 2026\n{first}\n\n  {second}  \r\n# old\n{third}\n")) == expected


SHORT = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")


@pytest.mark.parametrize(
    "word",
    [
        "hunter2hunter2",
        f"wbvk_{SHORT}",
        f"wb_{SHORT}{SHORT}",
        "wbvk_" + "A" * 43,
        "wbvk_" + "é" * 43,
        "0" * 64,
        bytes(range(31)).hex(),
    ],
)
def test_what_is_no_key_is_refused_without_being_quoted(word: str) -> None:
    for text in (word, f"{word},{new_key()}", f"{new_key()}\n{word}"):
        with pytest.raises(ValueError, match=r"key number [12] is not") as refused:
            parse_keys(text)
        assert word not in str(refused.value)


@pytest.mark.parametrize("text", ["", " ,\n", "# nothing\n\n"])
def test_a_text_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no key"):
        parse_keys(text)


def test_a_key_twice_and_keys_without_end_are_refused() -> None:
    key = new_key()
    with pytest.raises(ValueError, match="twice"):
        parse_keys(f"{key}\n{key}")
    with pytest.raises(ValueError, match=f"more than {MAX_KEYS}"):
        parse_keys("\n".join(new_key() for _ in range(MAX_KEYS + 1)))


def test_the_configuration_reports_a_wrong_key_at_the_start(tmp_path: Path) -> None:
    for environ in ({"WAYBILL_VAULT_KEY": "hunter2"}, {"WAYBILL_VAULT_KEY_FILE": str(tmp_path / "missing")}):
        with pytest.raises(ConfigError, match="WAYBILL_VAULT_KEY") as refused:
            load(environ)
        assert "hunter2" not in str(refused.value)
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="is empty"):
        load({"WAYBILL_VAULT_KEY_FILE": str(tmp_path / "empty")})
    assert load({}).vault_key is None


def test_the_configuration_does_not_show_the_keys(tmp_path: Path) -> None:
    key = new_key()
    (tmp_path / "keys").write_text(key)
    config = load({"WAYBILL_VAULT_KEY_FILE": str(tmp_path / "keys")})
    assert config.vault_key is not None
    assert parse_keys(config.vault_key.value) == parse_keys(key)
    assert key not in repr(config) + str(config)


@pytest.fixture
def keys(settings: Any) -> Any:
    settings.VAULT_KEYS = KEYS[:2]
    settings.VAULT_KEY_FILE = None
    return settings


@given(st.binary(max_size=2000), st.binary(max_size=200))
def test_what_is_sealed_opens_where_it_was_sealed(text: bytes, associated: bytes) -> None:
    envelope = sealing.seal(text, associated, KEYS[0])
    assert len(envelope) == len(text) + sealing.OVERHEAD_OCTETS
    assert sealing.key_id(envelope) == KEYS[0].name


def test_the_newest_key_seals_and_all_open(keys: Any) -> None:
    new, old = sealing.seal(b"secret", AT), sealing.seal(b"secret", AT, KEYS[1])
    assert sealing.key_id(new) == KEYS[0].name
    assert new != sealing.seal(b"secret", AT), "never the same twice"
    assert sealing.unseal(new, AT) == sealing.unseal(old, AT) == b"secret"
    with pytest.raises(VaultKeyMissingError) as missing:
        sealing.unseal(sealing.seal(b"secret", AT, KEYS[2]), AT)
    assert KEYS[2].name in missing.value.message


def test_an_envelope_in_which_any_octet_was_changed_does_not_open(keys: Any) -> None:
    envelope = sealing.seal(b"secret", AT)
    for place in range(len(envelope)):
        changed = bytearray(envelope)
        changed[place] ^= 1
        with pytest.raises(VaultError, check=lambda error: error.refusal in BROKEN):
            sealing.unseal(bytes(changed), AT)
    for length in range(len(envelope)):
        with raises_refusal(VAULT_SEAL_BROKEN):
            sealing.unseal(envelope[:length], AT)


def test_an_envelope_does_not_open_in_another_place_nor_under_another_keys_name(keys: Any) -> None:
    envelope = sealing.seal(b"secret", AT)
    with raises_refusal(VAULT_SEAL_BROKEN):
        sealing.unseal(envelope, b"bob's row")
    with raises_refusal(VAULT_SEAL_BROKEN):
        sealing.unseal(envelope[:1] + KEYS[1].id + envelope[9:], AT)


def test_without_a_key_nothing_is_sealed_or_opened(keys: Any) -> None:
    envelope = sealing.seal(b"secret", AT)
    keys.VAULT_KEYS = ()
    with pytest.raises(VaultKeyNotConfiguredError):
        sealing.seal(b"secret", AT)
    with pytest.raises(VaultKeyNotConfiguredError):
        sealing.unseal(envelope, AT)


def replace(path: Path, text: str) -> None:
    """Replace the file by a new one under the same name, as an editor or `mv` does."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


def test_a_key_file_that_changes_is_read_again(keys: Any, tmp_path: Path) -> None:
    first, second = new_key(), new_key()
    keys.VAULT_KEY_FILE = tmp_path / "keys"
    replace(keys.VAULT_KEY_FILE, first)
    keys.VAULT_KEYS = parse_keys(first)
    old = sealing.seal(b"secret", AT)
    replace(keys.VAULT_KEY_FILE, f"{second}\n{first}\n")
    assert sealing.key_id(sealing.seal(b"secret", AT)) == parse_keys(second)[0].name
    assert sealing.unseal(old, AT) == b"secret"
    replace(keys.VAULT_KEY_FILE, second)
    with pytest.raises(VaultKeyMissingError):
        sealing.unseal(old, AT)


def test_a_key_file_that_breaks_is_reported_once_and_the_keys_from_before_are_used(
    keys: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = new_key()
    keys.VAULT_KEYS, keys.VAULT_KEY_FILE = parse_keys(good), tmp_path / "keys"
    replace(keys.VAULT_KEY_FILE, good)
    envelope = sealing.seal(b"secret", AT)
    for break_it in (lambda: replace(tmp_path / "keys", "hunter2"), (tmp_path / "keys").unlink):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            break_it()
            assert sealing.unseal(envelope, AT) == sealing.unseal(envelope, AT) == b"secret"
        assert len(caplog.records) == 1
        assert good not in caplog.text
        assert "hunter2" not in caplog.text


def test_a_key_file_that_everybody_can_read_is_reported(
    keys: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = new_key()
    keys.VAULT_KEYS, keys.VAULT_KEY_FILE = parse_keys(key), tmp_path / "keys"
    replace(keys.VAULT_KEY_FILE, key)
    for mode, warnings in ((0o600, 0), (0o640, 0), (0o644, 1)):
        caplog.clear()
        keys.VAULT_KEY_FILE.chmod(mode)
        with caplog.at_level(logging.WARNING):
            sealing.seal(b"secret", AT)
            sealing.seal(b"secret", AT)
        assert len(caplog.records) == warnings
        assert key not in caplog.text


def test_hidden_octets_do_not_show() -> None:
    hidden = Hidden(b"secret")
    assert hidden.value == b"secret"
    assert "secret" not in repr(hidden) + str(hidden) + f"{[hidden]}"
