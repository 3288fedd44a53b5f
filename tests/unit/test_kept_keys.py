"""Keys of tests are kept for a week, and no process gets one of them twice."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import kept_keys


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_keys, "_folder", None)
    monkeypatch.setattr(kept_keys, "_given", Counter())
    kept_keys.keep_in(tmp_path)
    return tmp_path


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_keys, "_given", Counter())


def test_a_process_gets_each_key_once_and_the_next_one_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = kept_keys.rsa_pem(1024), kept_keys.rsa_pem(1024)
    assert first != second
    another_process(monkeypatch)
    assert [kept_keys.rsa_pem(1024), kept_keys.rsa_pem(1024)] == [first, second]
    assert kept_keys.ssh_key("ed25519") != kept_keys.ssh_key("ed25519")
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_key_is_made_anew_after_a_week(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_keys.rsa_pem(1024)
    (path,) = folder.iterdir()
    old = time.time() - kept_keys.KEPT - 60
    os.utime(path, (old, old))
    another_process(monkeypatch)
    assert kept_keys.rsa_pem(1024) != first
